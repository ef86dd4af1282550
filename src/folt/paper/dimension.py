"""Table 2 and Figure 2: two mirrored Gaussians in more and more dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from folt.paper.rows import Job, Settings, by_method
from folt.paper.shared_fits import SharedFits, folded_and_unfolded, run_pair, sections
from folt.paper.tables import (
    Claim,
    Row,
    floor_claim,
    gammas,
    like_with_like,
    number,
    spread,
)
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dimension"
TITLE = "Dimension (Table 2, Figure 2)"
_DIMENSIONS = ("2", "5", "10", "20")


def cases(settings: Settings) -> list[Job]:
    """Return every dimension, folded and unfolded; the two smallest when in a hurry."""
    return folded_and_unfolded(_DIMENSIONS[:2] if settings.quick else _DIMENSIONS, settings)


def run(fits: SharedFits, job: Job) -> list[Row]:
    """Return the row of one case, method and seed."""
    return run_pair(fits, NAME, f"pair-{job.case}", job)


def report(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the tables of the document, as Markdown."""
    return sections(rows)


def claims(rows: list[Row], preset: str) -> list[Claim]:
    """Return what the paper says about it, and our bar."""
    groups = by_method(rows)
    known = [case for case in _DIMENSIONS if (case, "unfolded") in groups]
    if len(known) < 2:
        return []
    first, last = (gammas(groups[case, "unfolded"], "proposal") for case in (known[0], known[-1]))
    folded = [like_with_like(row) for row in rows if row["method"] == "folded"]
    lowest = min(gammas(folded, "proposal"), default=None)
    fall = first[0] / last[0] if first and last else None
    found = [
        Claim(
            "Unfolded, γ falls by more than 5 with the dimension (by 25 from 2 to 20 in print); "
            f"here from d = {known[0]} to {known[-1]}",
            None if fall is None else fall > 5.0,
            f"{spread(first)} to {spread(last)}, a factor {number(fall, 1)}",
        ),
        Claim(
            "Folded, γ stays above 0.9 (0.90 to 0.94 in print)",
            None if lowest is None else lowest >= 0.9,
            f"lowest {number(lowest)}",
        ),
    ]
    return found + ([floor_claim(rows, 0.99)] if preset == "default" else [])


def figure(document: Document) -> Figure:
    """Return the figure of γ against the dimension d."""
    from folt.paper.pictures import gamma_figure

    labels = {case: f"d = {case}" for case in _DIMENSIONS}
    return gamma_figure(document, labels, "dimension, two mirrored Gaussians, s = 2")
