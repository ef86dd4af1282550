"""Single labellings of the blocks of a point: drawn given the blocks, or the likeliest.

Both walk back through the sets of `folt.flows.orbit_chain`, from all blocks to none: the last
label's class, the block that carries it, the class before, and so on. The likeliest labelling and
classes come from the same walk where sums are replaced by maxima.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from folt.flows.orbit_chain import Forward, Logs, Scaled, forward, scaled
from folt.flows.subsets import layers
from folt.types import Key

Labelling = tuple[Int[Array, " labels"], Int[Array, " labels"]]
"""For every label the block that carries it, and which of its signs (0 plain, 1 flipped)."""

SignedLogs = Float[Array, "signs labels blocks 1 classes"]


def drawn_labelling(key: Key, logs: Logs, signed: SignedLogs) -> Labelling:
    """A labelling of one point with its probability under the chain, given the blocks."""
    parts = scaled(logs)
    steps = jax.random.split(key, 3 * parts.densities.shape[0])

    def choose(number: int, logits: Array) -> Array:
        return jax.random.categorical(steps[number], logits)

    return _walk(parts, forward(parts), signed, choose)


def likeliest_labelling(logs: Logs, signed: SignedLogs) -> Labelling:
    """The labelling of one point that is likeliest together with its classes and signs."""
    parts = scaled(logs._replace(densities=jnp.max(signed, axis=0)))
    passed = forward(parts, largest=True)
    return _walk(parts, passed, signed, lambda _, logits: jnp.argmax(logits))


def _walk(
    parts: Scaled, passed: Forward, signed: SignedLogs, choose: Callable[[int, Array], Array]
) -> Labelling:
    # Without a barrier the compiler computes whole layers again for the few entries looked at.
    sums, moved = jax.lax.optimization_barrier((passed.sums, passed.moved))
    m = parts.densities.shape[0]
    place = jnp.zeros((), int)
    state = choose(0, jnp.log(sums[-1][0, 0]))
    order, signs = [], []
    for number in reversed(range(m)):
        sources = jnp.asarray(layers(m)[number].sources)[place]
        members = jnp.asarray(layers(m)[number].members)[place]
        weights = moved[number][sources, 0, state] * parts.densities[number, members, 0, state]
        at = choose(3 * number + 1, jnp.log(weights))
        place, block = sources[at], members[at]
        order.append(block)
        signs.append(choose(3 * number + 2, signed[:, number, block, 0, state]))
        if number > 0:
            matrix = parts.transitions[number - 1]
            before = sums[number - 1][place, 0] * matrix[:, state]
            state = choose(3 * number, jnp.log(before))
    return jnp.stack(order[::-1]), jnp.stack(signs[::-1])
