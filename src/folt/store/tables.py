"""Numbers in columns, from CSV files, with errors that name the line."""

from __future__ import annotations

import codecs
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.store.files import require_readable


class Columns(NamedTuple):
    """A table of numbers: names, or none where the file has no heading, and values by row.

    Attributes:
        names: one per column.
        values: the numbers.
        lines: the line of the file that each row stands in.
    """

    names: tuple[str, ...] | None
    values: Float[np.ndarray, "row column"]
    lines: tuple[int, ...] = ()


def read_columns(path: Path) -> Columns:
    """Read a CSV file: `#` starts a comment, the first other line may be a heading.

    An empty field is read as a missing value (NaN).

    Raises:
        ValueError: no such file, no numbers in it, or a field that is no number, by its line.
    """
    try:
        require_readable(path)
        text = _decoded(path.read_bytes())
    except OSError as error:
        raise ValueError(f"expected a CSV file at {path}, got '{error.strerror}'") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: expected CSV in UTF-8") from error
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise ValueError(f"{path} is empty: expected columns of numbers")
    first = _fields(lines[0][1])
    names = None if all(_is_number(field) for field in first) else tuple(first)
    rows = lines if names is None else lines[1:]
    if ";" in lines[0][1] and "," not in lines[0][1]:
        raise ValueError(
            f"{path} seems to be separated by semicolons: expected commas, and a point in decimals"
        )
    if not rows:
        raise ValueError(f"{path} has a heading and nothing below it: expected numbers")
    return Columns(names, _values(path, rows, len(first)), tuple(number for number, _ in rows))


def _decoded(data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 where the file begins as spreadsheets write that."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    return data.decode("utf-8-sig")


def _values(path: Path, rows: list[tuple[int, str]], width: int) -> np.ndarray:
    """The numbers, at once where all is well, and line by line where something is not."""
    try:
        values = np.loadtxt((line for _, line in rows), delimiter=",", ndmin=2)
        if values.shape[1] == width:
            return values
    except ValueError:
        pass
    return np.array([_row(path, number, line, width) for number, line in rows])


def _row(path: Path, number: int, line: str, width: int) -> list[float]:
    fields = _fields(line)
    if len(fields) != width:
        raise ValueError(f"{path}, line {number}: expected {width} columns, got {len(fields)}")
    for field in fields:
        if field and not _is_number(field):
            raise ValueError(f"{path}, line {number}: expected a number, got {field!r}")
    return [float(field) if field else np.nan for field in fields]


def _fields(line: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([line]))]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
