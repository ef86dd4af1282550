"""Rows: what is told of a job in a few numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from folt.store.strict_json import Document, plain

if TYPE_CHECKING:
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
    """A row as plain values.

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
    """Those columns that come with the ends of an interval."""
    there = set(names)
    return [name for name in names if name + LOW in there and name + HIGH in there]
