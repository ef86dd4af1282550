"""Pairs of parameters: folded draws below the diagonal, the same pairs unfolded above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import PALETTE, QUIET, blank, limits, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDED, RAW = PALETTE[0], QUIET


def pairs_figure(folded: np.ndarray, raw: np.ndarray | None, labels: Sequence[str]) -> Figure:
    """Every pair twice, below the diagonal as folded and above it as it came.

    Args:
        folded: (draw, parameter), a few hundred of each.
        raw: (draw, parameter) before folding; the upper half stays empty without it.
        labels: one per parameter.
    """
    count = len(labels)
    everything = folded if raw is None else np.concatenate([folded, raw])
    ranges = [limits(column) for column in everything.T]
    with styled():
        figure = blank(2.05 * count + 0.6, 1.75 * count + 0.6)
        panels = figure.subplots(count, count, squeeze=False)
        for row in range(count):
            for column in range(count):
                panel = panels[row, column]
                panel.set_xlim(*ranges[column])
                panel.locator_params(nbins=4)
                if row == column:
                    _margins(panel, folded[:, row], None if raw is None else raw[:, row])
                elif row > column:
                    _cloud(panel, folded[:, column], folded[:, row], FOLDED)
                    panel.set_ylim(*ranges[row])
                elif raw is not None:
                    _cloud(panel, raw[:, column], raw[:, row], RAW)
                    panel.set_ylim(*ranges[row])
                else:
                    panel.set_axis_off()
                _ticks(panel, row, column, count)
                if row == count - 1:
                    panel.set_xlabel(plain(labels[column]))
                if column == 0:
                    panel.set_ylabel(plain(labels[row]))
        _key(figure, raw is not None)
    return figure


def _cloud(panel: Axes, x: np.ndarray, y: np.ndarray, colour: str) -> None:
    panel.plot(
        x, y, ".", color=colour, markersize=3.2, alpha=0.5, markeredgewidth=0, rasterized=True
    )


def _margins(panel: Axes, folded: np.ndarray, raw: np.ndarray | None) -> None:
    edges = np.linspace(*panel.get_xlim(), 50)
    for values, colour in ((raw, RAW), (folded, FOLDED)):
        if values is not None:
            heights, _ = np.histogram(values, edges)
            panel.stairs(heights / max(heights.max(), 1), edges, color=colour, fill=True, alpha=0.3)
            panel.stairs(heights / max(heights.max(), 1), edges, color=colour, linewidth=1.0)
    panel.set_ylim(0.0, 1.08)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)


def _ticks(panel: Axes, row: int, column: int, count: int) -> None:
    """Numbers at the left and at the bottom only."""
    panel.tick_params(labelbottom=row == count - 1, labelleft=column == 0 and row > 0)


def _key(figure: Figure, both: bool) -> None:
    from matplotlib.lines import Line2D

    names = [("folded", FOLDED)] + ([("as it came, not folded", RAW)] if both else [])
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=colour, label=name)
        for name, colour in names
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
