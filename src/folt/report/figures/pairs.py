"""Pairs of parameters: folded draws below the diagonal, the same pairs unfolded above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import PALETTE, QUIET, blank, histogram, plain, styled
from folt.report.sides import Side, limits
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def pairs_figure(sides: Sequence[Side], scalars: Sequence[int], labels: Sequence[str]) -> Figure:
    """Every pair twice, below the diagonal as folded and above it as it came.

    Args:
        sides: chains as they came, if there are any, and the folded ones last.
        scalars: what is paired.
        labels: one per scalar.
    """
    count, folded = len(labels), sides[-1]
    raw = sides[0] if len(sides) > 1 else None
    ranges = [limits(sides, [scalar]) for scalar in scalars]
    with styled():
        figure = blank(2.05 * count + 0.6, 1.75 * count + 0.6)
        panels = figure.subplots(count, count, squeeze=False).tolist()
        for row, column in np.ndindex(count, count):
            panel: Axes = panels[row][column]
            side = folded if row > column else raw
            panel.set(xlim=ranges[column], ylim=ranges[row])
            panel.locator_params(nbins=4)
            if row == column:
                _margins(panel, sides, scalars[row])
            elif side is None:
                panel.set_axis_off()
            else:
                x, y = side.flat[:, scalars[column]], side.flat[:, scalars[row]]
                look: Document = {"markersize": 3.2, "markeredgewidth": 0, "rasterized": True}
                panel.plot(x, y, ".", color=_colour(side, sides), alpha=0.5, **look)
            panel.tick_params(labelbottom=row == count - 1, labelleft=column == 0 and row > 0)
            if row == count - 1:
                panel.set_xlabel(plain(labels[column]))
            if column == 0:
                panel.set_ylabel(plain(labels[row]))
        _key(figure, sides)
    return figure


def _colour(side: Side, sides: Sequence[Side]) -> str:
    return PALETTE[0] if side is sides[-1] else QUIET


def _margins(panel: Axes, sides: Sequence[Side], scalar: int) -> None:
    """The histogram of every side, each as high as the panel."""
    for side in sides:
        heights, edges = side.histograms.bars(scalar)
        histogram(panel, heights / max(heights.max(), 1e-300), edges, _colour(side, sides))
    panel.set_ylim(0.0, 1.08)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)


def _key(figure: Figure, sides: Sequence[Side]) -> None:
    from matplotlib.lines import Line2D

    look: Document = {"linestyle": "", "marker": "o", "markersize": 5}
    handles = [
        Line2D([], [], color=_colour(side, sides), label=side.title, **look)
        for side in reversed(sides)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
