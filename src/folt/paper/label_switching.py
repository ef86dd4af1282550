"""Table 3 and Figure 3: Gaussian blocks in unknown order, more copies and more dimensions."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from folt.paper.rows import Job, Settings, by_method, figure_of
from folt.paper.shared_fits import SharedFits, folded_and_unfolded, run_pair, sections
from folt.paper.tables import (
    NOTHING,
    Claim,
    Row,
    floor_claim,
    gammas,
    like_with_like,
    markdown,
    median,
    number,
    spread,
)
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "label-switching"
TITLE = "Label switching (Table 3, Figure 3)"
CASES = ("m2p2", "m3p2", "m3p4", "m4p2")


def cases(settings: Settings) -> list[Job]:
    """Return every configuration, folded and unfolded; when in a hurry the one others use too."""
    return folded_and_unfolded(CASES[1:2] if settings.quick else CASES, settings)


def run(fits: SharedFits, job: Job) -> list[Row]:
    """Return the row of one case, method and seed."""
    return run_pair(fits, NAME, job.case, job)


def report(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the tables of the document, as Markdown."""
    parts = sections(rows)
    parts.insert(2, ("Copies against dimension: γ divided by", _factor_table(rows)))
    return parts


def _factor_table(rows: list[Row]) -> str:
    """By what γ falls when the dimension doubles, and when the copies multiply."""
    groups = by_method(rows)
    changes = (("twice the dimension", "m3p2", "m3p4"), ("four times the copies", "m3p2", "m4p2"))
    lines = []
    for words, before, after in changes:
        line = [f"{words}, {before} to {after}"]
        for method in ("unfolded", "folded"):
            pair = [groups.get((case, method)) for case in (before, after)]
            if not all(pair):
                return ""
            ours = [median(gammas(map(like_with_like, one or []), "proposal")) for one in pair]
            theirs = [figure_of(one[0], "printed", "gamma", "0.05") for one in pair if one]
            line += [_quotient(ours), _quotient(theirs)]
        lines.append(line)
    return markdown(["change", "unfolded", "printed", "folded", "printed"], lines)


def _quotient(pair: list[float | None]) -> str:
    first, last = pair
    return number(first / last, 1) if first is not None and last else NOTHING


def claims(rows: list[Row], preset: str) -> list[Claim]:
    """Return what the paper says about it, and our bar."""
    groups = by_method(rows)
    plain = {case: gammas(groups.get((case, "unfolded"), []), "proposal") for case in CASES}
    folded = [like_with_like(row) for row in rows if row["method"] == "folded"]
    found = [
        Claim(
            "Folded, γ stays above 0.6 (0.62 to 0.82 in print)",
            min(gammas(folded, "proposal")) >= 0.6 if gammas(folded, "proposal") else None,
            spread(gammas(folded, "proposal")),
        )
    ]
    if all(plain.values()):
        dimension = plain["m3p2"][0] / plain["m3p4"][0]
        copies = plain["m3p2"][0] / plain["m4p2"][0]
        found += [
            Claim(
                "Unfolded, γ falls by more than 5 from s = 2 to 24 (by 85 in print)",
                plain["m2p2"][0] / plain["m4p2"][0] > 5.0,
                f"{number(plain['m2p2'][0])} to {number(plain['m4p2'][0])}",
            ),
            Claim(
                "Unfolded, four times the copies cost more than twice the dimension "
                "(factors 15 and 2 in print)",
                copies > dimension,
                f"factors {number(copies, 1)} and {number(dimension, 1)}",
            ),
        ]
    return found + ([floor_claim(rows, 0.97)] if preset == "default" else [])


def size_of(case: str) -> tuple[int, int]:
    """Dimension and number of copies, 6 and 6 for m3p2."""
    found = re.fullmatch(r"m(\d+)p(\d+)", case)
    assert found is not None
    blocks, size = int(found[1]), int(found[2])
    return blocks * size, math.factorial(blocks)


def figure(document: Document) -> Figure:
    """γ against the configuration, by number of copies and then dimension."""
    from folt.paper.pictures import gamma_figure

    ordered = sorted(CASES, key=lambda case: size_of(case)[::-1])
    labels = {c: "s = {1}, d = {0}\n{2}".format(*size_of(c), c) for c in ordered}
    return gamma_figure(document, labels, "copies s and dimension d")
