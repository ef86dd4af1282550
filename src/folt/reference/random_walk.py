"""Random-walk Metropolis over many chains at once: values only, equivariant, adaptive.

The covariance of the steps is Σ̄ = group.average(covariance of the folded states). It commutes
with the action, so the walk does too: folding its states at any time changes nothing but labels.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from folt.certificate.cautions import Reference, folded_chains, health
from folt.groups import Group
from folt.problem import Problem
from folt.proposals.fold import Folded
from folt.proposals.sums import HostDistribution
from folt.reference.landscape import Landscape
from folt.reference.start import fault_cautions, search
from folt.reference.supplied import for_picture
from folt.types import Density, Key, Points, Progress, Scalar, Scalars, in_float64

ACCEPTANCE = 0.234
"""Acceptance rate that the scale of the steps is tuned to."""

SPREAD = 0.5
"""Standard deviation of the logarithm of a step's length."""


class Walkers(NamedTuple):
    """Chains of a random walk: where they are, their log density, and the tuned log scale."""

    points: Points
    log_density: Scalars
    log_scale: Scalar
    faults: Int[Array, ""]


def walk(
    key: Key,
    target: Density,
    walkers: Walkers,
    root: Float[Array, "dim dim"],
    steps: int,
    rate: Float[Array, ""] | float,
) -> Walkers:
    """Let every chain take `steps` random-walk Metropolis steps with covariance ∝ root·rootᵀ.

    x' = x + scale·c·root·ξ with ξ ~ N(0, I), accepted with probability min(1, π(x')/π(x)). The
    factor c is log-normal, drawn anew for every proposal, so that narrow and wide modes are both
    served. The scale follows the pooled acceptance rate at the given learning rate; rate 0
    freezes it, and only then are the states a Markov chain with the target as its law.
    NaN or +inf counts as a fault and is rejected.
    """

    def step(state: Walkers, step_key: Key) -> tuple[Walkers, None]:
        noise_key, accept_key = jax.random.split(step_key)
        count, dim = state.points.shape
        # One call for step and factor: every random call costs compilation.
        noise = jax.random.normal(noise_key, (count, dim + 1), root.dtype)
        length = jnp.exp(state.log_scale + SPREAD * noise[:, dim:])
        proposal = state.points + length * (noise[:, :dim] @ root.T)
        value = jax.vmap(target.log_prob)(proposal)
        fault = jnp.isnan(value) | (value == jnp.inf)
        ratio = jnp.where(fault, -jnp.inf, value) - state.log_density
        accept = jnp.log(jax.random.uniform(accept_key, (count,), root.dtype)) < ratio
        pooled = jnp.mean(jnp.exp(jnp.minimum(jnp.where(fault, -jnp.inf, ratio), 0.0)))
        return Walkers(
            jnp.where(accept[:, None], proposal, state.points),
            jnp.where(accept, value, state.log_density),
            state.log_scale + rate * (pooled - ACCEPTANCE),
            state.faults + jnp.sum(fault, dtype=state.faults.dtype),
        ), None

    return jax.lax.scan(step, walkers, jax.random.split(key, steps))[0]


def equivariant_covariance(group: Group, points: Points) -> Float[Array, "dim dim"]:
    """Σ̄ = group.average(Cov(fold x)): commutes with the action of the group.

    A trace of ridge keeps it positive definite when a few particles have many copies.
    """
    images = jax.vmap(group.fold)(points)
    centred = images - jnp.mean(images, axis=0)
    covariance = group.average(centred.T @ centred / points.shape[0])
    variances = jnp.diagonal(covariance)
    ridge = 1e-8 * variances + 1e-14 * jnp.max(variances) + jnp.finfo(points.dtype).tiny
    return covariance + jnp.diag(ridge)


def first_scale(dim: int) -> float:
    """Scale of a random walk that is optimal for a Gaussian, 2.38/√dim."""
    return 2.38 / math.sqrt(dim)


@dataclasses.dataclass(frozen=True)
class AdaptiveRandomWalk:
    """The paper's pre-run: an adaptive random walk, values only.

    The first half of the steps adapts scale and covariance, pooled over the chains, and is
    thrown away; after that the kernel is fixed, so the kept states are a Markov chain.

    Args:
        steps: transitions in all, over all chains.
        keep: draws kept in all, evenly thinned from the second half.
        chains: chains run side by side.
    """

    steps: int = 200_000
    keep: int = 50_000
    chains: int = 20

    def __post_init__(self) -> None:
        if self.chains < 1 or not self.chains <= self.keep <= self.steps // 2:
            raise ValueError(
                "expected 1 ≤ chains ≤ keep ≤ steps/2, "
                f"got chains {self.chains}, keep {self.keep}, steps {self.steps}"
            )

    @in_float64
    def __call__(self, key: Key, problem: Problem, progress: Progress | None = None) -> Reference:
        """Find starting points, adapt, then walk and fold."""
        start_key, adapt_key, run_key = jax.random.split(key, 3)
        target = problem.folded()
        landscape = Landscape(problem)
        points, values = _starts(start_key, landscape, self.chains)
        length = self.keep // self.chains
        thin = max(1, self.steps // (2 * self.chains * length))
        walkers = Walkers(
            points,
            values,
            jnp.asarray(math.log(first_scale(problem.dim)), points.dtype),
            jnp.zeros((), jnp.int32),
        )
        walkers, root = _adapt(adapt_key, target, walkers, length * thin, progress)
        walkers, raw = _record(run_key, target, walkers, root, length, thin, progress)
        draws = folded_chains(problem.group, raw)
        rhat, ess, cautions = health(draws)
        terms = 1 if problem.invariant else problem.group.order
        cost = landscape.values + 2 * length * thin * self.chains * terms
        return Reference(
            draws=draws,
            rhat=rhat,
            ess=ess,
            exact=False,
            evaluations={"value": cost, "gradient": 0},
            cautions=cautions + fault_cautions(int(walkers.faults), cost),
            raw=for_picture(raw),
        )


def _starts(key: Key, landscape: Landscape, chains: int) -> tuple[Points, Scalars]:
    """Starting points: the best of many prior draws, or of a scale-free search."""
    problem = landscape.problem
    if problem.prior is None:
        points, values = search(key, landscape, max(256, chains), 250 + 50 * problem.dim)
    else:
        points = HostDistribution(problem.prior).sample(key, 50 * chains)
        values = landscape.first(points)
    best = np.argsort(-values, kind="stable")[:chains]
    best = np.resize(best[np.isfinite(values[best])], chains)
    return jnp.asarray(points[best]), jnp.asarray(values[best])


_ROUNDS = 20
"""Covariance updates during adaptation."""


def _adapt(
    key: Key, target: Folded, walkers: Walkers, steps: int, progress: Progress | None
) -> tuple[Walkers, Float[Array, "dim dim"]]:
    """Tune covariance and scale over half of the run; the history of a round sets the next."""
    length = max(1, steps // _ROUNDS)
    root = jnp.linalg.cholesky(equivariant_covariance(target.group, walkers.points))
    for number in range(_ROUNDS):
        round_key = jax.random.fold_in(key, number)
        rate = jnp.asarray(1.0 / math.sqrt(1.0 + number))
        walkers, history = _recorded_walk(round_key, target, walkers, root, length, 1, rate)
        root = _root_of_history(target.group, history)
        if progress is not None:
            progress(0.5 * (number + 1) / _ROUNDS, "adapting the random walk")
    return walkers, root


def _record(
    key: Key,
    target: Folded,
    walkers: Walkers,
    root: Float[Array, "dim dim"],
    length: int,
    thin: int,
    progress: Progress | None,
) -> tuple[Walkers, np.ndarray]:
    """Walk with a fixed kernel and keep every `thin`-th state, (chain, draw, dim)."""
    block = max(1, -(-length // 10))
    pieces: list[np.ndarray] = []
    for number in range(-(-length // block)):
        walkers, history = _recorded_walk(
            jax.random.fold_in(key, number), target, walkers, root, block, thin, jnp.asarray(0.0)
        )
        pieces.append(np.asarray(history))
        if progress is not None:
            progress(0.5 + 0.5 * min(1.0, (number + 1) * block / length), "random walk")
    return walkers, np.concatenate(pieces)[:length].swapaxes(0, 1)


@eqx.filter_jit
def _recorded_walk(
    key: Key,
    target: Folded,
    walkers: Walkers,
    root: Float[Array, "dim dim"],
    length: int,
    thin: int,
    rate: Float[Array, ""],
) -> tuple[Walkers, Float[Array, "draw chain dim"]]:
    def block(state: Walkers, block_key: Key) -> tuple[Walkers, Points]:
        state = walk(block_key, target, state, root, thin, rate)
        return state, state.points

    return jax.lax.scan(block, walkers, jax.random.split(key, length))


@eqx.filter_jit
def _root_of_history(
    group: Group, history: Float[Array, "draw chain dim"]
) -> Float[Array, "dim dim"]:
    late = history[history.shape[0] // 2 :].reshape(-1, group.dim)
    return jnp.linalg.cholesky(equivariant_covariance(group, late))
