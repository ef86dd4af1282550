"""Table 5 and Figure 4: a mixture posterior by four methods."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from folt.fit import in_user_parameters
from folt.paper.baselines import chain_facts
from folt.paper.rows import (
    TRACE_STEPS,
    ReproductionSettings,
    TableJob,
    by_method,
    estimates,
    figure_of,
    rounded,
    row,
)
from folt.paper.shared_fits import SharedFits, folded_draws, random_permutation_chains
from folt.paper.tables import (
    NOTHING,
    Claim,
    Experiment,
    TableRow,
    chain_table,
    diagnostic_table,
    figure_text,
    floor_claim,
    gammas,
    like_with_like,
    markdown,
    range_text,
)
from folt.problem.ratio import label_switch_rate
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CASE = "500"
PROBLEM = "bayes-mixture"
_CHAINS = 4

MEANS = {"mu": (-0.1247, 2.9522, 5.9801), "log_sigma": (-0.2574, -0.0875, -0.2075)}
"""Sorted posterior means by a long run, to four digits."""

MEANS_ERROR = 5e-4
"""What those digits leave open."""


def _described(fits: SharedFits, draws: np.ndarray) -> Document:
    """Estimates of means and standard deviations, and the trace of the means."""
    values = in_user_parameters(fits.problem(PROBLEM), draws)
    values = {**values, "log_sigma": np.log(values["sigma"])}
    return {
        "estimates": estimates(values),
        "figure": {"mu": rounded(values["mu"][0][:TRACE_STEPS])},
    }


def _vectors(group: list[TableRow], name: str, digits: int) -> list[str]:
    means = np.array([one["estimates"][name]["mean"] for one in group])
    theirs = figure_of(group[0], "printed", name)
    ours = ", ".join(range_text(column, digits) for column in means.T.tolist())
    return [ours, ", ".join(figure_text(v, digits) for v in theirs) if theirs else NOTHING]


def distance_from_means(row: TableRow) -> float | None:
    """Standard errors between the estimates of a row and the means of a long run, the worst.

    None for a chain without standard errors: one that never moved is close to anything.
    """
    worst = 0.0
    for name, means in MEANS.items():
        estimate = row["estimates"][name]
        for ours, error, theirs in zip(
            estimate["mean"], estimate["standard_error"], means, strict=True
        ):
            if error is None:
                return None
            worst = max(worst, abs(ours - theirs) / math.hypot(error, MEANS_ERROR))
    return worst


class MixtureTable(Experiment):
    """Table 5 and Figure 4: a mixture posterior by four methods."""

    name = "bayes-mixture"
    title = "Bayesian mixture (Table 5, Figure 4)"

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return the folded chain per seed; the three others share an unfolded proposal."""
        folded = [TableJob(_CASE, ("folded",), seed) for seed in settings.folded_seeds]
        return [
            *folded,
            TableJob(_CASE, ("unfolded", "random-permutation", "post-hoc"), settings.seed),
        ]

    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return the rows of one proposal."""
        folded = "folded" in job.methods
        parts = fits.facts(PROBLEM, job.seed, folded=folded)
        fit = fits.fit(PROBLEM, job.seed, folded=folded)
        group = fits.problem(PROBLEM).group
        own = _described(fits, fit.draws)
        own["details"] = chain_facts(group, fit.draws, fit.accepted)["details"]
        own["details"]["label_switch_rate"] = label_switch_rate(group, fit.draws)
        rows = [row(self.name, _CASE, job.methods[0], job.seed, **parts, **own)]
        if folded:
            return rows
        started = time.perf_counter()
        draws, burn_in = fits.settings.draws, fits.settings.draws // 4
        states, moved = random_permutation_chains(group, fit, job.seed, _CHAINS, draws, burn_in)
        shuffled = chain_facts(group, states, moved)
        shuffled["details"]["label_switch_rate"] = label_switch_rate(group, states)
        shuffled |= {"quick": parts["quick"], "wall_s": parts["wall_s"]}
        shuffled["wall_s"] += time.perf_counter() - started
        # Estimates of a sampler that shuffles labels mean something only after sorting.
        ordered = _described(fits, folded_draws(group, states))
        shuffled["estimates"] = ordered["estimates"]
        shuffled["figure"] = _described(fits, states)["figure"]
        rows.append(row(self.name, _CASE, "random-permutation", job.seed, **shuffled))
        after = _described(fits, folded_draws(group, fit.draws))
        after["details"] = own["details"]
        rows.append(row(self.name, _CASE, "post-hoc", job.seed, **parts, **after))
        return rows

    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return the tables of the document, as Markdown."""
        headers = ["method", "μ̂", "printed", "σ̂", "accept", "printed", "sorted ESS per draw"]
        headers += ["label switches"]
        lines = []
        for (_, method), group in by_method(rows).items():
            lines.append(
                [
                    method,
                    *_vectors(group, "mu", 2),
                    _vectors(group, "sigma", 2)[0],
                    range_text((one["accept"] for one in group), 4),
                    figure_text(figure_of(group[0], "printed", "accept"), 5),
                    range_text((one["details"] or {}).get("sorted_ess_per_draw") for one in group),
                    range_text((one["details"] or {}).get("label_switch_rate") for one in group),
                ]
            )
        diagnosed = [one for one in rows if one["qc"] is not None]
        return [
            ("Estimates", markdown(headers, lines)),
            ("γ at ρ = 0.05", diagnostic_table(diagnosed)),
            ("Chains, ours / published", chain_table(rows)),
        ]

    def claims(self, rows: list[TableRow], preset: str) -> list[Claim]:
        """Return what the paper says about it, and our bar."""
        groups = by_method(rows)
        found: list[Claim] = []
        plain = groups.get((_CASE, "unfolded"))
        if plain:
            accept = plain[0]["accept"]
            seen = f"acceptance {figure_text(accept, 4)}"
            found.append(Claim("The unfolded chain accepts less than 1 %", accept < 0.01, seen))
        folded = groups.get((_CASE, "folded"))
        if folded:
            values = gammas([like_with_like(one) for one in folded], "proposal")
            lowest = min(values) if values else None
            found.append(
                Claim(
                    "Folded γ is above 0.5 (0.878 in print)",
                    None if lowest is None else lowest > 0.5,
                    f"γ {range_text(values)}",
                )
            )
            distances = [distance_from_means(one) for one in folded]
            known = [distance for distance in distances if distance is not None]
            found.append(
                Claim(
                    "Folded estimates lie within 3 standard errors of the means of a long run",
                    max(known) <= 3.0 if len(known) == len(distances) else None,
                    f"farthest {figure_text(max(known, default=None), 1)} standard errors",
                )
            )
        return found + ([floor_claim(rows, 0.88)] if preset == "default" else [])

    def figure(self, document: Document) -> Figure:
        """Traces of the means by three methods."""
        from folt.paper.pictures import chain_panels_figure

        switching = "accepts {accept:.1%}, switches labels at {switches:.1%} of steps"
        told = {
            "unfolded": ("Unfolded", switching),
            "random-permutation": (
                "Random permutations",
                "accepts {accept:.1%}, shuffled every step",
            ),
            "folded": ("Folded", "accepts {accept:.1%}, every label keeps its component"),
        }
        labels = [f"μ{mark}" for mark in "₁₂₃"]
        return chain_panels_figure(document, told, "mu", labels, "component mean μ")
