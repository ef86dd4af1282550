"""Chains as they are pictured, before and after folding: thinned traces beside histograms."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.text import ROUNDING
from folt.report.style import (
    LINE,
    PALETTE,
    QUIET,
    blank,
    dot_legend,
    histogram,
    literal,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        same = high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high))
        room = np.where(same, 1e-3 * (1.0 + np.abs(low)), 0.0)
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
        panels[0].set_ylabel(literal(ylabel))
        panels[0].set_ylim(*limits(sides, members))
        dot_legend(figure, labels)
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
