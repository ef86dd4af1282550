"""Confidence bounds that hold for every sample size: no asymptotics, no assumed shape."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import betainccinv

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
