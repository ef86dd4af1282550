"""Rows: what is told of a job in a few numbers.

The table of a fleet: one row per job, in the order of the jobs, current while they run.

How far a fleet is: a bar on a terminal, a plain line now and then anywhere else.

It is apart from the progress of a fit because nothing heavy may be imported with it.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from folt.store import Store
from folt.store.packages import require
from folt.store.strict_json import Document, plain

if TYPE_CHECKING:
    import pandas
    from rich.progress import Progress

    from folt.fit import Fit


Row = Document

FIRST = ("job", "error", "verdict")
"""Columns that every table begins with."""

LAST = ("seconds",)
"""Columns that come last: they differ from run to run."""

LOW, HIGH = " low", " high"
"""End the names of the columns with the ends of a 95 % interval."""


def fit_row(fit: Fit) -> Row:
    """Verdict, evidence, quality, and every estimate with the ends of its 95 % interval."""
    from folt.fit.text import estimate_rows

    estimates = estimate_rows(fit)
    evidence = fit.log_evidence
    known = [one.rhat for one in estimates if one.rhat is not None]
    row: Row = {
        "verdict": fit.certificate.status.name,
        "log_evidence": evidence.value,
        "log_evidence_error": evidence.standard_error,
        "accept": fit.accept_rate,
        "rhat": max(known, default=None),
        "ess": min((one.ess for one in estimates), default=None),
        "steps": fit.certificate.mixing.steps[0.05],
    }
    for one in estimates:
        row |= {one.name: one.mean, one.name + LOW: one.low, one.name + HIGH: one.high}
    return row


def require_row(row: object) -> Row:
    """Return a row as plain values.

    Raises:
        ValueError: it is no dictionary, holds what no file can hold, or a name that is taken.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"expected a row as a dictionary, got {type(row).__name__}")
    taken = [name for name in ("job", "error", "seconds") if name in row]
    if taken:
        raise ValueError(f"expected a row without {taken[0]!r}: that column is the fleet's own")
    try:
        return json.loads(json.dumps(plain(row), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"expected a row of numbers and words: {error}") from error


def columns(rows: list[Row]) -> list[str]:
    """The columns of a table of these rows: those that all begin with, the others, seconds."""
    seen: dict[str, None] = {}
    for row in rows:
        seen |= dict.fromkeys(row)
    between = [name for name in seen if name not in (*FIRST, *LAST)]
    return [*FIRST, *between, *LAST]


def estimates_in(names: list[str]) -> list[str]:
    """Return those columns that come with the ends of an interval."""
    there = set(names)
    return [name for name in names if name + LOW in there and name + HIGH in there]


_TABLE, INDEX = "table.csv", "index.html"

PAUSE = 1.0
"""Seconds between two writings of the table, at least."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Words that spreadsheets would compute begin so; a quotation mark before them makes them text."""

_SHARE = 0.05
"""Of the time that may go into writing it."""


class RowTable:
    """Rows by job, written to a folder now and then and at the end.

    Args:
        store: the folder.
        names: the jobs, in order.
    """

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self._store = store
        self._rows: dict[str, Row | None] = dict.fromkeys(names)
        self._written, self._took, self._changed = 0.0, 0.0, False

    def put(self, name: str, row: Row) -> None:
        """What is known of a job now."""
        self._rows[name] = {"job": name, "error": None, **row}
        self._changed = True

    def rows(self) -> list[Row]:
        """Return those that are there, in the order of the jobs."""
        return [row for row in self._rows.values() if row is not None]

    def write_now_and_then(self) -> None:
        """Write the table if it has changed and that was long enough ago."""
        if self._changed and time.monotonic() > self._written + max(PAUSE, self._took / _SHARE):
            self.write()

    def write(self) -> None:
        """Write the table as it is now."""
        begun = time.monotonic()
        self._store.write(_TABLE, _as_csv(self.rows()).encode(errors="replace"))
        self._written = time.monotonic()
        self._took, self._changed = self._written - begun, False


def _as_csv(rows: list[Row]) -> str:
    """Return rows as CSV: nothing for what is missing, JSON for what is no single value."""
    stream = io.StringIO()
    names = columns(rows)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_cell(name) for name in names])
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])
    return stream.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def frame(rows: list[Row]) -> pandas.DataFrame:
    """Return rows as a data frame, one per job; how many started warm stands in its `attrs`."""
    require("a table of fits", "pandas")
    import pandas

    made = pandas.DataFrame(rows, columns=columns(rows))
    made.attrs.update(
        failed=sum(row["error"] is not None for row in rows),
        warm=sum(row.get("started_from") is not None for row in rows),
    )
    return made


PAUSES = (5.0, 60.0)
"""Shortest and longest pause between two lines, in seconds."""


class Bar:
    """Told how many jobs have ended, says it now and then.

    Args:
        show: whether anything is said.
        total: number of jobs.
    """

    def __init__(self, show: bool, total: int) -> None:
        self._show, self._total = show, total
        self._bar: Progress | None = None
        self._begun = self._said = time.monotonic()

    def __enter__(self) -> Bar:
        if self._show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, ended: int, words: str) -> None:
        """How many have ended, and the same in words."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=ended, description=words)
        elif self._show:
            self._line(words)

    def _line(self, words: str) -> None:
        now = time.monotonic()
        pause = min(max(PAUSES[0], 0.05 * (now - self._begun)), PAUSES[1])
        if now - self._said >= pause:
            self._said = now
            try:
                sys.stderr.write(f"folt: {words}, {now - self._begun:.0f} s\n")
                sys.stderr.flush()
            except (OSError, ValueError):  # whoever listened has gone
                self._show = False
