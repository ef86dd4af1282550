"""Table 4: unfolded chain, folded chain and random permutation sampler on three blocks."""

from __future__ import annotations

import time

import numpy as np

from folt.certificate.diagnostics.chains import summarise_chains
from folt.groups import Group
from folt.paper.rows import ReproductionSettings, TableJob, by_method, figure_of, row
from folt.paper.shared_fits import (
    SharedFits,
    chains_of,
    folded_draws,
    random_permutation_chains,
)
from folt.paper.tables import (
    NOTHING,
    Claim,
    Experiment,
    TableRow,
    chain_table,
    core,
    diagnostic_table,
    figure_text,
    like_with_like,
    markdown,
    range_text,
)
from folt.store.strict_json import Document

_CASE = "m3p2"
_CHAINS = 4


def lengths(settings: ReproductionSettings) -> tuple[int, int]:
    """Kept draws and burn-in of a chain: 10 000 steps of which 2000 are thrown away."""
    return (1_600, 400) if settings.quick else (8_000, 2_000)


def chain_facts(group: Group, draws: np.ndarray, accepted: np.ndarray) -> Document:
    """Acceptance, and effective draws per draw as they run and after sorting."""
    raw = summarise_chains(draws, accepted)
    ordered = summarise_chains(folded_draws(group, draws), accepted)
    return {
        "accept": float(accepted.mean()),
        "ess_per_draw": float(raw.ess.min()) / accepted.size,
        "batch_means_ess_per_draw": float(raw.batch_means_ess.min()) / accepted.size,
        "details": {
            "sorted_ess_per_draw": float(ordered.ess.min()) / accepted.size,
            "sorted_batch_means_ess_per_draw": float(ordered.batch_means_ess.min()) / accepted.size,
        },
    }


NAMES = ("", "batch_means_")


class BaselinesTable(Experiment):
    """Table 4: unfolded chain, folded chain and random permutation sampler on three blocks."""

    name = "baselines"
    title = "Baselines (Table 4)"

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return the folded chain per seed; the two others share an unfolded proposal."""
        folded = [TableJob(_CASE, ("folded",), seed) for seed in settings.folded_seeds]
        return [*folded, TableJob(_CASE, ("unfolded", "random-permutation"), settings.seed)]

    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return the rows of one proposal."""
        draws, burn_in = lengths(fits.settings)
        folded = "folded" in job.methods
        parts = fits.facts(_CASE, job.seed, folded=folded)
        fit = fits.fit(_CASE, job.seed, folded=folded)
        group = fits.problem(_CASE).group
        started = time.perf_counter()
        chains = chains_of(fit, job.seed, _CHAINS, draws, burn_in)
        parts.update(chain_facts(group, chains.draws, chains.accepted))
        parts["wall_s"] += time.perf_counter() - started
        rows = [row(self.name, _CASE, job.methods[0], job.seed, **parts)]
        if not folded:
            started = time.perf_counter()
            states, moved = random_permutation_chains(group, fit, job.seed, _CHAINS, draws, burn_in)
            found = chain_facts(group, states, moved)
            wall = parts["wall_s"] + time.perf_counter() - started
            quick = fits.settings.quick
            rows.append(
                row(self.name, _CASE, job.methods[1], job.seed, quick=quick, wall_s=wall, **found)
            )
        return rows

    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return the tables of the document, as Markdown."""
        lines = []
        for (_, method), group in by_method(rows).items():
            twins = [like_with_like(one) for one in group]
            found = [[one["details"][f"sorted_{n}ess_per_draw"] for one in group] for n in NAMES]
            lines.append(
                [
                    method,
                    *(range_text(values) for values in found),
                    figure_text(figure_of(group[0], "printed", "sorted_ess_per_draw")),
                    range_text(core(twin, "proposal", "predicted_ess") for twin in twins),
                    range_text(one["accept"] for one in group),
                    figure_text(figure_of(group[0], "printed", "accept")),
                    range_text(core(twin, "proposal") for twin in twins),
                    figure_text(figure_of(group[0], "printed", "gamma", "0.05")),
                ]
            )
        headers = ["method", "sorted ESS per draw", "by batch means", "printed"]
        headers += ["predicted γ/(2−γ)", "accept", "printed", "γ", "printed"]
        diagnosed = [one for one in rows if one["qc"] is not None]
        return [
            ("Effective draws after sorting", markdown(headers, lines)),
            ("γ at ρ = 0.05", diagnostic_table(diagnosed)),
            ("Chains, ours / published", chain_table(rows)),
        ]

    def claims(self, rows: list[TableRow], preset: str) -> list[Claim]:
        """Return what the paper says about it."""
        groups = by_method(rows)
        folded, plain = groups.get((_CASE, "folded")), groups.get((_CASE, "unfolded"))
        if not folded or not plain:
            return []
        found = []
        for name, group, close in (("folded", folded, True), ("unfolded", plain, False)):
            expected = core(like_with_like(group[0]), "proposal", "predicted_ess")
            seen = group[0]["details"]["sorted_batch_means_ess_per_draw"]
            if expected is None:
                continue
            near = abs(expected - seen) <= 0.15
            sentence = (
                "predicts the effective draws to 0.15"
                if close
                else "is less than half the effective draws"
            )
            found.append(
                Claim(
                    f"The {name} γ/(2−γ) {sentence}",
                    near if close else expected < 0.5 * seen,
                    f"{figure_text(expected)} predicted, {figure_text(seen)} by batch means",
                )
            )
        shuffled = groups.get((_CASE, "random-permutation"))
        if shuffled:
            sizes = [
                one["details"]["sorted_ess_per_draw"] for one in (folded[0], plain[0], shuffled[0])
            ]
            found.append(
                Claim(
                    "After sorting, the effective draws of all three methods agree within a "
                    "factor 1.6",
                    max(sizes) <= 1.6 * min(sizes) if min(sizes) > 0 else False,
                    ", ".join(figure_text(size) for size in sizes) or NOTHING,
                )
            )
        return found
