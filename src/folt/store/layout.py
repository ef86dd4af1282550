"""Where the table stands in a file of text: its delimiter, its heading, its first line of numbers.

Loggers write remarks, settings and units above their numbers, spreadsheets write semicolons and
decimal commas. The lines that follow the first line of numbers must all have the same fields.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from folt.store.fields import UNIT, Style, is_missing, is_number, style_of

REMARK = re.compile(r'[ "]*(?:%|//|#(?!(?:N/A|NA|DIV/0!|VALUE!|REF!|NUM!|NULL!|NAME\?)(?:\W|$)))')
"""What a line of remarks begins with; an error of a spreadsheet in the first column is none."""

DELIMITERS = ("\t", ";", "|", ",", " ", None)
"""In the order in which they are preferred where several fit; None is a single column."""

SAMPLED = 400
"""Lines that are looked at to find the layout: more than loggers write above their numbers."""

COUNTED_ROWS = 5
"""Rows from which on 1, 2, 3, ... is no chance."""

OPEN_QUOTE = re.compile(r'(?:^|[,;\t|])\s*"(?:[^"]|"")*$')
"""A quoted field that does not end in its line."""

QUOTED_LINES = 20
"""Lines that one quoted field may span, before its quotation mark is taken for a forgotten one."""

TIME_NAMES = re.compile(
    r"(?:time|timestamp|datetime|date|date[/ _]?time|t|zeit|zeitstempel|datum|uhrzeit|temps|tiempo"
    r"|fecha|seconds|secs?|elapsed|elapsed[ _]time|time[ _]elapsed|time[ _]?stamp)"
    r"(?:[ _]*(?:[\[(].*[\])]|s|ms|us|µs|sec|seconds|min|utc))?",
    re.IGNORECASE,
)
"""Headings of a column that is a clock."""


class _Line(NamedTuple):
    """One row of a file: the number of its line, its text, whether a blank line stands above."""

    number: int
    text: str
    apart: bool = False


class Layout(NamedTuple):
    """A table in a file of text.

    Attributes:
        delimiter: between fields; None for a single column.
        style: how decimals are written.
        names: from the heading, as they stand there; None without a heading.
        units: from a line beneath the heading; empty without one.
        width: fields of every line.
        body: the lines of numbers.
    """

    delimiter: str | None
    style: Style
    names: tuple[str, ...] | None
    units: tuple[str, ...]
    width: int
    body: list[_Line]


def fields(text: str, delimiter: str | None) -> list[str]:
    """Return the fields of a line, without spaces and quotation marks around them."""
    if delimiter is None:
        return [text.strip().strip('"').strip()]
    if '"' not in text:
        parts = text.split() if delimiter == " " else text.split(delimiter)
        return [part.strip() for part in parts]
    words = " ".join(text.split()) if delimiter == " " else text
    read = csv.reader([words], delimiter=delimiter, skipinitialspace=True)
    return [field.strip() for field in next(read)]


def layout(text: str, where: str, delimiter: str | None = None) -> Layout:
    """Find the table in a text.

    Args:
        text: contents of a file.
        where: the file, for what is refused.
        delimiter: if it is known.

    Raises:
        ValueError: there is none, or its lines differ in the number of fields.
    """
    lines, remarks = _lines(text)
    if not lines:
        raise ValueError(f"{where} is empty: expected columns of numbers")
    if declared := re.fullmatch(r'"?sep=(.)"?', lines[0].text.strip(), re.IGNORECASE):
        delimiter, lines = declared[1], lines[1:]
    sample = lines[:SAMPLED]
    if delimiter is None:
        delimiter = _delimiter([line.text for line in sample])
    rows = [fields(line.text, delimiter) for line in sample]
    width = _width(rows)
    heading, first, units = _start(sample, rows, width, where)
    if first == len(lines):
        _refuse_words(lines, delimiter, where)
    names = None if heading is None else tuple(rows[heading])
    if names is None:
        names = _remarked(remarks, lines[first].number, delimiter, width)
    style = _style(rows[first:], sample[first:], delimiter, where)
    unit_row = () if units is None else tuple(rows[units])
    body = lines[first:]
    _require_width(body, delimiter, width, where)
    return Layout(delimiter, style, names, unit_row, width, body)


def _refuse_words(lines: Sequence[_Line], delimiter: str | None, where: str) -> NoReturn:
    """Say that no line holds a number, and what stands where the first one was expected."""
    if len(lines) < 2:
        raise ValueError(f"{where} has a heading and nothing below it: expected numbers")
    names, words = (fields(line.text, delimiter) for line in lines[:2])
    name = repr(names[0]) if len(names) == len(words) and names[0] else "1"
    raise ValueError(
        f"{where}, line {lines[1].number}, column {name}: expected a number, got {words[0]!r}, "
        "and no other line holds one"
    )


def _lines(text: str) -> tuple[list[_Line], list[_Line]]:
    """Lines that hold something, and remarks; a quoted field may go over several lines."""
    lines: list[_Line] = []
    remarks: list[_Line] = []
    physical = re.split(r"\r\n|\r|\n", text)
    apart, at = False, 0
    while at < len(physical):
        number, line = at + 1, physical[at]
        at += 1
        if '"' in line and OPEN_QUOTE.search(line):
            for further in range(at, min(at + QUOTED_LINES, len(physical))):
                if physical[further].count('"') % 2:
                    line, at = " ".join(physical[number - 1 : further + 1]), further + 1
                    break
        words = line.strip(' \t\x1a\0;,"')
        if not words and not line.strip(" \x1a\0"):
            apart = True
        elif REMARK.match(line):
            remarks.append(_Line(number, line))
        elif not words and not lines:
            continue  # delimiters alone above the table, as spreadsheets write empty rows
        else:
            lines.append(_Line(number, line, apart))
            apart = False
    while lines and not lines[-1].text.strip(' \t;,"'):
        lines.pop()
    return lines, remarks


def _delimiter(texts: Sequence[str]) -> str | None:
    """The delimiter that gives most lines the same number of fields, one a number at least."""
    best, most = None, 0
    for delimiter in DELIMITERS:
        rows = [fields(text, delimiter) for text in texts if delimiter is None or delimiter in text]
        widths = Counter(len(row) for row in rows if any(map(is_number, row)))
        count = max((n for width, n in widths.items() if (width > 1) == bool(delimiter)), default=0)
        if delimiter == " ":  # words with spaces in them are no columns
            count = sum(all(map(_fits, row[1:])) and is_number(row[-1]) for row in rows)
        if delimiter is None:  # 1,5 is one number only where nothing speaks for two
            count = sum(is_number(text) and "," not in text for text in texts)
        if count > most:
            best, most = delimiter, count
    if best == "," and _is_one_column(texts):
        return None
    if best == "," and "," not in texts[0]:  # €1,50 among semicolons has a decimal comma
        others = (d for d in ("\t", ";", "|") if len({text.count(d) for text in texts}) == 1)
        return next((d for d in others if d in texts[0]), best)
    if not most:
        return next((d for d in DELIMITERS[:4] if d is not None and d in texts[0]), None)
    return best


def _is_one_column(texts: Sequence[str]) -> bool:
    """Whether 1,5 is one number: below one name, and no count of rows stands before the comma."""
    heading, *below = (text.strip() for text in texts)
    if "," in heading or is_number(heading) or not all(map(_fits, below)):
        return False
    before = [text.split(",")[0] for text in below]
    return not (len(before) >= COUNTED_ROWS and _is_count(before))


def _is_count(words: Sequence[str]) -> bool:
    return any(list(words) == [str(i + start) for i in range(len(words))] for start in (0, 1))


def _width(rows: Sequence[list[str]]) -> int:
    widths = Counter(len(row) for row in rows if any(map(is_number, row)))
    widths = widths or Counter(len(row) for row in rows)
    return max(widths, key=lambda width: (widths[width], width == len(rows[0]), width))


def _start(
    sample: Sequence[_Line], rows: Sequence[list[str]], width: int, where: str
) -> tuple[int | None, int, int | None]:
    """Return the row of the heading, the first row of numbers, the row of units.

    A heading has words where the column below has numbers. Above it anything may stand, unless it
    could be numbers of this table.
    """
    numeric = _numeric_columns([row for row in rows if len(row) == width], width)
    headings = []
    first = len(rows)
    for at, row in enumerate(rows):
        words = [j for j in numeric if len(row) == width and not _fits(row[j])]
        numbers = [j for j in numeric if len(row) == width and is_number(row[j])]
        if at == 0 and len(row) == width and _is_counted_heading(row):
            headings.append(at)
        elif len(row) == width and numbers and not words:
            first = at
            break
        elif len(row) == width and words and (not numbers or (not at and 0 in words)):
            headings.append(at)
        elif len(row) == width and not words and headings and any(row):
            first = at  # a first row in which all numbers are missing
            break
        elif len(row) == width - 1 and row and not any(map(is_number, row)):
            headings.append(at)
    else:
        return (headings[0] if headings else None), len(rows), None
    heading = _heading(sample, rows, headings)
    units = None
    if heading is None:
        _require_no_names(sample, rows, first, width, where)
        return None, next(at for at, row in enumerate(rows) if len(row) == width), None
    if len(rows[heading]) == width - 1:
        _require_row_names(sample[heading], rows[first:], width, where)
    below = heading + 1
    if below < first and len(rows[below]) == width and all(map(UNIT.fullmatch, rows[below])):
        units, below = below, below + 1
    while below < first and len(rows[below]) != width and not any(map(is_number, rows[below])):
        below += 1
    return heading, below, units


def _heading(
    sample: Sequence[_Line], rows: Sequence[list[str]], headings: Sequence[int]
) -> int | None:
    """Of several rows of words the one that names a clock, or the first after the last break."""
    if not headings:
        return None
    clocks = [at for at in headings if any(map(TIME_NAMES.fullmatch, rows[at]))]
    if clocks:
        return clocks[-1]
    last = headings[-1]
    while last - 1 in headings and not sample[last].apart:
        if len(rows[last - 1]) != len(rows[last]):
            break
        last -= 1
    return last


def _numeric_columns(rows: Sequence[list[str]], width: int) -> list[int]:
    """Return columns in which as many fields are numbers as words, or more."""
    return [
        j
        for j in range(width)
        if any(is_number(row[j]) for row in rows)
        and sum(is_number(row[j]) for row in rows) >= sum(not _fits(row[j]) for row in rows)
    ] or [j for j in range(width) if any(is_number(row[j]) for row in rows)]


def _fits(word: str) -> bool:
    return is_missing(word) or is_number(word)


def _is_counted_heading(row: Sequence[str]) -> bool:
    """Return whether the names are numbers: 0, 1, 2, ... as pandas gives them, or years."""
    if len(row) < 3 or is_number(row[0]) or not all(re.fullmatch(r"\d{1,4}", w) for w in row[1:]):
        return False
    start = int(row[1])
    counted = [int(word) - start for word in row[1:]] == list(range(len(row) - 1))
    return counted and (not start or 1900 <= start <= 2100)


def _require_no_names(
    sample: Sequence[_Line], rows: Sequence[list[str]], first: int, width: int, where: str
) -> None:
    above = rows[first - 1] if first else []
    if first and 1 < len(above) != width:
        raise ValueError(
            f"{where}, line {sample[first - 1].number}: expected {width} columns as in the lines "
            f"below, got {len(above)}"
        )


def _require_row_names(heading: _Line, body: Sequence[list[str]], width: int, where: str) -> None:
    """A heading is one name short above names of rows, or where a delimiter ends the lines."""
    whole = [row for row in body if len(row) == width]
    if all(not row[-1] for row in whole):
        return
    firsts = [row[0] for row in whole]
    if not _is_count(firsts) and any(map(is_number, firsts)):
        raise ValueError(
            f"{where}, line {heading.number}: expected {width} names as the lines below have "
            f"columns, got {width - 1}"
        )


def _remarked(
    remarks: Sequence[_Line], first: int, delimiter: str | None, width: int
) -> tuple[str, ...] | None:
    """Return names in the last remark above the numbers, where NumPy writes them."""
    above = [line.text for line in remarks if line.number == first - 1]
    if not above or width < 2:
        return None
    row = fields(above[0].lstrip(' "#%/'), delimiter)
    return tuple(row) if len(row) == width and not any(map(is_number, row)) else None


def _style(
    rows: Sequence[list[str]], lines: Sequence[_Line], delimiter: str | None, where: str
) -> Style:
    style = style_of((word for row in rows for word in row), delimiter)
    if style is not None:
        return style
    at, column, word = next(
        (line.number, j + 1, word)
        for line, row in zip(lines, rows, strict=True)
        for j, word in enumerate(row)
        if "," in word and is_number(word)
    )
    raise ValueError(
        f"{where}, line {at}, column {column}: {word} may be {word.replace(',', '')} or "
        f"{word.replace(',', '.')}: expected decimal points"
    )


def _require_width(body: Sequence[_Line], delimiter: str | None, width: int, where: str) -> None:
    for line in body:
        if '"' in line.text and OPEN_QUOTE.search(line.text):
            raise ValueError(f"{where}, line {line.number}: a quotation mark is not closed")
        if delimiter is None:
            continue
        if '"' in line.text or delimiter == " ":
            found = len(fields(line.text, delimiter))
        else:
            found = line.text.count(delimiter) + 1
        if found != width:
            raise ValueError(f"{where}, line {line.number}: expected {width} columns, got {found}")
