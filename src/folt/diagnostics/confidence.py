"""Confidence bounds that hold for every sample size: no asymptotics, no assumed shape.

What is known at each threshold on w: chances to accept, masses beyond, and steps from them.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.special import betainccinv

from folt.diagnostics.coupling_bounds import (
    total_variation_bound,
)

STAKE = 0.9
"""Largest share of the capital that `mean_lower` puts on one draw; fixed before any data."""

HALVINGS = 25
"""Bisection steps of `mean_lower`: the bound is found to 3e-8 of the mean, from below."""


def binomial_upper(
    successes: np.ndarray | float, n: np.ndarray | float, delta: float
) -> np.ndarray:
    """Upper confidence bound on a probability from a count (Clopper-Pearson).

    The largest p for which at most k successes in n draws still have probability δ, which is the
    1-δ quantile of Beta(k + 1, n - k); 1 - δ^(1/n) if nothing was seen. The same number bounds
    the mass beyond the (k+1)-th largest of n draws, whatever their law.

    Args:
        successes: k, from zero to n.
        n: number of independent draws; need not be whole (an effective size).
        delta: one minus the confidence.
    """
    _check_level(delta)
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(n, float))
    if not ((k >= 0) & (n >= 0)).all():
        raise ValueError(f"expected counts of at least zero, got {successes} of {n}")
    failures = n - k
    inside = failures > 0
    bound = betainccinv(k + 1.0, np.where(inside, failures, 1.0), delta)
    return np.where(inside, bound, 1.0)


def mean_lower(values: Float[np.ndarray, "... n"], delta: float) -> np.ndarray:
    """Lower confidence bound on the mean of independent draws in [0, 1], by betting.

    Whoever bets on "the mean exceeds m" against a fair bank multiplies the capital by
    1 + λ_i (x_i - m) at draw i, with λ_i ≤ .9/m fixed before the draw is seen. If the mean is m or
    less the capital exceeds 1/δ with probability at most δ (Markov), so the bound is the largest m
    that the final capital refutes; it falls in m, so bisection finds it. The stakes
    λ_i = sqrt(2 ln(1/δ) / (n s²_{i-1})), s² the variance so far, make the bound adapt to the
    spread as an empirical Bernstein bound does, with smaller constants (Waudby-Smith and Ramdas,
    2024). The draws are used in the order given, which must not depend on their values.

    Args:
        values: draws along the last axis; bounds are taken over it.
        delta: one minus the confidence.
    """
    _check_level(delta)
    values = np.asarray(values, float)
    if values.shape[-1] == 0:
        return np.zeros(values.shape[:-1])
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("expected values in [0, 1]")
    demand = np.log(1.0 / delta)
    stakes = _stakes(values, demand)
    low, high = np.zeros(values.shape[:-1]), values.mean(axis=-1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        mean = middle[..., None]
        with np.errstate(divide="ignore"):
            stake = np.minimum(stakes, STAKE / mean)
        refuted = np.log1p(stake * (values - mean)).sum(axis=-1) >= demand
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def _stakes(values: np.ndarray, demand: float) -> np.ndarray:
    """λ_i from the draws before i; a prior draw at ½ with variance ¼ opens the game."""
    seen = np.arange(1, values.shape[-1] + 1) + 1.0
    means = (0.5 + np.cumsum(values, axis=-1)) / seen
    variances = (0.25 + np.cumsum((values - means) ** 2, axis=-1)) / seen
    before = np.concatenate([np.full_like(variances[..., :1], 0.25), variances[..., :-1]], axis=-1)
    return np.asarray(np.sqrt(2.0 * demand / (values.shape[-1] * before)))


def _check_level(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"expected delta between 0 and 1, got {delta}")


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
