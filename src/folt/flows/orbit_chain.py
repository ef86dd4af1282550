"""Sums over all m! labellings of a Markov chain of classes along the labels.

With F(j, i, c) the density of block i under label j in class c, times the weight of the class if
the label is the first, and A_j the transitions from label j - 1 to label j, the sum

    q_F = Σ_σ Σ_c Π_{j≥2} A_j(c_{j-1}, c_j) Π_j F(j, σ(j), c_j)

over all orders σ of the blocks is built up over subsets S of the blocks,

    α(S, c) = Σ_{i∈S} [Σ_d α(S∖i, d) A_{|S|}(d, c)] F(|S|, i, c),  the bracket being 1 if |S| = 1,

so that q_F = Σ_c α(all, c) takes 2^m sets in the place of m! orders, all terms positive. Its
derivatives are the probabilities of labels and classes given the blocks. Many points are summed at
by `folt.problem.orbits.host_chain`; this is the sum as part of a density. Arrays run over a
block of points in the middle: (sets, n, classes).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from folt.flows.potentials import potentials
from folt.flows.subsets import layers

LOWEST = -1e290
"""Log densities are held above this, so that differences of them stay finite."""

SMALLEST = 1e-300
"""Below this a sum counts as lost; only at points whose density is beyond 10^-10^10."""


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
    # What the potentials are does not change the sum: no derivative passes through them.
    labels, blocks = jax.vmap(potentials)(jax.lax.stop_gradient(table))
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


def log_orbit_sums(logs: Logs) -> Float[Array, " n"]:
    """Log q_F at every point."""
    parts = scaled(logs)
    total = jnp.maximum(jnp.sum(forward(parts).sums[-1][0], axis=-1), SMALLEST)
    # Maxima may drop a NaN on their way: a fault must stay one.
    faulty = jnp.any(jnp.isnan(logs.densities), axis=(0, 1, 3))
    return jnp.where(faulty, jnp.nan, jnp.log(total) + parts.shift)


def _times(values: Array, matrix: Array) -> Array:
    """Every row of classes times a matrix."""
    return (values.reshape(-1, matrix.shape[0]) @ matrix).reshape(values.shape)


def _largest_times(values: Array, matrix: Array) -> Array:
    """The same product with maxima in the place of sums."""

    def with_class(number: int, best: Array) -> Array:
        return jnp.maximum(best, values[..., number, None] * matrix[number])

    return jax.lax.fori_loop(0, matrix.shape[0], with_class, jnp.zeros_like(values))
