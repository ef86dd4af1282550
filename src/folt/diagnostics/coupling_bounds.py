"""Two chains driven alike: what their meeting says of variation, variance and effective size.

Formulas for known a(t), π(w > t) and μ(w > t); `folt.diagnostics.mixing` bounds these from draws.

How many independent draws dependent ones are worth, threshold by threshold.

Moving draws of π_F by steps of a kernel that leaves π_F invariant renews most of them, but not the
ones that matter here: beyond a threshold on w = π_F/q_F a draw seldom moves, and where w jumps the
exceedances are exactly the draws that never did. So refreshment earns no credit: draws are worth
what they were worth as they came.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Real

from folt.diagnostics.chains import effective_size

FEWEST = 30
"""Draws on either side of a threshold from which an indicator tells its own effective size."""


def effective_sizes(
    raw: Float[np.ndarray, "chain draw"], log_thresholds: np.ndarray
) -> Float[np.ndarray, " threshold"]:
    """Independent draws at each threshold: the effective size of 1{h > log t}, at most that of h.

    An indicator with too few draws on one side tells too little of itself; it takes the lowest
    size found anywhere, never a larger one of a neighbour.

    Args:
        raw: h at the draws as they came, before any refreshment.
        log_thresholds: log t on the scale of h.
    """
    count = float(raw.size)
    whole = min(count, float(np.nan_to_num(effective_size(raw))))
    own = np.full(np.size(log_thresholds), np.nan)
    for i, threshold in enumerate(np.ravel(log_thresholds)):
        beyond = raw > threshold
        if min(beyond.sum(), count - beyond.sum()) >= FEWEST:
            own[i] = effective_size(beyond.astype(float), "mean")
    lowest = np.nanmin(own, initial=whole)
    return np.asarray(np.minimum(np.where(np.isnan(own), lowest, own), whole))


def total_variation_bound(
    n: int | np.ndarray,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    start: tuple[float, ...] | np.ndarray,
) -> np.ndarray:
    """The least over t of (1 - a(t))ⁿ + π(w > t) + μ(w > t), and at most one.

    Args:
        n: numbers of steps, any shape.
        accept: a(t) at each threshold.
        exceed: π(w > t).
        start: μ(w > t). Zero will do if μ is the proposal where it hits the support: two chains
            driven alike keep the order of their w, so the density of μPⁿ against π falls in w,
            as that of μ does, and where w ≤ t it is at least the chance 1 - (1 - a(t))ⁿ of having
            left a state of weight t. The certificate keeps the term, because it is the one that
            notices a reference without the largest w.
    """
    n = np.asarray(n, float)[..., None]
    stay = 1.0 - np.asarray(accept, float)
    terms = stay**n + np.asarray(exceed, float) + np.asarray(start, float)
    return np.minimum(np.min(terms, axis=-1, initial=1.0), 1.0)


def variance_bound(
    n: int | np.ndarray,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    oscillation_squared_over_variance: float = 4.0,
) -> np.ndarray:
    """The bound on Var_π(Pⁿf)/Var f: least over t of (1-a)²ⁿ + β(1-β/2) osc(f)²/Var f, or one."""
    n = np.asarray(n, float)[..., None]
    terms = (1.0 - np.asarray(accept, float)) ** (2.0 * n) + (
        _remainder(exceed) * oscillation_squared_over_variance
    )
    return np.minimum(np.min(terms, axis=-1, initial=1.0), 1.0)


def ess_bound(
    count: int,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    oscillation_squared_over_variance: float = 4.0,
) -> float:
    """Largest over t of N / [(2-a)/a + (N-1) β(1-β/2) osc(f)²/Var f], for N stationary steps.

    The autocovariance at lag k is at most (1 - a)ᵏ Var f + β(1 - β/2) osc(f)², at odd lags too,
    because the spectrum of an independence chain is not negative. Summed over the lags of a mean
    of N steps this is the denominator; it never falls below one draw's worth.
    """
    accept = np.asarray(accept, float)
    with np.errstate(divide="ignore"):
        inflation = (2.0 - accept) / accept
    inflation = inflation + (count - 1) * _remainder(exceed) * oscillation_squared_over_variance
    return float(np.max(count / inflation, initial=min(1.0, count)))


def acceptance(fresh: Float[np.ndarray, " proposals"], log_thresholds: np.ndarray) -> np.ndarray:
    """a(t) = E_q[min(1, w/t)] under the empirical law of the fresh draws, at many t."""
    ordered = np.sort(fresh)
    below = np.logaddexp.accumulate(ordered)
    rank = np.searchsorted(ordered, log_thresholds, side="right")
    sums = np.where(rank > 0, np.exp(below[np.maximum(rank, 1) - 1] - log_thresholds), 0.0)
    return np.asarray((sums + (ordered.size - rank)) / ordered.size)


def meeting_estimate(
    n: Real[np.ndarray, " points"],
    fresh: Float[np.ndarray, " proposals"],
    held_out: np.ndarray,
) -> Float[np.ndarray, " points"]:
    """E[(1 - a(M))ⁿ], the probability that two chains have not met after n steps, from draws.

    M is the larger of w at a start from the proposal and at an independent draw of the target; its
    law is taken from the product of the two empirical distributions, without simulation.
    """
    starts, targets = np.sort(fresh[np.isfinite(fresh)]), np.sort(held_out, axis=None)
    values = np.unique(np.concatenate([starts, targets]))
    mass = np.searchsorted(starts, values, side="right") / starts.size
    mass *= np.searchsorted(targets, values, side="right") / targets.size
    weights = np.diff(mass, prepend=0.0)
    kept = weights > 0
    weights = weights[kept]
    with np.errstate(divide="ignore"):  # a = 1: the chains meet at once
        log_stay = np.log1p(-np.minimum(acceptance(fresh, values[kept]), 1.0))
    return np.array([weights @ np.exp(k * log_stay) if k > 0 else 1.0 for k in n])


def _remainder(exceed: tuple[float, ...] | np.ndarray) -> np.ndarray:
    """β(1 - β/2): half the mass of pairs of which at least one lies beyond the threshold."""
    exceed = np.asarray(exceed, float)
    return np.asarray(exceed * (1.0 - exceed / 2.0))
