"""Effective sample size and R-hat of chains (Vehtari et al. 2021), and which chains never moved.

The numbers are those of ArviZ, whose statistics take more than a second to import: too long on the
way from a density to its draws.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import fdtri, ndtri

_Chains = Float[np.ndarray, "chain draw"]

_CONSTANT = 1e-15
"""Range below which values are called constant."""


def _halves(values: _Chains) -> Float[np.ndarray, "halves half"]:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _normal_scores(values: _Chains) -> _Chains:
    """Return normal quantiles of the ranks, ties sharing their mean rank (Blom's offset 3/8)."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1)
    return ndtri((ranks[places.ravel()] - 0.375) / (values.size + 0.25)).reshape(values.shape)


def _rhat(chains: _Chains) -> float:
    length = chains.shape[1]
    within = np.mean(np.var(chains, axis=1, ddof=1))
    between = length * np.var(chains.mean(axis=1), ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sqrt((between / within + length - 1.0) / length))


def _size(chains: _Chains) -> float:
    """Return N over the autocorrelation time, by Geyer's initial monotone sequence."""
    if np.isnan(chains).any():
        return math.nan
    if np.ptp(chains) < _CONSTANT:
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


def _correlation(chains: _Chains) -> Float[np.ndarray, " draw"]:
    """Return the autocorrelation at every lag, against the variance of all chains together."""
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


TAILS = (0.05, 0.95)
"""Quantiles whose effective sizes are the tail ESS, the smaller of the two."""


@dataclasses.dataclass(frozen=True)
class ChainSummary:
    """Per coordinate: rank-normalised ESS and R-hat, batch-means ESS, and which chains froze."""

    ess: np.ndarray
    tail_ess: np.ndarray
    rhat: np.ndarray
    batch_means_ess: np.ndarray
    frozen: tuple[int, ...]


def frozen_chains(accepted: np.ndarray) -> tuple[int, ...]:
    """Return chains that never moved; ask first, for a constant chain has no effective size."""
    return tuple(int(i) for i in np.flatnonzero(~np.asarray(accepted).any(axis=1)))


def summarise_chains(draws: np.ndarray, accepted: np.ndarray | None = None) -> ChainSummary:
    """Return ESS and R-hat of draws (chain, draw, dim); zero and NaN where the chains are frozen.

    Args:
        draws: the chains.
        accepted: (chain, draw), which steps moved; taken from changes in the draws if None.
    """
    draws = np.asarray(draws, float)
    if accepted is None:
        accepted = np.asarray(np.diff(draws, axis=1, prepend=draws[:, :1]).any(axis=-1))
    frozen = frozen_chains(accepted)
    dim = draws.shape[-1]
    if frozen:
        zero, missing = np.zeros(dim), np.full(dim, np.nan)
        return ChainSummary(zero, zero, missing, zero, frozen)
    columns = [draws[..., j] for j in range(dim)]
    return ChainSummary(
        np.array([effective_size(column) for column in columns]),
        np.array([effective_size(column, "tail") for column in columns]),
        np.array([split_rhat(column) for column in columns]),
        np.array([batch_means_ess(column) for column in columns]),
        frozen,
    )


def effective_size(values: np.ndarray, method: str = "bulk") -> float:
    """Return the effective sample size of scalars (chain, draw); zero if they are constant.

    Args:
        values: the scalars; chains are split into halves.
        method: "bulk" for that of the ranks, "mean" for that of the values themselves, "tail" for
            the smaller one of the indicators of the two outer quantiles.
    """
    if values.shape[1] < 4 or np.ptp(values) == 0:
        return 0.0
    values = np.asarray(values, float)
    if method == "tail":
        limits = np.quantile(values, TAILS)
        return min(_size(_halves((values <= limit).astype(float))) for limit in limits)
    halves = _halves(values)
    return _size(_normal_scores(halves) if method == "bulk" else halves)


def split_rhat(values: np.ndarray) -> float:
    """Return the rank-normalised split R-hat of scalars (chain, draw).

    It is the larger one of the ranks and of the ranks of distances from the median. A single chain
    counts as its halves; too few draws, a constant or NaN have none (NaN).
    """
    if values.shape[0] == 1:
        half = values.shape[1] // 2
        values = values[:, : 2 * half].reshape(2, half)
    few = values.size < 8 or values.shape[1] < 4
    if few or np.ptp(values) == 0 or np.isnan(values).any():
        return math.nan
    halves = _halves(np.asarray(values, float))
    distances = np.abs(halves - np.median(halves))
    return max(_rhat(_normal_scores(halves)), _rhat(_normal_scores(distances)))


def rhat_by_chance(
    shape: tuple[int, int, int], alarm: float, rhat: float = 1.0, stayed: float = 0.0
) -> float:
    """Return R-hat that renewed draws exceed in some coordinate with this probability, at most.

    Split into m half chains of n draws, R² = (n - 1 + B/W)/n, and of normal scores of independent
    draws B/W has the F distribution with m - 1 and m(n - 1) degrees of freedom, nearly. Two draws
    of a chain are as dependent as before only if neither moved: what B/W had above one then counts
    with the square of the share that stayed. The alarm is shared by the two R-hats (of ranks and of
    distances from the median) of every coordinate.

    Args:
        shape: chains, draws, coordinates.
        alarm: probability of an alarm where nothing is wrong.
        rhat: R-hat before the draws were renewed.
        stayed: share of the draws that were not.
    """
    chains, length, dim = shape
    parts, size = (4, length // 4) if chains == 1 else (2 * chains, length // 2)
    if size < 2:
        return float("inf")
    quantile = fdtri(parts - 1, parts * (size - 1), 1.0 - alarm / (2 * dim))
    dependence = 1.0 + stayed**2 * size * max(rhat**2 - 1.0, 0.0)
    return float(np.sqrt((size - 1 + quantile * dependence) / size))


def batch_means_ess(values: np.ndarray) -> float:
    """Return the ESS by batch means of √n draws, the paper's estimator; zero if constant."""
    length = values.shape[1]
    size = max(int(np.sqrt(length)), 1)
    count = length // size
    if count < 2 or np.ptp(values) == 0:
        return 0.0
    total = 0.0
    for chain in values:
        variance = chain.var(ddof=1)
        batches = chain[: count * size].reshape(count, size).mean(axis=1)
        spread = size * batches.var(ddof=1)
        total += length * variance / spread if spread > 0 else 0.0
    return float(total)
