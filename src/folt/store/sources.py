"""Files of tables as text: encodings, compressed files, spreadsheets and Parquet."""

from __future__ import annotations

import bz2
import codecs
import gzip
import importlib.util
import lzma
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from folt.store.files import require_readable

if TYPE_CHECKING:
    import pandas as pd

SPREADSHEETS = {
    ".xlsx": ("openpyxl", "openpyxl"),
    ".xlsm": ("openpyxl", "openpyxl"),
    ".xls": ("xlrd", "xlrd"),
    ".ods": ("odf", "odfpy"),
}
"""Module that pandas reads a spreadsheet with, and how it is installed."""

PARQUET = (".parquet", ".pq")

T = TypeVar("T")

OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}

MARKS = (
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
    """A file as text; cells of spreadsheets and Parquet are separated by tabs.

    Raises:
        ValueError: there is no such file, it holds no table, or what reads it is not installed.
    """
    suffix = path.suffix.lower()
    try:
        require_readable(path)
        if suffix in SPREADSHEETS:
            return _spreadsheet(path, *SPREADSHEETS[suffix])
        if suffix in PARQUET:
            return _parquet(path)
        data = path.read_bytes()
        if suffix in OPENERS:
            data = _opened(path, data, OPENERS[suffix])
    except OSError as error:
        raise ValueError(f"expected a CSV file at {path}, got '{error.strerror}'") from error
    return Source(_decoded(path, data))


def _opened(path: Path, data: bytes, opener: Callable[[bytes], bytes]) -> bytes:
    try:
        return opener(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path} cannot be decompressed: {error}") from error


def _decoded(path: Path, data: bytes) -> str:
    """Text in UTF-8 or UTF-16 or, where it is neither, in the encoding of Western Windows."""
    wide = data[1:400:2].count(0) > len(data[1:400:2]) // 2
    marked = (encoding for mark, encoding in MARKS if data.startswith(mark))
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


def _spreadsheet(path: Path, module: str, package: str) -> Source:
    """The first sheet."""
    _require(path, module, package)
    import pandas as pd

    def read() -> tuple[pd.DataFrame, list[str]]:
        with pd.ExcelFile(path) as book:
            return book.parse(0, header=None, dtype=object), [str(s) for s in book.sheet_names]

    frame, sheets = _guarded(path, "a spreadsheet", read)
    notes = [f"{path}: read the first of {len(sheets)} sheets, {sheets[0]!r}"] if sheets[1:] else []
    return Source(frame.to_csv(sep="\t", header=False, index=False), "\t", tuple(notes))


def _parquet(path: Path) -> Source:
    if importlib.util.find_spec("fastparquet") is None:
        _require(path, "pyarrow", "pyarrow")
    import pandas as pd

    frame = _guarded(path, "a Parquet file", lambda: pd.read_parquet(path))
    counted = isinstance(frame.index, pd.RangeIndex)
    return Source(frame.to_csv(sep="\t", index=not counted), "\t")


def _require(path: Path, module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ValueError(
            f"{path} needs {package}, which is not installed: pip install {package}, or save it as "
            "CSV"
        )


def _guarded(path: Path, what: str, read: Callable[[], T]) -> T:
    """What a foreign library makes of a file; whatever it raises is about the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except OSError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} cannot be read as {what}: {said}") from error
