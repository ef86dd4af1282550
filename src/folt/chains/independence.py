"""Independence Metropolis-Hastings on the fundamental domain.

Draw z' from q_F and accept with probability min(1, exp(h(z') - h(z))), h = log π_F - log q_F.
(The paper prints the exponent with the opposite sign; that chain does not leave π_F invariant,
and a test shows it.) Proposals do not depend on the state, so all of them and their h are computed
in one batch and only scalars are scanned.
"""

from __future__ import annotations

from typing import NamedTuple, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from folt.types import Key, Point, Scalar


class Step(NamedTuple):
    """State of one chain: where it is, the log ratio there, whether it just moved."""

    point: Point
    log_ratio: Scalar
    accepted: Bool[Array, ""]


def init(point: Point, log_ratio: Scalar) -> Step:
    """A chain at a point; a chain never starts where the target vanishes.

    Raises:
        ValueError: the log ratio is not finite.
    """
    if not bool(jnp.isfinite(log_ratio)):
        raise ValueError(f"a chain must start at a finite log ratio, got {float(log_ratio)}")
    return Step(point, log_ratio, jnp.asarray(False))


@overload
def accepts(log_uniform: Array, current: Array, proposed: Array) -> Bool[Array, ...]: ...
@overload
def accepts(
    log_uniform: np.ndarray, current: np.ndarray, proposed: np.ndarray
) -> Bool[np.ndarray, ...]: ...
def accepts(
    log_uniform: Array | np.ndarray, current: Array | np.ndarray, proposed: Array | np.ndarray
) -> Bool[Array | np.ndarray, ...]:
    """Whether log U < h(z') - h(z); -inf is a rejection, and so is a fault (NaN or +inf).

    The one acceptance of the house, elementwise on arrays of JAX or of NumPy. With log densities
    in the place of log ratios it is the acceptance of a symmetric proposal.
    """
    numpy = jnp if isinstance(proposed, jax.Array) else np
    usable = numpy.isfinite(proposed)
    return usable & (log_uniform < numpy.where(usable, proposed, 0.0) - current)


def accepted(
    generator: np.random.Generator,
    current: Float[np.ndarray, " n"],
    proposed: Float[np.ndarray, " n"],
) -> Bool[np.ndarray, " n"]:
    """`accepts` on the host, with uniforms of the generator; one that is zero accepts anything."""
    with np.errstate(divide="ignore"):
        log_uniforms = np.log(generator.uniform(size=proposed.shape))
    return accepts(log_uniforms, current, proposed)


def step(uniform: Scalar, state: Step, proposal: Point, log_ratio: Scalar) -> Step:
    """One transition, given a uniform number, a proposal and its log ratio."""
    moved = accepts(jnp.log(uniform), state.log_ratio, log_ratio)
    return Step(
        jnp.where(moved, proposal, state.point),
        jnp.where(moved, log_ratio, state.log_ratio),
        moved,
    )


class Sweep(NamedTuple):
    """A chain as positions among its proposals.

    `source[t]` is the index of the proposal the chain occupies after step t, -1 for the start.
    """

    source: Int[Array, " steps"]
    log_ratio: Float[Array, " steps"]
    accepted: Bool[Array, " steps"]


@eqx.filter_jit
def sweep(key: Key, start_log_ratio: Scalar, log_ratios: Float[Array, " steps"]) -> Sweep:
    """All steps of one chain from the log ratios of its proposals.

    Equals `step` applied one by one with the uniforms `jax.random.uniform(key, (steps,))`.
    """
    steps = log_ratios.shape[0]
    log_uniforms = jnp.log(jax.random.uniform(key, (steps,), dtype=log_ratios.dtype))

    def advance(
        state: tuple[Array, Array], inputs: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        source, current = state
        index, log_uniform, proposed = inputs
        moved = accepts(log_uniform, current, proposed)
        source = jnp.where(moved, index, source)
        current = jnp.where(moved, proposed, current)
        return (source, current), (source, current, moved)

    first = (jnp.asarray(-1), start_log_ratio)
    _, trace = jax.lax.scan(advance, first, (jnp.arange(steps), log_uniforms, log_ratios))
    return Sweep(*trace)


class HostSweep(NamedTuple):
    """`Sweep` of several chains as NumPy arrays, leading axis the chain."""

    source: np.ndarray
    log_ratio: np.ndarray
    accepted: np.ndarray


def sweeps(
    log_uniforms: np.ndarray, start_log_ratios: np.ndarray, log_ratios: np.ndarray
) -> HostSweep:
    """`sweep` for several chains, scalar by scalar on the host: cheaper than compiling a loop."""
    usable = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
    source = np.empty(usable.shape, np.int64)
    for row, start, proposed, chances in zip(
        source, start_log_ratios, usable, log_uniforms, strict=True
    ):
        row[:] = _sources(float(start), proposed.tolist(), chances.tolist())
    before = np.concatenate([np.full((len(source), 1), -1), source[:, :-1]], axis=1)
    padded = np.concatenate([np.asarray(start_log_ratios)[:, None], usable], axis=1)
    return HostSweep(source, np.take_along_axis(padded, source + 1, axis=1), source != before)


def _sources(current: float, proposed: list[float], chances: list[float]) -> list[int]:
    """The proposal that one chain occupies after every step, -1 for its start."""
    place = -1
    places = []
    for number, (log_ratio, chance) in enumerate(zip(proposed, chances, strict=True)):
        if chance < log_ratio - current:
            place, current = number, log_ratio
        places.append(place)
    return places
