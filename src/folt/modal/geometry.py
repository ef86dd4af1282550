"""Where sensors are and which way they look: shapes drawn as the structure would deflect."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from folt.modal.shapes import INTERVAL
from folt.report.figures import LINE, PALETTE, QUIET, blank, styled
from folt.store.files import require_readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (("channel", "x"), ("channel", "x", "y", "dx", "dy"))
"""Columns of the file: positions along a line, or positions in a plan with directions."""

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


def read_geometry(path: str | Path, names: tuple[str, ...]) -> Geometry:
    """Read positions of channels: columns `channel,x`, or `channel,x,y,dx,dy` for a plan.

    Args:
        path: a CSV file.
        names: of the channels whose positions are needed, in their order.

    Raises:
        ValueError: the file cannot be used, or lacks a channel, in one sentence.
    """
    require_readable(Path(path))
    with Path(path).open(encoding="utf-8-sig", newline="") as stream:
        heading, *lines = [row for row in csv.reader(stream) if row] or [[]]
    if tuple(heading) not in COLUMNS:
        expected = " or ".join(",".join(columns) for columns in COLUMNS)
        raise ValueError(f"{path}: expected the columns {expected}, got {','.join(heading)}")
    channels = [line[0] for line in lines]
    for name in names:
        if channels.count(name) != 1:
            raise ValueError(
                f"{path}: expected one row for channel {name}, got {channels.count(name)}"
            )
    try:
        rows = np.array([lines[channels.index(name)][1:] for name in names], float)
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
    """One panel per mode: the deflected line with its 95 % band, or arrows in the plan.

    Args:
        shapes: of unit length, signed alike.
        frequency: of every mode, in Hz.
        geometry: where the channels are.
    """
    middle = shapes.mean(axis=0)
    low, high = np.quantile(shapes, INTERVAL, axis=0)
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
                _line(panel, geometry.at[:, 0], middle[j], low[j], high[j], colour)
            else:
                _plan(panel, geometry, middle[j], low[j], high[j], colour)
        panels[0].set_ylabel("position" if geometry.direction is None else "y")
    return figure


def _line(
    panel: Axes,
    at: np.ndarray,
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
) -> None:
    """Positions upwards, the shape sideways."""
    order = np.argsort(at)
    panel.axvline(0.0, color=QUIET, linewidth=0.8)
    panel.fill_betweenx(at[order], low[order], high[order], color=colour, alpha=0.25, lw=0)
    panel.plot(middle[order], at[order], "o-", color=colour, markersize=4)
    panel.set_xlabel("shape")


def _plan(
    panel: Axes,
    geometry: Geometry,
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
) -> None:
    """Arrows from every sensor to the middle of its interval, which lies along the arrow."""
    assert geometry.direction is not None
    size = max(float(np.ptp(geometry.at, axis=0).max()), 1e-9)
    unit = DEFLECTED * size / max(float(np.abs([low, high]).max()), 1e-9) * geometry.direction
    tips, first, last = (geometry.at + unit * one[:, None] for one in (middle, low, high))
    panel.plot(*geometry.at.T, "o", color=QUIET, markersize=4)
    for start, tip in zip(geometry.at, tips, strict=True):
        arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
        panel.annotate("", xy=tuple(tip), xytext=tuple(start), arrowprops=arrow)
    for begin, end in zip(first, last, strict=True):
        panel.plot(*np.stack([begin, end]).T, color=colour, lw=5, alpha=0.3, solid_capstyle="butt")
    panel.set_aspect("equal")
    panel.margins(0.2)
    panel.set_xlabel("x")
