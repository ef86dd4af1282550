"""The table of a fleet: one row per job, in the order of the jobs, current while they run."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from folt.fleet.rows import Row, columns
from folt.store import Store

if TYPE_CHECKING:
    import pandas

TABLE, INDEX = "table.csv", "index.html"

PAUSE = 1.0
"""Seconds between two writings of the table, at least."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Words that spreadsheets would compute begin so; a quotation mark before them makes them text."""

SHARE = 0.05
"""Of the time that may go into writing it."""


class Table:
    """Rows by job, written to a folder now and then and at the end.

    Args:
        store: the folder.
        names: the jobs, in order.
    """

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self._store = store
        self._rows: dict[str, Row | None] = dict.fromkeys(names)
        self._written, self._took, self._changed = 0.0, 0.0, False

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, name: str, row: Row) -> None:
        """What is known of a job now."""
        self._rows[name] = {"job": name, "error": None, **row}
        self._changed = True

    def rows(self) -> list[Row]:
        """Those that are there, in the order of the jobs."""
        return [row for row in self._rows.values() if row is not None]

    def write_now_and_then(self) -> None:
        """Write the table if it has changed and that was long enough ago."""
        if self._changed and time.monotonic() > self._written + max(PAUSE, self._took / SHARE):
            self.write()

    def write(self) -> None:
        """Write the table as it is now."""
        begun = time.monotonic()
        self._store.write(TABLE, as_csv(self.rows()).encode(errors="replace"))
        self._written = time.monotonic()
        self._took, self._changed = self._written - begun, False


def as_csv(rows: list[Row]) -> str:
    """Rows as CSV: nothing for what is missing, JSON for what is no single value."""
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
    """Rows as a data frame, one per job; how many started warm stands in its `attrs`."""
    import pandas

    made = pandas.DataFrame(rows, columns=columns(rows))
    made.attrs.update(
        failed=sum(row["error"] is not None for row in rows),
        warm=sum(row.get("started_from") is not None for row in rows),
    )
    return made
