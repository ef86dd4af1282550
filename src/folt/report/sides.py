"""Chains as they are pictured: thinned traces, histograms of all draws, and their words."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

BARS = 60
"""Of a histogram."""

CHAINS = 4
"""Chains that are pictured."""

ROOM = 0.06
"""Beyond both ends of what a picture shows, as a share of it."""


@dataclasses.dataclass(frozen=True)
class Histograms:
    """One histogram per scalar, each over its own range.

    Attributes:
        low: where almost all values of every scalar begin.
        high: where they end.
        shares: (scalar, bar), of all values.
    """

    low: np.ndarray
    high: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Histograms:
        """The histograms of (draw, scalar); about a value that never moved, a short interval."""
        usable = np.where(np.isfinite(values), values, np.nan)
        known = np.where(np.isnan(usable).all(axis=0), 0.0, usable)
        low, high = np.nanquantile(known, [0.0005, 0.9995], axis=0)
        room = np.where(high > low, 0.0, 1e-3 * (1.0 + np.abs(low)))
        low, high = low - room, high + room
        counts = [
            np.histogram(column, BARS, (start, end))[0]
            for column, start, end in zip(values.T, low, high, strict=True)
        ]
        return cls(low, high, np.stack(counts) / max(len(values), 1))

    def bars(self, scalar: int) -> tuple[np.ndarray, np.ndarray]:
        """Densities and the edges of their bars."""
        edges = np.linspace(self.low[scalar], self.high[scalar], BARS + 1)
        return self.shares[scalar] / (edges[1] - edges[0]), edges


@dataclasses.dataclass(frozen=True)
class Side:
    """Chains of one kind, such as folded or as they came.

    Attributes:
        name: by which a page calls it.
        title: what it is.
        remark: what to see in it.
        axis: what the horizontal axis of a trace counts.
        draws: (chain, draw, scalar), as many as are pictured.
        whole: all draws, (draw, scalar).
        every: one in so many draws is pictured.
    """

    name: str
    title: str
    remark: str
    axis: str
    draws: np.ndarray
    whole: np.ndarray
    every: int = 1

    @classmethod
    def thinned(cls, name: str, title: str, remark: str, values: np.ndarray, most: int) -> Side:
        """Of (chain, draw, scalar), at most so many draws of the first chains, evenly spaced."""
        shown = values[:CHAINS]
        every = max(1, math.ceil(shown.shape[0] * shown.shape[1] / most))
        chains = "chains" if len(shown) == len(values) else f"first {len(shown)} chains"
        words = ["draw"]
        words += [f"{chains} end to end"] if len(values) > 1 else []
        words += [f"one in {every}"] if every > 1 else []
        whole = values.reshape(-1, values.shape[-1])
        return cls(name, title, remark, ", ".join(words), shown[:, ::every], whole, every)

    @property
    def flat(self) -> np.ndarray:
        """(draw, scalar), chains end to end."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    @property
    def breaks(self) -> range:
        """Positions at which another chain begins."""
        chains, length, _ = self.draws.shape
        return range(length, chains * length, length)

    @functools.cached_property
    def histograms(self) -> Histograms:
        """Of all draws."""
        return Histograms.of(self.whole)


def limits(sides: Sequence[Side], scalars: Sequence[int]) -> tuple[float, float]:
    """Where almost all values of some scalars lie on all sides, with a little room."""
    chosen = list(scalars)
    low = min(float(side.histograms.low[chosen].min()) for side in sides)
    high = max(float(side.histograms.high[chosen].max()) for side in sides)
    return low - ROOM * (high - low), high + ROOM * (high - low)
