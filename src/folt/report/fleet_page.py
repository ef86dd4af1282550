"""A fleet as one page."""

from __future__ import annotations

from typing import Any


def fleet_page(rows: list[dict[str, Any]], total: int) -> str:
    """The page of a fleet."""
    return f"{len(rows)} of {total}"
