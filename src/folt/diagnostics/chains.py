"""What the chains themselves show: frozen or not, R-hat, effective sample size."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.special import fdtri

from folt.diagnostics.autocorrelation import bulk_size, mean_size, rank_rhat, tail_size

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
    """Chains that never moved. Tested first: a constant chain would be given its full length."""
    return tuple(int(i) for i in np.flatnonzero(~np.asarray(accepted).any(axis=1)))


def summarise_chains(draws: np.ndarray, accepted: np.ndarray | None = None) -> ChainSummary:
    """ESS and R-hat of draws (chain, draw, dim); zero and NaN where the chains are frozen.

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
    return ChainSummary(
        np.array([effective_size(draws[..., j]) for j in range(dim)]),
        np.array([effective_size(draws[..., j], "tail") for j in range(dim)]),
        np.array([split_rhat(draws[..., j]) for j in range(dim)]),
        np.array([batch_means_ess(draws[..., j]) for j in range(dim)]),
        frozen,
    )


def effective_size(values: np.ndarray, method: str = "bulk") -> float:
    """Effective sample size of scalars (chain, draw), bulk, tail or mean; zero if constant."""
    if values.shape[1] < 4 or np.ptp(values) == 0:
        return 0.0
    values = np.asarray(values, float)
    if method == "tail":
        return tail_size(values, TAILS)
    return bulk_size(values) if method == "bulk" else mean_size(values)


def split_rhat(values: np.ndarray) -> float:
    """Rank-normalised split R-hat of scalars (chain, draw); a single chain counts as its halves."""
    if values.shape[0] == 1:
        half = values.shape[1] // 2
        values = values[:, : 2 * half].reshape(2, half)
    if values.shape[0] * values.shape[1] < 8 or values.shape[1] < 4 or np.ptp(values) == 0:
        return float("nan")
    if np.isnan(values).any():
        return float("nan")
    return rank_rhat(np.asarray(values, float))


def rhat_by_chance(
    shape: tuple[int, int, int], alarm: float, rhat: float = 1.0, stayed: float = 0.0
) -> float:
    """R-hat that renewed draws exceed in some coordinate with this probability, at most.

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
    """ESS by batch means with batches of √n, the estimator of the paper; zero if constant."""
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
