"""What is known at each threshold on w: chances to accept, masses beyond, and steps from them."""

from __future__ import annotations

import dataclasses

import numpy as np

from folt.diagnostics.confidence import binomial_upper, mean_lower
from folt.diagnostics.coupling_bounds import (
    total_variation_bound,
)

THRESHOLDS = 16
"""Number of thresholds; their ranks among the held-out draws depend on the count alone."""


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """What is known at each threshold t, from the largest downwards.

    Attributes:
        log_threshold: log t on the scale of h.
        accept_lower: lower bound on a(t) = E_q[min(1, w/t)].
        accept_estimate: the mean that the bound is for.
        exceed_upper: upper bound on β(t) = π(w > t).
        start_upper: upper bound on μ(w > t), μ the proposal where it hits the support.
        effective: independent draws that the held-out ones are worth at this threshold.
    """

    log_threshold: tuple[float, ...] = ()
    accept_lower: tuple[float, ...] = ()
    accept_estimate: tuple[float, ...] = ()
    exceed_upper: tuple[float, ...] = ()
    start_upper: tuple[float, ...] = ()
    effective: tuple[float, ...] = ()


def threshold_ranks(count: int) -> np.ndarray:
    """Ranks from the top, in equal ratios from the largest draw to the upper fifth."""
    top = max(count // 5, 1)
    return np.unique(np.round(np.geomspace(1, top, THRESHOLDS)).astype(int))


def steps_to(epsilon: float, grid: Thresholds) -> int | None:
    """The smallest n whose bound on the total variation is ε or less; None if there is none."""
    accept = np.asarray(grid.accept_lower)
    spare = epsilon - np.asarray(grid.exceed_upper) - np.asarray(grid.start_upper)
    usable = (spare > 0) & (accept > 0)
    if not usable.any():
        return None
    guess = np.ceil(np.log(spare[usable]) / np.log1p(-np.minimum(accept[usable], 1 - 1e-16))).min()
    for n in range(max(int(guess) - 1, 1), int(guess) + 2):  # rounding may be off by one
        if total_variation_bound(n, accept, grid.exceed_upper, grid.start_upper) <= epsilon:
            return n
    return int(guess) + 1


def accept_lower(
    fresh: np.ndarray, log_thresholds: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower bound on a(t) at each threshold with its share of δ, and the mean it is for."""
    accepted = np.exp(np.minimum(fresh - log_thresholds[:, None], 0.0))
    return mean_lower(accepted, delta / (3 * log_thresholds.size)), accepted.mean(axis=1)


def bounds_at(
    fresh: np.ndarray,
    log_thresholds: np.ndarray,
    accepted: tuple[np.ndarray, np.ndarray],
    beyond: np.ndarray,
    sizes: np.ndarray,
    delta: float,
) -> Thresholds:
    """The three bounds at each threshold, each with an equal share of δ."""
    share = delta / (3 * log_thresholds.size)
    alive = np.isfinite(fresh).sum()
    above = (fresh > log_thresholds[:, None]).sum(axis=1)
    rows = (
        log_thresholds,
        *accepted,
        binomial_upper(beyond * sizes, sizes, share),
        binomial_upper(above, alive, share),
        sizes,
    )
    return Thresholds(*(tuple(row.tolist()) for row in rows))
