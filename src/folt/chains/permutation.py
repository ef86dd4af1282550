"""The random permutation sampler: an independence chain whose labels are shuffled at every step.

The standard remedy for label switching, kept here as the baseline. The shuffle leaves an
invariant target invariant, so the composite kernel does too.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from folt.chains.independence import accepts
from folt.types import Key, Point, Points, Scalar


@eqx.filter_jit
def relabelled_sweep(
    key: Key,
    start: Point,
    proposals: Points,
    log_ratios: Float[Array, " steps"],
    relabel: Callable[[Key, Point], Point],
    log_ratio: Callable[[Point], Scalar],
) -> tuple[Float[Array, "steps dim"], Bool[Array, " steps"]]:
    """An independence step, then a random relabelling, again and again.

    Args:
        key: randomness of acceptance and relabelling.
        start: first state.
        proposals: one per step, with their log ratios log π - log q on all of R^dim.
        log_ratios: those ratios.
        relabel: `relabel(key, x)`, a uniformly chosen image of x.
        log_ratio: log π - log q at a point; after a relabelling the ratio is another one,
            because q is not invariant.
    """

    def advance(
        state: tuple[Array, Array], inputs: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        x, current = state
        step_key, proposal, proposed = inputs
        uniform_key, label_key = jax.random.split(step_key)
        log_uniform = jnp.log(jax.random.uniform(uniform_key, dtype=current.dtype))
        moved = accepts(log_uniform, current, proposed)
        x = relabel(label_key, jnp.where(moved, proposal, x))
        return (x, log_ratio(x)), (x, moved)

    keys = jax.random.split(key, proposals.shape[0])
    _, trace = jax.lax.scan(advance, (start, log_ratio(start)), (keys, proposals, log_ratios))
    return trace
