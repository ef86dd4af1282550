"""A measured spectrum, computed from records or read from a file.

Records: what the sensors of a structure measured, checked before anything is computed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from folt.modal.models.ordinates import FourierOrdinates
from folt.store.columns import ColumnKind
from folt.store.tables import read_table


@dataclasses.dataclass(frozen=True)
class Record:
    """Samples of several channels at one rate.

    Attributes:
        values: one column per channel.
        rate: samples per second.
        names: one per channel.
        notes: what should be said of the file it was read from, in sentences.
        unit: of all channels; empty if it is not known.
    """

    values: Float[np.ndarray, "sample channel"]
    rate: float
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    unit: str = ""

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the end of the last."""
        return len(self.values) / self.rate

    def part(self, first: int, count: int) -> Record:
        """Return the samples first, first + 1, ... as a record of their own."""
        return dataclasses.replace(self, values=self.values[first : first + count])

    def require_usable(self, lines: Sequence[int] | np.ndarray | None = None) -> None:
        """Refuse what no spectrum can be computed from.

        Args:
            lines: of the file that the samples stand in, if there is one.

        Raises:
            ValueError: a sample is missing or infinite, or a channel never moves.
        """
        bad = ~np.isfinite(self.values)
        if bad.any():
            channel = int(np.flatnonzero(bad.any(axis=0))[0])
            sample = int(np.flatnonzero(bad[:, channel])[0])
            line = "" if lines is None else f", line {lines[sample]}"
            raise ValueError(
                f"channel {self.names[channel]!r} has {bad[:, channel].sum()} missing or infinite "
                f"samples, the first at {sample / self.rate:.6g} s{line}: expected a record "
                "without gaps"
            )
        still = np.flatnonzero(np.ptp(self.values, axis=0) == 0)
        if still.size:
            raise ValueError(
                f"channel {self.names[still[0]]!r} is constant: expected channels that vary, so "
                "leave this one out"
            )


def record_of(
    values: Float[np.ndarray, "sample channel"],
    rate: float,
    names: tuple[str, ...] | None = None,
    *,
    lines: Sequence[int] | np.ndarray | None = None,
) -> Record:
    """Return a checked record from an array, one column per channel.

    Args:
        values: the samples.
        rate: samples per second.
        names: one per channel; numbers from 1 if not given.
        lines: of the file that the samples stand in, if there is one.

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
    record.require_usable(lines)
    return record


REQUIRED = ("frequency_hz", "psd")


@dataclasses.dataclass(frozen=True)
class Measured:
    """The spectrum of a structure within a band, with what is known of its making.

    Attributes:
        frequency: in Hz.
        psd: one-sided density per hertz, summed over channels.
        averages: effective number of independent averages of every ordinate; None if unknown.
        window: offsets in Hz and weights through which the spectrum was seen; None if unknown.
        resolution: distance in Hz below which two peaks were not told apart.
        channels: number of channels; None if unknown.
        ordinates: Fourier ordinates of every channel, where shapes are to be identified.
        names: of the channels, with the ordinates.
        unit: of the channels; empty if it is not known.
    """

    frequency: Float[np.ndarray, " n"]
    psd: Float[np.ndarray, " n"]
    averages: Float[np.ndarray, " n"] | None
    window: tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]] | None
    resolution: float
    channels: int | None = None
    ordinates: FourierOrdinates | None = None
    names: tuple[str, ...] = ()
    unit: str = ""


def read_spectrum(
    path: str | Path, averages: float | None = None, band: tuple[float, float] | None = None
) -> Measured:
    """Read a spectrum with the columns `frequency_hz`, `psd` and, if it has it, `averages`.

    Args:
        path: a CSV file.
        averages: effective number of averages of every ordinate, if the file does not say.
        band: lowest and highest frequency to keep, in Hz.

    Raises:
        ValueError: the file cannot be used, in one sentence.
    """
    path = Path(path)
    table = read_table(path, missing=())
    used = [j for j in range(len(table.names)) if table.columns[j].kind is not ColumnKind.INDEX]
    names = [table.names[j] for j in used]
    if not table.named or tuple(names[:2]) != REQUIRED or len(names) > 3:
        got = ",".join(names) if table.named else "no heading"
        raise ValueError(f"{path}: expected the columns {','.join(REQUIRED)}[,averages], got {got}")
    if len(names) == 3 and names[2] != "averages":
        raise ValueError(f"{path}: expected the third column to be averages, got {names[2]!r}")
    values = table.numbers(used)
    if not np.all(np.isfinite(values)):
        row, j = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"{table.place(used[j], row)}: missing or infinite number")
    if np.any(np.diff(values[:, 0]) <= 0) or values[0, 0] <= 0:
        raise ValueError(f"{path}: expected positive frequencies in increasing order")
    if np.any(values[:, 1] < 0):
        row = int(np.flatnonzero(values[:, 1] < 0)[0])
        raise ValueError(
            f"{path}: the spectrum is negative at {values[row, 0]:g} Hz: expected a density"
        )
    if averages is not None and len(names) == 3:
        raise ValueError(f"{path} has a column averages: do not give --averages too")
    values = values if band is None else values[within(values[:, 0], band)]
    known = values[:, 2] if len(names) == 3 else averages
    return Measured(
        frequency=values[:, 0],
        psd=values[:, 1],
        averages=None if known is None else np.broadcast_to(known, len(values)).astype(float),
        window=None,
        resolution=float(np.median(np.diff(values[:, 0]))) if len(values) > 1 else 0.0,
    )


def within(frequency: np.ndarray, band: tuple[float, float]) -> np.ndarray:
    """Return which frequencies lie in a band.

    Raises:
        ValueError: the band is empty or holds no frequency.
    """
    low, high = band
    if not 0 < low < high:
        raise ValueError(f"expected a band 0 < LOW < HIGH in Hz, got {low:g} to {high:g}")
    inside = (frequency >= low) & (frequency <= high)
    if not inside.any():
        raise ValueError(
            f"no frequency lies in the band {low:g} to {high:g} Hz; the spectrum covers "
            f"{frequency[0]:g} to {frequency[-1]:g} Hz"
        )
    return inside
