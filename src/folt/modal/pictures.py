"""Figures of an identification: spectrum, frequency against damping, chains, modes over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from folt.fit import Fit, in_user_parameters
from folt.modal.geometry import Geometry, deflection_figure
from folt.modal.identification import Identification
from folt.modal.shape_pictures import Curves, curves, shape_pictures
from folt.modal.shapes import shape_draws
from folt.modal.spectrum import Measured
from folt.modal.table import PERCENT, flat
from folt.report.captions import Labelling, left_remark, right_remark
from folt.report.style import INK, PALETTE, QUIET, blank, histogram, styled
from folt.report.traces import chains_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = 1_500
"""Draws per mode in a scatter."""


def pictures(found: Identification, geometry: Geometry | None = None) -> dict[str, Figure]:
    """The figures of one identification, by the name of their file; deflections with a geometry."""
    fit, measured = found.fit, found.measured
    unit = float(np.mean(measured.psd))
    if found.model == "shapes" and measured.ordinates is not None:
        unit = float(measured.ordinates.scale) ** 2
    drawn = curves(fit, unit, window=measured.window)
    shapes = shape_pictures(fit, measured.names, measured.unit) if found.model == "shapes" else {}
    if shapes and geometry is not None:
        middle = np.median(flat(fit, "frequency"), axis=0)
        shapes["deflections"] = deflection_figure(shape_draws(fit), middle, geometry)
    return {
        "modes": modes_figure(flat(fit, "frequency"), PERCENT * flat(fit, "damping")),
        **shapes,
        "spectrum": spectrum_figure(measured, drawn, flat(fit, "frequency")),
        "chains": _chains_figure(fit),
    }


def spectrum_figure(measured: Measured, drawn: Curves, frequency: np.ndarray) -> Figure:
    """The measured spectrum under its posterior: band, modes and where their frequencies lie.

    Args:
        measured: the data.
        drawn: spectra of posterior draws.
        frequency: (draw, mode) in Hz.
    """
    low, median, high = np.quantile(drawn.total, [0.025, 0.5, 0.975], axis=0)
    with styled():
        figure = blank(7.4, 4.4)
        panel = figure.subplots()
        panel.fill_between(
            drawn.grid, low, high, color=INK, alpha=0.22, linewidth=0, label="95 % credible band"
        )
        panel.plot(drawn.grid, median, color=INK, linewidth=1.3, label="posterior median")
        for j in range(frequency.shape[1]):
            _mode(panel, j, drawn, frequency[:, j])
        floor = float(np.median(drawn.floor))
        line = panel.axhline(floor, color=QUIET, linewidth=1.1, linestyle=":", label="floor")
        panel.plot(
            measured.frequency,
            measured.psd,
            "o",
            markersize=3.4,
            markerfacecolor="white",
            markeredgecolor=INK,
            markeredgewidth=0.8,
            label=f"measured, {measured.frequency.size} ordinates",
            zorder=5,
        )
        panel.set_yscale("log")
        positive = measured.psd[measured.psd > 0]
        panel.set_ylim(max(0.1 * positive.min(), min(0.35 * positive.min(), 0.6 * floor)), None)
        panel.set_ylim(top=max(1.4 * min(high.max(), 30 * positive.max()), 2 * positive.max()))
        bottom, top = panel.get_ylim()
        if not bottom <= floor <= top:
            line.remove()  # the legend names what is seen
        panel.set_xlim(drawn.grid[0], drawn.grid[-1])
        panel.set_xlabel("frequency, Hz")
        unit = f", ({measured.unit})²/Hz" if measured.unit else ""
        panel.set_ylabel(f"power spectral density{unit}")
        _legend(figure, panel)
    return figure


def _mode(panel: Axes, j: int, drawn: Curves, frequency: np.ndarray) -> None:
    """One mode: its part of the spectrum, its frequency and the interval of that."""
    colour = PALETTE[j % len(PALETTE)]
    low, median, high = np.quantile(frequency, [0.025, 0.5, 0.975])
    panel.axvspan(low, high, color=colour, alpha=0.13, linewidth=0, zorder=0)
    panel.axvline(median, color=colour, linewidth=1.0, zorder=1)
    part = np.median(drawn.modes[:, j], axis=0)
    panel.plot(drawn.grid, part, color=colour, linewidth=1.4, linestyle=(0, (4, 1.5)))
    panel.annotate(
        f"{median:.3f} Hz",
        (median, 1.0),
        (0, 4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=colour,
        rotation=45,
        fontsize=8,
        ha="left",
        va="bottom",
    )


def _legend(figure: Figure, panel: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles, labels = panel.get_legend_handles_labels()
    handles.append(Line2D([], [], color=QUIET, linewidth=1.4, linestyle=(0, (4, 1.5))))
    labels.append("each mode alone")
    handles.append(Patch(color=QUIET, alpha=0.25, linewidth=0))
    labels.append("natural frequency, 95 %")
    figure.legend(handles, labels, loc="outside lower center", ncols=3)


def modes_figure(frequency: np.ndarray, damping: np.ndarray) -> Figure:
    """Return the frequency against damping, draw by draw, with both margins.

    Args:
        frequency: (draw, mode) in Hz.
        damping: (draw, mode) in percent.
    """
    rows = np.linspace(0, len(frequency) - 1, min(_SHOWN, len(frequency))).astype(int)
    with styled():
        figure = blank(6.6, 5.2)
        grid = figure.add_gridspec(2, 2, width_ratios=[4, 1], height_ratios=[1, 4])
        panel = figure.add_subplot(grid[1, 0])
        above = figure.add_subplot(grid[0, 0], sharex=panel)
        beside = figure.add_subplot(grid[1, 1], sharey=panel)
        f_edges, d_edges = (_edges(values) for values in (frequency, damping))
        for j in range(frequency.shape[1]):
            colour = PALETTE[j % len(PALETTE)]
            panel.plot(
                frequency[rows, j],
                damping[rows, j],
                ".",
                color=colour,
                markersize=3.0,
                alpha=0.35,
                markeredgewidth=0,
                rasterized=True,
            )
            counts, edges = np.histogram(frequency[:, j], f_edges)
            histogram(above, counts, edges, colour)
            counts, edges = np.histogram(damping[:, j], d_edges)
            histogram(beside, counts, edges, colour, "horizontal")
            _cross(panel, frequency[:, j], damping[:, j], colour, f"mode {j + 1}")
        for margin in (above, beside):
            margin.set_axis_off()
        panel.set_xlim(f_edges[0], f_edges[-1])
        panel.set_ylim(0.0, d_edges[-1])
        panel.set_xlabel("natural frequency, Hz")
        panel.set_ylabel("damping ratio, % of critical")
        figure.legend(loc="outside lower center", ncols=frequency.shape[1])
    return figure


def _cross(panel: Axes, frequency: np.ndarray, damping: np.ndarray, colour: str, name: str) -> None:
    """Medians with 95 % intervals, on a white edge that lifts them off the dots."""
    x, y = np.median(frequency), np.median(damping)
    x_low, x_high = np.quantile(frequency, [0.025, 0.975])
    y_low, y_high = np.quantile(damping, [0.025, 0.975])
    for width, shade in ((3.6, "white"), (1.6, colour)):
        panel.plot([x_low, x_high], [y, y], color=shade, linewidth=width, zorder=3)
        panel.plot([x, x], [y_low, y_high], color=shade, linewidth=width, zorder=3)
    panel.plot(
        x, y, "o", color=colour, markeredgecolor="white", markersize=6.5, zorder=4, label=name
    )


def _edges(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, [0.001, 0.999])
    room = 0.04 * (high - low)
    return np.linspace(low - room, high + room, 90)


def _chains_figure(fit: Fit) -> Figure:
    """Return natural frequencies along a chain before folding and along one of this fit."""
    if fit.problem is None:
        raise ValueError("expected a fit with its problem: folt.load(path, problem=problem)")
    raw = fit.reference.raw if fit.reference.raw is not None else fit.unfolded()
    unfolded = in_user_parameters(fit.problem, raw)["frequency"]
    folded = fit.posterior["frequency"]
    count = folded.shape[-1]
    return chains_figure(
        unfolded.reshape(-1, count),
        folded[:, : max(raw.size // raw.shape[-1], 1000)].reshape(-1, count),
        [f"label {j + 1}" for j in range(count)],
        (
            ("Not folded: a reference chain", left_remark(Labelling.of(fit))),
            ("Folded: the draws of this fit", right_remark(fit)),
        ),
        "natural frequency, Hz",
    )
