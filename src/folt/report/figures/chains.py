"""Chains before and after folding or relabelling, a trace and its margins.

A chart drawn for print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import (
    INK,
    LINE,
    PALETTE,
    QUIET,
    below,
    blank,
    component_legend,
    histogram,
    plain,
    styled,
)
from folt.report.charts import Band, Bars, Chart, Line, Mark, Rule, Side, limits
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MARKERS = {"circle": "o", "square": "s", "x": "x", "": ""}
_STEPS = [1, 2, 5, 10]
"""What numbers at an axis go by, as in a browser."""


def still(chart: Chart) -> Figure:
    """Return the chart as a figure with its key beneath."""
    with styled():
        figure = blank(5.4, 3.1)
        panel = figure.subplots()
        panel.set(xlabel=plain(chart.x_label), ylabel=plain(chart.y_label))
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


_SHOWN = 1200
"""Draws in the traces of relabelled chains; more would only darken the dots."""

Titles = tuple[tuple[str, str], tuple[str, str]]
"""What each chain is, and what to see in it."""


def traces_figure(
    sides: Sequence[Side], scalars: Sequence[int], labels: Sequence[str], ylabel: str
) -> Figure:
    """Chains on one scale, side by side, each a trace beside its histograms.

    Args:
        sides: the chains.
        scalars: what is shown of them, a colour each.
        labels: one per scalar.
        ylabel: the quantity and its unit.
    """
    members = list(scalars)
    with styled():
        figure = blank(9.6 if len(sides) > 1 else 6.0, 3.9)
        panels = figure.subplots(1, 2 * len(sides), sharey=True, width_ratios=[4, 1] * len(sides))
        for trace, margin, side in zip(panels[::2], panels[1::2], sides, strict=True):
            _dots(trace, side.flat[:, members])
            _titles(trace, side.title, side.remark)
            trace.set_xlabel(side.axis)
            for position in side.breaks:
                trace.axvline(position - 0.5, color=LINE, linewidth=0.8, zorder=0)
            _margin(margin, side, members)
        panels[0].set_ylabel(plain(ylabel))
        panels[0].set_ylim(*limits(sides, members))
        component_legend(figure, labels)
    return figure


def chains_figure(
    left: np.ndarray,
    right: np.ndarray,
    labels: Sequence[str],
    titles: Titles,
    ylabel: str,
    shown: int = 120,
) -> Figure:
    """Return two chains on one scale, each the trace of its first steps beside histograms of all.

    Args:
        left: (draw, component).
        right: (draw, component).
        labels: one per component.
        titles: what each chain is, and what to see in it.
        ylabel: the quantity and its unit.
        shown: draws in the traces.
    """
    sides = [
        Side("", *title, f"step (first {min(shown, len(draws))})", draws[None, :shown], draws)
        for title, draws in zip(titles, (left, right), strict=True)
    ]
    return traces_figure(sides, range(left.shape[1]), labels, ylabel)


def relabelled_figure(before: np.ndarray, after: np.ndarray, name: str) -> Figure:
    """One parameter of every component before and after relabelling, chains end to end.

    Args:
        before: (chain, draw, component, ...); of vectors the first entry is shown.
        after: the same draws, permuted.
        name: the parameter.
    """
    chains, draws, count = before.shape[:3]
    titles = (("Before", "labels as they came"), ("After", "every draw under one labelling"))
    sides = [
        Side.thinned("", *title, values.reshape(chains, draws, count, -1)[..., 0], _SHOWN)
        for title, values in zip(titles, (before, after), strict=True)
    ]
    labels = [f"{name}[{k}]" for k in range(count)]
    return traces_figure(sides, range(count), labels, name)


def _dots(panel: Axes, values: np.ndarray) -> None:
    """Every component in its colour, as one picture: thousands of SVG dots make a page heavy."""
    draws, count = values.shape
    panel.scatter(
        np.repeat(np.arange(draws), count),
        values.ravel(),
        s=6.8 if draws < 200 else 3.2,
        c=[PALETTE[k % len(PALETTE)] for k in range(count)] * draws,
        alpha=0.8,
        linewidths=0,
        rasterized=True,
    )
    panel.set_xlim(-0.01 * draws, 1.01 * draws)


def _margin(panel: Axes, side: Side, members: Sequence[int]) -> None:
    """Histograms along the vertical axis: unlike kernels they do not smear separate modes."""
    for k, scalar in enumerate(members):
        colour = PALETTE[k % len(PALETTE)]
        histogram(panel, *side.histograms.bars(scalar), colour, "horizontal")
    panel.set_xlim(left=0)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(left=False)
    panel.set_xlabel(f"{len(side.whole):,} draws")


def _titles(panel: Axes, title: str, remark: str) -> None:
    """A title in bold with a remark beneath it."""
    panel.set_title(title, pad=21)
    panel.annotate(
        remark, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=QUIET
    )
