"""Tables as people have them: one reader for text, spreadsheets and Parquet, built on pandas.

Every column is judged by what stands in it: numbers, dates, text, a count of rows, or nothing.
What cannot be used is refused with its line and column, at the moment at which it is asked for, so
that a column that nobody asks for may hold anything.

Files of tables as text: encodings, compressed files, spreadsheets and Parquet.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import dataclasses
import gzip
import importlib.util
import io
import lzma
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from folt.store.columns import Column, ColumnKind, Stray, Table
from folt.store.fields import BRACKET, MISSING_WORDS, UNIT, Style, is_missing, moments
from folt.store.files import require_readable
from folt.store.layout import Layout, layout
from folt.store.packages import require

if TYPE_CHECKING:
    import pandas as pd


SPREADSHEETS = {
    ".xlsx": "openpyxl",
    ".xlsm": "openpyxl",
    ".xls": "xlrd",
    ".ods": "odf",
}
"""Module that pandas reads a spreadsheet with."""

PARQUET = (".parquet", ".pq")

_T = TypeVar("_T")

OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""How files begin that say their encoding."""


class Source(NamedTuple):
    """A file as text, its delimiter where that is known, and what should be said of it."""

    text: str
    delimiter: str | None = None
    notes: tuple[str, ...] = ()


def text_of(path: Path) -> Source:
    """Return a file as text; cells of spreadsheets and Parquet are separated by tabs.

    Raises:
        ValueError: there is no such file, it holds no table, or what reads it is not installed.
    """
    suffix = path.suffix.lower()
    try:
        require_readable(path)
        if suffix in SPREADSHEETS:
            return _spreadsheet(path, SPREADSHEETS[suffix])
        if suffix in PARQUET:
            return _parquet(path)
        data = path.read_bytes()
        if suffix in OPENERS:
            data = _opened(path, data, OPENERS[suffix])
    except OSError as error:
        raise ValueError(f"expected a CSV file at {path}: {error.strerror}") from error
    return Source(_decoded(path, data))


def _opened(path: Path, data: bytes, opener: Callable[[bytes], bytes]) -> bytes:
    try:
        return opener(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path} cannot be decompressed: {error}") from error


def _decoded(path: Path, data: bytes) -> str:
    """Text in UTF-8 or UTF-16 or, where it is neither, in the encoding of Western Windows."""
    wide = data[1:400:2].count(0) > len(data[1:400:2]) // 2
    marked = (encoding for mark, encoding in _MARKS if data.startswith(mark))
    encoding = next(marked, "utf-16-le" if wide else "utf-8")
    for attempt in (encoding, "cp1252", "latin-1"):
        try:
            text = data.decode(attempt)
            break
        except UnicodeDecodeError:
            continue
    if "\0" in text.rstrip("\0\x1a"):
        raise ValueError(f"{path} is not a text file: expected a table such as CSV")
    return text


def _spreadsheet(path: Path, module: str) -> Source:
    """Return the first sheet."""
    require(str(path), module, otherwise="save it as CSV")
    import pandas as pd

    def read() -> tuple[pd.DataFrame, list[str]]:
        with pd.ExcelFile(path) as book:
            return book.parse(0, header=None, dtype=object), [str(s) for s in book.sheet_names]

    frame, sheets = _guarded(path, "a spreadsheet", read)
    notes = [f"{path}: read the first of {len(sheets)} sheets, {sheets[0]!r}"] if sheets[1:] else []
    return Source(frame.to_csv(sep="\t", header=False, index=False), "\t", tuple(notes))


def _parquet(path: Path) -> Source:
    if importlib.util.find_spec("fastparquet") is None:
        require(str(path), "pyarrow", otherwise="save it as CSV")
    import pandas as pd

    frame = _guarded(path, "a Parquet file", lambda: pd.read_parquet(path))
    counted = isinstance(frame.index, pd.RangeIndex)
    return Source(frame.to_csv(sep="\t", index=not counted), "\t")


def _guarded(path: Path, what: str, read: Callable[[], _T]) -> _T:
    """Return what a foreign library makes of a file; whatever it raises is about the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except OSError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} cannot be read as {what}: {said}") from error


INDEX_NAMES = re.compile(
    r"index|idx|id|row([ _]?(id|names?))?|n[ro]\.?|#|obs|sample|scan|record|n|num|number|counter"
)
"""Names of a column that only counts the rows."""


def read_table(path: str | Path, missing: Sequence[str] | None = None) -> Table:
    """Read a table from text, a spreadsheet or Parquet, whatever its delimiters and decimals are.

    Args:
        path: the file.
        missing: words or numbers that stand for a missing value, beside NA, - and the like.

    Raises:
        ValueError: the file cannot be read, or its lines differ in the number of columns.
    """
    require("a table of data", "pandas")
    import pandas as pd

    path = Path(path)
    source = text_of(path)
    words = tuple(missing or ())
    try:
        found = layout(source.text, str(path), source.delimiter)
        frame = _frame(found, words)
    except (csv.Error, pd.errors.ParserError) as error:  # quotation marks beyond repair
        said = " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read as a table: {said}") from error
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
                kind=ColumnKind.INDEX if counts else column.kind,
            )
        )
    if found.width > 1 and columns[-1].kind is ColumnKind.EMPTY and not names[-1]:
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


def _frame(found: Layout, missing: Sequence[str]) -> pd.DataFrame:
    """Return the lines of the table as pandas reads them: floats where it can, words elsewhere."""
    import pandas as pd

    lines = (line.text for line in found.body)
    if found.delimiter == " ":
        lines = (" ".join(text.split()) for text in lines)
    exact = {} if _version(pd.__version__) >= (3, 1) else {"float_precision": "round_trip"}
    words = {form for word in MISSING_WORDS for form in (word, word.upper(), word.capitalize())}
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
    """Return what a column holds, with its values."""
    if series.dtype.kind in "iuf":
        values = _without(series.to_numpy(float), style, missing)
        return Column(
            name, ColumnKind.EMPTY if np.isnan(values).all() else ColumnKind.NUMBERS, values
        )
    words = ["" if absent else str(w) for w, absent in zip(series, series.isna(), strict=True)]
    read = [style.number(word) for word in words]
    strays = [Stray(row, words[row].strip()) for row, value in enumerate(read) if value is None]
    values = _without(np.array([np.nan if v is None else v for v in read]), style, missing)
    stray = strays[0] if strays else None
    if 2 * len(strays) <= sum(not is_missing(word) for word in words):
        kind = ColumnKind.EMPTY if np.isnan(values).all() else ColumnKind.NUMBERS
        return Column(name, kind, values, stray=stray)
    if (found := moments(words)) is not None:
        return Column(name, ColumnKind.DATES, found.seconds, "", stray, *found[1:])
    absent = np.full(len(words), np.nan)
    return Column(name, ColumnKind.TEXT, absent, stray=stray, words=tuple(map(str.strip, words)))


def _without(values: np.ndarray, style: Style, missing: Sequence[str]) -> np.ndarray:
    """NaN in place of the numbers that stand for missing values."""
    codes = [Style.POINT.number(word) for word in missing] + [style.number(w) for w in missing]
    numbers = [code for code in codes if code is not None]
    return np.where(np.isin(values, numbers), np.nan, values) if numbers else values


def _is_index(column: Column, name: str, position: int) -> bool:
    """Whether a column counts the rows: by its name, or as one without a name before the others."""
    values = column.values
    if column.kind is not ColumnKind.NUMBERS or column.stray or not np.isfinite(values).all():
        return False
    if np.any(values != np.round(values)):
        return False
    unnamed = (not name and position == 0) or name.lower().startswith("unnamed:")
    return bool(
        (unnamed and len(np.unique(values)) == len(values))
        or (INDEX_NAMES.fullmatch(name.lower()) and np.all(np.diff(values) == 1))
    )


def _unit(below: str, name: str) -> str:
    """Return the unit from a line beneath the heading, or from the brackets in a name."""
    found = BRACKET.fullmatch(name)
    if found and UNIT.fullmatch(found["unit"]):
        return found["unit"].strip()
    return below.strip(" []()")
