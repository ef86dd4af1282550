"""A structure under broadband load: records to try things on, with known modes.

Mode j obeys q̈ + 2ξω·q̇ + ω²·q = load, sensors see the accelerations Σ_j φ_cj·q̈_j plus noise of
their own. The load is white and constant between samples, for which the discrete-time response
(zero-order hold) is exact; the first decay times are thrown away.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import scipy.signal
from jaxtyping import Float

from folt.modal.spectrum import Record, record_of
from folt.types import Key, host_generator

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
