"""Figures of the tables, from their rows alone, in the look of the report's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.paper.rows import by_method, figure_of
from folt.paper.tables import PRIMARY_RHO, TableRow, gammas, like_with_like, median
from folt.report.style import INK, LINE, PALETTE, QUIET, blank, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDED, UNFOLDED = PALETTE[0], PALETTE[1]
SHIFT = 0.07
"""How far folded and unfolded dots of one case stand apart."""

_LOWEST = 1e-3
"""Smallest γ in a picture; what is smaller is an arrow head on the axis."""


HOLLOW: Document = {
    "marker": "D",
    "markerfacecolor": "white",
    "markersize": 5.5,
    "linewidth": 0.9,
    "linestyle": (0, (2, 2)),
}
"""How figures that the paper prints are drawn: hollow diamonds on a dashed line."""


def gamma_figure(document: Document, labels: Mapping[str, str], xlabel: str) -> Figure:
    """γ folded and unfolded against the case, with the ratio and the printed figures.

    Args:
        document: rows of a table of pairs.
        labels: cases in order, with what stands beneath them.
        xlabel: what the cases are.
    """
    groups = by_method(document["rows"])
    cases = [case for case in labels if (case, "folded") in groups]
    series = {
        method: [[like_with_like(row) for row in groups.get((case, method), [])] for case in cases]
        for method in ("folded", "unfolded")
    }
    with styled():
        figure = blank(6.6, 4.2)
        panel = figure.subplots()
        for (method, rows), colour, shift in zip(
            series.items(), (FOLDED, UNFOLDED), (-SHIFT, SHIFT), strict=True
        ):
            printed = [_printed(groups.get((case, method))) for case in cases]
            _printed_series(panel, shift, printed, colour)
            _series(panel, shift, rows, colour)
        for place, sides in enumerate(zip(*series.values(), strict=True)):
            _ratio_mark(panel, place, *(median(gammas(rows, "proposal")) for rows in sides))
        panel.set_yscale("log")
        panel.set_ylim(_LOWEST, 2.4)
        panel.set_yticks([0.001, 0.01, 0.1, 1.0], ["0.001", "0.01", "0.1", "1"])
        panel.tick_params(axis="y", which="minor", length=0)
        panel.set_xlim(-0.5, len(cases) - 0.5)
        panel.set_xticks(range(len(cases)), [labels[case] for case in cases])
        panel.grid(axis="y", color=LINE, linewidth=0.6)
        panel.set_axisbelow(True)
        panel.set_xlabel(xlabel)
        panel.set_ylabel("γ = 2 / (1 + exp C) at ρ = 0.05")
        titles = (f"γ and its gain by folding, {document['preset']} preset", _subtitle(document))
        remark(panel, *titles)
        _gamma_key(figure)
    return figure


def remark(panel: Axes, title: str, words: str, size: float = 8.0) -> None:
    """Write a title over a panel, and a quieter line below it."""
    panel.set_title(title, pad=21)
    coordinates: Document = {"xycoords": "axes fraction", "textcoords": "offset points"}
    panel.annotate(words, (0, 1), (0, 8), **coordinates, color=QUIET, fontsize=size)


def _subtitle(document: Document) -> str:
    words = "draws of the proposal, as in the published tables"
    truncated = document["settings"]["identity_orbit"] or any(
        "identity_orbit" in row for row in document["rows"]
    )
    words += ", orbit truncated to N = {e}" if truncated else ", summed over the whole orbit"
    return words + (" (quick run)" if document["quick"] else "")


def _series(panel: Axes, shift: float, rows: Sequence[Sequence[TableRow]], colour: str) -> None:
    """Every seed a dot, a line through the medians."""
    middles = [median(gammas(group, "proposal")) for group in rows]
    known = [(place + shift, value) for place, value in enumerate(middles) if value is not None]
    if known:
        places, values = np.array(known).T
        panel.plot(places, np.maximum(values, _LOWEST), color=colour, linewidth=1.6, zorder=3)
    for place, group in enumerate(rows):
        seen = np.maximum(gammas(group, "proposal"), _LOWEST)
        jitter = 0.03 * (np.arange(seen.size) - 0.5 * (seen.size - 1))
        places, small = place + shift + jitter, seen <= _LOWEST
        look: Document = {"color": colour, "markersize": 5.5, "zorder": 4, "clip_on": False}
        look |= {"markeredgecolor": "white", "markeredgewidth": 0.6}
        for chosen, marker in ((~small, "o"), (small, "v")):
            if chosen.any():  # the layout would make room for an empty line at the origin
                panel.plot(places[chosen], seen[chosen], marker, **look)


def _printed_series(
    panel: Axes, shift: float, printed: Sequence[float | None], colour: str
) -> None:
    """The printed figures as hollow diamonds on a dashed line."""
    known = [(place + shift, value) for place, value in enumerate(printed) if value is not None]
    if known:
        places, values = np.array(known).T
        look: Document = {**HOLLOW, "markeredgecolor": colour, "markeredgewidth": 1.1}
        values = np.maximum(values, _LOWEST)
        panel.plot(places, values, color=colour, zorder=2.5, clip_on=False, **look)


def _ratio_mark(panel: Axes, place: int, above: float | None, below: float | None) -> None:
    """How many times larger γ is when folded, above the dots."""
    if above is None or not below:
        return
    gain = above / below
    words = f"{gain:.0f}×" if 10 <= gain < 1e6 else f"{gain:.2g}×"
    panel.annotate(words, (place, 1.35), color=INK, ha="center", fontsize=9, fontweight="bold")


def _printed(rows: list[TableRow] | None) -> float | None:
    return figure_of(rows[0], "printed", "gamma", PRIMARY_RHO) if rows else None


def _gamma_key(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    def dot(colour: str, label: str) -> Line2D:
        return Line2D([], [], color=colour, marker="o", markersize=5.5, label=label)

    hollow = Line2D([], [], color=QUIET, label="printed in the paper", **HOLLOW)
    handles = [dot(FOLDED, "folded, each seed"), dot(UNFOLDED, "unfolded"), hollow]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)


def chain_panels_figure(
    document: Document,
    told: Mapping[str, tuple[str, str]],
    parameter: str,
    labels: Sequence[str],
    ylabel: str,
) -> Figure:
    """Return the first steps of a chain of every method on one scale, with marginal histograms.

    Args:
        document: rows with the trace of the parameter.
        told: title and remark of every method; {accept} and {switches} stand for its rates.
        parameter: what the traces are of.
        labels: of its components.
        ylabel: what it is, with its unit.
    """
    from matplotlib.lines import Line2D

    first = {row["method"]: row for row in reversed(document["rows"])}
    rows = [first[method] for method in told if method in first]
    traces = [np.array(row["figure"][parameter]) for row in rows]
    low, high = np.quantile(np.concatenate(traces, axis=None), [0.001, 0.999])
    room = 0.08 * (high - low) or 1.0
    low, high = float(low - room), float(high + room)
    with styled():
        figure = blank(3.5 * len(traces) + 0.4, 3.5)
        panels = figure.subplots(1, 2 * len(traces), sharey=True, width_ratios=[5, 1] * len(traces))
        for row, trace, left, margin in zip(rows, traces, panels[::2], panels[1::2], strict=True):
            _steps(left, trace)
            _histograms(margin, trace, np.linspace(low, high, 60))
            title, words = told[row["method"]]
            switches = (row["details"] or {}).get("label_switch_rate") or 0.0
            words = words.format(accept=row["accept"], switches=switches)
            remark(left, title, words, size=7.6)
            left.set_xlabel("step")
        panels[0].set_ylabel(ylabel)
        panels[0].set_ylim(low, high)
        handles = [
            Line2D([], [], linestyle="", marker="o", markersize=5, color=PALETTE[k], label=label)
            for k, label in enumerate(labels)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _steps(panel: Axes, values: np.ndarray) -> None:
    for k in range(values.shape[1]):
        panel.plot(values[:, k], color=PALETTE[k], linewidth=0.25, alpha=0.3, zorder=1)
        panel.plot(values[:, k], ".", color=PALETTE[k], markersize=3.4, markeredgewidth=0)
    panel.set_xlim(-0.01 * len(values), 1.01 * len(values))


def _histograms(panel: Axes, values: np.ndarray, edges: np.ndarray) -> None:
    for k in range(values.shape[1]):
        heights, _ = np.histogram(values[:, k], edges)
        heights = np.where(heights > 0, heights / max(heights.max(), 1), np.nan)
        panel.stairs(
            heights, edges, orientation="horizontal", color=PALETTE[k], alpha=0.3, fill=True
        )
        panel.stairs(heights, edges, orientation="horizontal", color=PALETTE[k], linewidth=1.0)
    panel.set_xlim(0, 1.1)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.spines["left"].set_visible(False)
    panel.tick_params(left=False)
