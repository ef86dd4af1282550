"""A plot as data, and its picture: marks, scales, and what is said of it.

One picture serves print and page. On a page, strips over it show the readings of the chart under
the pointer; they need no script.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from folt.report.style import INK, LINE, below, blank, literal, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Values = Sequence[float] | np.ndarray


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
    """

    x: _Values
    y: _Values
    colour: str
    name: str = ""
    joined: bool = True
    dashed: bool = False
    marker: str = ""
    labels: Sequence[str] = ()


class Bars(NamedTuple):
    """A histogram: one more edge than there are heights."""

    edges: np.ndarray
    heights: np.ndarray
    colour: str
    name: str


class Shade(NamedTuple):
    """What lies between two horizontal positions, shaded."""

    low: float
    high: float
    colour: str
    name: str


class Rule(NamedTuple):
    """A straight line across the plot: a hairline, or dashes if it has a name."""

    at: float
    upright: bool = False
    name: str = ""


Mark = Line | Bars | Shade | Rule


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
        marks: what is drawn, the first beneath the others.
        readings: what a pointer reads, by horizontal position.
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
    readings: Mapping[float, str] = dataclasses.field(default_factory=dict)
    caveat: str = ""
    x_ticks: Mapping[float, str] = dataclasses.field(default_factory=dict)
    y_ticks: Mapping[float, str] = dataclasses.field(default_factory=dict)
    log: bool = False
    nothing: str = ""


class Strip(NamedTuple):
    """A strip of a picture with its reading; the place is in percent of the picture's size."""

    left: float
    width: float
    top: float
    height: float
    reading: str


MARKERS = {"circle": "o", "square": "s", "x": "x", "": ""}
_STEPS = [1, 2, 5, 10]
"""What numbers at an axis go by, as in a browser."""


def still(chart: Chart) -> Figure:
    """Draw the chart, with its key beneath."""
    with styled():
        figure = blank(4.8, 3.1)
        panel = figure.subplots()
        panel.set(xlabel=literal(chart.x_label), ylabel=literal(chart.y_label))
        panel.locator_params(steps=_STEPS)
        panel.set_yscale("log" if chart.log else "linear")
        panel.set(xlim=chart.x_range, ylim=chart.y_range)
        for axis, ticks in ((panel.xaxis, chart.x_ticks), (panel.yaxis, chart.y_ticks)):
            if ticks:
                axis.set_ticks(list(ticks), list(ticks.values()))
        panel.minorticks_off()
        panel.grid(axis="y", color=LINE, linewidth=0.6)
        panel.set_axisbelow(True)
        for mark in chart.marks:
            _draw(panel, mark)
        if not chart.marks:
            panel.text(0.5, 0.5, chart.nothing, ha="center", transform=panel.transAxes)
        elif any(mark.name for mark in chart.marks):
            below(figure, panel, 2)
    return figure


def _draw(panel: Axes, mark: Mark) -> None:
    name = mark.name or None
    match mark:
        case Line():
            _line(panel, mark)
        case Bars():
            panel.stairs(mark.heights, mark.edges, fill=True, color=mark.colour, label=name)
        case Shade():
            shade: Document = {"alpha": 0.25, "linewidth": 0}
            panel.axvspan(mark.low, mark.high, color=mark.colour, label=name, **shade)
        case Rule():
            across = panel.axvline if mark.upright else panel.axhline
            if name is None:
                across(mark.at, color=LINE, linewidth=0.6, zorder=0)
            else:
                across(mark.at, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), label=name)


def _line(panel: Axes, mark: Line) -> None:
    panel.plot(
        mark.x,
        mark.y,
        color=mark.colour,
        linestyle=((0, (4, 1.5)) if mark.dashed else "-") if mark.joined else "",
        marker=MARKERS[mark.marker],
        markersize=8 if mark.marker == "x" else 5,
        markeredgewidth=1.5,
        clip_on=not mark.marker,
        zorder=3 if mark.marker else 2,
        label=mark.name or None,
    )
    place: Document = {"textcoords": "offset points", "xytext": (7, 3), "fontsize": "small"}
    for x, y, label in zip(mark.x, mark.y, mark.labels, strict=False):
        panel.annotate(label, (x, y), **place)


def strips(chart: Chart, figure: Figure) -> list[Strip]:
    """Return the strips over a drawn chart: each position reaches half way to its neighbours."""
    low, high = chart.x_range
    shown = sorted(x for x in chart.readings if low <= x <= high)
    if not (chart.marks and shown):
        return []
    figure.draw_without_rendering()  # which finds the place of the panel
    place = figure.axes[0].get_position()
    middles = [0.5 * (one + other) for one, other in itertools.pairwise(shown)]
    across = [place.x0 + place.width * (x - low) / (high - low) for x in (low, *middles, high)]
    top, height = 100.0 * (1.0 - place.y1), 100.0 * place.height
    return [
        Strip(100.0 * left, 100.0 * (right - left), top, height, chart.readings[x])
        for x, (left, right) in zip(shown, itertools.pairwise(across), strict=True)
    ]
