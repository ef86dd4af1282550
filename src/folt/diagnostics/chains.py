"""What the chains themselves show: frozen or not, R-hat, effective sample size."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

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
    """Chains that never moved. Tested first: ArviZ gives a constant chain its full length."""
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
    """Rank-normalised effective sample size of scalars (chain, draw); zero if constant."""
    if values.shape[1] < 4 or np.ptp(values) == 0:
        return 0.0
    quantiles = TAILS if method == "tail" else None
    return float(_statistics().ess(values, method=method, prob=quantiles))


def split_rhat(values: np.ndarray) -> float:
    """Rank-normalised split R-hat of scalars (chain, draw); a single chain counts as its halves."""
    if values.shape[0] == 1:  # ArviZ wants two chains, and says so on standard error
        half = values.shape[1] // 2
        values = values[:, : 2 * half].reshape(2, half)
    if values.shape[0] * values.shape[1] < 8 or values.shape[1] < 4 or np.ptp(values) == 0:
        return float("nan")
    return float(_statistics().rhat(values))


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


def _statistics() -> Any:
    """ArviZ's statistics on arrays, imported late because the import takes a second."""
    from arviz_stats.base import array_stats

    return array_stats
