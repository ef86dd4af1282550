"""Marginal densities with means and intervals.

Pairs of parameters: folded draws below the diagonal, the same pairs unfolded above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from folt.fit.text import ROUNDING
from folt.report.style import (
    PALETTE,
    QUIET,
    TRUE_VALUE,
    blank,
    dot_legend,
    histogram,
    literal,
    styled,
)
from folt.report.traces import Side, limits
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from folt.report.parameters import Family


CELLS = 512
"""Cells of the histogram that a density is smoothed from, as many as ArviZ has."""

COARSER = 4
"""One in so many points of a density is drawn: 128 are smooth, and a page may hold many curves."""

_TICK: Document = {"marker": "|", "markersize": 9, "markeredgewidth": 2.2}
"""Where the mean is."""

PANELS = 12
"""Marginals in one figure; the table has every parameter."""


def marginals_figure(
    posterior: Mapping[str, np.ndarray],
    truth: Mapping[str, float] | None = None,
    colours: Sequence[str | None] | None = None,
    key: bool = True,
) -> Figure:
    """Marginal densities, one panel per parameter and one curve per entry.

    What is left out is counted: panels beneath the figure, entries in the title of their panel.

    The bar beneath a curve is the 95 % interval, its tick the mean; a diamond is a true value.

    Args:
        posterior: `{name: (chain, draw, ...)}`.
        truth: true values by name of scalar parameters, where they are known.
        colours: one per parameter; where it is None, a colour means a component.
        key: say what bar and tick are.
    """
    shown = dict(list(posterior.items())[:PANELS])
    columns = min(2 if len(shown) <= 4 else 3, len(shown))
    rows = math.ceil(len(shown) / columns)
    with styled():
        # Without a key they are small pictures of a page, whose letters are those of its text.
        size = (8.6 if columns > 1 else 4.2, 0.5 + 2.2 * rows) if key else (3.3, 2.0)
        figure = blank(*size)
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for j, (panel, (name, values)) in enumerate(zip(panels, shown.items(), strict=False)):
            count = math.prod(values.shape[2:])
            entries = values.reshape(-1, count)[:, : len(PALETTE)]
            known = None if truth is None else truth.get(name)
            colour = colours[j] if colours else None
            _densities(panel, entries, known, PALETTE if colour is None else (colour,))
            cut = f": {len(PALETTE)} of {count}" if count > len(PALETTE) else ""
            panel.set_title(literal(f"{name}{cut}"))
        for panel in panels[len(shown) :]:
            panel.set_axis_off()
        if len(shown) < len(posterior):
            figure.supxlabel(
                f"the first {len(shown)} of {len(posterior)} panels", color=QUIET, fontsize=8
            )
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
        panel.plot(values.mean(), height, color=colour, **_TICK)
        if known is not None:
            panel.plot(known, height, "D", **TRUE_VALUE)
    panel.axhline(0.0, color=QUIET, linewidth=0.7)
    panel.set_ylim(-step * (components.shape[1] + 1), 1.08 * top)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.set_xlim(*_window(components, panel.get_xlim()))
    panel.locator_params(axis="x", nbins=5)


def _window(components: np.ndarray, whole: tuple[float, float]) -> tuple[float, float]:
    """Return where the panel ends: far draws of a heavy tail would leave no room for the rest.

    Twice the reach of the middle 99 % holds all draws of a normal distribution, as far as they are
    seen, and the interval of any.
    """
    low, high = np.quantile(components, [0.005, 0.995], axis=0)
    room = 0.5 * (high - low)
    start, end = float(np.min(low - room)), float(np.max(high + room))
    return (max(start, whole[0]), min(end, whole[1])) if start < end else whole


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a kernel density; a narrow spike for draws that never moved."""
    values = values[np.isfinite(values)]
    # Cells of a histogram must be wider than the distance of neighbouring numbers.
    least = ROUNDING * np.abs(values).max(initial=1e-290)
    if values.size == 0 or np.ptp(values) <= least:
        centre = float(values[0]) if values.size else 0.0
        width = 1e-3 * (1.0 + abs(centre))
        return centre + width * np.array([-1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])
    grid, density = kernel_density(values)
    return grid[::COARSER], density[::COARSER]


def kernel_density(
    values: Float[np.ndarray, " draw"],
) -> tuple[Float[np.ndarray, " cell"], Float[np.ndarray, " cell"]]:
    """Smooth draws by a normal kernel that is reflected at the smallest and the largest.

    The cosines of a histogram decay as heat does (Botev, Grotowski and Kroese 2010). Like ArviZ's
    curves these have the mean of the bandwidths of Silverman and of Sheather and Jones.

    Returns:
        Places, evenly spaced from the smallest to the largest draw, and the density there.
    """
    from scipy.fft import dct, idct

    low, span = values.min(), np.ptp(values)
    shares = (values - low) / span
    counts = np.histogram(shares, bins=CELLS, range=(0.0, 1.0))[0]
    cosines = dct(counts / values.size)
    squares = np.arange(CELLS) ** 2.0
    inner = np.quantile(shares, [0.25, 0.75])
    spread = min(shares.std(), np.ptp(inner) / 1.34) or shares.std()
    silverman = 0.9 * spread * values.size**-0.2
    width = 0.5 * (silverman + _sheather_jones(squares, cosines, values.size, silverman))
    density = idct(cosines * np.exp(-0.5 * np.pi**2 * width**2 * squares))
    middles = low + span * (np.arange(CELLS) + 0.5) / CELLS
    density = np.maximum(density, 0.0)
    return middles, density * CELLS / (span * density.sum())


def _sheather_jones(
    squares: np.ndarray, cosines: np.ndarray, count: int, otherwise: float
) -> float:
    """The bandwidth, as a share of the range, that solves its own equation; else the other one."""
    from scipy.optimize import brentq

    k, powers = np.pi**2 * squares[1:], (cosines[1:] / 2) ** 2

    def roughness(order: int, time: float) -> float:
        return float(2.0 * np.sum(k**order * powers * np.exp(-k * time)))

    def excess(time: float) -> float:
        found = roughness(7, time)
        for s in range(6, 1, -1):
            factor = (
                (1 + 0.5 ** (s + 0.5)) / 3 * math.prod(range(1, 2 * s, 2)) / math.sqrt(2 * np.pi)
            )
            found = roughness(s, (2 * factor / (count * found)) ** (2 / (3 + 2 * s)))
        return time - (2 * count * math.sqrt(np.pi) * found) ** -0.4

    try:
        return math.sqrt(brentq(excess, 0.0, 0.1))
    except (ValueError, OverflowError, ZeroDivisionError):  # no root: few draws, or few places
        return otherwise


def _key(figure: Figure, with_truth: bool) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=QUIET, linewidth=2.6, label="95 % interval"),
        Line2D([], [], color=QUIET, linestyle="", label="posterior mean", **_TICK),
    ]
    if with_truth:
        handles.append(Line2D([], [], linestyle="", marker="D", label="true value", **TRUE_VALUE))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def family_colours(families: Sequence[Family]) -> list[str | None]:
    """Return the colours of panels: by component where relabelling exchanges, one else."""
    return [None if family.components else PALETTE[0] for family in families]


def pairs_figure(sides: Sequence[Side], scalars: Sequence[int], labels: Sequence[str]) -> Figure:
    """Return every pair twice, below the diagonal as folded and above it as it came.

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
                panel.set_xlabel(literal(labels[column]))
            if column == 0:
                panel.set_ylabel(literal(labels[row]))
        shown = sides[::-1]
        dot_legend(figure, [s.title for s in shown], [_colour(s, sides) for s in shown])
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
