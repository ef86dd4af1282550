"""Effective sample size and R-hat of chains (Vehtari et al. 2021), on NumPy alone.

The numbers are those of ArviZ, whose statistics take more than a second to import: too long on the
way from a density to its draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

Chains = Float[np.ndarray, "chain draw"]

CONSTANT = 1e-15
"""Range below which values are called constant."""


def bulk_size(values: Chains) -> float:
    """Effective size of the ranks, of chains split into halves."""
    return _size(_normal_scores(_halves(values)))


def mean_size(values: Chains) -> float:
    """Effective size of the values themselves, for their mean."""
    return _size(_halves(values))


def tail_size(values: Chains, tails: Sequence[float]) -> float:
    """The smallest effective size of the indicators of some quantiles."""
    limits = np.quantile(values, tails)
    return min(_size(_halves((values <= limit).astype(float))) for limit in limits)


def rank_rhat(values: Chains) -> float:
    """R-hat of the ranks and of the ranks of distances from the median, the larger."""
    halves = _halves(values)
    folded = np.abs(halves - np.median(halves))
    return float(max(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded))))


def _halves(values: Chains) -> Float[np.ndarray, "halves half"]:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _normal_scores(values: Chains) -> Chains:
    """Normal quantiles of the ranks, ties sharing their mean rank (Blom's offset 3/8)."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1)
    return ndtri((ranks[places.ravel()] - 0.375) / (values.size + 0.25)).reshape(values.shape)


def _rhat(chains: Chains) -> float:
    length = chains.shape[1]
    within = np.mean(np.var(chains, axis=1, ddof=1))
    between = length * np.var(chains.mean(axis=1), ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sqrt((between / within + length - 1.0) / length))


def _size(chains: Chains) -> float:
    """N over the autocorrelation time, by Geyer's initial positive and monotone sequences."""
    if np.isnan(chains).any():
        return math.nan
    if np.ptp(chains) < CONSTANT:
        return float(chains.size)
    correlation = _correlation(chains)
    # Sums of neighbours ρ(2k) + ρ(2k+1): positive and falling for a reversible chain.
    last = (chains.shape[1] - 3) // 2
    pairs = correlation[: 2 * (last + 1)].reshape(-1, 2).sum(axis=1)
    stops = np.flatnonzero(pairs <= 0.0)
    kept = int(stops[0]) if stops.size else last
    rest = float(correlation[2 * kept])
    rest = max(rest, 0.0) if stops.size else rest
    time = -1.0 + 2.0 * float(np.minimum.accumulate(pairs[:kept]).sum()) + rest
    # Draws that alternate are worth more than independent ones, but not without limit.
    return chains.size / max(time, 1.0 / math.log10(chains.size))


def _correlation(chains: Chains) -> Float[np.ndarray, " draw"]:
    """Autocorrelation at every lag, against the variance of all chains together."""
    count, length = chains.shape
    means = chains.mean(axis=1)
    padded = next_fast_len(2 * length, real=True)
    spectrum = rfft(chains - means[:, None], n=padded, axis=1)
    power = np.mean(spectrum.real**2 + spectrum.imag**2, axis=0)
    covariance = irfft(power, n=padded)[:length] / length
    within = covariance[0] * length / (length - 1.0)
    total = covariance[0] + (np.var(means, ddof=1) if count > 1 else 0.0)
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    return correlation
