"""Rows: what one fit says, as plain numbers ready for JSON.

The paper's figures, printed and saved, by table, case and method.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jax
import numpy as np

from folt.diagnostics import effective_size
from folt.fit import Fit
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.reference import Exact
from folt.store.strict_json import Document, plain
from folt.types import in_float64


@functools.cache
def published_figures() -> Document:
    """`{table: {case: {method: {"printed": ..., "saved": ...}}}}`.

    `printed` is what the paper prints, `saved` what the output files released with its code hold.
    """
    text = (files("folt.paper") / "published.json").read_text(encoding="utf-8")
    return json.loads(text)["tables"]


def published(table: str, case: str, method: str) -> Document | None:
    """The figures of one row; None where the paper has none."""
    return published_figures().get(table, {}).get(case, {}).get(method)


def figure_of(row: Document, source: str, *path: str) -> Any:
    """One published number of a row, such as `figure_of(row, "saved", "gamma", "0.05")`."""
    found = (row.get("published") or {}).get(source)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


EMPTY: Document = dict.fromkeys(
    (
        "case",
        "method",
        "seed",
        "quick",
        "qc",
        "full_osc",
        "accept",
        "ess_per_draw",
        "batch_means_ess_per_draw",
        "nll",
        "log_evidence",
        "mixing",
        "status",
        "wall_s",
        "estimates",
        "published",
        "figure",
    )
)
"""A row about which nothing is known yet."""

CORE = ("osc", "gamma", "core_gap", "feasible", "n", "dropped", "target_mass", "predicted_ess")

NLL_DRAWS = 5_000
NLL_STREAM = 2_000
"""Number of the random stream of draws for the likelihood, apart from those of sampling."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A piece of work that is done whole or not at all.

    Attributes:
        case: what is sampled.
        methods: one row each; methods that share a trained proposal are one job.
        seed: of the run.
    """

    case: str
    methods: tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        return f"{self.case}, {' + '.join(self.methods)}, seed {self.seed}"


def row(table: str, case: str, method: str, seed: int, **parts: object) -> Document:
    """One row of a table, with the paper's figures for it."""
    unknown = set(parts) - set(EMPTY) - {"identity_orbit", "details", "error"}
    assert not unknown, unknown
    key = {"case": case, "method": method, "seed": seed}
    return plain({**EMPTY, **key, "published": published(table, case, method), **parts})


def facts(fit: Fit) -> Document:
    """What a fit's certificate and chains say."""
    tree = fit.certificate.to_dict()
    draws = fit.accepted.size
    return {
        "qc": {
            protocol: {
                rho: {name: core[name] for name in CORE if name in core}
                for rho, core in cores.items()
            }
            for protocol, cores in tree["qc"].items()
        },
        "full_osc": tree["full_osc"],
        "accept": fit.accept_rate,
        "ess_per_draw": fit.certificate.chains.ess / draws,
        "batch_means_ess_per_draw": fit.certificate.chains.batch_means_ess / draws,
        "nll": negative_log_likelihood(fit),
        "log_evidence": {key: tree["evidence"][key] for key in ("value", "standard_error")},
        "mixing": tree["mixing"]["steps"],
        "status": tree["status"]["name"],
        "wall_s": sum(fit.wall.values()),
    }


@in_float64
def negative_log_likelihood(fit: Fit) -> float:
    """-E log q_F under the folded target, in the problem's coordinates.

    The mean over fresh exact draws where the target has a sampler, otherwise over the draws of
    the chain. For an unfolded fit q_F is q itself; with N = {e} it is q on the domain.
    """
    problem, proposal = fit.problem, fit.proposal
    assert problem is not None
    assert proposal is not None
    points = fit.draws.reshape(-1, problem.dim)
    if problem.sampler is not None:
        key = jax.random.fold_in(jax.random.key(fit.provenance["seed"]), NLL_STREAM)
        points = Exact(draws=NLL_DRAWS)(key, problem).draws.reshape(-1, problem.dim)
    kept = None if fit.whole_orbit else IDENTITY_ONLY
    ratio = LogRatio(Target(problem), proposal, problem.group, kept)
    return -float(np.mean(ratio.log_proposal(points)))


def estimates(values: dict[str, np.ndarray]) -> Document:
    """Mean, median and standard error of every parameter, (chain, draw, component) each."""
    return {name: _estimate(array) for name, array in values.items()}


def _estimate(array: np.ndarray) -> dict[str, list[float | None]]:
    flat = array.reshape(-1, array.shape[-1])
    sizes = np.array([effective_size(array[..., k]) for k in range(array.shape[-1])])
    with np.errstate(divide="ignore"):
        error = flat.std(axis=0) / np.sqrt(sizes)
    return {
        "mean": flat.mean(axis=0).tolist(),
        "median": np.median(flat, axis=0).tolist(),
        "standard_error": plain(error),
    }


def thinned_trace(chain: np.ndarray, most: int = 400) -> list[list[float]]:
    """The first steps of one chain, (step, component), rounded for the picture."""
    return rounded(chain[:most])


def rounded(array: np.ndarray, digits: int = 4) -> list[Any]:
    """Nested lists with few digits: pictures need no more."""
    return np.round(np.asarray(array, float), digits).tolist()


def by_method(rows: Sequence[Document]) -> dict[tuple[str, str], list[Document]]:
    """Rows of one case and method together, seed by seed, in the order they stand."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for one in rows:
        groups.setdefault((one["case"], one["method"]), []).append(one)
    return groups
