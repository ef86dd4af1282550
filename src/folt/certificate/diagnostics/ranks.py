"""Ranks of true values among posterior draws: are they uniform, as calibration asks?

If a value θ* is drawn from the prior and data from the model at θ*, then θ* and the posterior draws
given these data are exchangeable, so that the rank of θ* among L independent draws is uniform on
0, ..., L. The empirical distribution of N such ranks is compared with the uniform one by a band
that it leaves nowhere with the stated probability (Säilynoja, Bürkner and Vehtari 2022).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

LEVEL = 0.95
TRIALS = 4_000
"""Simulated sets of ranks; the level of the band has a standard error of .0034 then."""

_POINTS = 100
"""Places, evenly spaced, at which the distributions are compared."""


def rank_among(
    generator: np.random.Generator, truth: float, draws: Float[np.ndarray, " draw"]
) -> int:
    """How many draws lie below the truth; ties are broken by chance, which keeps ranks uniform."""
    below, equal = int(np.sum(draws < truth)), int(np.sum(draws == truth))
    return below + int(generator.integers(equal + 1))


def covered(ranks: Int[np.ndarray, " n"], draws: int, level: float) -> np.ndarray:
    """Whether the central interval that holds `level` of the L + 1 ranks has the truth in it."""
    tail = (1 - level) / 2 * (draws + 1)
    return (ranks >= tail) & (ranks < draws + 1 - tail)


class Uniformity(NamedTuple):
    """The distribution of ranks beside the uniform one.

    Attributes:
        at: places in (0, 1].
        difference: empirical minus uniform distribution function there.
        low: lower end of the band of the difference.
        high: its upper end.
        p_value: how often uniform ranks stray at least as far, somewhere.
    """

    at: np.ndarray
    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: float

    @property
    def inside(self) -> bool:
        """Whether the band is left nowhere."""
        return bool(self.p_value > 1 - LEVEL)


class RankBand:
    """What N uniform ranks among L draws do, simulated once for all quantities.

    The pointwise level γ of the binomial intervals is chosen so that a set of uniform ranks stays
    within all of them with probability `LEVEL`.

    Args:
        count: number of ranks, N.
        draws: draws that each is a rank among, L.
        seed: of the simulation.
    """

    def __init__(self, count: int, draws: int, seed: int = 0) -> None:
        places = min(_POINTS, draws + 1)
        # Ranks are discrete: the uniform distribution is compared where it jumps.
        edges = np.unique(np.round(np.arange(1, places) * (draws + 1) / places).astype(int))
        self._edges, self._draws, self._count = edges, draws, count
        self.at = edges / (draws + 1)
        counts = np.arange(count + 1)
        lower = stats.binom.cdf(counts[:, None], count, self.at)
        upper = stats.binom.sf(counts[:, None] - 1, count, self.at)
        self._tails = 2 * np.minimum(lower, upper)
        generator = np.random.default_rng(seed)
        simulated = generator.integers(draws + 1, size=(TRIALS, count))
        self._smallest = np.sort([self._tail(ranks) for ranks in simulated])
        gamma = float(np.quantile(self._smallest, 1 - LEVEL))
        self.low = stats.binom.ppf(gamma / 2, count, self.at) / count - self.at
        self.high = stats.binom.ppf(1 - gamma / 2, count, self.at) / count - self.at

    def _below(self, ranks: Int[np.ndarray, " n"]) -> Int[np.ndarray, " place"]:
        """Return how many ranks lie below every place."""
        return np.searchsorted(np.sort(ranks), self._edges, side="left")

    def _tail(self, ranks: Int[np.ndarray, " n"]) -> float:
        """Return the smallest pointwise tail probability."""
        return float(self._tails[self._below(ranks), np.arange(len(self.at))].min())

    def compare(self, ranks: Int[np.ndarray, " n"]) -> Uniformity:
        """Where these ranks stand.

        Raises:
            ValueError: ranks of another number or range.
        """
        if len(ranks) != self._count or np.min(ranks) < 0 or np.max(ranks) > self._draws:
            raise ValueError(f"expected {self._count} ranks among {self._draws} draws")
        strayed = np.searchsorted(self._smallest, self._tail(ranks), side="right")
        p_value = (1 + int(strayed)) / (TRIALS + 1)
        difference = self._below(ranks) / self._count - self.at
        return Uniformity(self.at, difference, self.low, self.high, p_value)
