"""Parts of a certificate: the facts about chains, symmetry, tail safety and reference run."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from folt.certificate.cautions import Caution, Reference, health
from folt.certificate.conditions import (
    AMBIGUOUS,
    MIXED,
    REFRESHED_ALARM,
    REFRESHED_RHAT,
    RHAT_DOUBT,
)
from folt.certificate.diagnostics.chains import (
    ChainSummary,
    effective_size,
    rhat_by_chance,
    split_rhat,
    summarise_chains,
)
from folt.certificate.diagnostics.switching import Heights, Switching, switching
from folt.chains import Chains
from folt.problem.ratio import BoundaryMass, LogRatio, boundary_mass, label_switch_rate
from folt.problem.symmetry import SymmetryAccount, check_symmetry

SYMMETRY_DRAWS = 2_048
"""Held-out draws, evenly spaced, at which symmetry and labels are examined."""


@dataclasses.dataclass(frozen=True)
class ChainFacts:
    """What the chains show, the worst over the coordinates, and for h.

    Attributes:
        ess: rank-normalised effective sample size; zero where a chain is frozen.
        tail_ess: the same for the 5 % and 95 % quantiles.
        rhat: rank-normalised split R-hat; NaN where a chain is frozen.
        batch_means_ess: the paper's estimator, for comparison.
        ess_log_ratio: effective sample size of h.
        rhat_log_ratio: R-hat of h.
        frozen: chains that never moved, looked for first.
        draws: number of draws, all chains together, at the time of the certificate.
        accept_rate: share of steps that moved.
        burn_in: steps thrown away at the start of every chain.
    """

    ess: float
    tail_ess: float
    rhat: float
    batch_means_ess: float
    ess_log_ratio: float
    rhat_log_ratio: float
    frozen: tuple[int, ...]
    draws: int
    accept_rate: float
    burn_in: int

    @classmethod
    def of(cls, chains: Chains, burn_in: int) -> ChainFacts:
        """Return the facts of chains as they ran."""
        summary: ChainSummary = summarise_chains(chains.draws, chains.accepted)
        moving = not summary.frozen
        return cls(
            ess=float(summary.ess.min()),
            tail_ess=float(summary.tail_ess.min()),
            rhat=float(summary.rhat.max()),
            batch_means_ess=float(summary.batch_means_ess.min()),
            ess_log_ratio=effective_size(chains.log_ratio) if moving else 0.0,
            rhat_log_ratio=split_rhat(chains.log_ratio) if moving else math.nan,
            frozen=summary.frozen,
            draws=chains.accepted.size,
            accept_rate=float(chains.accepted.mean()),
            burn_in=burn_in,
        )

    @property
    def worst_rhat(self) -> float:
        """The larger R-hat of the coordinates and of h; NaN where neither can be had."""
        known = [rhat for rhat in (self.rhat, self.rhat_log_ratio) if not math.isnan(rhat)]
        return max(known, default=math.nan)


@dataclasses.dataclass(frozen=True)
class SymmetryFacts:
    """What is known of the symmetry.

    Attributes:
        order: number of images of a point, |G|.
        invariant: whether the density was declared invariant.
        defect: largest change of the log density under the group, in nats, at random points and
            at held-out draws; rounding where the symmetry holds.
        holds: whether that is rounding.
        boundary: how much of the target lies where labels are a matter of chance.
        switch_rate: share of steps at which a raw reference chain changes its labels; None where
            no raw chain was kept.
        switching: where nothing was folded, the pair of entries whose labels look most like
            switching; None where something was folded or nothing can be said.
        turning: names of what a continuous rotation turns that was left in the posterior.
    """

    order: int
    invariant: bool
    defect: float
    holds: bool
    boundary: BoundaryMass
    switch_rate: float | None
    switching: Switching | None = None
    turning: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        ratio: LogRatio,
        held_out: np.ndarray,
        run: Reference,
        checked: SymmetryAccount,
        chains: Chains,
        labels: str,
    ) -> SymmetryFacts:
        """Return what the check before the run, held-out draws and chains say of the symmetry."""
        problem = ratio.target.problem
        points = held_out.reshape(-1, problem.dim)
        points = points[:: max(len(points) // SYMMETRY_DRAWS, 1)][:SYMMETRY_DRAWS]
        within = check_symmetry(problem, points=points[:: max(len(points) // checked.points, 1)])
        boundary = boundary_mass(problem.group, points, ratio.proposal)
        if labels == "proposal":
            boundary = dataclasses.replace(boundary, mixed=0.0)
        found = problem.symmetry_found
        rotations = () if found is None or found.divided else found.rotations
        return cls(
            order=checked.order,
            invariant=problem.invariant,
            defect=max(checked.defect, within.defect),
            holds=checked.holds and within.holds,
            boundary=boundary,
            switch_rate=None if run.raw is None else label_switch_rate(problem.group, run.raw),
            switching=(
                switching(chains.draws, problem.names, _modes(run)) if checked.order == 1 else None
            ),
            turning=tuple(site for each in rotations for site in each.sites) or checked.turning,
        )

    @property
    def suspected(self) -> bool:
        """Whether labels seem to switch although nothing was folded, or a rotation is left in."""
        switches = self.switching is not None and self.switching.suspected
        return bool(self.turning) or (self.order == 1 and switches)

    @property
    def mixes(self) -> bool:
        """Whether the order of the labels confuses components that the proposal tells apart."""
        plain = (self.boundary.ambiguity or 0.0) <= AMBIGUOUS
        return plain and (self.boundary.mixed or 0.0) > MIXED


@dataclasses.dataclass(frozen=True)
class SafetyFacts:
    """The tail safety and its price.

    Attributes:
        weight: λ, the share of the proposal that is the guard.
        acceptance_cost: the most it can cost in acceptance and in the gap, λ itself.
        claim: what may be concluded from it.
    """

    weight: float
    acceptance_cost: float
    claim: str

    @classmethod
    def of(cls, weight: float) -> SafetyFacts:
        """Return the facts of a guard of this weight."""
        if weight == 0.0:
            return cls(0.0, 0.0, "There is no tail safety.")
        return cls(
            weight,
            weight,
            "The guard bounds w by π_F/(λ r_F): the chain is uniformly ergodic if the density over "
            "the guard's is bounded, which a heavy-tailed guard makes likely and nobody checked.",
        )


@dataclasses.dataclass(frozen=True)
class ReferenceFacts:
    """What the reference run was like as it came, and its held-out part after refreshment.

    Refreshment may add a caution. It never takes one away: draws that the kernel renewed say
    nothing about the run they came from.

    Attributes:
        rhat: worst rank-normalised R-hat over the coordinates of the folded draws as they came.
        ess: their smallest effective size.
        exact: whether they are independent draws of π_F by construction.
        draws: how many there are.
        refreshed: steps of the chain's kernel by which the held-out part was moved.
        refreshed_rhat: R-hat of the held-out part after that; `rhat` if it was not moved.
        refreshed_ess: its smallest effective size.
        refreshed_limit: R-hat above which it shows that draws which the kernel renewed disagree.
        cautions: what a user should know of the run.
        sealed: whether the held-out draws are surely of other chains than those learnt from.
        cap: evaluations of the log density to which the fit was limited; None for no limit.
    """

    rhat: float
    ess: float
    exact: bool
    draws: int
    refreshed: int
    refreshed_rhat: float
    refreshed_ess: float
    refreshed_limit: float = REFRESHED_RHAT
    cautions: tuple[Caution, ...] = ()
    sealed: bool = True
    cap: int | None = None

    @classmethod
    def of(
        cls,
        run: Reference,
        held_out: np.ndarray,
        refreshed: int,
        stayed: float = 0.0,
        cap: int | None = None,
    ) -> ReferenceFacts:
        """Return the facts of a run whose held-out draws were moved by so many steps.

        Args:
            run: the run as it came.
            held_out: its held-out draws as they are now.
            refreshed: steps by which each was moved.
            stayed: share of them that never moved.
            cap: evaluations to which the fit was limited.
        """
        count = run.draws.shape[0] * run.draws.shape[1]
        came = (run.rhat, run.ess, run.exact, count)
        if not refreshed:
            same = (0, run.rhat, run.ess, REFRESHED_RHAT)
            return cls(*came, *same, run.cautions, run.sealable, cap)
        rhat, ess, after = health(held_out)
        known = {caution.concern for caution in run.cautions}
        added = tuple(caution for caution in after if caution.concern not in known)
        chance = rhat_by_chance(held_out.shape, REFRESHED_ALARM, min(run.rhat, RHAT_DOUBT), stayed)
        limit = max(REFRESHED_RHAT, chance)
        return cls(*came, refreshed, rhat, ess, limit, run.cautions + added, run.sealable, cap)


def _modes(run: Reference) -> Heights | None:
    """Return the modes that the exploration found, if it looked for any."""
    explored = run.explored
    if explored is None or explored.modes is None:
        return None
    return Heights(explored.modes.points, explored.modes.values, explored.absolute)
