"""Potentials that keep a sum over all orders away from underflow.

Of the m! products Π_j F(j, σ(j)) the largest may be 10^-10000 at a far point. Dividing F by
e^(v_j + u_i) multiplies every product by the same number. With nearly optimal dual variables of
the assignment problem as potentials, all entries are at most one and the largest product is not
much smaller. They are found by Bertsekas' auction: blocks bid for labels.

Loops that numba compiles at their first call.

numba itself is imported then too: it takes a seventh of the time in which folt is imported, and
most fits need none of these loops.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from folt.proposals.orbit_chain import FINEST, SLACK

_lock = threading.Lock()
_loops: list[Loop] = []


class Loop:
    """A function that numba compiles when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = inspect.unwrap(function)  # what checks shapes is not for numba
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Return the compiled function's value."""
        if self.compiled is None:
            with _lock:
                _hand_over()
        assert self.compiled is not None
        return self.compiled(*arguments)


def compiled(function: Callable[..., Any]) -> Any:
    """The function, compiled when it is first called and kept on disk where that is possible."""
    loop = Loop(function)
    _loops.append(loop)
    return loop


def _hand_over() -> None:
    """Give all loops to numba, and to each other: they call one another by their names."""
    made = {loop: _given(loop.function) for loop in _loops}
    for loop in made:
        names = loop.function.__globals__
        found = {name: one for name, one in names.items() if isinstance(one, Loop)}
        names.update({name: made.get(one, one.compiled) for name, one in found.items()})
    for loop, function in made.items():  # last: other threads may call a loop from here on
        loop.compiled = function
    _loops.clear()


def _given(function: Callable[..., Any]) -> Callable[..., Any]:
    from numba import njit

    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder in which a compiled function could be kept
        return njit(nogil=True)(function)


BIDS = 20_000
"""Bound on the bids of an auction; without effect on what is computed, only on its scale."""


def potentials(
    tables: Float[np.ndarray, "n labels blocks"],
) -> tuple[Float[np.ndarray, "n labels"], Float[np.ndarray, "n blocks"]]:
    """Numbers v_j, u_i with table(j, i) ≤ v_j + u_i and near equality along some assignment.

    The sum of the entries along it falls short of the potentials by at most m·`SLACK`. The
    inequality holds whatever the auction does.
    """
    prices = np.zeros(tables.shape[:2])
    _auctions(np.ascontiguousarray(tables), prices)
    return prices, (tables - prices[:, :, None]).max(axis=1)


@compiled
def _auctions(tables, prices):  # type: ignore[no-untyped-def]
    for n in range(len(tables)):
        table, price = tables[n], prices[n]
        m = len(table)
        low, high, finite = table[0, 0], table[0, 0], True
        for entry in table.flat:
            low, high, finite = min(low, entry), max(high, entry), finite and np.isfinite(entry)
        if m == 1 or not finite:
            continue
        spread = high - low
        least = max(SLACK, FINEST * spread)
        raised, bids = max(least, spread / 4.0), 0
        while True:
            bids = _sale(table, price, raised, bids)
            if raised <= least or bids >= BIDS:
                break
            # All labels sold at a coarse bid: sold again at a finer one, from the prices reached.
            raised = max(least, raised / 5.0)


@compiled
def _sale(table, price, raised, bids):  # type: ignore[no-untyped-def]
    """Every block without a label bids for its best one, and the former owner goes without."""
    m = len(table)
    owners, waiting, count = np.empty(m, np.int64), np.empty(m, np.int64), m
    for label in range(m):
        owners[label], waiting[label] = -1, label
    while count > 0 and bids < BIDS:
        bids += 1
        block = waiting[count - 1]
        best, second, wanted = -np.inf, -np.inf, 0
        for label in range(m):
            net = table[label, block] - price[label]
            if net > best:
                second, best, wanted = best, net, label
            elif net > second:
                second = net
        price[wanted] += best - second + raised
        before = owners[wanted]
        owners[wanted] = block
        if before >= 0:
            waiting[count - 1] = before
        else:
            count -= 1
    return bids
