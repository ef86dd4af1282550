"""What a reproduction is asked for, and the rows of its tables: plain numbers ready for JSON."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from folt.certificate.diagnostics.chains import effective_size
from folt.fit import Fit
from folt.paper.training import PaperFlow
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.reference import AdaptiveRandomWalk, Exact, HostChains
from folt.store.strict_json import Document, plain
from folt.training import OrbitMixture
from folt.types import ReferenceSampler, Trainer, in_float64

PAPER_DRAWS = Exact(draws=70_000)
"""Exact draws in the paper's protocol: 50 000 to learn from and 20 000 to certify with."""

PAPER_WALK = AdaptiveRandomWalk(steps=800_000, keep=70_000)
"""The paper's pre-run, made longer until its held-out draws are enough to certify with: 400 000
steps, after as many that only adapt."""

USUAL_EFFORT = "thorough"
"""The published figures are of a flat h, which is what this one trains for."""

QUICK_WALK = AdaptiveRandomWalk(steps=40_000, keep=20_000)
QUICK_CHAINS = HostChains(particles=500, moves=10, chains=60, draws=200, warmup=30)


@dataclasses.dataclass(frozen=True)
class ReproductionSettings:
    """What was asked for.

    Attributes:
        preset: "default" for folt's own protocol, "paper" for the paper's.
        quick: fewer cases, draws and training steps; such rows are never mixed with others.
        seed: S of the first run of a case.
        seeds: seeds S, S+1, ... of every folded case.
        identity_orbit: truncate the orbit to N = {e}, the sampler behind the published tables.
        data: a measured spectrum for `modal`.
        effort: name of the effort of folt's own protocol; the paper's has its own.
    """

    preset: Literal["default", "paper"] = "default"
    quick: bool = False
    seed: int = 0
    seeds: int = 3
    identity_orbit: bool = False
    data: Path | None = None
    effort: str = USUAL_EFFORT

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.seed < 0:
            raise ValueError(f"expected seeds ≥ 1 and seed ≥ 0, got {self.seeds} and {self.seed}")
        if self.data is not None and not self.data.is_file():
            raise ValueError(f"expected a file with columns frequency_hz,psd, got {self.data}")

    @property
    def folded_seeds(self) -> tuple[int, ...]:
        """One run of a folded case each."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def paper(self) -> bool:
        """Whether the paper's protocol runs."""
        return self.preset == "paper"

    @property
    def draws(self) -> int:
        """Kept draws of a chain; the paper throws 1000 of 5000 away."""
        if self.quick:
            return 1_000
        return 4_000 if self.paper else 5_000

    def trainer(self) -> Trainer | None:
        """Return the trainer, or None for that of the preset."""
        if not self.quick:
            return None
        if self.paper:
            return PaperFlow(layers=4, width=32, steps=200)
        return OrbitMixture(size=6, labellings=1, rounds=4, fresh=1024)

    def reference(self, exact: bool) -> ReferenceSampler | None:
        """Return the reference run, or None for folt's choice."""
        if self.quick and not exact:
            return QUICK_WALK if self.paper else QUICK_CHAINS
        if self.quick or not self.paper:
            return None
        return PAPER_DRAWS if exact else PAPER_WALK

    def fingerprint(self, name: str) -> Document:
        """Return what must agree for rows to stand in one file."""
        measured = self.data if name == "modal" else None
        other = {} if self.effort == USUAL_EFFORT else {"effort": self.effort}
        return {
            **other,
            "preset": self.preset,
            "quick": self.quick,
            "seed": self.seed,
            "identity_orbit": self.identity_orbit,
            "data": measured and hashlib.sha256(measured.read_bytes()).hexdigest()[:16],
        }

    def command(self, name: str) -> str:
        """Return the command that asks for this."""
        words = ["folt reproduce", name, "--preset", self.preset]
        words += ["--quick"] * self.quick + ["--identity-orbit"] * self.identity_orbit
        words += [] if self.effort == USUAL_EFFORT else ["--effort", self.effort]
        words += ["--seed", str(self.seed), "--seeds", str(self.seeds)]
        if self.data is not None and name in ("modal", "all"):
            words += ["--data", self.data.name]
        return " ".join(words)


@functools.cache
def published_figures() -> Document:
    """`{table: {case: {method: {"printed": ..., "saved": ...}}}}`.

    `printed` is what the paper prints, `saved` what the output files released with its code hold.
    """
    text = (files("folt.paper") / "published.json").read_text(encoding="utf-8")
    return json.loads(text)["tables"]


def published(table: str, case: str, method: str) -> Document | None:
    """Return the figures of one row; None where the paper has none."""
    return published_figures().get(table, {}).get(case, {}).get(method)


def figure_of(row: Document, source: str, *path: str) -> Any:
    """Return one published number of a row, such as `figure_of(row, "saved", "gamma", "0.05")`."""
    found = (row.get("published") or {}).get(source)
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


FIELDS = (
    "case method seed quick qc full_osc accept ess_per_draw batch_means_ess_per_draw nll "
    "log_evidence mixing status wall_s estimates published figure"
)
"""Names of the fields that every row has, in their order."""

EMPTY: Document = dict.fromkeys(FIELDS.split())
"""A row about which nothing is known yet."""

CORE = ("osc", "gamma", "core_gap", "feasible", "n", "dropped", "target_mass", "predicted_ess")

TRACE_STEPS = 400
"""Steps of a chain that a picture shows."""

NLL_DRAWS = 5_000
NLL_STREAM = 2_000
"""Number of the random stream of draws for the likelihood, apart from those of sampling."""


@dataclasses.dataclass(frozen=True)
class TableJob:
    """A piece of work that is done whole or not at all.

    Attributes:
        case: what is sampled.
        methods: one row each; methods that share a trained proposal are one job.
        seed: of the run.
    """

    case: str
    methods: tuple[str, ...]
    seed: int


def row(table: str, case: str, method: str, seed: int, **parts: object) -> Document:
    """Return one row of a table, with the paper's figures for it."""
    unknown = set(parts) - set(EMPTY) - {"identity_orbit", "details", "error"}
    assert not unknown, unknown
    key = {"case": case, "method": method, "seed": seed}
    return plain({**EMPTY, **key, "published": published(table, case, method), **parts})


def fit_facts(fit: Fit) -> Document:
    """Return what a fit's certificate and chains say."""
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
    """Return mean, median and standard error of every parameter, (chain, draw, component) each."""
    found = {}
    for name, array in values.items():
        flat = array.reshape(-1, array.shape[-1])
        sizes = np.array([effective_size(array[..., k]) for k in range(array.shape[-1])])
        with np.errstate(divide="ignore"):
            error = flat.std(axis=0) / np.sqrt(sizes)
        parts = {"mean": flat.mean(axis=0), "median": np.median(flat, axis=0)}
        found[name] = plain({**parts, "standard_error": error})
    return found


def rounded(array: np.ndarray, digits: int = 4) -> list[Any]:
    """Nested lists with few digits: pictures need no more."""
    return np.round(np.asarray(array, float), digits).tolist()


def by_method(rows: Sequence[Document]) -> dict[tuple[str, str], list[Document]]:
    """Rows of one case and method together, seed by seed, in the order they stand."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for one in rows:
        groups.setdefault((one["case"], one["method"]), []).append(one)
    return groups
