"""The observations of `folt mixture`: which columns of a file, in which units, and which rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    import numpy as np

    from folt.store.columns import Table
    from folt.store.strict_json import Document

SHOWN_LINES = 5
"""Lines that a sentence names before it counts the others."""


class Observations(NamedTuple):
    """What is fitted.

    Attributes:
        values: the observations, by row and column.
        names: of the columns, with their units.
        counts: whether they are counts.
        rows: the number in the file of every row, from 1; rows that were dropped are missing.
        scales: mean and standard deviation that were taken out of every column, if they were.
        source: the name of the file.
    """

    values: np.ndarray
    names: tuple[str, ...]
    counts: bool
    rows: np.ndarray
    scales: tuple[tuple[float, float], ...] = ()
    source: str = ""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names as they stand at the axes of a picture."""
        return tuple(f"{name}, standardised" if self.scales else name for name in self.names)

    @property
    def units(self) -> str:
        """A sentence about the units of the estimates; empty where they are those of the file."""
        parts = [
            f"{name!r}: (value - {mean:.6g}) / {deviation:.6g}"
            for name, (mean, deviation) in zip(self.names, self.scales, strict=False)
        ]
        return f"estimates are in standard deviations from the mean, {', '.join(parts)}" * any(
            parts
        )

    def told(self) -> Document:
        """Return columns, rows and units, as plain values."""
        scales = {
            name: {"mean": mean, "standard_deviation": deviation}
            for name, (mean, deviation) in zip(self.names, self.scales, strict=False)
        }
        return {
            "columns": list(self.names),
            "observations": len(self.values),
            "standardized": scales or None,
        }


class Reading(NamedTuple):
    """How a file is read.

    Attributes:
        columns: names or numbers of columns, as in `a,b`; empty for all columns of numbers.
        missing: words that stand for a missing value, as in `-999,x`; None for the usual ones.
        drop_missing: leave out rows in which a value is missing.
        standardize: give every column mean 0 and standard deviation 1.
    """

    columns: str = ""
    missing: str | None = None
    drop_missing: bool = False
    standardize: bool = False


def to_standard_error(sentence: str) -> None:
    """Say what was done with a file, where it does not mix with results."""
    typer.echo(f"folt: {sentence}", err=True)


def read_observations(
    path: Path,
    columns: str | Reading,
    counts: bool,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Observations:
    """Return the chosen columns; a column that is not chosen may hold anything.

    Args:
        path: the file.
        columns: which ones, and how they are read.
        counts: whether they are counts.
        tell: is given a sentence for everything that a user should know.

    Raises:
        ValueError: the file cannot be used, in one sentence.
    """
    import numpy as np

    from folt.store.columns import ColumnKind
    from folt.store.tables import read_table

    reading = columns if isinstance(columns, Reading) else Reading(columns)
    if counts and reading.standardize:
        raise ValueError("counts have no other units: give --counts or --standardize")
    words = None if reading.missing is None else _words(reading.missing)
    table = read_table(path, words)
    chosen = table.choose(reading.columns)
    values = table.numbers(chosen or None)
    notes = list(table.notes)
    if not chosen:
        chosen = table.of_kind(ColumnKind.NUMBERS)
        notes.append(table.aside(chosen))
    kept, dropped = _complete(table, chosen, values, reading.drop_missing)
    notes.append(dropped)
    values = values[kept]
    _require_spread(table, chosen, values)
    names = tuple(table.columns[j].label for j in chosen)
    scales = _scales(path, values) if reading.standardize else ()
    if scales:
        mean, deviation = np.array(scales).T
        values = (values - mean) / deviation
    found = Observations(values, names, counts, kept + 1, scales, path.name)
    notes.append(f"{path}: {found.units}" if scales else "")
    for note in filter(None, notes):
        tell(note)
    return found


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _complete(
    table: Table, chosen: list[int], values: np.ndarray, drop: bool
) -> tuple[np.ndarray, str]:
    """Return the rows in which nothing is missing, and a sentence about the others.

    Raises:
        ValueError: naming line and column, of an infinite number or of a missing one.
    """
    import numpy as np

    infinite = np.argwhere(np.isinf(values))
    if infinite.size:
        row, j = infinite[0]
        raise ValueError(f"{table.place(chosen[j], row)}: the value is infinite")
    holes = np.isnan(values)
    rows = np.flatnonzero(holes.any(axis=1))
    if not rows.size:
        return np.arange(len(values)), ""
    if not drop:
        place = table.place(chosen[int(np.flatnonzero(holes[rows[0]])[0])], int(rows[0]))
        raise ValueError(
            f"{place}: a value is missing, as in {rows.size} of {len(values)} rows: folt does not "
            "impute, leave these rows out with --drop-missing or the column with --columns"
        )
    if rows.size == len(values):
        raise ValueError(f"{table.where} has no row without a missing value: choose --columns")
    named = ", ".join(str(table.lines[row]) for row in rows[:SHOWN_LINES])
    more = " ..." if rows.size > SHOWN_LINES else ""
    sentence = f"{table.where}: dropped {rows.size} of {len(values)} rows with missing values"
    return np.flatnonzero(~holes.any(axis=1)), f"{sentence}, lines {named}{more}"


def _require_spread(table: Table, chosen: list[int], values: np.ndarray) -> None:
    """Refuse a column in which all values are the same."""
    constant = (values == values[0]).all(axis=0)
    for j, same in zip(chosen, constant, strict=True):
        if same and len(values) > 1:
            cure = "" if len(chosen) == 1 else ": leave it out with --columns"
            raise ValueError(
                f"{table.place(j)}: all values are {values[0, chosen.index(j)]:g}, and no spread "
                f"can be estimated from constant data{cure}"
            )


def _scales(path: Path, values: np.ndarray) -> tuple[tuple[float, float], ...]:
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = values.mean(axis=0), values.std(axis=0)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise ValueError(f"{path}: numbers too large to standardise: give them in other units")
    return tuple((float(m), float(s)) for m, s in zip(mean, deviation, strict=True))
