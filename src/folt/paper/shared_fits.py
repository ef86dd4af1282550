"""Problems by name, and fits that several tables share.

Tables of folded beside unfolded fits: what banana, dimension and label-switching share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import equinox as eqx
import jax
import numpy as np

from folt.batching import map_points
from folt.chains import Chains, relabelled_sweep, run_chains
from folt.fit import Fit
from folt.groups import Group, Trivial
from folt.models import banana, bayesian_mixture, broken_banana, gaussian_pair, label_switching
from folt.paper.rows import ReproductionSettings, TableJob, fit_facts, row
from folt.paper.tables import (
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
from folt.types import (
    Density,
    Distribution,
    Key,
    Point,
    ReferenceSampler,
    Scalar,
    Trainer,
    in_float64,
)

CHAIN_STREAM = 3_000
"""Number of the random stream of chains that a table runs from a finished proposal."""


def problem_named(name: str) -> Problem:
    """The target of this name: `banana`, `broken-banana`, `pair-10`, `m3p2`, `bayes-mixture`."""
    if pair := re.fullmatch(r"pair-(\d+)", name):
        return gaussian_pair(int(pair[1]))
    if labels := re.fullmatch(r"m(\d+)p(\d+)", name):
        return label_switching(int(labels[1]), int(labels[2]))
    makers: dict[str, Callable[[], Problem]] = {
        "banana": banana,
        "broken-banana": broken_banana,
        "bayes-mixture": bayesian_mixture,
    }
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

    def problem(self, name: str) -> Problem:
        """Return the target of this name."""
        if name not in self._problems:
            self._problems[name] = problem_named(name)
        return self._problems[name]

    def bring(self, name: str, problem: Problem) -> None:
        """Give a target that is not known by name, such as one with measured data."""
        self._problems[name] = problem

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


@in_float64
def random_permutation_chains(
    group: Group, fit: Fit, seed: int, chains: int, draws: int, burn_in: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the random permutation sampler with an unfolded fit's proposal.

    An independence step on all of R^dim, then a uniformly chosen relabelling, at every step.

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
    ratio = _PlainRatio(fit.problem, fit.proposal)
    steps = burn_in + draws
    states, moved = [], []
    for number in range(chains):
        propose_key, sweep_key = jax.random.split(jax.random.fold_in(_stream(seed), number))
        keys = jax.random.split(propose_key, steps + 1)
        proposals = map_points(_propose, fit.proposal, keys)
        log_ratios = map_points(_PlainRatio.log_prob, ratio, proposals[1:])
        one, accepted = relabelled_sweep(
            sweep_key, proposals[0], proposals[1:], log_ratios, group.random_image, ratio.log_prob
        )
        states.append(np.asarray(one)[burn_in:])
        moved.append(np.asarray(accepted)[burn_in:])
    return np.stack(states), np.stack(moved)


def folded_draws(group: Group, draws: np.ndarray) -> np.ndarray:
    """Return draws (chain, draw, dim) in the sorted chamber: sorting afterwards."""
    return map_points(Group.fold, group, draws.reshape(-1, group.dim)).reshape(draws.shape)


class _PlainRatio(Density):
    """log π - log q on all of R^dim, neither of them folded."""

    target: Density
    proposal: eqx.Module

    @property
    def dim(self) -> int:
        return self.target.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the log ratio at x."""
        return self.target.log_prob(x) - self.proposal.log_prob(x)  # type: ignore[attr-defined]


def _propose(proposal: Distribution, key: Key) -> Point:
    return proposal.sample(key)


def _stream(seed: int) -> Key:
    return jax.random.fold_in(jax.random.key(seed), CHAIN_STREAM)


def folded_and_unfolded(cases: Iterable[str], settings: ReproductionSettings) -> list[TableJob]:
    """Return every case folded, a job per seed, and unfolded once."""
    jobs = []
    for case in cases:
        jobs += [TableJob(case, ("folded",), seed) for seed in settings.folded_seeds]
        jobs.append(TableJob(case, ("unfolded",), settings.seed))
    return jobs


def run_pair(fits: SharedFits, table: str, problem: str, job: TableJob) -> list[TableRow]:
    """Return one row of such a table."""
    (method,) = job.methods
    parts = fits.facts(problem, job.seed, folded=method == "folded")
    return [row(table, job.case, method, job.seed, **parts)]


def sections(rows: list[TableRow], *, ratios: bool = True) -> list[tuple[str, str]]:
    """Headed tables of ours beside the published figures."""
    parts = [
        ("γ at ρ = 0.05", diagnostic_table(rows)),
        ("γ at every ρ (proposal draws), ours / printed / saved", every_rho_table(rows)),
        ("Chains, ours / published", chain_table(rows)),
    ]
    if ratios:
        parts.insert(1, ("Improvement by folding", ratio_table(rows)))
    return parts
