"""Intervals of log Z where a thin ridge holds a little of the mass and margins show nothing."""

import numpy as np
import pytest
from table import write_table

import folt
from ridges import NORMAL, ridge

REPEATS = 100
SHARES, WIDTHS = (0.003, 0.006, 0.01, 0.05), (20.0, 100.0)


@pytest.mark.validate
def test_intervals_of_usable_fits_cover_on_a_ridge():
    """95 % intervals of usable fits cover 93 % or more in all, and none is off by five errors.

    log Z is zero. The mutant that leaves the coverage out of the error covers far less.
    """
    rows, scores, mutants = [], [], []
    for proposal, flow in (("given", NORMAL), ("trained", None)):
        for width in WIDTHS:
            for share in SHARES:
                problem = ridge(share, width)
                made = [
                    folt.sample(problem, seed=seed, flow=flow, draws=1_000, progress=False)
                    for seed in range(REPEATS)
                ]
                usable = [f.certificate for f in made if f.certificate.status.outcome.usable]
                found = [c.evidence.value / c.evidence.standard_error for c in usable]
                plain = [c.evidences.best for c in usable]
                bare = [one.value / one.standard_error for one in plain]
                rows.append((proposal, width, share, len(usable), *_shown(found), *_shown(bare)))
                scores += found
                mutants += bare
    rows.append(("all", "", "", len(scores), *_shown(scores), *_shown(mutants)))
    write_table(
        "ridge",
        f"log Z of a ridge of small mass inside a normal, {REPEATS} fits each at default effort, "
        "exact reference draws: 95 % intervals of usable fits that contain it",
        (
            "proposal",
            "width",
            "mass",
            "usable",
            "cover",
            "largest score",
            "cover without the coverage term",
            "largest score without it",
        ),
        rows,
    )
    assert np.mean(np.abs(scores) < 1.96) >= 0.93
    assert np.abs(scores).max() <= 5.0
    assert np.mean(np.abs(mutants) < 1.96) < 0.8


def _shown(scores):
    """Share of the scores within 1.96, and the largest."""
    if not scores:
        return "–", "–"
    size = np.abs(scores)
    return f"{np.mean(size < 1.96):.3f}", f"{size.max():.1f}"
