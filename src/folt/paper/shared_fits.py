"""What tables share: targets by name, fits and chains made once, folded beside unfolded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import jax
import numpy as np

from folt.batching import map_points
from folt.chains import Chains, random_permutation_chain, run_chains
from folt.fit import Fit
from folt.groups import Group, Trivial
from folt.models import banana, bayesian_mixture, broken_banana, gaussian_pair, label_switching
from folt.paper.rows import ReproductionSettings, TableJob, fit_facts, row
from folt.paper.tables import (
    Experiment,
    TableRow,
    chain_table,
    diagnostic_table,
    every_rho_table,
    ratio_table,
)
from folt.problem import Problem
from folt.problem.ratio import IDENTITY_ONLY, LogRatio, Target
from folt.sampling import sample
from folt.store.strict_json import Document
from folt.training.effort import EFFORTS
from folt.types import Distribution, Key, ReferenceSampler, Trainer, in_float64

CHAIN_STREAM = 3_000
"""Number of the random stream of chains that a table runs from a finished proposal."""


def problem_named(name: str) -> Problem:
    """The target of this name: `banana`, `broken-banana`, `pair-10`, `m3p2`, `bayes-mixture`."""
    if pair := re.fullmatch(r"pair-(\d+)", name):
        return gaussian_pair(int(pair[1]))
    if labels := re.fullmatch(r"m(\d+)p(\d+)", name):
        return label_switching(int(labels[1]), int(labels[2]))
    makers: dict[str, Callable[[], Problem]]
    makers = {"banana": banana, "broken-banana": broken_banana, "bayes-mixture": bayesian_mixture}
    return makers[name]()


def unfolded(problem: Problem) -> Problem:
    """The same target with the trivial group: nothing is folded, all else stays."""
    return Problem(
        problem.log_density,
        Trivial(problem.dim),
        data=problem.data,
        prior=problem.prior,
        sampler=problem.sampler,
        names=problem.names,
        constrain=problem.constrain,
        unconstrain=problem.inverse,
    )


class SharedFits:
    """Makes fits by name and remembers them, so that tables of one run share them.

    Attributes:
        settings: what was asked for.
    """

    def __init__(self, settings: ReproductionSettings) -> None:
        self.settings = settings
        self._problems: dict[str, Problem] = {}
        self._fits: dict[tuple[str, bool, int], Fit] = {}
        self._facts: dict[tuple[str, bool, int], Document] = {}

    def problem(self, name: str, make: Callable[[], Problem] | None = None) -> Problem:
        """Return the target of this name, made once; by `make` if nobody else knows its name."""
        if name not in self._problems:
            self._problems[name] = problem_named(name) if make is None else make()
        return self._problems[name]

    def fit(self, name: str, seed: int, *, folded: bool = True) -> Fit:
        """Return the fit of a target, folded or not; made once."""
        key = (name, folded, seed)
        if key not in self._fits:
            problem = self.problem(name) if folded else unfolded(self.problem(name))
            whole = not (folded and self.settings.identity_orbit)
            reference = self._reference(name, seed, folded)
            self._fits[key] = self._sample(problem, seed, self.settings.trainer(), whole, reference)
        return self._fits[key]

    def _reference(
        self, name: str, seed: int, folded: bool
    ) -> ReferenceSampler | np.ndarray | None:
        """The reference run; in a hurry an unfolded posterior borrows the draws of the folded."""
        exact = self.problem(name).sampler is not None
        hurried = self.settings.quick and not self.settings.paper
        if hurried and not folded and not exact:
            return self.fit(name, seed).unfolded(seed).reshape(-1, self.problem(name).dim)
        return self.settings.reference(exact)

    def facts(self, name: str, seed: int, *, folded: bool = True) -> Document:
        """The parts of a row, with those of N = {e} from the same flow in the paper's protocol."""
        key = (name, folded, seed)
        if key not in self._facts:
            fit = self.fit(name, seed, folded=folded)
            parts: Document = {**fit_facts(fit), "quick": self.settings.quick}
            if folded and self.settings.paper and not self.settings.identity_orbit:
                assert fit.problem is not None
                reference = self._reference(name, seed, folded)
                truncated = self._sample(fit.problem, seed, fit.proposal, False, reference)
                parts["identity_orbit"] = fit_facts(truncated)
            self._facts[key] = parts
        return dict(self._facts[key])

    def _sample(
        self,
        problem: Problem,
        seed: int,
        flow: Trainer | Distribution | None,
        whole_orbit: bool,
        reference: ReferenceSampler | np.ndarray | None,
    ) -> Fit:
        return sample(
            problem,
            seed=seed,
            draws=self.settings.draws,
            effort=None if self.settings.paper else EFFORTS[self.settings.effort](),
            preset=self.settings.preset,
            flow=flow,
            reference=reference,
            whole_orbit=whole_orbit,
            progress=False,
        )


@in_float64
def chains_of(fit: Fit, seed: int, chains: int, draws: int, burn_in: int) -> Chains:
    """Return new chains from a finished proposal, of the lengths that a table asks for."""
    assert fit.problem is not None
    assert fit.proposal is not None
    kept = None if fit.whole_orbit else IDENTITY_ONLY
    ratio = LogRatio(Target(fit.problem), fit.proposal, fit.group, kept)
    return run_chains(_stream(seed), ratio, chains, draws, burn_in)


def random_permutation_chains(
    group: Group, fit: Fit, seed: int, chains: int, draws: int, burn_in: int
) -> tuple[np.ndarray, np.ndarray]:
    """Run the random permutation sampler with an unfolded fit's proposal.

    Args:
        group: the symmetry whose elements relabel.
        fit: an unfolded fit.
        seed: of the run.
        chains: number of chains.
        draws: kept draws per chain.
        burn_in: steps thrown away before.

    Returns:
        Draws (chain, draw, dim) under all labels, and which steps moved, (chain, draw).
    """
    assert fit.problem is not None
    assert fit.proposal is not None
    relabel, steps = group.random_image, burn_in + draws
    runs = [
        random_permutation_chain(key, fit.problem, fit.proposal, relabel, steps)
        for key in (jax.random.fold_in(_stream(seed), number) for number in range(chains))
    ]
    states, moved = (np.stack(parts)[:, burn_in:] for parts in zip(*runs, strict=True))
    return states, moved


def folded_draws(group: Group, draws: np.ndarray) -> np.ndarray:
    """Return draws (chain, draw, dim) in the sorted chamber: sorting afterwards."""
    return map_points(Group.fold, group, draws.reshape(-1, group.dim)).reshape(draws.shape)


def _stream(seed: int) -> Key:
    return jax.random.fold_in(jax.random.key(seed), CHAIN_STREAM)


def pair_jobs(cases: Iterable[str], settings: ReproductionSettings) -> list[TableJob]:
    """Return every case folded, a job per seed, and unfolded once."""
    jobs = []
    for case in cases:
        jobs += [TableJob(case, ("folded",), seed) for seed in settings.folded_seeds]
        jobs.append(TableJob(case, ("unfolded",), settings.seed))
    return jobs


class PairTable(Experiment):
    """A table of targets, each folded with every seed and unfolded once.

    Attributes:
        problems: the name of the target of every case.
        quick_cases: those that a quick run is content with.
    """

    problems: ClassVar[Mapping[str, str]]
    quick_cases: ClassVar[Sequence[str]]

    def cases(self, settings: ReproductionSettings) -> list[TableJob]:
        """Return the jobs of every case; those of a few when in a hurry."""
        return pair_jobs(self.quick_cases if settings.quick else self.problems, settings)

    def run(self, fits: SharedFits, job: TableJob) -> list[TableRow]:
        """Return the row of one case, method and seed."""
        (method,) = job.methods
        parts = fits.facts(self.problems[job.case], job.seed, folded=method == "folded")
        return [row(self.name, job.case, method, job.seed, **parts)]

    def report(self, rows: list[TableRow]) -> list[tuple[str, str]]:
        """Return the tables of the document, as Markdown."""
        return [
            ("γ at ρ = 0.05", diagnostic_table(rows)),
            ("Improvement by folding", ratio_table(rows)),
            ("γ at every ρ (proposal draws), ours / printed / saved", every_rho_table(rows)),
            ("Chains, ours / published", chain_table(rows)),
        ]
