"""The likeliest labellings of a point, found without going through all of them.

Scores say how well every block suits every label. The best labelling is a linear assignment; the
ones after it exchange two labels, move three in a circle, or make two exchanges at once.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

LOWEST = -1e150
"""Scores are held above this, so that sums and differences of them stay finite."""

PAIRED = 12
"""Cheapest exchanges of which pairs are looked at."""


def likely_arrangements(scores: Float[np.ndarray, "*n m m"], count: int) -> Int[np.ndarray, ...]:
    """The best arrangement of every point and the cheapest changes of it, (*n, count, m).

    Label j of an arrangement a takes block a[j], and its score is Σ_j scores[j, a[j]]. The same
    scores give the same arrangements, the best one first; all of them differ.

    Args:
        scores: of block i under label j at [j, i], such as log densities.
        count: how many arrangements, at most `most_arrangements(m)`.
    """
    m = scores.shape[-1]
    flat = np.maximum(np.nan_to_num(scores.reshape(-1, m, m), nan=LOWEST), LOWEST)
    best = np.stack([linear_sum_assignment(one, maximize=True)[1] for one in flat])
    held = np.take_along_axis(flat, np.repeat(best[:, None], m, axis=1), axis=2)
    loss = held[:, np.arange(m), np.arange(m)][:, :, None] - held
    changes = _cheapest(loss, count)
    found = np.take_along_axis(np.repeat(best[:, None], count, axis=1), changes, axis=2)
    return found.astype(np.int32).reshape(*scores.shape[:-2], count, m)


def most_arrangements(m: int) -> int:
    """How many arrangements there are at least: the best one, exchanges and circles."""
    return 1 + math.comb(m, 2) + 2 * math.comb(m, 3)


def _cheapest(loss: Float[np.ndarray, "n m m"], count: int) -> Int[np.ndarray, "n count m"]:
    """Changes of the best arrangement, nothing first, then those that lose least.

    Args:
        loss: what it costs label j to take the block of label l, at [j, l].
        count: how many changes.
    """
    n, m, _ = loss.shape
    nothing = np.broadcast_to(np.arange(m), (n, 1, m))
    if count == 1:
        return nothing
    catalogue = _catalogue(m)
    (a, b), (c, d, e) = _exchanges(m).T, _circles(m).T
    exchanged = loss[:, a, b] + loss[:, b, a]
    turned = loss[:, c, d] + loss[:, d, e] + loss[:, e, c]
    left, right, both = _pairs(exchanged, m)
    losses = np.concatenate([exchanged, turned, both], axis=1)
    order = np.argpartition(losses, count - 2, axis=1)[:, : count - 1]
    singles = exchanged.shape[1] + turned.shape[1]
    paired = np.maximum(order - singles, 0)
    # Positions in the catalogue, whose first row is to do nothing.
    first = np.where(order < singles, 1 + order, 1 + np.take_along_axis(left, paired, 1))
    second = np.where(order < singles, 0, 1 + np.take_along_axis(right, paired, 1))
    changes = np.take_along_axis(catalogue[first], catalogue[second], axis=2)
    return np.concatenate([nothing, changes], axis=1)


def _pairs(exchanged: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of the cheapest exchanges, and what both lose: infinite if they share a label."""
    exchanges = _exchanges(m)
    few = min(len(exchanges), PAIRED)
    near = np.argsort(exchanged, axis=1, kind="stable")[:, :few]
    # A lone exchange is paired with itself: no pair, and no special case.
    first, second = np.triu_indices(few, 1) if few > 1 else (np.zeros(1, int), np.zeros(1, int))
    left, right = near[:, first], near[:, second]
    apart = (exchanges[left][..., :, None] != exchanges[right][..., None, :]).all(axis=(2, 3))
    both = np.take_along_axis(exchanged, left, 1) + np.take_along_axis(exchanged, right, 1)
    return left, right, np.where(apart, both, np.inf)


@functools.lru_cache
def _exchanges(m: int) -> Int[np.ndarray, "n 2"]:
    return np.array(list(itertools.combinations(range(m), 2)), int).reshape(-1, 2)


@functools.lru_cache
def _circles(m: int) -> Int[np.ndarray, "n 3"]:
    both = [
        turn for a, b, c in itertools.combinations(range(m), 3) for turn in ((a, b, c), (a, c, b))
    ]
    return np.array(both, int).reshape(-1, 3)


@functools.lru_cache
def _catalogue(m: int) -> Int[np.ndarray, "n m"]:
    """Nothing, every exchange and every circle as arrangements."""
    exchanges, circles = _exchanges(m), _circles(m)
    rows = np.tile(np.arange(m), (1 + len(exchanges) + len(circles), 1))
    for row, (a, b) in zip(rows[1:], exchanges, strict=False):
        row[[a, b]] = b, a
    for row, (a, b, c) in zip(rows[1 + len(exchanges) :], circles, strict=True):
        row[[a, b, c]] = b, c, a
    return rows
