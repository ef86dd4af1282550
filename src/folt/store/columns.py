"""Columns of numbers, dates and words, and how some of them are chosen or refused."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.store.fields import BRACKET

_CODES = frozenset(sign * value for sign in (-1.0, 1.0) for value in (999.0, 9999.0, 99999.0)) | {
    -99.0,
    -999.9,
    -999.99,
    -9999.9,
    -9999.99,
    -999999.0,
    999999.0,
}
"""Numbers that people write where a value is missing."""


class ColumnKind(StrEnum):
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
        words: what stands in a column of text.
    """

    name: str
    kind: ColumnKind
    values: Float[np.ndarray, " row"]
    unit: str = ""
    stray: Stray | None = None
    has_date: bool = False
    has_clock: bool = False
    resolution: float = 0.0
    words: tuple[str, ...] = ()

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

    def of_kind(self, kind: ColumnKind) -> list[int]:
        """Return the positions of the columns that hold this."""
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
        positions = self.of_kind(ColumnKind.NUMBERS) if chosen is None else list(chosen)
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
        """Return the positions of columns that are given by name or by number from 1, as in `a,b`.

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

    def keys(self) -> dict[str, tuple[str, ...]]:
        """Return columns that tell the rows apart by name: counts of them, and words of their own.

        They are what a table of results can be joined to the file by.
        """
        counts = {
            column.name: tuple(f"{value:.0f}" for value in column.values)
            for column in self.columns
            if column.kind is ColumnKind.INDEX
        }
        words = {column.name: column.words for column in self.columns}
        return counts | {
            name: one for name, one in words.items() if one and len({*one, ""}) == len(one) + 1
        }

    def aside(self, used: Sequence[int]) -> str:
        """Return a sentence that names the columns that are not used; empty if there are none."""
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
            [j for j, name in enumerate(self.names) if without_unit(name) == without_unit(word)],
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
        """Return what stands in the first column that is none of numbers."""
        for j, column in enumerate(self.columns):
            if column.stray is not None:
                return f": {self.place(j, column.stray.row)} is {column.stray.word[:60]!r}"
        return f": it has {', '.join(f'{c.name} ({c.kind.value})' for c in self.columns)}"


def suspected(values: Float[np.ndarray, " row"]) -> int | None:
    """The first row whose number is written for a missing value: -999 far from all others."""
    finite = values[np.isfinite(values)]
    for code in sorted(_CODES & {float(finite.min()), float(finite.max())} if finite.size else ()):
        others = finite[finite != code]
        if others.size > 1:
            gap = np.min(np.abs(others - code))
            if gap > 2.0 * np.ptp(others) and np.ptp(others) > 0:
                return int(np.flatnonzero(values == code)[0])
    return None


def without_unit(name: str) -> str:
    """Return the name of a column without the unit in brackets behind it, in small letters."""
    found = BRACKET.fullmatch(name)
    return (found["name"] if found else name).strip().casefold()


def _is_position(word: str, count: int) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 6 and 1 <= int(word) <= count
