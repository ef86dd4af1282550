"""Tables as people have them: one reader for text, spreadsheets and Parquet, built on pandas.

Every column is judged by what stands in it: numbers, dates, text, a count of rows, or nothing.
What cannot be used is refused with its line and column, at the moment at which it is asked for, so
that a column that nobody asks for may hold anything.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from folt.store.layout import Layout, layout
from folt.store.sources import text_of
from folt.store.words import BRACKET, MISSING, UNIT, Style, is_missing, moments

if TYPE_CHECKING:
    import pandas as pd

INDEX_NAMES = re.compile(
    r"index|idx|id|row([ _]?(id|names?))?|n[ro]\.?|#|obs|sample|scan|record|n|num|number|counter"
)
"""Names of a column that only counts the rows."""

CODES = frozenset(sign * value for sign in (-1.0, 1.0) for value in (999.0, 9999.0, 99999.0)) | {
    -99.0,
    -999.9,
    -999.99,
    -9999.9,
    -9999.99,
    -999999.0,
    999999.0,
}
"""Numbers that people write where a value is missing."""


class Kind(StrEnum):
    """What a column holds."""

    NUMBERS = "numbers"
    DATES = "dates"
    TEXT = "text"
    INDEX = "index"
    EMPTY = "empty"


class Stray(NamedTuple):
    """A field that is no number, by its row."""

    row: int
    word: str


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: from the heading, or `column 3`.
        kind: what it holds.
        values: numbers, or seconds after the first date; NaN where one is missing, and everywhere
            for text.
        unit: where the file names one.
        stray: the first field that is no number.
        has_date: whether dates have a day and not only a time.
        has_clock: whether dates have a time of the day.
        resolution: the smallest step that the digits of dates can show, in seconds.
    """

    name: str
    kind: Kind
    values: Float[np.ndarray, " row"]
    unit: str = ""
    stray: Stray | None = None
    has_date: bool = False
    has_clock: bool = False
    resolution: float = 0.0

    @property
    def label(self) -> str:
        """The name with its unit."""
        bare = not self.unit or self.unit in self.name
        return self.name if bare else f"{self.name} ({self.unit})"


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns of one length.

    Attributes:
        where: the file.
        columns: in the order of the file.
        lines: the line of the file that each row stands in.
        named: whether the file has a heading.
        notes: what a reader of the results should know of the file, in sentences.
        codes: whether numbers such as -999 are refused where they look like missing values.
        row_word: what a row of the file is called.
    """

    where: str
    columns: tuple[Column, ...]
    lines: np.ndarray
    named: bool
    notes: tuple[str, ...] = ()
    codes: bool = True
    row_word: str = "line"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    def of_kind(self, kind: Kind) -> list[int]:
        """The positions of the columns that hold this."""
        return [j for j, column in enumerate(self.columns) if column.kind is kind]

    def place(self, column: int, row: int | None = None) -> str:
        """File, line and column, as errors name them."""
        name = repr(self.names[column]) if self.named else str(column + 1)
        line = "" if row is None else f", {self.row_word} {self.lines[row]}"
        return f"{self.where}{line}, column {name}"

    def numbers(self, chosen: Sequence[int] | None = None) -> Float[np.ndarray, "row column"]:
        """Columns as numbers, NaN where one is missing; all columns of numbers if none are chosen.

        Raises:
            ValueError: a field is no number, or a number that looks like a missing value.
        """
        positions = self.of_kind(Kind.NUMBERS) if chosen is None else list(chosen)
        if not positions:
            raise ValueError(f"{self.where} has no column of numbers{self._instead()}")
        for j in positions:
            column = self.columns[j]
            if column.stray is not None:
                word = column.stray.word[:60]
                place = self.place(j, column.stray.row)
                raise ValueError(f"{place}: expected a number, got {word!r}")
            if self.codes and (row := suspected(column.values)) is not None:
                code = f"{column.values[row]:g}"
                raise ValueError(
                    f"{self.place(j, row)}: {code} lies far from all other values and may stand "
                    f"for a missing one: give --missing {code}, or --missing NA if it is a number"
                )
        return np.column_stack([self.columns[j].values for j in positions])

    def choose(self, text: str, option: str = "--columns") -> list[int]:
        """The positions of columns that are given by name or by number from 1, as in `a,b`.

        A name may leave out its unit.

        Raises:
            ValueError: there is no such column, there are several, or one is given twice.
        """
        if text in self.names:
            return [self.names.index(text)]
        chosen: list[int] = []
        for word in next(csv.reader([text], skipinitialspace=True), []):
            if not (word := word.strip()):
                continue
            chosen.append(self._position(word, option))
            if chosen[-1] in chosen[:-1]:
                raise ValueError(f"expected every column once, got {word!r} twice in {option}")
        return chosen

    def aside(self, used: Sequence[int]) -> str:
        """A sentence that names the columns that are not used; empty if there are none."""
        groups: dict[str, list[str]] = {}
        for j, column in enumerate(self.columns):
            if j not in used:
                groups.setdefault(column.kind.value, []).append(repr(column.name))
        if not groups:
            return ""
        parts = [f"{kind}: {', '.join(names)}" for kind, names in groups.items()]
        return f"{self.where}: left aside {'; '.join(parts)}"

    def _position(self, word: str, option: str) -> int:
        for found in (
            [j for j, name in enumerate(self.names) if name == word],
            [int(word) - 1] if _is_position(word, len(self.columns)) else [],
            [j for j, name in enumerate(self.names) if _bare(name) == _bare(word)],
        ):
            if len(found) > 1:
                raise ValueError(
                    f"{option} {word} may be {' or '.join(self.names[j] for j in found)} of "
                    f"{self.where}: give one of them"
                )
            if found:
                return found[0]
        names = ", ".join(self.names)
        raise ValueError(f"no column {word[:60]!r} in {self.where}: it has {names}")

    def _instead(self) -> str:
        """What stands in the first column that is none of numbers."""
        for j, column in enumerate(self.columns):
            if column.stray is not None:
                return f": {self.place(j, column.stray.row)} is {column.stray.word[:60]!r}"
        return f": it has {', '.join(f'{c.name} ({c.kind.value})' for c in self.columns)}"


def read_table(path: str | Path, missing: Sequence[str] | None = None) -> Table:
    """Read a table from text, a spreadsheet or Parquet, whatever its delimiters and decimals are.

    Args:
        path: the file.
        missing: words or numbers that stand for a missing value, beside NA, - and the like.

    Raises:
        ValueError: the file cannot be read, or its lines differ in the number of columns.
    """
    path = Path(path)
    source = text_of(path)
    found = layout(source.text, str(path), source.delimiter)
    words = tuple(missing or ())
    frame = _frame(found, words)
    names = _names(found)
    columns = []
    for j in range(found.width):
        unit = found.units[j] if len(found.units) == found.width else ""
        column = _judged(frame[j], names[j] or f"column {j + 1}", found.style, words)
        counts = found.names is not None and _is_index(column, names[j], j)
        columns.append(
            dataclasses.replace(
                column,
                unit=_unit(unit, column.name),
                kind=Kind.INDEX if counts else column.kind,
            )
        )
    if found.width > 1 and columns[-1].kind is Kind.EMPTY and not names[-1]:
        columns.pop()  # a delimiter at the end of every line
    lines = np.array([line.number for line in found.body])
    repeated = [name for name, n in Counter(found.names or ()).items() if name.strip() and n > 1]
    notes = [f"{path}: of columns named {n!r} the second is '{n}.1' here" for n in repeated]
    return Table(
        where=str(path),
        columns=tuple(columns),
        lines=lines,
        named=found.names is not None,
        notes=(*source.notes, *notes),
        codes=missing is None,
    )


def suspected(values: Float[np.ndarray, " row"]) -> int | None:
    """The first row whose number is written for a missing value: -999 far from all others."""
    finite = values[np.isfinite(values)]
    for code in sorted(CODES & {float(finite.min()), float(finite.max())} if finite.size else ()):
        others = finite[finite != code]
        if others.size > 1:
            gap = np.min(np.abs(others - code))
            if gap > 2.0 * np.ptp(others) and np.ptp(others) > 0:
                return int(np.flatnonzero(values == code)[0])
    return None


def _frame(found: Layout, missing: Sequence[str]) -> pd.DataFrame:
    """The lines of the table as pandas reads them: floats where it can, words elsewhere."""
    import pandas as pd

    lines = (line.text for line in found.body)
    if found.delimiter == " ":
        lines = (" ".join(text.split()) for text in lines)
    exact = {} if _version(pd.__version__) >= (3, 1) else {"float_precision": "round_trip"}
    words = {form for word in MISSING for form in (word, word.upper(), word.capitalize())}
    return pd.read_csv(
        io.StringIO("\n".join(lines)),
        sep=found.delimiter or "\x1f",
        header=None,
        names=range(found.width),
        index_col=False,
        decimal=found.style.value,
        na_values=sorted(words | {"NaN", "-NaN", "NaT"} | set(missing)),
        keep_default_na=False,
        skipinitialspace=True,
        skip_blank_lines=False,
        low_memory=False,
        **exact,
    )


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _names(found: Layout) -> list[str]:
    """One name per column, empty where there is none; those that repeat are numbered as pandas."""
    names = [" ".join(name.split()) for name in found.names or ()]
    names = ["".join(c for c in name if c.isprintable()) for name in names]
    if len(names) == found.width - 1:
        ends = found.delimiter or "\n"
        ended = all(line.text.rstrip(" ").endswith(ends) for line in found.body)
        names = [*names, ""] if ended else ["", *names]
    names = names or [""] * found.width
    seen: Counter[str] = Counter()
    for j, name in enumerate(names):
        if name and seen[name]:
            names[j] = f"{name}.{seen[name]}"
        seen[name] += 1
    return names


def _judged(series: pd.Series, name: str, style: Style, missing: Sequence[str]) -> Column:
    """What a column holds, with its values."""
    if series.dtype.kind in "iuf":
        values = _without(series.to_numpy(float), style, missing)
        return Column(name, Kind.EMPTY if np.isnan(values).all() else Kind.NUMBERS, values)
    words = ["" if absent else str(w) for w, absent in zip(series, series.isna(), strict=True)]
    read = [style.number(word) for word in words]
    strays = [Stray(row, words[row].strip()) for row, value in enumerate(read) if value is None]
    values = _without(np.array([np.nan if v is None else v for v in read]), style, missing)
    stray = strays[0] if strays else None
    if 2 * len(strays) <= sum(not is_missing(word) for word in words):
        kind = Kind.EMPTY if np.isnan(values).all() else Kind.NUMBERS
        return Column(name, kind, values, stray=stray)
    if (found := moments(words)) is not None:
        return Column(name, Kind.DATES, found.seconds, "", stray, *found[1:])
    return Column(name, Kind.TEXT, np.full(len(words), np.nan), stray=stray)


def _without(values: np.ndarray, style: Style, missing: Sequence[str]) -> np.ndarray:
    """NaN in place of the numbers that stand for missing values."""
    codes = [Style.POINT.number(word) for word in missing] + [style.number(w) for w in missing]
    numbers = [code for code in codes if code is not None]
    return np.where(np.isin(values, numbers), np.nan, values) if numbers else values


def _is_index(column: Column, name: str, position: int) -> bool:
    """Whether a column counts the rows: by its name, or as one without a name before the others."""
    values = column.values
    if column.kind is not Kind.NUMBERS or column.stray or np.any(values != np.round(values)):
        return False
    unnamed = (not name and position == 0) or name.lower().startswith("unnamed:")
    return bool(
        (unnamed and len(np.unique(values)) == len(values))
        or (INDEX_NAMES.fullmatch(name.lower()) and np.all(np.diff(values) == 1))
    )


def _unit(below: str, name: str) -> str:
    """The unit from a line beneath the heading, or from the brackets in a name."""
    found = BRACKET.fullmatch(name)
    if found and UNIT.fullmatch(found["unit"]):
        return found["unit"].strip()
    return below.strip(" []()")


def _bare(name: str) -> str:
    found = BRACKET.fullmatch(name)
    return (found["name"] if found else name).strip().casefold()


def _is_position(word: str, count: int) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 6 and 1 <= int(word) <= count
