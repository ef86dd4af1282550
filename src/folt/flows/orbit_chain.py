"""Sums over all m! labellings of a Markov chain of classes along the labels.

With F(j, i, c) the density of block i under label j in class c, times the weight of the class if
the label is the first, and A_j the transitions from label j - 1 to label j, the sum

    q_F = Σ_σ Σ_c Π_{j≥2} A_j(c_{j-1}, c_j) Π_j F(j, σ(j), c_j)

over all orders σ of the blocks is built up over subsets S of the blocks,

    α(S, c) = Σ_{i∈S} [Σ_d α(S∖i, d) A_{|S|}(d, c)] F(|S|, i, c),  the bracket being 1 if |S| = 1,

so that q_F = Σ_c α(all, c) takes 2^m sets in the place of m! orders, all terms positive. Its
derivatives are the probabilities of labels and classes given the blocks, by a backward pass
written by hand. Arrays run over a block of points in the middle: (sets, n, classes).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.flows.potentials import potentials
from folt.flows.subsets import Layer, layers, successors

LOWEST = -1e290
"""Log densities are held above this, so that differences of them stay finite."""

SMALLEST = 1e-300
"""Below this a sum counts as lost; only at points whose density is beyond 10^-10^10."""

UNROLLED = 6
"""Terms of a long sum that are added in one step of a loop."""


class Logs(NamedTuple):
    """Logs of all that the sum is made of.

    Attributes:
        transitions: A_2, ..., A_m; all entries positive.
        densities: F(j, i, c) at every point.
    """

    transitions: Float[Array, "steps classes classes"]
    densities: Float[Array, "labels blocks n classes"]


class Scaled(NamedTuple):
    """The same, exponentiated after division by potentials, and the log of what was divided by."""

    transitions: Float[Array, "steps classes classes"]
    densities: Float[Array, "labels blocks n classes"]
    shift: Float[Array, " n"]


def scaled(logs: Logs) -> Scaled:
    """All entries at most one, and one product of densities not far below one.

    The sum is then at least that times the smallest transitions and at most m!, whatever the
    point, and nothing that contributes to it is lost on the way.
    """
    densities = jnp.maximum(logs.densities, LOWEST)
    table = jnp.moveaxis(jnp.max(densities, axis=-1), -1, 0)
    labels, blocks = jax.vmap(potentials)(table)
    shift = jnp.sum(labels, axis=1) + jnp.sum(blocks, axis=1)
    densities = jnp.exp(densities - labels.T[:, None, :, None] - blocks.T[None, :, :, None])
    return Scaled(jnp.exp(logs.transitions), densities, shift)


class Forward(NamedTuple):
    """α of every layer, and α times the transitions that follow it."""

    sums: list[Array]
    moved: list[Array]


def forward(parts: Scaled, largest: bool = False) -> Forward:
    """α for the sets of size 1 to m; `moved` begins with the empty set.

    Args:
        parts: scaled densities and transitions.
        largest: maxima in the place of all sums.
    """
    add = jnp.maximum if largest else jnp.add
    found = Forward([], [jnp.ones((1, *parts.densities.shape[2:]))])
    for number, layer in enumerate(layers(parts.densities.shape[0])):
        below, own = found.moved[-1], parts.densities[number]
        total = below[layer.sources[:, 0]] * own[layer.members[:, 0]]
        for source, member in zip(layer.sources.T[1:], layer.members.T[1:], strict=True):
            total = add(total, below[source] * own[member])
        found.sums.append(total)
        if number < len(parts.transitions):
            times = _largest_times if largest else _times
            found.moved.append(times(total, parts.transitions[number]))
    return found


@jax.custom_vjp
def log_orbit_sums(logs: Logs) -> Float[Array, " n"]:
    """Log q_F at every point."""
    return _values(logs)[0]


def _values(logs: Logs) -> tuple[Array, tuple[Scaled, Forward, Array]]:
    parts = scaled(logs)
    passed = forward(parts)
    total = jnp.maximum(jnp.sum(passed.sums[-1][0], axis=-1), SMALLEST)
    # Maxima may drop a NaN on their way: a fault must stay one.
    faulty = jnp.any(jnp.isnan(logs.densities), axis=(0, 1, 3))
    value = jnp.where(faulty, jnp.nan, jnp.log(total) + parts.shift)
    return value, (parts, passed, total)


def _gradients(kept: tuple[Scaled, Forward, Array], weight: Array) -> tuple[Logs]:
    """Probabilities given the blocks, times the weight of every point."""
    parts, passed, total = kept
    m = parts.densities.shape[0]
    above = jnp.broadcast_to((weight / total)[:, None], parts.densities.shape[2:])[None]
    densities, transitions = [], []
    for number in reversed(range(m)):
        own, below = parts.densities[number], passed.moved[number]
        densities.append(own * _over_sets(below, above, layers(m)[number]))
        if number == 0:
            break
        way = successors(m)[number]
        value = above[way.targets[:, 0]] * own[way.missing[:, 0]]
        for target, member in zip(way.targets.T[1:], way.missing.T[1:], strict=True):
            value = value + above[target] * own[member]
        matrix = parts.transitions[number - 1]
        flat = (passed.sums[number - 1], value)
        left, right = (array.reshape(-1, array.shape[-1]) for array in flat)
        transitions.append(matrix * (left.T @ right))
        above = _times(value, matrix.T)
    steps = jnp.stack(transitions[::-1]) if transitions else jnp.zeros_like(parts.transitions)
    return (Logs(steps, jnp.stack(densities[::-1])),)


log_orbit_sums.defvjp(_values, _gradients)


def _times(values: Array, matrix: Array) -> Array:
    """Every row of classes times a matrix."""
    return (values.reshape(-1, matrix.shape[0]) @ matrix).reshape(values.shape)


def _largest_times(values: Array, matrix: Array) -> Array:
    """The same product with maxima in the place of sums."""

    def with_class(number: int, best: Array) -> Array:
        return jnp.maximum(best, values[..., number, None] * matrix[number])

    return jax.lax.fori_loop(0, matrix.shape[0], with_class, jnp.zeros_like(values))


def _over_sets(below: Array, above: Array, layer: Layer) -> Float[Array, "blocks n classes"]:
    """Σ over the sets S that lack block i of below(S)·above(S + i), for every i.

    Few terms at a time, so that every step adds contiguous rows.
    """
    pairs = np.stack([layer.without.T, layer.joined.T], axis=1)
    whole = len(pairs) // UNROLLED

    def added(total: Array, rows: Array | np.ndarray) -> Array:
        for row in rows:
            total = total + below[row[0]] * above[row[1]]
        return total

    total = jnp.zeros((pairs.shape[2], *below.shape[1:]))
    if whole > 1:
        steps = jnp.asarray(pairs[: whole * UNROLLED].reshape(whole, UNROLLED, 2, -1))
        total = jax.lax.fori_loop(0, whole, lambda at, sum_: added(sum_, steps[at]), total)
        pairs = pairs[whole * UNROLLED :]
    return added(total, pairs)
