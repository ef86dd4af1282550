"""Marginal densities with means and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.style import PALETTE, QUIET, TRUE_VALUE, blank, plain, styled
from folt.store.private import imported_arviz
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COARSER = 4
"""One in so many points of a density is drawn: 128 are smooth, and a page may hold many curves."""

TICK: Document = {"marker": "|", "markersize": 9, "markeredgewidth": 2.2}
"""Where the mean is."""

PANELS = 12
"""Marginals in one figure; the table has every parameter."""


def marginals_figure(
    posterior: Mapping[str, np.ndarray],
    truth: Mapping[str, float] | None = None,
    colours: Sequence[str] | None = None,
    key: bool = True,
) -> Figure:
    """Marginal densities, one panel per parameter and one curve per component.

    The bar beneath a curve is the 95 % interval, its tick the mean; a diamond is a true value.

    Args:
        posterior: `{name: (chain, draw, ...)}`.
        truth: true values by name of scalar parameters, where they are known.
        colours: one per parameter; by default a colour means a component.
        key: say what bar and tick are.
    """
    shown = dict(list(posterior.items())[:PANELS])
    columns = min(2 if len(shown) <= 4 else 3, len(shown))
    rows = math.ceil(len(shown) / columns)
    with styled():
        figure = blank(8.6 if columns > 1 else 4.2, 0.5 + 2.2 * rows if key else 2.3 * rows)
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for j, (panel, (name, values)) in enumerate(zip(panels, shown.items(), strict=False)):
            components = values.reshape(-1, math.prod(values.shape[2:]))[:, : len(PALETTE)]
            known = None if truth is None else truth.get(name)
            _densities(panel, components, known, (colours[j],) if colours else PALETTE)
            panel.set_title(plain(name))
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        if key:
            _key(figure, truth is not None)
    return figure


def _densities(
    panel: Axes, components: np.ndarray, known: float | None, colours: Sequence[str]
) -> None:
    curves = [_density(values) for values in components.T]
    top = max(density.max() for _, density in curves)
    step = 0.09 * top
    for k, (values, (grid, density)) in enumerate(zip(components.T, curves, strict=True)):
        colour, height = colours[k % len(colours)], -step * (k + 1)
        low, high = np.quantile(values, [0.025, 0.975])
        inside = (grid >= low) & (grid <= high)
        panel.plot(grid, density, color=colour)
        panel.fill_between(grid, 0.0, density, where=inside, color=colour, alpha=0.2, linewidth=0)
        panel.plot([low, high], [height] * 2, color=colour, linewidth=2.6, solid_capstyle="butt")
        panel.plot(values.mean(), height, color=colour, **TICK)
        if known is not None:
            panel.plot(known, height, "D", **TRUE_VALUE)
    panel.axhline(0.0, color=QUIET, linewidth=0.7)
    panel.set_ylim(-step * (components.shape[1] + 1), 1.08 * top)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.locator_params(axis="x", nbins=6)


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A kernel density; a narrow spike for draws that never moved."""
    values = values[np.isfinite(values)]
    if values.size == 0 or np.ptp(values) == 0:
        centre = float(values[0]) if values.size else 0.0
        width = 1e-3 * (1.0 + abs(centre))
        return centre + width * np.array([-1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])
    grid, density = imported_arviz().kde(values)
    return grid[::COARSER], density[::COARSER]


def _key(figure: Figure, with_truth: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=QUIET, linewidth=2.6, label="95 % interval"),
        Line2D([], [], color=QUIET, linestyle="", label="posterior mean", **TICK),
    ]
    if with_truth:
        handles.append(Line2D([], [], linestyle="", marker="D", label="true value", **TRUE_VALUE))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
