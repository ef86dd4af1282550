"""Table 1 and the supplement: a fold boundary that runs through the mass.

The published target is even in its first coordinate and thus invariant, although the paper calls
it asymmetric. `broken` is a banana whose arms truly differ; folding it needs the whole orbit sum.
"""

from __future__ import annotations

from folt.paper.rows import Job, Settings, by_method
from folt.paper.shared_fits import SharedFits, folded_and_unfolded, run_pair, sections
from folt.paper.tables import (
    Claim,
    Row,
    gammas,
    like_with_like,
    number,
    spread,
)

NAME = "banana"
TITLE = "Banana (Table 1)"
PROBLEMS = {"invariant": "banana", "broken": "broken-banana"}


def cases(settings: Settings) -> list[Job]:
    """Return both bananas, folded and unfolded."""
    return folded_and_unfolded(PROBLEMS, settings)


def run(fits: SharedFits, job: Job) -> list[Row]:
    """Return the row of one case, method and seed."""
    return run_pair(fits, NAME, PROBLEMS[job.case], job)


def report(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the tables of the document, as Markdown."""
    return sections(rows, ratios=False)


def claims(rows: list[Row], preset: str) -> list[Claim]:
    """Return what the paper says about it."""
    groups = by_method(rows)
    folded = [like_with_like(row) for row in groups.get(("invariant", "folded"), [])]
    plain = groups.get(("invariant", "unfolded"), [])
    if not folded or not plain:
        return []
    widths = [[row["full_osc"] for row in side] for side in (folded, plain)]
    known = all(value is not None for side in widths for value in side)
    found = [
        Claim(
            "Folding makes the full oscillation larger where the boundary cuts through the mass",
            min(widths[0]) > max(widths[1]) if known else None,
            f"{spread(widths[0], 1)} folded, {spread(widths[1], 1)} unfolded",
        )
    ]
    for rho in ("0.05", "0.025"):
        sides = [gammas(side, "proposal", rho) for side in (folded, plain)]
        found.append(
            Claim(
                f"γ at ρ = {rho} improves all the same",
                min(sides[0]) > max(sides[1]) if all(sides) else None,
                f"{spread(sides[0])} folded, {number(max(sides[1], default=None))} unfolded",
            )
        )
    return found
