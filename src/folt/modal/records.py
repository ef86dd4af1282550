"""Records: what the sensors of a structure measured, checked before anything is computed."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
from jaxtyping import Float

from folt.store.files import require_readable
from folt.store.tables import read_columns

TIME_NAMES = ("time", "time_s", "t")
"""Headings of a first column that holds the time in seconds."""


@dataclasses.dataclass(frozen=True)
class Record:
    """Samples of several channels at one rate.

    Attributes:
        values: one column per channel.
        rate: samples per second.
        names: one per channel.
    """

    values: Float[np.ndarray, "sample channel"]
    rate: float
    names: tuple[str, ...]

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the end of the last."""
        return len(self.values) / self.rate

    def part(self, first: int, count: int) -> Record:
        """The samples first, first + 1, ... as a record of their own."""
        return dataclasses.replace(self, values=self.values[first : first + count])

    def require_usable(self) -> None:
        """Refuse what no spectrum can be computed from.

        Raises:
            ValueError: a sample is missing or infinite, or a channel never moves.
        """
        bad = ~np.isfinite(self.values)
        if bad.any():
            channel = int(np.flatnonzero(bad.any(axis=0))[0])
            sample = int(np.flatnonzero(bad[:, channel])[0])
            raise ValueError(
                f"channel {self.names[channel]!r} has {bad[:, channel].sum()} missing or infinite "
                f"samples, the first at {sample / self.rate:.6g} s: expected a record without gaps"
            )
        still = np.flatnonzero(np.ptp(self.values, axis=0) == 0)
        if still.size:
            raise ValueError(
                f"channel {self.names[still[0]]!r} is constant: expected channels that vary, so "
                "leave this one out"
            )


def record_of(
    values: Float[np.ndarray, "sample channel"], rate: float, names: tuple[str, ...] | None = None
) -> Record:
    """A checked record from an array, one column per channel.

    Raises:
        ValueError: not two-dimensional, more channels than samples, a rate that is not positive,
            missing samples, or a constant channel.
    """
    array = np.asarray(values)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size:
        raise ValueError(f"expected a record of shape (sample, channel), got {array.shape}")
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"expected a record of real numbers, got {array.dtype}")
    if array.shape[0] <= array.shape[1]:
        raise ValueError(
            f"expected one column per channel and more samples than channels, got {array.shape[0]} "
            f"rows and {array.shape[1]} columns"
        )
    if not 0 < rate < math.inf:
        raise ValueError(f"expected a positive sampling rate in Hz, got {rate}")
    named = tuple(f"{j + 1}" for j in range(array.shape[1])) if names is None else tuple(names)
    if len(named) != array.shape[1]:
        raise ValueError(f"expected {array.shape[1]} channel names, got {len(named)}")
    record = Record(array.astype(float), float(rate), named)
    record.require_usable()
    return record


def read_record(path: str | Path, rate: float | None = None) -> Record:
    """Read a record from CSV, .npy or .npz.

    A first column headed `time` (seconds) gives the rate, or is held against the one given.

    Args:
        path: the file, one column per channel.
        rate: samples per second.

    Raises:
        ValueError: the file cannot be used, in one sentence.
    """
    path = Path(path)
    if path.suffix in (".npy", ".npz"):
        names, values = None, _numpy_array(path)
    else:
        names, values, _ = read_columns(path)
    if names is not None and names[0].lower() in TIME_NAMES:
        rate = _rate_of(values[:, 0], rate)
        names, values = names[1:], values[:, 1:]
    if rate is None:
        raise ValueError("expected the sampling rate in Hz: give --rate, or a first column `time`")
    return record_of(values, rate, names)


def _numpy_array(path: Path) -> np.ndarray:
    try:
        require_readable(path)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # whatever NumPy makes of a file that is damaged or forged
        raise ValueError(f"{path} is not a NumPy file of numbers") from error
    if len(arrays) != 1:
        raise ValueError(f"expected one array in {path}, got {', '.join(arrays) or 'none'}")
    return next(iter(arrays.values()))


def _rate_of(time: np.ndarray, rate: float | None) -> float:
    """Samples per second from a column of times, which must be even."""
    steps = np.diff(time)
    if not (steps.size and np.all(np.isfinite(steps)) and np.all(steps > 0)):
        raise ValueError("the time column has gaps or does not increase: expected even steps")
    step = float(time[-1] - time[0]) / steps.size
    late = np.flatnonzero(np.abs(steps - step) > 0.01 * step)
    if late.size:
        raise ValueError(
            f"the time column is uneven after {time[late[0]]:.6g} s (a step of "
            f"{steps[late[0]]:.4g} s, {step:.4g} s on average): expected a record without gaps"
        )
    if rate is not None and abs(rate * step - 1) > 0.001:
        raise ValueError(f"the time column says {1 / step:.6g} Hz, --rate says {rate:g} Hz")
    return 1 / step if rate is None else rate
