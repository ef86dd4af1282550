"""Records: what the sensors of a structure measured, checked before anything is computed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class Record:
    """Samples of several channels at one rate.

    Attributes:
        values: one column per channel.
        rate: samples per second.
        names: one per channel.
        notes: what should be said of the file it was read from, in sentences.
    """

    values: Float[np.ndarray, "sample channel"]
    rate: float
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the end of the last."""
        return len(self.values) / self.rate

    def part(self, first: int, count: int) -> Record:
        """The samples first, first + 1, ... as a record of their own."""
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
    """A checked record from an array, one column per channel.

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
