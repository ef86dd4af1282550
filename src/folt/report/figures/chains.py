"""Chains before and after folding or relabelling, a trace and its margins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import (
    LINE,
    PALETTE,
    QUIET,
    blank,
    component_legend,
    limits,
    plain,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SHOWN = 400
"""Draws in a trace; more would only darken the dots."""

STEPS = "draw, chains end to end, thinned"

Titles = Sequence[tuple[str, str]]
"""What each chain is, and what to see in it."""


def chains_figure(
    left: np.ndarray,
    right: np.ndarray,
    labels: Sequence[str],
    titles: Titles,
    ylabel: str,
    shown: int = 120,
    steps: str | None = None,
) -> Figure:
    """Two chains on one scale, each a trace beside the marginal histograms.

    Args:
        left: (draw, component), all of them in the margin, the first few in the trace.
        right: (draw, component), likewise.
        labels: one per component.
        titles: what each chain is, and what to see in it.
        ylabel: the quantity and its unit.
        shown: draws in the traces.
        steps: what the horizontal axis counts.
    """
    first = f"step (first {min(shown, len(left))})"
    traces = [values[:shown] for values in (left, right)]
    return _side_by_side(traces, [left, right], labels, titles, ylabel, steps or first)


def traces_figure(
    traces: Sequence[np.ndarray],
    margins: Sequence[np.ndarray],
    labels: Sequence[str],
    titles: Titles,
    ylabel: str,
) -> Figure:
    """Chains end to end, as they came and folded, each a trace beside its histograms.

    Args:
        traces: per side (chain, draw, component), thinned.
        margins: per side (draw, component), all of them.
        labels: one per component.
        titles: per side what it is, and what to see in it.
        ylabel: the quantity.
    """
    flat = [values.reshape(-1, values.shape[-1]) for values in traces]
    lengths = [values.shape[1] for values in traces]
    return _side_by_side(flat, margins, labels, titles, ylabel, STEPS, lengths)


def _side_by_side(
    traces: Sequence[np.ndarray],
    margins: Sequence[np.ndarray],
    labels: Sequence[str],
    titles: Titles,
    ylabel: str,
    steps: str,
    lengths: Sequence[int] | None = None,
) -> Figure:
    low, high = limits(np.concatenate([*traces, *margins]))
    with styled():
        figure = blank(9.6 if len(traces) > 1 else 6.0, 3.9)
        panels = figure.subplots(1, 2 * len(traces), sharey=True, width_ratios=[4, 1] * len(traces))
        for side, (values, whole, title) in enumerate(zip(traces, margins, titles, strict=True)):
            trace, margin = panels[2 * side], panels[2 * side + 1]
            _dots(trace, values, 5.2 if len(values) < 200 else 3.6)
            _titles(trace, *title)
            trace.set_xlabel(steps)
            for boundary in range(lengths[side], len(values), lengths[side]) if lengths else ():
                trace.axvline(boundary - 0.5, color=LINE, linewidth=0.8, zorder=0)
            _margin(margin, whole, np.linspace(low, high, 130))
            margin.set_xlabel(f"{len(whole):,} draws" if lengths else f"{len(whole):,} steps")
        panels[0].set_ylabel(plain(ylabel))
        panels[0].set_ylim(low, high)
        component_legend(figure, labels)
    return figure


def relabelled_figure(before: np.ndarray, after: np.ndarray, name: str) -> Figure:
    """One parameter of every component before and after relabelling, chains end to end.

    Args:
        before: (chain, draw, component, ...); of vectors the first entry is shown.
        after: the same draws, permuted.
        name: the parameter.
    """
    sides = []
    for draws in (before, after):
        flat = draws.reshape(-1, draws.shape[2], math.prod(draws.shape[3:]))[..., 0]
        sides.append(flat[:: max(len(flat) // (3 * SHOWN), 1)])
    titles = (("Before", "labels as they came"), ("After", "every colour keeps its meaning"))
    labels = [f"{name}[{k}]" for k in range(before.shape[2])]
    left, right = sides
    return chains_figure(left, right, labels, titles, name, shown=len(left), steps=STEPS)


def _dots(panel: Axes, values: np.ndarray, size: float = 3.6) -> None:
    """Every component in its colour, as one picture: thousands of SVG dots make a page heavy."""
    draws, count = values.shape
    panel.scatter(
        np.repeat(np.arange(draws), count),
        values.ravel(),
        s=(0.5 * size) ** 2,
        c=[PALETTE[k % len(PALETTE)] for k in range(count)] * draws,
        alpha=0.8,
        linewidths=0,
        rasterized=True,
    )
    panel.set_xlim(-0.01 * len(values), 1.01 * len(values))


def _margin(panel: Axes, values: np.ndarray, edges: np.ndarray) -> None:
    """Histograms along the vertical axis: unlike kernels they do not smear separate modes."""
    for k in range(values.shape[1]):
        colour = PALETTE[k % len(PALETTE)]
        heights, _ = np.histogram(values[:, k], edges)
        panel.stairs(heights, edges, orientation="horizontal", color=colour, alpha=0.3, fill=True)
        panel.stairs(heights, edges, orientation="horizontal", color=colour, linewidth=1.1)
    panel.set_xlim(left=0)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(left=False)


def _titles(panel: Axes, title: str, remark: str) -> None:
    """A title in bold with a remark beneath it."""
    panel.set_title(title, pad=21)
    panel.annotate(
        remark, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=QUIET
    )
