"""Draws for the core: independent as far as possible, in two sets that share no chain."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from folt.diagnostics.chains import effective_size
from folt.fit import Fit
from folt.problem import Problem

Draws = Float[np.ndarray, "n dim"]
ChainDraws = Float[np.ndarray, "chain draw dim"]

LARGEST_TABLE = 5_000_000
"""Most numbers in a table of draws times group elements."""


def halves(draws: ChainDraws) -> tuple[Draws, Draws]:
    """Two sets of draws from different chains; from the two ends of a single chain."""
    count, length, dim = draws.shape
    if count > 1:
        first, second = draws[: count // 2], draws[count // 2 :]
    else:
        first, second = draws[:, : length // 2], draws[:, length // 2 :]
    return first.reshape(-1, dim), second.reshape(-1, dim)


def nearly_independent(fit: Fit) -> ChainDraws:
    """Every k-th draw, k the draws per effective one of the slowest coordinate and of h.

    A frozen chain has no effective draws and is left with a single one.
    """
    smallest = min(*fit.ess(), effective_size(fit.log_ratio))
    length = fit.draws.shape[1]
    step = math.ceil(fit.accepted.size / smallest) if smallest > 0 else length
    return fit.draws[:, ::step]


def thinned(points: Draws, most: int) -> Draws:
    """At most `most` rows, evenly spaced."""
    if points.shape[0] <= most:
        return points
    return points[np.linspace(0, points.shape[0] - 1, max(most, 1)).astype(int)]


def require_draws(problem: Problem, draws: object) -> Draws:
    """The draws as an array, or a ValueError; the target must be invariant."""
    if not problem.invariant:
        raise ValueError(
            "the highest-density core folds only if the target is invariant, and this problem "
            "declares a broken symmetry"
        )
    array = np.asarray(draws, float)
    if array.ndim != 2 or array.shape[1] != problem.dim or array.shape[0] == 0:
        raise ValueError(f"expected draws of shape (n, {problem.dim}), got {array.shape}")
    return array
