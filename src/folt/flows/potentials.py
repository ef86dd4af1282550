"""Potentials that keep a sum over all orders away from underflow.

Of the m! products Π_j F(j, σ(j)) the largest may be 10^-10000 at a far point. Dividing F by
e^(v_j + u_i) multiplies every product by the same number. With nearly optimal dual variables of
the assignment problem as potentials, all entries are at most one and the largest product is not
much smaller. They are found by Bertsekas' auction: blocks bid for labels.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

SLACK = 10.0
"""Nats per label by which the product of the auction may fall short of the largest."""

FINEST = 1e-12
"""Smallest bid relative to the spread of the table: below it a bid is lost in rounding."""

ROUNDS = 5_000
"""Bound on the rounds of an auction; without effect on what is computed, only on its scale."""

Table = Float[Array, "labels blocks"]


class _Auction(NamedTuple):
    """Prices and owners of the labels, the smallest bid, and the rounds so far."""

    prices: Float[Array, " labels"]
    owners: Int[Array, " labels"]
    bid: Float[Array, ""]
    rounds: Int[Array, ""]


def potentials(logs: Table) -> tuple[Float[Array, " labels"], Float[Array, " blocks"]]:
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
        jnp.where(jnp.isfinite(spread), 0, ROUNDS),
    )

    def going(state: _Auction) -> Array:
        open_ = jnp.any(state.owners < 0) | (state.bid > least)
        return open_ & (state.rounds < ROUNDS)

    def step(state: _Auction) -> _Auction:
        # All labels sold at a coarse bid: sold again at a finer one, from the prices reached.
        sold = jnp.all(state.owners >= 0)
        owners = jnp.where(sold, -1, state.owners)
        bid = jnp.where(sold, jnp.maximum(least, state.bid / 5), state.bid)
        prices, owners = _bidding(logs, state.prices, owners, bid)
        return _Auction(prices, owners, bid, state.rounds + 1)

    prices = jax.lax.while_loop(going, step, start).prices
    return prices, jnp.max(logs - prices[:, None], axis=0)


def _bidding(logs: Table, prices: Array, owners: Array, bid: Array) -> tuple[Array, Array]:
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
