"""The clock beside a record: which column it is, whether it is even, which rate it tells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.store.columns import Column, ColumnKind, Table
from folt.store.fields import BRACKET
from folt.store.layout import TIME_NAMES

_SECONDS = {
    **dict.fromkeys(["", "s", "sec", "secs", "second", "seconds", "utc"], 1.0),
    **dict.fromkeys(["ms", "msec", "milliseconds"], 1e-3),
    **dict.fromkeys(["us", "µs", "μs", "microseconds"], 1e-6),
    **dict.fromkeys(["ns", "nanoseconds"], 1e-9),
    **dict.fromkeys(["min", "minutes"], 60.0),
    **dict.fromkeys(["h", "hours"], 3600.0),
}
"""Units of a clock."""

EPOCHS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Numbers above which a time without unit is counted from 1970 in nano-, micro-, milliseconds."""

DAY = 86_400.0

_UNEVEN = 0.01
"""Share of a step by which steps may differ: clocks jitter, a missing sample is a whole step."""

COARSE = 0.25
"""Share of a step that the digits of a clock must show for gaps to be seen in it."""

_AGREED = 0.001
"""Relative difference between two statements of the rate that is no contradiction."""

_ROUNDING = 1 - 1e-6
"""Share of its resolution by which a rounded time may be off: a whole one is a missing sample."""

_DIGITS = 13
"""Digits that are tried; of longer times nothing was rounded away."""

FEW = 10
"""Rows from which on a first column without a name that steps evenly is a clock and no channel."""


class _Clock(NamedTuple):
    """A column of times.

    Attributes:
        position: of the column.
        seconds: after its first time.
        resolution: the smallest step that its digits can show, by row: of times with seven digits
            those after 1000 s have fewer decimals.
    """

    position: int
    seconds: Float[np.ndarray, " row"]
    resolution: Float[np.ndarray, " row"]

    @property
    def coarsest(self) -> float:
        """The coarsest resolution of all rows."""
        return float(self.resolution.max())


def clocks_of(table: Table) -> list[_Clock]:
    """Return the columns that tell the time, a day and a time of the day put together.

    Raises:
        ValueError: the unit of one is not known.
    """
    days: _Clock | None = None
    found = []
    first = next((j for j, column in enumerate(table.columns) if _can_be_clock(column)), -1)
    for j, column in enumerate(table.columns):
        if column.kind is ColumnKind.DATES:
            clock = _Clock(j, column.values, np.full(len(column.values), column.resolution))
            if not column.has_clock:
                days = clock
            else:
                found.append(clock if column.has_date else _over_midnight(clock))
        elif _can_be_clock(column) and _is_clock(table, column, j == first):
            found.append(_numeric(table, j))
    if days is None:
        return found
    of_day = [c for c in found if _is_time_of_day(table.columns[c.position])]
    paired = [c._replace(seconds=table.columns[c.position].values + days.seconds) for c in of_day]
    others = [c for c in found if not _is_time_of_day(table.columns[c.position])]
    return [*paired, *others] or [days]


def rate_of(
    table: Table, clocks: list[_Clock], rate: float | None
) -> tuple[float, tuple[str, ...]]:
    """Samples per second, from the clock or as given, and what should be said of it.

    Raises:
        ValueError: nothing tells the rate, the clock is uneven, or two statements differ.
    """
    if not clocks:
        if rate is None:
            raise ValueError(
                "expected the sampling rate in Hz: give --rate, or a first column `time`"
            )
        return rate, ()
    clock = min(clocks, key=lambda clock: clock.coarsest)
    _require_complete(table, clock)
    if len(clock.seconds) < 2:
        raise ValueError(f"{table.where}: expected more than one sample")
    for other in clocks:
        _require_same(table, clock, other)
    step = _step(table, clock, rate)
    name = repr(table.names[clock.position])
    coarse = _is_coarse(clock, step)
    if coarse and rate is None:
        raise ValueError(
            f"{table.place(clock.position)}: the clock shows {clock.coarsest:g} s, too coarse "
            f"for about {1 / step:.4g} Hz: give --rate"
        )
    if rate is None:
        return 1 / step, (f"{table.where}: the clock {name} gives {1 / step:.6g} Hz",)
    shown = f"{table.where}: the clock {name} shows {clock.coarsest:g} s, less is not checked"
    return rate, (shown,) if coarse else ()


def _step(table: Table, clock: _Clock, rate: float | None) -> float:
    """Return seconds between samples.

    A clock is even if its steps are, or if they differ by rounding alone: a time that is written
    with a resolution r is never further than r from an even one.

    Raises:
        ValueError: the clock is uneven, or it contradicts the rate.
    """
    seconds, steps = clock.seconds, np.diff(clock.seconds)
    back = np.flatnonzero(steps < 0)
    span = float(seconds[-1] - seconds[0])
    if back.size or span <= 0:
        row = int(back[0]) + 1 if back.size else len(seconds) - 1
        raise ValueError(f"{table.place(clock.position, row)}: the clock does not increase")
    mean, usual = span / steps.size, float(np.median(steps))
    even = bool(np.all(np.abs(steps - usual) <= _UNEVEN * usual)) and usual > 0
    given = mean if rate is None else 1 / rate
    if abs(mean / given - 1) > _AGREED + clock.coarsest / span and (
        even or _is_rounded(clock, mean)
    ):
        raise ValueError(
            f"{table.place(clock.position)}: the time column says {1 / mean:.6g} Hz, --rate says "
            f"{rate:g} Hz"
        )
    if not (even or _is_rounded(clock, given)):
        _refuse_uneven(table, clock, usual or given, given)
    return mean if rate is None else given


def _is_coarse(clock: _Clock, step: float) -> bool:
    """Return whether the digits of a clock, and not its steps, are what makes it uneven."""
    steps = np.diff(clock.seconds)
    uneven = np.any(np.abs(steps - step) > _UNEVEN * step)
    return bool(uneven and clock.coarsest > COARSE * step)


def _drift(clock: _Clock, step: float) -> np.ndarray:
    """Return seconds between the times and even ones."""
    seconds = clock.seconds - clock.seconds[0]
    return np.abs(seconds - step * np.arange(len(seconds)))


def _is_rounded(clock: _Clock, step: float) -> bool:
    most = 0.5 * _ROUNDING * clock.resolution
    steps = np.abs(np.diff(clock.seconds) - step)
    return bool(np.all(steps < most[1:] + most[:-1])) and not _is_away(clock, step).any()


def _is_away(clock: _Clock, step: float) -> np.ndarray:
    """Return which times after the first are further from even ones than rounding explains.

    The error of a step that was computed from the first and the last time grows from the one to
    the other.
    """
    most = 0.5 * _ROUNDING * clock.resolution
    through = np.linspace(0, 1, len(most))
    return (_drift(clock, step) >= most + most[0] * (1 - through) + most[-1] * through)[1:]


def _refuse_uneven(table: Table, clock: _Clock, usual: float, step: float) -> None:
    """Name the line at which the clock leaves the even one."""
    steps = np.diff(clock.seconds)
    slack = np.minimum(2 * clock.resolution[1:], usual / 2)
    late = np.abs(steps - usual) > _UNEVEN * usual + slack
    if clock.coarsest > COARSE * usual or not late.any():
        late = _is_away(clock, step)
    at = int(np.flatnonzero(late)[0]) if late.any() else int(np.argmax(np.abs(steps - usual)))
    lost = round(float(steps[at]) / usual) - 1
    missing = f", {lost} samples missing" if lost > 1 else ", a sample missing" if lost > 0 else ""
    raise ValueError(
        f"{table.place(clock.position, at + 1)}: the time column is uneven after "
        f"{clock.seconds[at]:.6g} s (a step of {steps[at]:.4g} s, {usual:.4g} s elsewhere"
        f"{missing}): expected a record without gaps"
    )


def _can_be_clock(column: Column) -> bool:
    return column.kind in (ColumnKind.NUMBERS, ColumnKind.DATES, ColumnKind.INDEX)


def _is_clock(table: Table, column: Column, first: bool) -> bool:
    """By its name; without a heading by even steps that no vibration has."""
    with np.errstate(invalid="ignore"):  # of infinite times
        steps = np.diff(column.values)
    if not table.named:
        even = (
            len(steps) >= FEW and np.all(steps > 0) and np.ptp(steps) < _UNEVEN * np.median(steps)
        )
        return bool(first and even and len(table.columns) > 1)
    if not TIME_NAMES.fullmatch(column.name):
        return False
    return bool((first and column.name not in ("t", "T")) or np.all(steps > 0))


def _numeric(table: Table, position: int) -> _Clock:
    """Return a column of numbers in its unit, or in that of a computer's clock."""
    column = table.columns[position]
    table.numbers([position])
    values = column.values
    bracket = BRACKET.fullmatch(column.name)
    unit = (column.unit or (bracket["unit"] if bracket else _suffix(column.name))).strip().lower()
    if unit not in _SECONDS:
        raise ValueError(f"{table.place(position)}: expected seconds, got the unit {unit!r}")
    scale = _SECONDS[unit]
    if not unit:
        size = np.nanmax(np.abs(values))
        scale = next((factor for least, factor in EPOCHS if size > least), 1.0)
    known = values[np.isfinite(values)]
    return _Clock(position, (values - known[0]) * scale, _resolution(values) * scale)


def _resolution(values: np.ndarray) -> np.ndarray:
    """The last digit of every time: as many decimals, digits or single precision as all have."""
    known = values[np.isfinite(values) & (values != 0)]
    if not known.size:
        return np.zeros(len(values))
    nothing = ~np.isfinite(values) | (values == 0)
    sizes = np.where(nothing, np.min(np.abs(known)), np.abs(values))
    size = 10.0 ** np.floor(np.log10(sizes))
    found = np.zeros(len(values))
    for digits in range(_DIGITS):
        if np.allclose(known, np.round(known, digits), rtol=1e-13, atol=0):
            found = np.maximum(found, 10.0**-digits)
            break
    for digits in range(1, _DIGITS):
        unit = size * 10.0 ** (1 - digits)
        if np.allclose(values, np.round(values / unit) * unit, rtol=1e-13, atol=0, equal_nan=True):
            found = np.maximum(found, unit)
            break
    if np.array_equal(known, known.astype(np.float32)):
        found = np.maximum(found, np.spacing(np.abs(values).astype(np.float32)))
    return found


def _suffix(name: str) -> str:
    """Return the unit in `time_ms`."""
    last = name.lower().rpartition("_")[2]
    return last if "_" in name and last in _SECONDS else ""


def _over_midnight(clock: _Clock) -> _Clock:
    """Return times of the day that go on after midnight."""
    turns = np.cumsum(np.diff(clock.seconds, prepend=clock.seconds[:1]) < -DAY / 2)
    return clock._replace(seconds=clock.seconds + DAY * turns)


def _is_time_of_day(column: Column) -> bool:
    return column.kind is ColumnKind.DATES and not column.has_date


def _require_complete(table: Table, clock: _Clock) -> None:
    gaps = np.flatnonzero(~np.isfinite(clock.seconds))
    if gaps.size:
        raise ValueError(
            f"{table.place(clock.position, int(gaps[0]))}: the clock has gaps, a time is missing"
        )


def _require_same(table: Table, clock: _Clock, other: _Clock) -> None:
    """Refuse channels with clocks of their own that differ."""
    _require_complete(table, other)
    apart = np.abs(other.seconds - other.seconds[0] - (clock.seconds - clock.seconds[0]))
    step = float(np.median(np.diff(clock.seconds))) if len(apart) > 1 else 0.0
    wrong = np.flatnonzero(apart > 2 * (clock.resolution + other.resolution) + _UNEVEN * step)
    if wrong.size:
        raise ValueError(
            f"{table.place(other.position, int(wrong[0]))}: this clock is "
            f"{apart[wrong[0]]:.4g} s apart from {table.names[clock.position]!r}: expected "
            "channels with one clock"
        )
