"""Densities whose normalising constant, quantiles and exact draws are known, to hold fits against.

Each is awkward in its own way: heavy tails, hard edges, a hole, curvature, scales far apart.
"""

import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from scipy import stats

import folt
from folt.groups import Group, Permutation, Trivial
from folt.problem.ratio import LogRatio, Target

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Probabilities of the events that are counted."""


@dataclasses.dataclass(frozen=True)
class Animal:
    """A density and the truth about it.

    Attributes:
        log_density: of a point, in JAX.
        log_evidence: log ∫ exp(log_density).
        draw: exact draws (n, dim) of the density from a generator.
        dim: dimension.
        group: what is folded.
    """

    log_density: Callable
    log_evidence: float
    draw: Callable
    dim: int
    group: Group | None = None

    def problem(self):
        return folt.Problem(self.log_density, self.group or Trivial(self.dim))

    def exact(self, generator, count):
        """Exact draws, folded."""
        draws = self.draw(generator, count).reshape(count, self.dim)
        return np.sort(draws, axis=1) if self.group is not None else draws


def student(dim):
    constant = math.lgamma(1 + dim / 2) - math.lgamma(1) - dim / 2 * math.log(2 * math.pi)

    def log_density(x):
        return constant - (1 + dim / 2) * jnp.log1p(jnp.sum(x**2) / 2)

    def draw(generator, count):
        return generator.normal(size=(count, dim)) / np.sqrt(generator.exponential(1, (count, 1)))

    return Animal(log_density, 0.0, draw, dim)


def inside(condition, value):
    return jnp.where(condition, value, -jnp.inf)


def banana(x):
    return -0.5 * x[0] ** 2 / 4 - 0.5 * (x[1] - 0.5 * x[0] ** 2) ** 2


def draw_banana(generator, count):
    first = 2 * generator.normal(size=count)
    return np.stack([first, 0.5 * first**2 + generator.normal(size=count)], axis=1)


def funnel(x):
    return -0.5 * x[0] ** 2 / 2.25 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - x[0]


def draw_funnel(generator, count):
    neck = 1.5 * generator.normal(size=count)
    wide = np.exp(neck / 2)[:, None] * generator.normal(size=(count, 2))
    return np.concatenate([neck[:, None], wide], axis=1)


def draw_step(generator, count):
    """Uniform on [0, 1) with three quarters, on [1, 2) with one."""
    return generator.random(count) + (generator.random(count) < 0.25)


def draw_hole(generator, count):
    """A normal on the half-plane outside the disc of radius .7: r² is exponential from .49 on."""
    radius = np.sqrt(0.49 + 2 * generator.exponential(size=count))
    angle = math.pi * (generator.random(count) - 0.5)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def draw_signed(size):
    def draw(generator, count):
        return np.where(generator.random(count) < 0.5, -1, 1) * size(generator, count)

    return draw


SCALES = np.array([1e-8, 1.0, 1e8])
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

ZOO = {
    "t2, one dimension": student(1),
    "t2, two dimensions": student(2),
    "exponential edge": Animal(
        lambda x: inside(x[0] > 0, -x[0]), 0.0, lambda g, n: g.exponential(size=n), 1
    ),
    "step": Animal(
        lambda x: inside((x[0] > 0) & (x[0] < 2), jnp.where(x[0] < 1, jnp.log(3.0), 0.0)),
        math.log(4.0),
        draw_step,
        1,
    ),
    "mode on the fold": Animal(
        lambda x: -0.5 * jnp.sum(x**2),
        2 * HALF_LOG_TWO_PI,
        lambda g, n: g.normal(size=(n, 2)),
        2,
        Permutation(2, 1),
    ),
    "log-Gamma(.3)": Animal(
        lambda x: 0.3 * x[0] - jnp.exp(x[0]),
        math.lgamma(0.3),
        lambda g, n: stats.loggamma.rvs(0.3, size=n, random_state=g),
        1,
    ),
    "1e3 ± 1e-3": Animal(
        lambda x: -0.5 * ((x[0] - 1e3) / 1e-3) ** 2 - 1e7,
        HALF_LOG_TWO_PI + math.log(1e-3) - 1e7,
        lambda g, n: 1e3 + 1e-3 * g.normal(size=n),
        1,
    ),
    "banana": Animal(banana, 2 * HALF_LOG_TWO_PI + math.log(2), draw_banana, 2),
    "funnel": Animal(funnel, 3 * HALF_LOG_TWO_PI + math.log(1.5), draw_funnel, 3),
    "scales 1e-8, 1, 1e8": Animal(
        lambda x: -0.5 * jnp.sum((x / SCALES) ** 2),
        3 * HALF_LOG_TWO_PI,
        lambda g, n: SCALES * g.normal(size=(n, 3)),
        3,
    ),
    "half-plane with a hole": Animal(
        lambda x: inside((x[0] > 0) & (jnp.sum(x**2) > 0.49), -0.5 * jnp.sum(x**2)),
        math.log(math.pi) - 0.245,
        draw_hole,
        2,
    ),
    "Laplace": Animal(
        lambda x: -jnp.abs(x[0]),
        math.log(2),
        draw_signed(lambda g, n: g.exponential(size=n)),
        1,
    ),
    "root exponential": Animal(
        lambda x: -jnp.sqrt(jnp.abs(x[0])),
        math.log(4),
        draw_signed(lambda g, n: g.gamma(2.0, size=n) ** 2),
        1,
    ),
    "unit square": Animal(
        lambda x: inside(jnp.all((x > 0) & (x < 1)), 0.0), 0.0, lambda g, n: g.random((n, 2)), 2
    ),
}


def distances(log_ratio, log_evidence, steps):
    """TV(μPⁿ, π) of an independence chain that starts from its proposal where that is alive.

    The density of μPⁿ against π depends on w alone. On atoms of equal mass under π, sorted by w,
    with q = π/w, the law after n steps follows from Smith and Tierney's formula
    Pⁿ(x, dy) = T_n(max(w_x, w_y))·π(dy) + λ(w_x)ⁿ·δ_x, λ = 1 - a, T_n(w) = ∫_w^∞ n·λⁿ⁻¹/v² dv.

    Args:
        log_ratio: h at exact draws of π_F.
        log_evidence: the true log Z.
        steps: numbers of steps n ≥ 1.
    """
    w = np.sort(np.exp(np.asarray(log_ratio, float) - log_evidence))
    target, proposal = 1.0 / w.size, 1.0 / (w.size * w)
    beyond = np.append(np.cumsum(proposal[::-1])[::-1][1:], 0.0)
    # a(t) = Σ_{w ≤ t} π/t + q(w > t); between atoms λ is linear in 1/t.
    accept = np.arange(1, w.size + 1) * target / w + beyond
    stay = np.clip(1.0 - accept, 0.0, 1.0)
    start = proposal / proposal.sum()
    heads = np.append(np.cumsum(start), 1.0)
    found = []
    for n in steps:
        # ∫ n·λⁿ⁻¹ dv/v² over an interval where λ = 1 - A/v - B is exact: the increments of λⁿ / A.
        mass = np.arange(1, w.size + 1) * target
        pieces = np.diff(stay**n) / mass[:-1]
        tail = np.append(np.cumsum(pieces[::-1])[::-1], 0.0) + 1.0 - stay[-1] ** n
        weighted = np.append(np.cumsum((start * tail)[::-1])[::-1][1:], 0.0)
        density = heads[: w.size] * tail + weighted + start / target * stay**n
        found.append(0.5 * float(np.abs(density - 1.0).mean()))
    return found


def false_statements(fit, animal, exact):
    """(ε, steps, distance) of statements on total variation that the exact law of w refutes.

    Of .003 nothing is said: so much is the noise of 20 000 exact draws.
    """
    log_ratio = LogRatio(Target(fit.problem), fit.proposal, fit.group).at(exact)
    stated = {e: n for e, n in fit.certificate.mixing.steps.items() if n is not None}
    found = distances(log_ratio, animal.log_evidence, stated.values())
    pairs = zip(stated.items(), found, strict=True)
    return [(e, n, distance) for (e, n), distance in pairs if distance > e + 0.003]
