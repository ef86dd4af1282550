"""The observations of `folt mixture`: which columns of a file, in which units, and which rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from folt.terminal import names_in

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
        keys: columns of the file that tell its rows apart, by name; one entry per row of values.
    """

    values: np.ndarray
    names: tuple[str, ...]
    counts: bool
    rows: np.ndarray
    scales: tuple[tuple[float, float], ...] = ()
    source: str = ""
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the columns as they stand at the axes of a picture."""
        return tuple(f"{name}, standardised" if self.scales else name for name in self.names)

    @property
    def units(self) -> str:
        """A sentence about the units of the estimates; empty where they are those of the file."""
        if not self.scales:
            return ""
        parts = [
            f"{name!r}: (value - {mean:.6g}) / {deviation:.6g}"
            for name, (mean, deviation) in zip(self.names, self.scales, strict=True)
        ]
        return f"estimates are in standard deviations from the mean, {', '.join(parts)}"

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


def read_observations(
    path: Path,
    columns: str = "",
    counts: bool = False,
    *,
    missing: str | None = None,
    drop_missing: bool = False,
    standardize: bool = False,
) -> tuple[Observations, list[str]]:
    """Return the chosen columns of a file, and what a user should know of how they were read.

    A column that is not chosen may hold anything.

    Args:
        path: the file.
        columns: names or numbers of columns, as in `a,b`; empty for all columns of numbers.
        counts: whether they are counts.
        missing: words that stand for a missing value, as in `-999,x`; None for the usual ones.
        drop_missing: leave out rows in which a value is missing.
        standardize: give every column mean 0 and standard deviation 1.

    Raises:
        ValueError: the file cannot be used, in one sentence.
    """
    import numpy as np

    from folt.store.columns import ColumnKind
    from folt.store.tables import read_table

    if counts and standardize:
        raise ValueError("counts have no other units: give --counts or --standardize")
    table = read_table(path, None if missing is None else names_in(missing))
    chosen = table.choose(columns)
    values = table.numbers(chosen or None)
    notes = list(table.notes)
    if not chosen:
        chosen = table.of_kind(ColumnKind.NUMBERS)
        notes.append(table.aside(chosen))
    names = tuple(table.columns[j].label for j in chosen)
    kept, dropped = _complete(table, chosen, values, drop_missing)
    values = values[kept]
    _require_spread(table, chosen, values)
    scales: tuple[tuple[float, float], ...] = ()
    if standardize:
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = values.mean(axis=0), values.std(axis=0)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise ValueError(f"{path}: numbers too large to standardise: give them in other units")
        values = (values - mean) / deviation
        scales = tuple(zip(mean.tolist(), deviation.tolist(), strict=True))
    keys = tuple((name, tuple(one[row] for row in kept)) for name, one in table.keys().items())
    found = Observations(values, names, counts, kept + 1, scales, path.name, keys)
    notes += [dropped, f"{path}: {found.units}" if scales else ""]
    return found, [note for note in notes if note]


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
    for j, column in zip(chosen, values.T, strict=True):
        if len(column) > 1 and (column == column[0]).all():
            cure = "" if len(chosen) == 1 else ": leave it out with --columns"
            raise ValueError(
                f"{table.place(j)}: all values are {column[0]:g}, and no spread can be estimated "
                f"from constant data{cure}"
            )
