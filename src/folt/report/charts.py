"""A plot as data: its marks, its scales, and what is said of it.

`figures.still` draws a chart for print and `live.charts` draws it for a browser. Neither computes
anything, so both show the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

Values = Sequence[float] | np.ndarray
Told = Mapping[str, Sequence[str]]
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

    x: Values
    y: Values
    colour: str
    name: str = ""
    joined: bool = True
    dashed: bool = False
    marker: str = ""
    labels: Sequence[str] = ()
    told: Told = MappingProxyType({})

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
    told: Told
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
