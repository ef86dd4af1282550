"""Hamiltonian chains that share one step size and one equivariant metric.

All chains move in lock step under `vmap`. NUTS picks its trajectory per chain, so every chain waits
for the longest one; `JitteredHmc` draws one number of leapfrog steps per iteration for all chains
and nobody waits. With the inverse mass matrix Σ̄, which commutes with the group, both kernels are
equivariant: folding their states changes nothing but labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from folt.reference.leap import Leap, PathState
from folt.reference.trajectories import Trajectory
from folt.types import Density, Key, Points, Progress

BLOCK = 25
"""Iterations per compiled call: warm-up and run share one program."""


class Chains(NamedTuple):
    """States of all chains, the pooled step-size search, and what has been spent."""

    states: PathState
    search: PyTree
    gradients: Int[Array, ""]
    leaps: Int[Array, ""]
    tried: Int[Array, ""]


class HamiltonianRun(NamedTuple):
    """Unfolded draws (chain, draw, dim), counted cost, the step size, accepted leaps' share."""

    draws: np.ndarray
    gradients: int
    step_size: float
    leap_rate: float


def run_chains(
    key: Key,
    target: Density,
    points: Points,
    covariance: Float[Array, "dim dim"],
    trajectory: Trajectory,
    leap: Leap | None,
    warmup: int,
    draws: int,
    acceptance: float,
    progress: Progress | None = None,
) -> HamiltonianRun:
    """Tune one step size over all chains, then record with it fixed.

    Args:
        key: randomness.
        target: the density, on all of R^dim.
        points: one starting point per chain.
        covariance: inverse mass matrix Σ̄.
        trajectory: how paths choose their length.
        leap: a global move that follows every transition, or none.
        warmup: iterations that tune the step size by dual averaging; thrown away.
        draws: iterations recorded per chain.
        acceptance: pooled acceptance probability the tuning aims at.
        progress: told the fraction done.
    """
    chains = _begin(target, points)
    pieces: list[np.ndarray] = []
    schedule = [(True, n) for n in _blocks(warmup)] + [(False, n) for n in _blocks(draws)]
    done = 0
    for number, (tuning, length) in enumerate(schedule):
        chains, positions = _advance(
            jax.random.fold_in(key, number),
            target,
            chains,
            covariance,
            trajectory,
            leap,
            jnp.asarray(tuning),
            jnp.asarray(length),
            acceptance,
        )
        if not tuning:
            pieces.append(np.asarray(positions)[:length])
        done += length
        if progress is not None:
            progress(done / (warmup + draws), "chains")
    count = points.shape[0]
    return HamiltonianRun(
        np.concatenate(pieces).swapaxes(0, 1),
        gradients=int(chains.gradients) + count,
        step_size=float(jnp.exp(chains.search.log_x_avg)),
        leap_rate=float(chains.leaps) / max(1, int(chains.tried)),
    )


def _blocks(iterations: int) -> list[int]:
    """Lengths of blocks that add up to the iterations."""
    full, rest = divmod(iterations, BLOCK)
    return [BLOCK] * full + ([rest] if rest else [])


def compile_ahead(
    target: Density,
    points: Points,
    trajectory: Trajectory,
    leap: Leap | None,
    acceptance: float,
) -> None:
    """Compile what `run_chains` will call, for arrays of these shapes, without running it.

    Meant for another thread while tempering keeps this one busy.
    """
    chains = _begin(target, points)
    covariance = jnp.eye(points.shape[1], dtype=points.dtype)
    key = jax.random.fold_in(jax.random.key(0), 0)
    tuning, length = jnp.asarray(True), jnp.asarray(0)
    _advance(key, target, chains, covariance, trajectory, leap, tuning, length, acceptance)


@eqx.filter_jit
def _begin(target: Density, points: Points) -> Chains:
    states = PathState(points, *jax.vmap(jax.value_and_grad(target.log_prob))(points))
    search = _dual_averaging()[0](0.5)
    search = jax.tree.map(lambda leaf: jnp.asarray(leaf, points.dtype), search)
    zero = jnp.zeros((), jnp.int64)
    return Chains(states, search, zero, zero, zero)


@eqx.filter_jit
def _advance(
    key: Key,
    target: Density,
    chains: Chains,
    covariance: Float[Array, "dim dim"],
    trajectory: Trajectory,
    leap: Leap | None,
    tuning: Array,
    length: Array,
    acceptance: float,
) -> tuple[Chains, Float[Array, "draw chain dim"]]:
    """A block of at most BLOCK iterations.

    Phase and length are traced, so that one program serves warm-up, run and the compilation
    ahead of both.
    """
    update = _dual_averaging()[1]
    keys = jax.random.split(key, BLOCK)

    def iteration(index: Array, carry: tuple[Chains, Array]) -> tuple[Chains, Array]:
        chains, history = carry
        move_key, leap_key = jax.random.split(keys[index])
        search = chains.search
        step_size = jnp.exp(jnp.where(tuning, search.log_x, search.log_x_avg))
        moved = trajectory.move(move_key, chains.states, target, step_size, covariance)
        updated = update(search, acceptance - jnp.mean(moved.acceptance))
        search = jax.tree.map(lambda new, old: jnp.where(tuning, new, old), updated, search)
        chains = chains._replace(
            states=moved.states, search=search, gradients=chains.gradients + moved.gradients
        )
        if leap is not None:
            chains = _leapt(leap_key, chains, target, leap)
        return chains, history.at[index].set(chains.states.position)

    points = chains.states.position
    history = jnp.zeros((BLOCK, *points.shape), points.dtype)
    return jax.lax.fori_loop(0, length, iteration, (chains, history))


def _dual_averaging() -> tuple[Callable[..., PyTree], Callable[..., PyTree], Callable[..., PyTree]]:
    """BlackJAX's, imported late because the import takes a second."""
    from blackjax.optimizers.dual_averaging import dual_averaging

    return dual_averaging()


def _leapt(key: Key, chains: Chains, target: Density, leap: Leap) -> Chains:
    states, accepted = leap.move(key, chains.states, target)
    count = accepted.shape[0]
    return chains._replace(
        states=states,
        gradients=chains.gradients + count,
        leaps=chains.leaps + jnp.sum(accepted),
        tried=chains.tried + count,
    )
