"""Adaptive tempered sequential Monte Carlo: from a start that is known to the posterior.

Particles follow π_λ ∝ start^(1-λ)·π^λ from λ = 0 to 1. Every increment of λ is chosen so that the
weights keep a given share of effective particles; the particles are then resampled and moved by
an equivariant random walk. Separate modes keep particles in proportion to their mass, which no
local chain could arrange.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special
from jaxtyping import Array, Float, Int

from folt.groups import Group
from folt.problem.fold import Folded
from folt.reference.random_walk import Walkers, equivariant_covariance, first_scale, walk
from folt.reference.start import starting_values, starts_from_prior
from folt.types import Density, Distribution, Key, Point, Points, Progress, Scalar, Scalars

LONGEST_LADDER = 500
"""Temperatures after which tempering gives up."""


class Tempered(Density):
    """log π_λ(x) = (1-λ)·log start(x) + λ·log π(x); -inf where either vanishes."""

    start: Distribution
    target: Folded
    temperature: Scalar

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.target.dim

    def log_prob(self, x: Point) -> Scalar:
        """Log density of the path at x, unnormalised."""
        return _along(self.start.log_prob(x), self.target.log_prob(x), self.temperature)


def _along(log_start: Array, log_target: Array, temperature: Array) -> Array:
    alive = (log_start > -jnp.inf) & (log_target > -jnp.inf)
    faulty = jnp.isnan(log_start) | jnp.isnan(log_target)
    difference = jnp.where(alive, log_target - log_start, 0.0)
    safe_start = jnp.where(alive, log_start, 0.0)
    value = jnp.where(alive, safe_start + temperature * difference, -jnp.inf)
    return jnp.where(faulty, jnp.nan, value)


class Particles(NamedTuple):
    """Equally weighted particles of π_λ, with what tempering has learned so far."""

    points: Points
    log_start: Scalars
    log_target: Scalars
    temperature: Scalar
    log_evidence: Scalar
    log_scale: Scalar
    faults: Int[Array, ""]


class TemperedRun(NamedTuple):
    """Final particles, the metric they give, and the values computed on the way."""

    particles: Particles
    covariance: Float[Array, "dim dim"]
    cost: int


def first_particles(key: Key, start: Distribution, target: Folded, count: int) -> Particles:
    """Particles of the start, λ = 0.

    Raises:
        ValueError: the log density is finite at none of them.
    """
    points = starts_from_prior(key, start, count)
    log_target = starting_values(target, points)
    log_start = starting_values(start, points)
    dtype = points.dtype
    return Particles(
        points,
        log_start,
        log_target,
        temperature=jnp.zeros((), dtype),
        # π_F integrates to s·Z over all of R^dim.
        log_evidence=jnp.asarray(-math.log(target.group.order), dtype),
        log_scale=jnp.asarray(math.log(first_scale(target.dim)), dtype),
        faults=jnp.zeros((), jnp.int32),
    )


def temper(
    key: Key,
    start: Distribution,
    target: Folded,
    particles: Particles,
    moves: int,
    share: float,
    progress: Progress | None = None,
) -> TemperedRun:
    """Carry the particles from the start to the target.

    Args:
        key: randomness.
        start: a normalised distribution that covers the target.
        target: the folded target, evaluated on all of R^dim.
        particles: draws of the start, from `first_particles`.
        moves: random-walk steps per temperature.
        share: effective share of particles kept by each increment of λ.
        progress: told λ after every step.

    Raises:
        RuntimeError: the target is not reached after `LONGEST_LADDER` temperatures.
    """
    count = particles.points.shape[0]
    cost = count
    for number in range(LONGEST_LADDER):
        step_key = jax.random.fold_in(key, number)
        particles = _step(step_key, start, target, particles, moves, share)
        cost += count * (moves + 1)
        reached = float(particles.temperature)
        if progress is not None:
            progress(reached, f"tempering, step {number + 1}")
        if reached >= 1.0:
            return TemperedRun(particles, metric(target.group, particles.points), cost)
    raise RuntimeError(
        f"tempering reached only λ = {reached:.3g} after {LONGEST_LADDER} temperatures: "
        "the start is too far from the density"
    )


def _step(
    key: Key,
    start: Distribution,
    target: Folded,
    particles: Particles,
    moves: int,
    share: float,
) -> Particles:
    """One increment of λ: weigh, resample, move. Only the moves are compiled."""
    resample_key, move_key = jax.random.split(key)
    temperature, log_weights = next_temperature(
        float(particles.temperature),
        np.asarray(particles.log_target) - np.asarray(particles.log_start),
        share,
    )
    evidence = scipy.special.logsumexp(log_weights) - math.log(log_weights.size)
    uniform = float(jax.random.uniform(resample_key))
    chosen = systematic_resample(uniform, log_weights)
    dtype = particles.points.dtype
    path = Tempered(start, target, jnp.asarray(temperature, dtype))
    gained = jnp.asarray(evidence, dtype)
    return _move(move_key, path, particles, jnp.asarray(chosen), gained, moves)


@eqx.filter_jit
def _move(
    key: Key,
    path: Tempered,
    particles: Particles,
    chosen: Int[Array, " n"],
    evidence: Array,
    moves: int,
) -> Particles:
    """Random-walk steps from the chosen particles at a fixed temperature."""
    points = particles.points[chosen]
    values = _along(particles.log_start[chosen], particles.log_target[chosen], path.temperature)
    root = jnp.linalg.cholesky(equivariant_covariance(path.target.group, points))
    walkers = Walkers(points, values, particles.log_scale, particles.faults)
    walkers = walk(key, path, walkers, root, moves, 1.0 / math.sqrt(moves))
    return Particles(
        walkers.points,
        jax.vmap(path.start.log_prob)(walkers.points),
        jax.vmap(path.target.log_prob)(walkers.points),
        path.temperature,
        particles.log_evidence + evidence,
        walkers.log_scale,
        walkers.faults,
    )


def next_temperature(
    temperature: float, log_ratio: np.ndarray, share: float
) -> tuple[float, np.ndarray]:
    """The largest λ that keeps the effective share of particles, and the log weights up to it.

    The effective number is (Σ w)²/Σ w² with w = exp((λ' - λ)·log(π/start)). The share counts
    particles inside the support only: those outside die at any λ > 0 and would otherwise hold
    the ladder at its first rung. Solved on the host, where it costs no compilation.
    """
    alive = log_ratio > -np.inf
    ratio = np.where(alive, log_ratio, 0.0)
    wanted = math.log(share * alive.sum())

    def log_weights(increment: float) -> np.ndarray:
        return np.where(alive, increment * ratio, -np.inf)

    def excess(increment: float) -> float:
        logs = log_weights(increment)
        logsumexp = scipy.special.logsumexp
        return float(2 * logsumexp(logs) - logsumexp(2 * logs)) - wanted

    rest = 1.0 - temperature
    if excess(rest) >= 0:
        return 1.0, log_weights(rest)
    # Increments span many magnitudes when the start is broad, so the root is found in the log.
    low = -60.0
    log_increment = scipy.optimize.brentq(lambda t: excess(rest * math.exp(t)), low, 0.0, xtol=1e-6)
    increment = rest * math.exp(log_increment)
    return temperature + increment, log_weights(increment)


def systematic_resample(uniform: float, log_weights: np.ndarray) -> np.ndarray:
    """Indices of as many particles, each within one copy of its expected number."""
    count = log_weights.size
    cumulative = np.cumsum(scipy.special.softmax(log_weights))
    positions = (uniform + np.arange(count)) / count
    return np.minimum(np.searchsorted(cumulative, positions * cumulative[-1]), count - 1)


@eqx.filter_jit
def metric(group: Group, points: Points | np.ndarray) -> Float[Array, "dim dim"]:
    """Σ̄ of the particles, compiled."""
    return equivariant_covariance(group, jnp.asarray(points))
