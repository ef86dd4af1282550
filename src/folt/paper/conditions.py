"""The supplement: conditions of the theorem, covering radii, and the fold boundary.

The paper's condition table is computed from its own quantile cores and restates that one is three
times the other; here every quantity is computed for itself, from draws in the core.
"""

from __future__ import annotations

import dataclasses
import time

import jax
import numpy as np

from folt.paper.rows import (
    ReproductionSettings,
    TableJob,
    by_method,
    figure_of,
    published_figures,
    row,
)
from folt.paper.shared_fits import SharedFits
from folt.paper.tables import Claim, Experiment, TableRow, figure_text, markdown, range_text
from folt.paper.theorems import conditions
from folt.paper.theorems.oscillation import boundary_density_ratio, separation_table
from folt.problem import Problem
from folt.problem.ratio import boundary_mass
from folt.reference import Exact
from folt.store.strict_json import Document
from folt.types import in_float64

THEOREM = {"dimension-10": "pair-10", "m4p2": "m4p2"}
QUICK = {"dimension-2": "pair-2", "m3p2": "m3p2"}
_DIMENSIONS = (2, 5, 10, 20)
SEPARATION = 6.0
_DRAWS = 20_000
DRAW_STREAM = 4_000
"""Number of the random stream of the draws that judge, apart from those of sampling."""


def _theorem(fits: SharedFits, name: str, seed: int) -> Document:
    problem = fits.problem(name)
    folded = fits.fit(name, seed)
    plain = fits.fit(name, fits.settings.seed, folded=False)
    assert folded.proposal is not None
    assert plain.proposal is not None
    check = conditions(
        problem,
        folded.proposal,
        plain.proposal,
        _exact_draws(problem, seed),
        log_evidence=0.0,
        seed=seed,
    )
    tree = check.to_dict()
    del tree["conditions"]["deltas"]
    return tree


def _boundary(fits: SharedFits, dim: int, seed: int) -> Document:
    problem = fits.problem(f"pair-{dim}")
    draws = _exact_draws(problem, seed)
    (separation,) = separation_table(SEPARATION, [dim])
    return {
        "separation": dataclasses.asdict(separation),
        "density_ratio": boundary_density_ratio(SEPARATION),
        "boundary": dataclasses.asdict(boundary_mass(problem.group, draws)),
        "nearest": float(np.abs(draws[:, 0]).min()),
    }


@in_float64
def _exact_draws(problem: Problem, seed: int) -> np.ndarray:
    # Without the dimension in the key, all pairs of Gaussians would share their first coordinate.
    key = jax.random.fold_in(jax.random.key(seed), DRAW_STREAM + problem.dim)
    return Exact(draws=_DRAWS)(key, problem).draws.reshape(-1, problem.dim)


QUANTITIES = (
    ("min Δ_j", ("min_delta",), "min_delta"),
    ("2r₁", ("twice_r1",), "2r1"),
    ("r_F", ("residual",), "rF"),
    ("Δ = min Δ_j − 2r₁ − r_F", ("delta",), "delta"),
    ("Δ/C_U, 2Mε*", ("published", "share"), "delta_over_CU"),
    ("Δ/C_U, 4Mε* repaired", ("corrected", "share"), None),
    ("osc of h_F in the core", ("osc_folded",), None),
    ("osc of h_U in the core", ("osc_unfolded",), None),
    ("(M′) holds", ("holds", "M"), None),
    ("(W) holds", ("holds", "W"), None),
    ("(R) holds", ("holds", "R"), None),
    ("sufficient condition, 2Mε*", ("published", "sufficient"), None),
    ("sufficient condition, 4Mε* repaired", ("corrected", "sufficient"), None),
    ("draws that hit two copies, probability", ("hit_probability",), None),
)


def _condition_table(rows: list[TableRow]) -> str:
    groups = by_method(rows)
    headers = ["quantity"]
    for case, _ in groups:
        headers += [f"{case}, ours", "printed"]
    lines = []
    for label, path, theirs in QUANTITIES:
        line = [label]
        for group in groups.values():
            values = [_at(one["details"]["conditions"], path) for one in group]
            printed = figure_of(group[0], "printed", theirs) if theirs else None
            line += [_words(values), figure_text(printed, 2)]
        lines.append(line)
    return markdown(headers, lines) if groups else ""


def _words(values: list[float | None]) -> str:
    if any(isinstance(value, bool) for value in values):
        return ", ".join(dict.fromkeys(figure_text(value) for value in values))
    return range_text(values, 2)


def _at(tree: Document, path: tuple[str, ...]) -> float | None:
    *outer, last = path
    for key in outer:
        tree = tree[key]
    return tree[last]


def _covering_table(rows: list[TableRow]) -> str:
    headers = ["case", "ε_F*", "ε_U*", "ε_F*/ε_U*", "s^(−1/d)", "ε_F* repaired", "ε_U* repaired"]
    lines = []
    for (case, _), group in by_method(rows).items():
        covers = [one["details"]["covering"] for one in group]
        paths = [("folded", "published", "radius"), ("unfolded", "published", "radius"), ("ratio",)]
        paths += [("scaling",), ("folded", "corrected", "radius")]
        paths += [("unfolded", "corrected", "radius")]
        lines.append([case, *(range_text(_at(cover, path) for cover in covers) for path in paths)])
    return markdown(headers, lines)


def _boundary_table(rows: list[TableRow]) -> str:
    headers = ["d", "χ²", "2√χ²", "printed", "δ clear of it", "printed", "density ratio"]
    headers += ["nudged across", "near the mirror", "nearest of 20 000"]
    theirs = published_figures()["conditions"]["separation"]["folded"]["printed"]
    lines = []
    for one in rows:
        found = one["details"]
        row_separation, mass = found["separation"], found["boundary"]
        dim = str(row_separation["dim"])
        lines.append(
            [
                dim,
                figure_text(row_separation["chi_squared"], 2),
                figure_text(row_separation["needed"], 2),
                figure_text(theirs["needed"].get(dim), 2),
                figure_text(row_separation["clear"]),
                figure_text(theirs["clear"].get(dim)),
                figure_text(found["density_ratio"]),
                figure_text(mass["crossing"], 5),
                figure_text(mass["overlap"], 5),
                figure_text(found["nearest"], 2),
            ]
        )
    return markdown(headers, lines)


class ConditionsTable(Experiment):
    """The supplement: conditions of the theorem, covering radii, and the fold boundary."""

    name = "conditions"
    title = "Conditions of the theorem and the fold boundary (supplement)"

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return two pairs of proposals per seed, and the boundary in every dimension."""
        pairs = QUICK if settings.quick else THEOREM
        jobs = [
            TableJob(case, ("folded",), seed) for case in pairs for seed in settings.folded_seeds
        ]
        dims = _DIMENSIONS[:2] if settings.quick else _DIMENSIONS
        boundary = [TableJob(f"separation-{dim}", ("folded",), settings.seed) for dim in dims]
        return jobs + boundary

    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return one row; what it holds stands in `details`."""
        started = time.perf_counter()
        if job.case.startswith("separation"):
            details = _boundary(fits, int(job.case.rpartition("-")[2]), job.seed)
        else:
            details = _theorem(fits, {**THEOREM, **QUICK}[job.case], job.seed)
        parts = {"quick": fits.settings.quick, "wall_s": time.perf_counter() - started}
        return [row(self.name, job.case, "folded", job.seed, details=details, **parts)]

    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return the tables of the document, as Markdown."""
        theorem = [one for one in rows if "conditions" in one["details"]]
        boundary = [one for one in rows if "separation" in one["details"]]
        return [
            ("Conditions", _condition_table(theorem)),
            ("Covering radii (heuristics)", _covering_table(theorem)),
            (f"The fold boundary at δ = {SEPARATION:g}σ", _boundary_table(boundary)),
        ]

    def claims(self, rows: list[TableRow], preset: str) -> list[Claim]:
        """Return what the paper says about it."""
        found = []
        for (case, _), group in by_method(
            [r for r in rows if "conditions" in r["details"]]
        ).items():
            holds = [one["details"]["conditions"]["holds"]["M"] for one in group]
            deltas = [one["details"]["conditions"]["min_delta"] for one in group]
            found.append(
                Claim(
                    f"{case}: the unfolded proposal misses whole copies, (M′)",
                    all(holds),
                    f"min Δ_j {range_text(deltas, 2)}",
                )
            )
            residual = [one["details"]["conditions"]["residual"] for one in group]
            known = [value for value in residual if value is not None]
            found.append(
                Claim(
                    f"{case}: the rest of the orbit sum is negligible, r_F ≈ 0",
                    bool(known) and max(known) < 0.05,
                    f"r_F {range_text(residual)}",
                )
            )
        return found
