"""Where sensors are and which way they look: shapes drawn as the structure would deflect."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from folt.modal.shapes import INTERVAL
from folt.report.style import LINE, PALETTE, QUIET, blank, styled
from folt.store.columns import without_unit
from folt.store.tables import text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = (("channel", "x"), ("channel", "x", "y", "dx", "dy"))
"""Columns of the file: positions along a line, or positions in a plan with directions."""

_Entries = Float[np.ndarray, "3 channel"]
"""Mean, lower and upper end of every entry of one shape."""

DEFLECTED = 0.25
"""Length of the longest arrow of a plan, as a share of the plan's size."""


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Sensors along a line, or in a plan.

    Attributes:
        at: position of every channel, one coordinate along a line and two in a plan.
        direction: in which every channel measures, of unit length; None along a line.
    """

    at: Float[np.ndarray, "channel axes"]
    direction: Float[np.ndarray, "channel 2"] | None


def read_geometry(path: str | Path, names: Sequence[str]) -> Geometry:
    """Read positions of channels: columns `channel,x`, or `channel,x,y,dx,dy` for a plan.

    Args:
        path: a CSV file; its channels may be named without their units.
        names: of the channels whose positions are needed, in their order.

    Raises:
        ValueError: the file cannot be used, or lacks a channel, in one sentence.
    """
    text = text_of(Path(path)).text
    delimiter = next((sign for sign in ";\t" if sign in text), ",")
    table = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    heading, *lines = [row for row in table if row] or [[]]
    if tuple(heading) not in _COLUMNS:
        expected = " or ".join(",".join(columns) for columns in _COLUMNS)
        raise ValueError(f"{path}: expected the columns {expected}, got {','.join(heading)}")
    channels = [line[0] for line in lines]
    if not set(names) <= set(channels):  # the file may leave out units
        channels, names = ([without_unit(name) for name in some] for some in (channels, names))
    for name in names:
        if channels.count(name) != 1:
            raise ValueError(
                f"{path}: expected one row for channel {name}, got {channels.count(name)}"
            )
    found = [lines[channels.index(name)][1:] for name in names]
    try:
        rows = np.array([[word.replace(",", ".") for word in row] for row in found], float)
    except ValueError as error:
        raise ValueError(f"{path}: expected numbers behind every channel: {error}") from error
    if rows.shape[1] != len(heading) - 1 or not np.all(np.isfinite(rows)):
        raise ValueError(f"{path}: expected finite positions, got a missing or infinite one")
    if rows.shape[1] == 1:
        return Geometry(rows, None)
    lengths = np.linalg.norm(rows[:, 2:], axis=1, keepdims=True)
    if np.any(lengths == 0):
        channel = names[int(lengths.ravel().argmin())]
        raise ValueError(f"{path}: expected a direction dx,dy of channel {channel}, got zero")
    return Geometry(rows[:, :2], rows[:, 2:] / lengths)


def deflection_figure(
    shapes: Float[np.ndarray, "draw mode channel"],
    frequency: Float[np.ndarray, " mode"],
    geometry: Geometry,
) -> Figure:
    """Return one panel per mode: the deflected line with its 95 % band, or arrows in the plan.

    Args:
        shapes: of unit length, signed alike.
        frequency: of every mode, in Hz.
        geometry: where the channels are.
    """
    entries = np.stack([shapes.mean(axis=0), *np.quantile(shapes, INTERVAL, axis=0)])
    count = len(frequency)
    with styled():
        figure = blank(3.0 * count + 0.6, 3.6)
        panels = figure.subplots(1, count, sharex=True, sharey=True, squeeze=False)[0]
        for j, panel in enumerate(panels):
            colour = PALETTE[j % len(PALETTE)]
            panel.set_title(f"mode {j + 1}, {frequency[j]:.4f} Hz", loc="left", color=colour)
            panel.grid(color=LINE, linewidth=0.6)
            panel.set_axisbelow(True)
            if geometry.direction is None:
                _line(panel, geometry.at[:, 0], entries[:, j], colour)
            else:
                _plan(panel, geometry, entries[:, j], colour)
        panels[0].set_ylabel("position" if geometry.direction is None else "y")
    return figure


def _line(panel: Axes, at: Float[np.ndarray, " channel"], entries: _Entries, colour: str) -> None:
    """Draw positions upwards and the shape sideways."""
    order = np.argsort(at)
    middle, low, high = entries
    panel.axvline(0.0, color=QUIET, linewidth=0.8)
    panel.fill_betweenx(at[order], low[order], high[order], color=colour, alpha=0.25, lw=0)
    panel.plot(middle[order], at[order], "o-", color=colour, markersize=4)
    panel.set_xlabel("shape")


def _plan(panel: Axes, geometry: Geometry, entries: _Entries, colour: str) -> None:
    """Draw arrows from every sensor to its mean, with the interval along the arrow."""
    assert geometry.direction is not None
    size = max(float(np.ptp(geometry.at, axis=0).max()), 1e-9)
    unit = DEFLECTED * size / max(float(np.abs(entries).max()), 1e-9) * geometry.direction
    tips, first, last = (geometry.at + unit * one[:, None] for one in entries)
    panel.plot(*geometry.at.T, "o", color=QUIET, markersize=4)
    for start, tip in zip(geometry.at, tips, strict=True):
        arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
        panel.annotate("", xy=tuple(tip), xytext=tuple(start), arrowprops=arrow)
    for begin, end in zip(first, last, strict=True):
        panel.plot(*np.stack([begin, end]).T, color=colour, lw=5, alpha=0.3, solid_capstyle="butt")
    panel.set_aspect("equal")
    panel.margins(0.2)
    panel.set_xlabel("x")
