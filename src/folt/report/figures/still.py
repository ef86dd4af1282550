"""A chart drawn for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from folt.fit.style import INK, LINE, below, blank, plain, styled
from folt.report.charts import Band, Bars, Chart, Line, Mark, Rule
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = {"circle": "o", "square": "s", "x": "x", "": ""}
STEPS = [1, 2, 5, 10]
"""What numbers at an axis go by, as in a browser."""


def still(chart: Chart) -> Figure:
    """The chart as a figure with its key beneath."""
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        panel.set(xlabel=plain(chart.x_label), ylabel=plain(chart.y_label))
        panel.locator_params(steps=STEPS)
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
        elif chart.key:
            below(figure, panel, 2)
    return figure


def _draw(panel: Axes, mark: Mark) -> None:
    name = mark.name or None
    match mark:
        case Line():
            _line(panel, mark)
        case Bars():
            panel.stairs(mark.heights, mark.edges, fill=True, color=mark.colour, label=name)
        case Band():
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
