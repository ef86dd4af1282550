"""Figure 1: the pipeline, drawn from a real run on two blocks of one coordinate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from folt.fit import Fit
from folt.models import label_switching
from folt.paper.rows import Job, facts, rounded, row
from folt.paper.settings import Settings
from folt.paper.shared_fits import SharedFits
from folt.paper.tables import Claim, Row, chain_table, diagnostic_table
from folt.problem import Problem
from folt.problem.batching import map_points
from folt.problem.fold import Folded
from folt.store.strict_json import Document
from folt.types import in_float64

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "schematic"
TITLE = "The pipeline (Figure 1)"
CASE = "m2p1"
CENTRES = ((2.0,), (5.0,))
GRID = (-1.2, 8.2, 64)
"""First and last grid coordinate, and their number, of the densities in the picture."""


def cases(settings: Settings) -> list[Job]:
    """The one run that the picture needs."""
    return [Job(CASE, ("folded",), settings.seed)]


def run(fits: SharedFits, job: Job) -> list[Row]:
    """The row, with what the picture shows."""
    fits.bring(CASE, label_switching(2, 1, CENTRES))
    fit = fits.fit(CASE, job.seed)
    parts = {**facts(fit), "quick": fits.settings.quick, "figure": _picture(fit)}
    return [row(NAME, CASE, "folded", job.seed, **parts)]


@in_float64
def _picture(fit: Fit) -> Document:
    assert fit.problem is not None
    assert fit.proposal is not None
    assert fit.reference.raw is not None
    axis = np.linspace(*GRID)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_target = map_points(Problem.log_prob, fit.problem, points)
    folded = Folded(fit.proposal, fit.group)
    log_proposal = map_points(Folded.log_prob, folded, points, terms=fit.group.order)
    shape = (axis.size, axis.size)
    core = fit.certificate.qc["target"][0.05]
    return {
        "axis": rounded(axis),
        "target": rounded(np.exp(log_target).reshape(shape), 6),
        "proposal": rounded(np.exp(log_proposal).reshape(shape), 6),
        "raw": rounded(fit.reference.raw.reshape(-1, 2)[:400], 3),
        "chain": rounded(fit.draws[0, :150], 3),
        "log_ratio": rounded(fit.log_ratio[0, :1000]),
        "core": [core.low, core.high],
    }


def report(rows: list[Row]) -> list[tuple[str, str]]:
    """What the run behind the picture says."""
    return [
        ("γ at ρ = 0.05", diagnostic_table(rows)),
        ("Chains, ours / published", chain_table(rows)),
    ]


def claims(rows: list[Row], preset: str) -> list[Claim]:
    """None: a picture claims nothing."""
    return []


def figure(document: Document) -> Figure:
    """The schematic, drawn from the document."""
    from folt.paper.schematic_picture import schematic_figure

    return schematic_figure(document["rows"][0])
