"""Bounds on total variation, variance and effective size by coupling two chains.

The formulas take a(t), π(w > t) and μ(w > t) at each threshold t on w as known; `mixing` bounds
these from draws. Confidence bounds hold for every sample size: without asymptotics and without an
assumed shape.

`effective_sizes` counts how many independent draws dependent ones are worth at each threshold.
Moving draws of π_F by steps of a kernel that leaves π_F invariant renews most of them, but not the
ones that matter here: beyond a threshold on w = π_F/q_F a draw seldom moves, and where w jumps the
exceedances are exactly the draws that never did. So refreshment earns no credit: draws are worth
what they were worth as they came.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Real
from scipy.special import betainccinv

from folt.certificate.diagnostics.chains import effective_size

STAKE = 0.9
"""Largest share of the capital that `mean_lower` puts on one draw; fixed before any data."""

_HALVINGS = 25
"""Bisection steps of `mean_lower`: the bound is found to 3e-8 of the mean, from below."""


def binomial_upper(
    successes: np.ndarray | float, n: np.ndarray | float, delta: float
) -> np.ndarray:
    """Return the upper confidence bound on a probability from a count (Clopper-Pearson).

    The largest p for which at most k successes in n draws still have probability δ, which is the
    1-δ quantile of Beta(k + 1, n - k); 1 - δ^(1/n) if nothing was seen. The same number bounds
    the mass beyond the (k+1)-th largest of n draws, whatever their law.

    Args:
        successes: k, from zero to n.
        n: number of independent draws; need not be whole (an effective size).
        delta: one minus the confidence.
    """
    check_level(delta)
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(n, float))
    if not ((k >= 0) & (n >= 0)).all():
        raise ValueError(f"expected counts of at least zero, got {successes} of {n}")
    failures = n - k
    inside = failures > 0
    bound = betainccinv(k + 1.0, np.where(inside, failures, 1.0), delta)
    return np.where(inside, bound, 1.0)


def mean_lower(values: Float[np.ndarray, "... n"], delta: float) -> np.ndarray:
    """Return the lower confidence bound on the mean of independent draws in [0, 1], by betting.

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
    check_level(delta)
    values = np.asarray(values, float)
    if values.shape[-1] == 0:
        return np.zeros(values.shape[:-1])
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("expected values in [0, 1]")
    demand = np.log(1.0 / delta)
    stakes = _stakes(values, demand)
    low, high = np.zeros(values.shape[:-1]), values.mean(axis=-1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        mean = middle[..., None]
        with np.errstate(divide="ignore"):
            stake = np.minimum(stakes, STAKE / mean)
        refuted = np.log1p(stake * (values - mean)).sum(axis=-1) >= demand
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def _stakes(values: np.ndarray, demand: float) -> np.ndarray:
    """Return λ_i from the draws before i; a prior draw at ½ with variance ¼ comes first."""
    seen = np.arange(1, values.shape[-1] + 1) + 1.0
    means = (0.5 + np.cumsum(values, axis=-1)) / seen
    variances = (0.25 + np.cumsum((values - means) ** 2, axis=-1)) / seen
    before = np.concatenate([np.full_like(variances[..., :1], 0.25), variances[..., :-1]], axis=-1)
    return np.asarray(np.sqrt(2.0 * demand / (values.shape[-1] * before)))


def check_level(delta: float) -> None:
    """Refuse a probability of failure that is none.

    Raises:
        ValueError: it does not lie between zero and one.
    """
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

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        """The bounds on a(t), π(w > t) and μ(w > t)."""
        return self.accept_lower, self.exceed_upper, self.start_upper


def threshold_ranks(count: int) -> np.ndarray:
    """Return ranks from the top, in equal ratios from the largest draw to the upper fifth."""
    top = max(count // 5, 1)
    return np.unique(np.round(np.geomspace(1, top, THRESHOLDS)).astype(int))


def steps_to(epsilon: float, grid: Thresholds) -> int | None:
    """Return the smallest n whose bound on the total variation is ε or less; None without one."""
    accept = np.asarray(grid.accept_lower)
    spare = epsilon - np.asarray(grid.exceed_upper) - np.asarray(grid.start_upper)
    usable = (spare > 0) & (accept > 0)
    if not usable.any():
        return None
    guess = np.ceil(np.log(spare[usable]) / np.log1p(-np.minimum(accept[usable], 1 - 1e-16))).min()
    for n in range(max(int(guess) - 1, 1), int(guess) + 2):  # rounding may be off by one
        if total_variation_bound(n, *grid.bounds) <= epsilon:
            return n
    return int(guess) + 1


def accept_lower(
    fresh: np.ndarray, log_thresholds: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower bound on a(t) at each threshold with its share of δ, and its estimate."""
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
    """Return the three bounds at each threshold, each with an equal share of δ."""
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


_FEWEST = 30
"""Draws on either side of a threshold from which an indicator has an effective size of its own."""


def effective_sizes(
    raw: Float[np.ndarray, "chain draw"], log_thresholds: np.ndarray
) -> Float[np.ndarray, " threshold"]:
    """Independent draws at each threshold: the effective size of 1{h > log t}, at most that of h.

    An indicator with too few draws on one side shows too little of itself; it takes the lowest
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
        if min(beyond.sum(), count - beyond.sum()) >= _FEWEST:
            own[i] = effective_size(beyond.astype(float), "mean")
    lowest = np.nanmin(own, initial=whole)
    return np.asarray(np.minimum(np.where(np.isnan(own), lowest, own), whole))


def total_variation_bound(
    n: int | np.ndarray,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    start: tuple[float, ...] | np.ndarray,
) -> np.ndarray:
    """Return the least over t of (1 - a(t))ⁿ + π(w > t) + μ(w > t), and at most one.

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
    """Return a(t) = E_q[min(1, w/t)] at many t, from the empirical law of the fresh draws."""
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
