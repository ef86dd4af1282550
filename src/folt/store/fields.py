"""What the fields of a table say: numbers as different countries write them, dates, units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    import pandas as pd

MISSING_WORDS = frozenset(
    ["", "-", "--", "---", ".", "?", "*", "na", "n/a", "#n/a", "#na", "<na>"]
) | {
    *("nan", "-nan", "nat", "null", "none", "nil", "missing"),
    *("#value!", "#div/0!", "#ref!", "#num!", "#null!", "#name?"),
}
"""Words that stand for a missing value, in small letters."""

INFINITE = frozenset(f"{sign}{word}" for sign in ("", "+", "-") for word in ("inf", "infinity"))

NUMBER = (
    r"[+-]?(?=\d|{point}\d)"
    r"(?:[1-9]\d{{0,2}}(?P<group>[{group}'   ])\d{{3}}(?:(?P=group)\d{{3}})*|\d*)"
    r"(?:{point}\d*)?(?:[eE][+-]?\d+)?"
)

BRACKET = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]*)[\])]")
"""A name with its unit, such as `Time (s)`."""

_SYMBOLS = (
    r"(?:[kKmMcdhnpGTµμu]?(?:m|s|g|Hz|V|A|N|Pa|W|J|K|C|F|bar|mol|l|L|eV|Ohm|Ω|strain|ε|B|rad)"
    r"|°C?|°F|deg|degC|%|‰|min|h|d|sec|in|ft|mi|lb|psi|rpm|ppm|counts?|a\.?u\.?|USD|EUR|€|\$|1|-)"
)
_POWER = rf"{_SYMBOLS}(?:\^?-?[\d²³])?"
UNIT = re.compile(rf"\s*|[\[(].*[\])]|(?:1/)?{_POWER}(?:[/*·.]{_POWER})*")
"""A field of a line of units beneath a heading."""

DATE = re.compile(
    r"(?:(?P<a>\d{1,4})(?P<s>[-./])(?P<b>\d{1,2})(?P=s)(?P<c>\d{1,4}))?[T ,]*"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,:](?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<half>[aApP][mM])?(?:Z|UTC|[+-]\d\d:?\d\d)?"
)
MONTH = re.compile(r"\d.*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)


class Style(StrEnum):
    """The sign between whole and decimal digits."""

    POINT = "."
    COMMA = ","

    def matches(self, word: str) -> bool:
        """Return whether the word is a number in this style, groups of three digits included."""
        return _PATTERNS[self].fullmatch(word) is not None

    def number(self, word: str) -> float | None:
        """Return the number, NaN for a missing value, None for any other word."""
        word = word.strip()
        if is_missing(word):
            return np.nan
        if word.lower() in INFINITE:
            return float(word)
        found = _PATTERNS[self].fullmatch(word)
        if found is None:
            return None
        plain = word.replace(found["group"], "") if found["group"] else word
        return float(plain.replace(self.value, "."))


_PATTERNS = {
    Style.POINT: re.compile(NUMBER.format(point=r"\.", group=",")),
    Style.COMMA: re.compile(NUMBER.format(point=",", group=".")),
}


def is_missing(word: str) -> bool:
    """Return whether a word stands for a missing value."""
    return word.strip().lower() in MISSING_WORDS


def is_number(word: str) -> bool:
    """Return whether a word is a number in one style or the other."""
    word = word.strip()
    return word.lower() in INFINITE or any(style.matches(word) for style in Style)


def style_of(words: Iterable[str], delimiter: str | None) -> Style | None:
    """Return the style in which the numbers of a table are written; None where one cannot tell.

    `1.5` and `0,5` tell, `1,234` alone does not: then semicolons between fields speak for decimal
    commas and commas between fields for groups of digits, as spreadsheets write both.
    """
    point = comma = 0
    unclear = set()
    for word in words:
        fits = [style.matches(word) for style in Style]
        point += fits == [True, False]
        comma += fits == [False, True]
        if all(fits):
            unclear |= {sign for sign in ".," if sign in word}
    if point != comma:
        return Style.POINT if point > comma else Style.COMMA
    if not point and "," not in unclear:
        return Style.POINT
    if not point and delimiter not in (",", ";"):
        return None
    return Style.COMMA if delimiter == ";" else Style.POINT


class _Moments(NamedTuple):
    """Dates or times of the day as seconds after the first of them; NaN where one is missing.

    Attributes:
        seconds: by row.
        has_date: whether days are given.
        has_clock: whether times of the day are given.
        resolution: the smallest step that their digits can show, in seconds.
    """

    seconds: Float[np.ndarray, " row"]
    has_date: bool
    has_clock: bool
    resolution: float


def moments(words: Sequence[str]) -> _Moments | None:
    """Dates and times as seconds, or None where a word is neither of these nor missing.

    Of 3/4/2026 the order of day and month is the one that gives the shorter time in all.
    """
    import pandas as pd

    first = next((word for word in words if not is_missing(word)), "")
    if MONTH.search(first):
        named = pd.to_datetime(list(words), errors="coerce", format="mixed", utc=True)
        wrong = [word for word, bad in zip(words, named.isna(), strict=True) if bad]
        if not all(is_missing(word) for word in wrong):
            return None
        fractions = [re.search(r":\d\d[.,](\d+)", word) for word in words]
        digits = max((len(found[1]) for found in fractions if found), default=0)
        return _Moments(_seconds(named), True, ":" in first, 10.0**-digits)
    found = [None if is_missing(word) else DATE.fullmatch(word.strip()) for word in words]
    parts = [part for part in found if part is not None]
    is_day, is_clock = (any(part[key] for part in parts) for key in ("a", "hour"))
    known = sum(not is_missing(word) for word in words)
    if not parts or len(parts) < known or not (is_day or is_clock):
        return None
    digits = max(len(part["fraction"] or "") for part in parts)
    spans = []
    for order in ("abc", "cba", "cab"):
        times = pd.to_datetime(
            [None if part is None else _iso(part, order) for part in found],
            errors="coerce",
            format="ISO8601",
        )
        if times.notna().sum() == known:
            spans.append(_seconds(times))
    if not spans:
        return None
    seconds = min(spans, key=lambda values: np.nanmax(values) - np.nanmin(values))
    shown = 86_400.0 if not is_clock else 10.0**-digits if parts[0]["second"] else 60.0
    return _Moments(seconds, is_day, is_clock, shown)


def _seconds(times: pd.DatetimeIndex) -> np.ndarray:
    """Return seconds after the first moment that is known."""
    values = times.tz_localize(None).to_numpy("datetime64[ns]")
    known = values[~np.isnat(values)]
    return (values - known[0]) / np.timedelta64(1, "s") if known.size else np.zeros(0)


def _iso(part: re.Match[str], order: str) -> str:
    """Return a moment as year-month-dayThour:minute:second; the first of January without a date."""
    year, month, day = (part[key] or "1" for key in order)
    if part["a"] is None:
        year = "2000"
    elif len(year) <= 2:
        year = f"20{int(year):02}"
    hour = int(part["hour"] or 0)
    if part["half"]:
        hour = hour % 12 + 12 * (part["half"].lower() == "pm")
    clock = f"{hour:02}:{part['minute'] or '00'}:{part['second'] or '00'}.{part['fraction'] or '0'}"
    return f"{int(year):04}-{int(month):02}-{int(day):02}T{clock}"
