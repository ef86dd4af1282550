"""Fourier ordinates of several channels within a band, scaled and checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.signal
from jaxtyping import Array, ArrayLike, Float

PERIODS = 10.0
"""Fewest periods of the middle of the band that a record must hold to say anything of damping."""

LARGEST_RATIO = 1e5
"""Ratio of two channels' root mean squares from which on they are taken to be in other units."""

COPY = 1e-9
"""Share of a channel's power in the band by which it differs from another, if it is no copy."""


class Channels(Protocol):
    """A record, such as `folt.modal.Record`: one column of samples per channel, at one rate."""

    @property
    def values(self) -> Float[np.ndarray, "sample channel"]:
        """One column per channel."""
        ...

    @property
    def rate(self) -> float:
        """Samples per second."""
        ...


class FourierOrdinates(NamedTuple):
    """The scaled Fourier transform of a record in a band, as `Problem.with_data` takes it.

    Attributes:
        frequency: in Hz, evenly spaced.
        real: real parts, divided by `scale`.
        imaginary: imaginary parts, divided by `scale`.
        scale: the unit of both; its square is a one-sided density per hertz.
    """

    frequency: Float[Array | np.ndarray, " k"]
    real: Float[Array | np.ndarray, "k n"]
    imaginary: Float[Array | np.ndarray, "k n"]
    scale: Float[Array | np.ndarray, ""]


def fourier_ordinates(
    record: Channels,
    band: tuple[float, float],
    *,
    scale: float | None = None,
    names: Sequence[str] | None = None,
) -> FourierOrdinates:
    """The Fourier transform of a whole record within a band, without taper or averages.

    The ordinates are √(2/(rate·count)) times the discrete transform of every channel, its straight
    line removed: their mean square is the one-sided spectral density per hertz.

    Args:
        record: the channels.
        band: lowest and highest frequency in Hz.
        scale: unit of the ordinates; the root of their mean square over the band if None.
        names: of the channels, for messages; their numbers from one if None.

    Raises:
        ValueError: the band does not fit the record, or a channel cannot be used.
    """
    low, high = band
    values, rate = np.asarray(record.values, float), float(record.rate)
    if values.ndim != 2 or values.shape[0] <= values.shape[1] or not np.all(np.isfinite(values)):
        raise ValueError(
            f"expected a record of finite samples, one column per channel, got {values.shape}"
        )
    if not 0 < low < high < rate / 2:
        raise ValueError(
            f"expected a band 0 < LOW < HIGH below half the sampling rate, {rate / 2:g} Hz, got "
            f"{low:g} to {high:g}"
        )
    periods = 0.5 * (low + high) * len(values) / rate
    if periods < PERIODS:
        raise ValueError(
            f"the record holds {periods:.3g} periods of the middle of the band: expected at least "
            f"{PERIODS:g}, so record for longer"
        )
    frequency = np.fft.rfftfreq(len(values), 1 / rate)
    inside = (frequency >= low) & (frequency <= high)
    unit = math.sqrt(2 / (rate * len(values)))
    transform = unit * np.fft.rfft(scipy.signal.detrend(values, axis=0), axis=0)[inside]
    return scaled_ordinates(frequency[inside], transform, scale=scale, names=names)


def scaled_ordinates(
    frequency: ArrayLike,
    transform: ArrayLike,
    *,
    scale: float | None = None,
    names: Sequence[str] | None = None,
) -> FourierOrdinates:
    """Checked ordinates from a scaled transform, as `Problem.with_data` takes them.

    Args:
        frequency: in Hz, increasing.
        transform: complex, one row per frequency and one column per channel; its mean square is
            a one-sided spectral density per hertz.
        scale: unit of the ordinates; the root of their mean square if None.
        names: of the channels, for messages; their numbers from one if None.

    Raises:
        ValueError: shapes do not fit, a number is missing, or a channel is still, a copy or in
            another unit.
    """
    at, ordinates = np.asarray(frequency, float), np.asarray(transform, complex)
    if at.ndim != 1 or ordinates.ndim != 2 or len(at) != len(ordinates) or not ordinates.size:
        raise ValueError(
            "expected one row of ordinates per frequency and one column per channel, got shapes "
            f"{at.shape} and {ordinates.shape}"
        )
    if not (np.all(np.isfinite(at)) and np.all(np.isfinite(ordinates))):
        raise ValueError("expected finite frequencies and ordinates, got a missing or infinite one")
    if at[0] <= 0 or np.any(np.diff(at) <= 0):
        raise ValueError("expected positive frequencies in increasing order")
    _require_distinct(ordinates, names or [f"{c + 1}" for c in range(ordinates.shape[1])])
    unit = math.sqrt(np.mean(np.abs(ordinates) ** 2)) if scale is None else scale
    if not 0 < unit < math.inf:
        raise ValueError(f"scale must be positive and finite, got {unit}")
    real, imaginary = (
        np.ascontiguousarray(part) / unit for part in (ordinates.real, ordinates.imag)
    )
    return FourierOrdinates(at, real, imaginary, np.asarray(unit))


def _require_distinct(ordinates: np.ndarray, names: Sequence[str]) -> None:
    """Refuse channels that are still in the band, in other units, or copies of each other."""
    rms = np.sqrt(np.mean(np.abs(ordinates) ** 2, axis=0))
    weakest, strongest = int(rms.argmin()), int(rms.argmax())
    if rms[weakest] == 0:
        raise ValueError(f"channel {names[weakest]} is constant: expected channels that vary")
    ratio = rms[strongest] / rms[weakest]
    if ratio > LARGEST_RATIO:
        raise ValueError(
            f"channel {names[strongest]} moves {ratio:.1g} times as much as "
            f"channel {names[weakest]} in the band: expected all channels in one unit"
        )
    unit = ordinates / rms
    cosines = np.abs((unit.conj().T @ unit).real) / len(unit)
    for first, second in np.argwhere(np.triu(2 - 2 * cosines < COPY, 1)):
        raise ValueError(
            f"channel {names[second]} is a copy of channel {names[first]}, or a multiple of it: "
            "expected channels with noise of their own, so leave one out"
        )


def require_enough(modes: int, channels: int, frequencies: int, others: int) -> None:
    """Refuse data that cannot say anything about so many modes."""
    if channels < 2:
        raise ValueError(
            "one channel has no shapes: expected at least two, or use modal_powers on its spectrum"
        )
    parameters, numbers = modes * (channels + 2) + others, 2 * channels * frequencies
    if numbers < 2 * parameters or frequencies < 4 * modes:
        raise ValueError(
            f"{modes} modes of {channels} channels have {parameters} parameters: expected at least "
            f"twice as many numbers and four frequencies per mode in the band, got {numbers} at "
            f"{frequencies} frequencies"
        )
