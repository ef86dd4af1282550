"""Sums over all m! labellings of a Markov chain of classes along the labels.

With F(j, i, c) the density of block i under label j in class c, times the weight of the class if
the label is the first, and A_j the transitions from label j - 1 to label j, the sum

    q_F = Σ_σ Σ_c Π_{j≥2} A_j(c_{j-1}, c_j) Π_j F(j, σ(j), c_j)

over all orders σ of the blocks is built up over subsets S of the blocks,

    α(S, c) = Σ_{i∈S} [Σ_d α(S∖i, d) A_{|S|}(d, c)] F(|S|, i, c),  the bracket being 1 if |S| = 1,

so that q_F = Σ_c α(all, c) takes 2^m sets in the place of m! orders, all terms positive. Its
derivatives are the probabilities of labels and classes given the blocks. Many points are summed at
by `folt.proposals.host_chain`; this is the sum as part of a density. Arrays run over a
block of points in the middle: (sets, n, classes).

Potentials that keep a sum over all orders away from underflow.

Of the m! products Π_j F(j, σ(j)) the largest may be 10^-10000 at a far point. Dividing F by
e^(v_j + u_i) multiplies every product by the same number. With nearly optimal dual variables of
the assignment problem as potentials, all entries are at most one and the largest product is not
much smaller. They are found by Bertsekas' auction: blocks bid for labels.

Subsets of m things, layer by layer: where the terms of a sum over all orders come from.

A sum over the m! orders of m things is built up set by set: which things stand in the first r
places matters, their order does not. Layer r holds the sets of size r; there are 2^m in all.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class _Layer(NamedTuple):
    """The sets of one size and how they hang together with the next smaller ones.

    Attributes:
        members: the things in every set.
        sources: the position, in the layer below, of the set without that member.
        without: for every thing, the positions in the layer below of the sets that lack it.
        joined: the positions in this layer of those sets with the thing added.
    """

    members: Int[np.ndarray, "sets size"]
    sources: Int[np.ndarray, "sets size"]
    without: Int[np.ndarray, "things lacking"]
    joined: Int[np.ndarray, "things lacking"]


class Successors(NamedTuple):
    """The sets of one size and how they hang together with the next larger ones.

    Attributes:
        missing: the things that every set lacks.
        targets: the position, in the layer above, of the set with that thing added.
    """

    missing: Int[np.ndarray, "sets lacking"]
    targets: Int[np.ndarray, "sets lacking"]


@functools.lru_cache
def layers(m: int) -> tuple[_Layer, ...]:
    """Return the layers of size 1 to m."""
    masks, position = _masks(m)
    things = np.arange(m)
    found = []
    for size in range(1, m + 1):
        above, below = masks[size], masks[size - 1]
        members = _things(above, m, size)
        sources = position[above[:, None] ^ (1 << members)]
        lacking = (below[None] >> things[:, None]) & 1 == 0
        without = np.nonzero(lacking)[1].reshape(m, -1)
        joined = position[below[without] | (1 << things)[:, None]]
        found.append(_Layer(members, sources, without, joined))
    return tuple(found)


@functools.lru_cache
def successors(m: int) -> tuple[Successors, ...]:
    """For the layers of size 0 to m - 1, the sets above."""
    masks, position = _masks(m)
    found = []
    for size in range(m):
        missing = _things((1 << m) - 1 - masks[size], m, m - size)
        found.append(Successors(missing, position[masks[size][:, None] | (1 << missing)]))
    return tuple(found)


def _masks(m: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return sets as bit masks, by size, and the position of each mask among those of its size."""
    everything = np.arange(1 << m)
    sizes = _bits(everything, m).sum(axis=1)
    masks = [everything[sizes == size] for size in range(m + 1)]
    position = np.empty(1 << m, int)
    for own in masks:
        position[own] = np.arange(own.size)
    return masks, position


def _bits(masks: np.ndarray, m: int) -> np.ndarray:
    return masks[:, None] >> np.arange(m) & 1


def _things(masks: np.ndarray, m: int, size: int) -> np.ndarray:
    return np.nonzero(_bits(masks, m))[1].reshape(-1, size)


SLACK = 10.0
"""Nats per label by which the product of the auction may fall short of the largest."""

FINEST = 1e-12
"""Smallest bid relative to the spread of the table: below it a bid is lost in rounding."""

_ROUNDS = 5_000
"""Bound on the rounds of an auction; without effect on what is computed, only on its scale."""

_Table = Float[Array, "labels blocks"]


class _Auction(NamedTuple):
    """Prices and owners of the labels, the smallest bid, and the rounds so far."""

    prices: Float[Array, " labels"]
    owners: Int[Array, " labels"]
    bid: Float[Array, ""]
    rounds: Int[Array, ""]


def compiled_potentials(logs: _Table) -> tuple[Float[Array, " labels"], Float[Array, " blocks"]]:
    """Numbers v_j, u_i with logs(j, i) ≤ v_j + u_i and near equality along some assignment.

    The sum of the entries along it falls short of the potentials by at most m·`SLACK`. The
    inequality holds whatever the auction does; a table with NaN gives NaN.
    """
    m = logs.shape[0]
    if m == 1:
        return jnp.zeros(1), logs[0]
    spread = jnp.max(logs) - jnp.min(logs)
    least = jnp.maximum(SLACK, FINEST * spread)
    start = _Auction(
        jnp.zeros(m),
        jnp.full(m, -1),
        jnp.maximum(least, spread / 4),
        jnp.where(jnp.isfinite(spread), 0, _ROUNDS),
    )

    def going(state: _Auction) -> Array:
        open_ = jnp.any(state.owners < 0) | (state.bid > least)
        return open_ & (state.rounds < _ROUNDS)

    def step(state: _Auction) -> _Auction:
        # All labels sold at a coarse bid: sold again at a finer one, from the prices reached.
        sold = jnp.all(state.owners >= 0)
        owners = jnp.where(sold, -1, state.owners)
        bid = jnp.where(sold, jnp.maximum(least, state.bid / 5), state.bid)
        prices, owners = _bidding(logs, state.prices, owners, bid)
        return _Auction(prices, owners, bid, state.rounds + 1)

    prices = jax.lax.while_loop(going, step, start).prices
    return prices, jnp.max(logs - prices[:, None], axis=0)


def _bidding(logs: _Table, prices: Array, owners: Array, bid: Array) -> tuple[Array, Array]:
    """Every block without a label bids for its best one; the highest bid gets it."""
    blocks = jnp.arange(logs.shape[1])
    net = logs - prices[:, None]
    wanted = jnp.argmax(net, axis=0)
    is_wanted = jnp.arange(logs.shape[0])[:, None] == wanted
    best = jnp.max(net, axis=0)
    second = jnp.max(jnp.where(is_wanted, -jnp.inf, net), axis=0)
    free = ~jnp.any(owners[:, None] == blocks, axis=0)
    raise_ = jnp.where(is_wanted & free, best - second + bid, -jnp.inf)
    highest = jnp.max(raise_, axis=1)
    taken = highest > -jnp.inf
    prices = jnp.where(taken, prices + highest, prices)
    return prices, jnp.where(taken, jnp.argmax(raise_, axis=1), owners)


LOWEST = -1e290
"""Log densities are held above this, so that differences of them stay finite."""

_SMALLEST = 1e-300
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
    """Return all entries at most one, and one product of densities not far below one.

    The sum is then at least that times the smallest transitions and at most m!, whatever the
    point, and nothing that contributes to it is lost on the way.
    """
    densities = jnp.maximum(logs.densities, LOWEST)
    table = jnp.moveaxis(jnp.max(densities, axis=-1), -1, 0)
    # What the potentials are does not change the sum: no derivative passes through them.
    labels, blocks = jax.vmap(compiled_potentials)(jax.lax.stop_gradient(table))
    shift = jnp.sum(labels, axis=1) + jnp.sum(blocks, axis=1)
    densities = jnp.exp(densities - labels.T[:, None, :, None] - blocks.T[None, :, :, None])
    return Scaled(jnp.exp(logs.transitions), densities, shift)


class Forward(NamedTuple):
    """α of every layer, and α times the transitions that follow it."""

    sums: list[Array]
    moved: list[Array]


def forward_sums(parts: Scaled, largest: bool = False) -> Forward:
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
    """Return log q_F at every point."""
    parts = scaled(logs)
    total = jnp.maximum(jnp.sum(forward_sums(parts).sums[-1][0], axis=-1), _SMALLEST)
    # Maxima may drop a NaN on their way: a fault must stay one.
    faulty = jnp.any(jnp.isnan(logs.densities), axis=(0, 1, 3))
    return jnp.where(faulty, jnp.nan, jnp.log(total) + parts.shift)


def _times(values: Array, matrix: Array) -> Array:
    """Every row of classes times a matrix."""
    return (values.reshape(-1, matrix.shape[0]) @ matrix).reshape(values.shape)


def _largest_times(values: Array, matrix: Array) -> Array:
    """Return the same product with maxima in the place of sums."""

    def with_class(number: int, best: Array) -> Array:
        return jnp.maximum(best, values[..., number, None] * matrix[number])

    return jax.lax.fori_loop(0, matrix.shape[0], with_class, jnp.zeros_like(values))
