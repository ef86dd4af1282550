"""Tables of folded beside unfolded fits: what banana, dimension and label-switching share."""

from __future__ import annotations

from collections.abc import Iterable

from folt.paper.rows import Job, row
from folt.paper.settings import Settings
from folt.paper.shared_fits import SharedFits
from folt.paper.tables import (
    Row,
    chain_table,
    diagnostic_table,
    every_rho_table,
    ratio_table,
)


def folded_and_unfolded(cases: Iterable[str], settings: Settings) -> list[Job]:
    """Every case folded, a job per seed, and unfolded once."""
    jobs = []
    for case in cases:
        jobs += [Job(case, ("folded",), seed) for seed in settings.folded_seeds]
        jobs.append(Job(case, ("unfolded",), settings.seed))
    return jobs


def run_pair(fits: SharedFits, table: str, problem: str, job: Job) -> list[Row]:
    """One row of such a table."""
    (method,) = job.methods
    parts = fits.facts(problem, job.seed, folded=method == "folded")
    return [row(table, job.case, method, job.seed, **parts)]


def sections(rows: list[Row], *, ratios: bool = True) -> list[tuple[str, str]]:
    """Headed tables of ours beside the published figures."""
    parts = [
        ("γ at ρ = 0.05", diagnostic_table(rows)),
        ("γ at every ρ (proposal draws), ours / printed / saved", every_rho_table(rows)),
        ("Chains, ours / published", chain_table(rows)),
    ]
    if ratios:
        parts.insert(1, ("Improvement by folding", ratio_table(rows)))
    return parts
