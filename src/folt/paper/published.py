"""The paper's figures, printed and saved, by table, case and method."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any

from folt.store.strict_json import Document


@functools.cache
def published_figures() -> Document:
    """`{table: {case: {method: {"printed": ..., "saved": ...}}}}`.

    `printed` is what the paper prints, `saved` what the output files released with its code hold.
    """
    text = (files("folt.paper") / "published.json").read_text(encoding="utf-8")
    return json.loads(text)["tables"]


def published(table: str, case: str, method: str) -> Document | None:
    """The figures of one row; None where the paper has none."""
    return published_figures().get(table, {}).get(case, {}).get(method)


def figure_of(row: Document, source: str, *path: str) -> Any:
    """One published number of a row, such as `figure_of(row, "saved", "gamma", "0.05")`."""
    found = (row.get("published") or {}).get(source)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
