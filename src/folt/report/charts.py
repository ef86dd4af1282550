"""A plot as data: its marks, its scales, and what is said of it.

`figures.still` draws a chart for print and `live.charts` draws it for a browser. Neither computes
anything, so both show the same.

Chains as they are pictured: thinned traces, histograms of all draws, and their words.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

_Values = Sequence[float] | np.ndarray
_Told = Mapping[str, Sequence[str]]
"""What a pointer reads at each point, by name."""


class Line(NamedTuple):
    """Points that are joined, marked, or both.

    Attributes:
        x: horizontal positions.
        y: vertical positions.
        colour: of line and marks.
        name: in the key; not mentioned there if empty.
        joined: whether a line goes through the points.
        dashed: whether it is dashed.
        marker: circle, square, x, or nothing.
        labels: what stands beside the points.
        told: what a pointer reads.
    """

    x: _Values
    y: _Values
    colour: str
    name: str = ""
    joined: bool = True
    dashed: bool = False
    marker: str = ""
    labels: Sequence[str] = ()
    told: _Told = MappingProxyType({})

    @property
    def look(self) -> str:
        """How the key of a page shows it."""
        return "dashed" if self.dashed else self.marker


class Bars(NamedTuple):
    """A histogram: one more edge than there are heights."""

    edges: np.ndarray
    heights: np.ndarray
    colour: str
    name: str
    told: _Told
    look: str = "square"


class Band(NamedTuple):
    """What lies between two horizontal positions, shaded."""

    low: float
    high: float
    colour: str
    name: str
    look: str = "pale"


class Rule(NamedTuple):
    """A straight line across the plot: a hairline, or dashes if it has a name."""

    at: float
    upright: bool = False
    name: str = ""
    colour: str = "inherit"
    look: str = "dotted"


Mark = Line | Bars | Band | Rule


@dataclasses.dataclass(frozen=True)
class Chart:
    """One quantity as it is drawn.

    Attributes:
        name: by which the page calls it.
        description: for readers who do not see it.
        caption: what to see in it.
        x_label: beneath it.
        y_label: at its left.
        x_range: what it shows.
        y_range: what it shows.
        marks: what is drawn, the first beneath the others; nothing is live without them.
        caveat: what it must not be taken for.
        x_ticks: words at positions; found by the drawing if there are none.
        y_ticks: likewise.
        log: whether the vertical scale is logarithmic.
        nothing: what is said where there is nothing to draw.
    """

    name: str
    description: str
    caption: str
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    marks: tuple[Mark, ...]
    caveat: str = ""
    x_ticks: Mapping[float, str] = dataclasses.field(default_factory=dict)
    y_ticks: Mapping[float, str] = dataclasses.field(default_factory=dict)
    log: bool = False
    nothing: str = ""

    @property
    def key(self) -> list[Mark]:
        """The marks that have a name."""
        return [mark for mark in self.marks if mark.name]


BARS = 60
"""Of a histogram."""

_CHAINS = 4
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
        shown = values[:_CHAINS]
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
