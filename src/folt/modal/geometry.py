"""Where sensors are and which way they look: shapes drawn as the structure would deflect.

A structure under broadband load: records to try things on, with known modes.

Mode j obeys q̈ + 2ξω·q̇ + ω²·q = load, sensors see the accelerations Σ_j φ_cj·q̈_j plus noise of
their own. The load is white and constant between samples, for which the discrete-time response
(zero-order hold) is exact; the first decay times are thrown away.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.signal
from jaxtyping import Float

from folt.modal.shapes import INTERVAL
from folt.modal.spectrum import Record, record_of
from folt.report.style import LINE, PALETTE, QUIET, blank, styled
from folt.store.files import require_readable
from folt.types import Key, host_generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DECAYS = 10.0
"""Decay times 1/(ξω) of the slowest mode before recording begins."""


@dataclasses.dataclass(frozen=True)
class Structure:
    """Modes of a structure as sensors see them.

    Attributes:
        frequency: natural frequencies in Hz.
        damping: damping ratios.
        power: mean square, summed over channels, of the acceleration of each mode at resonance.
        shapes: one column per mode, scaled to unit length; `tower_shapes` if None.
        noise: one-sided density per hertz of the noise of one channel.
        channels: number of channels, where no shapes are given.
    """

    frequency: Sequence[float] = (0.80, 0.84, 0.87)
    damping: Sequence[float] = (0.010, 0.015, 0.020)
    power: Sequence[float] = (1.0, 0.5, 0.7)
    shapes: Float[np.ndarray, "channel mode"] | None = None
    noise: float = 0.002
    channels: int = 15

    def __post_init__(self) -> None:
        if not len(self.frequency) == len(self.damping) == len(self.power):
            raise ValueError(
                "expected as many frequencies as damping ratios and powers, got "
                f"{len(self.frequency)}, {len(self.damping)} and {len(self.power)}"
            )
        if self.shapes is not None and self.shapes.shape[1] != len(self.frequency):
            raise ValueError(
                f"expected one column of shapes per mode, got shape {self.shapes.shape}"
            )

    def unit_shapes(self) -> Float[np.ndarray, "channel mode"]:
        """Return the shapes, each of unit length."""
        shapes = self.shapes
        if shapes is None:
            shapes = tower_shapes(self.channels, len(self.frequency))
        return shapes / np.linalg.norm(shapes, axis=0)


def tower_shapes(channels: int, modes: int) -> Float[np.ndarray, "channel mode"]:
    """Shapes of a tower with three sensors per level: sway two ways, twist, then higher ones.

    Sway moves two of the sensors of a level and twist the third; nothing is quite aligned, so
    every mode is seen a little everywhere.
    """
    levels = -(-channels // 3)
    height = np.repeat((np.arange(levels) + 1) / levels, 3)[:channels]
    axis = np.tile(np.arange(3), levels)[:channels]
    shapes = np.empty((channels, modes))
    for j in range(modes):
        profile = np.sin((2 * (j // 3) + 1) * math.pi / 2 * height)
        shapes[:, j] = profile * np.where(axis == j % 3, 1.0, 0.15 * np.cos(axis + 2.0 * j))
    return shapes


def simulate_record(
    key: Key, structure: Structure | None = None, *, rate: float = 32.0, minutes: float = 30.0
) -> Record:
    """Accelerations of a structure under white load, with sensor noise.

    Args:
        key: randomness of load and noise.
        structure: its modes; three closely spaced ones and 15 channels if None.
        rate: samples per second.
        minutes: length of the record.
    """
    structure = Structure() if structure is None else structure
    count = round(60 * minutes * rate)
    slowest = max(
        1 / (2 * math.pi * f * xi)
        for f, xi in zip(structure.frequency, structure.damping, strict=True)
    )
    before = math.ceil(DECAYS * slowest * rate)
    generator = host_generator(key)
    shapes = structure.unit_shapes()
    values = np.zeros((count, shapes.shape[0]))
    for j, (f, xi, power) in enumerate(
        zip(structure.frequency, structure.damping, structure.power, strict=True)
    ):
        load = generator.normal(size=before + count) * math.sqrt(
            load_density(f, xi, power) * rate / 2
        )
        response = scipy.signal.lfilter(*discrete_mode(f, xi, rate), load)[before:]
        values += response[:, None] * shapes[:, j]
    values += generator.normal(size=values.shape) * math.sqrt(structure.noise * rate / 2)
    return record_of(values, rate)


def load_density(frequency: float, damping: float, power: float) -> float:
    """One-sided density of the load under which a mode has this power.

    The acceleration has the density load·f⁴/((f² - f_j²)² + (2ξf_jf)²), the model p·L_j(f) with
    a = 4; they agree for load = 4ξp/(π·f_j).
    """
    return 4 * damping * power / (math.pi * frequency)


def discrete_mode(
    frequency: float, damping: float, rate: float
) -> tuple[Float[np.ndarray, " three"], Float[np.ndarray, " three"]]:
    """The filter from load to acceleration of one mode, exact for loads constant in between."""
    omega = 2 * math.pi * frequency
    matrices = (
        np.array([[0.0, 1.0], [-(omega**2), -2 * damping * omega]]),
        np.array([[0.0], [1.0]]),
        np.array([[-(omega**2), -2 * damping * omega]]),
        np.array([[1.0]]),
    )
    *discrete, _ = scipy.signal.cont2discrete(matrices, 1 / rate, method="zoh")
    numerator, denominator = scipy.signal.ss2tf(*discrete)
    return numerator[0], denominator


_COLUMNS = (("channel", "x"), ("channel", "x", "y", "dx", "dy"))
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
    if tuple(heading) not in _COLUMNS:
        expected = " or ".join(",".join(columns) for columns in _COLUMNS)
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
    """Return one panel per mode: the deflected line with its 95 % band, or arrows in the plan.

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
