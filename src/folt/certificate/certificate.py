"""The certificate: the one place where the log ratio meets the diagnostics.

It is computed from draws that training and selection never saw: held-out reference draws of π_F,
which arrive under seal (`held_out`), fresh draws of the proposal that ran, and the chains.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from folt.boundary import BoundaryMass
from folt.certificate.held_out import Judged
from folt.certificate.verdict import PRIMARY, Findings, Status, verdict
from folt.chains import Chains
from folt.diagnostics import (
    RHOS,
    Agreement,
    ChainSummary,
    Core,
    Coverage,
    Evidence,
    Faults,
    Mixing,
    agreement,
    bridge_evidence,
    coverage,
    effective_size,
    gap_upper,
    importance_evidence,
    mixing_certificate,
    proposal_core,
    split_rhat,
    summarise_chains,
    target_core,
)
from folt.strict_json import plain

DELTA = 0.05

ASSUMPTION = (
    "The certificate assumes that the held-out draws are from the folded target. Modes that the "
    "reference run and the proposal both missed cannot be seen by anyone."
)


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
        draws: number of draws, all chains together.
    """

    ess: float
    tail_ess: float
    rhat: float
    batch_means_ess: float
    ess_log_ratio: float
    rhat_log_ratio: float
    frozen: tuple[int, ...]
    draws: int

    @classmethod
    def of(cls, chains: Chains) -> ChainFacts:
        """The facts of chains as they ran."""
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
        )


@dataclasses.dataclass(frozen=True)
class SymmetryFacts:
    """What is known of the symmetry.

    Attributes:
        order: number of images of a point, |G|.
        invariant: whether the density was declared invariant.
        defect: largest relative change of the log density under the group, at random points and at
            held-out draws; about 1e-16 where the symmetry holds.
        holds: whether that is rounding.
        boundary: how much of the target lies where labels are a matter of chance.
        switch_rate: share of steps at which a raw reference chain changes its labels; None where
            no raw chain was kept.
    """

    order: int
    invariant: bool
    defect: float
    holds: bool
    boundary: BoundaryMass
    switch_rate: float | None


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
        """The facts of a guard of this weight."""
        if weight == 0.0:
            return cls(0.0, 0.0, "There is no tail safety.")
        return cls(
            weight,
            weight,
            "The guard bounds w by π_F/(λ r_F): the chain is uniformly ergodic if the density over "
            "the guard's is bounded, which a heavy-tailed guard makes likely and nobody checked.",
        )


@dataclasses.dataclass(frozen=True)
class Certificate:
    """How far the chain can be trusted.

    Attributes:
        status: the verdict.
        mixing: steps to total variation .1, .05, .01, with confidence: the headline.
        qc: `qc["target" | "proposal"][rho]`, the quantile cores in both protocols.
        full_osc: range of h over all held-out draws; grows with their number, bounds nothing.
        gap_upper: upper estimate of the spectral gap from the largest h seen.
        evidence: importance estimate of log Z.
        bridge: bridge estimate of log Z, from fresh proposals and the chains.
        coverage: whether the proposal covers what the reference sees.
        agreement: whether chains and reference, as it came, have the same means.
        chains: effective sizes and R-hat.
        symmetry: what is known of the symmetry.
        safety: the tail safety and its price.
        effective: independent draws that the held-out h are worth.
        refreshed: steps of the chain's kernel by which the held-out draws were moved before.
        faults: log ratios that were not finite.
        assumption: what all of it rests on.
    """

    status: Status
    mixing: Mixing
    qc: dict[str, dict[float, Core]]
    full_osc: float
    gap_upper: float
    evidence: Evidence
    bridge: Evidence
    coverage: Coverage
    agreement: Agreement
    chains: ChainFacts
    symmetry: SymmetryFacts
    safety: SafetyFacts
    effective: float
    refreshed: int
    faults: Faults
    assumption: str = ASSUMPTION

    def tree(self) -> dict[str, Any]:
        """Plain numbers, strings and dictionaries, infinities and NaN as they are."""
        tree = dataclasses.asdict(self)
        tree["qc"] = {
            protocol: {
                str(rho): {**dataclasses.asdict(core), "predicted_ess": core.predicted_ess}
                for rho, core in cores.items()
            }
            for protocol, cores in self.qc.items()
        }
        tree["mixing"]["steps"] = {str(key): n for key, n in self.mixing.steps.items()}
        return tree

    def to_dict(self) -> dict[str, Any]:
        """The tree ready for JSON: null for what is not finite."""
        return plain(self.tree())

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Certificate:
        """The inverse of `tree`, and of `to_dict` but for null, which comes back as NaN."""
        fields = {**tree}
        fields["qc"] = {
            protocol: {float(rho): _core(core) for rho, core in cores.items()}
            for protocol, cores in tree["qc"].items()
        }
        fields["mixing"] = Mixing.from_dict(tree["mixing"])
        fields["symmetry"] = {**tree["symmetry"]}
        fields["symmetry"]["boundary"] = BoundaryMass(**tree["symmetry"]["boundary"])
        for name, kind in _PARTS.items():
            fields[name] = kind(**_numbers(kind, fields[name]))
        return cls(**_numbers(cls, fields))


_PARTS: dict[str, Any] = {
    "status": Status,
    "evidence": Evidence,
    "bridge": Evidence,
    "coverage": Coverage,
    "agreement": Agreement,
    "chains": ChainFacts,
    "symmetry": SymmetryFacts,
    "safety": SafetyFacts,
    "faults": Faults,
}


def certify(
    judged: Judged,
    fresh: np.ndarray,
    chains: Chains,
    symmetry: SymmetryFacts,
    *,
    reference_warnings: tuple[str, ...] = (),
    safety_weight: float = 0.0,
) -> Certificate:
    """The certificate from log ratios.

    Args:
        judged: held-out reference draws with their h.
        fresh: h at fresh proposal draws.
        chains: the chains as they ran.
        symmetry: what is known of the symmetry.
        reference_warnings: what the reference run said of itself.
        safety_weight: λ.
    """
    held_out = judged.log_ratio
    effective = float(held_out.size) if judged.exact else _effective(held_out)
    facts = ChainFacts.of(chains)
    evidence = importance_evidence(fresh)
    finite = held_out[np.isfinite(held_out)]
    parts: dict[str, Any] = {
        "qc": _cores(held_out, fresh, effective),
        "mixing": mixing_certificate(
            fresh,
            held_out,
            delta=DELTA,
            exact=judged.exact,
            chain_length=chains.accepted.shape[1],
        ),
        "full_osc": float(np.ptp(finite)) if finite.size == held_out.size else math.inf,
        "gap_upper": gap_upper(np.concatenate([held_out.ravel(), fresh]), evidence.value),
        "evidence": evidence,
        "bridge": bridge_evidence(fresh, chains.log_ratio, facts.ess_log_ratio),
        "coverage": coverage(held_out, fresh, evidence.value, effective),
        "agreement": agreement(
            chains.draws,
            judged.points if judged.before is None else judged.before,
            exact=judged.exact,
        ),
        "chains": facts,
        "symmetry": symmetry,
        "safety": SafetyFacts.of(safety_weight),
        "effective": effective,
        "refreshed": judged.steps,
        "faults": Faults.count(fresh),
    }
    findings = Findings(
        frozen=len(facts.frozen),
        faults=parts["faults"],
        symmetry_defect=0.0 if symmetry.holds or not symmetry.invariant else symmetry.defect,
        coverage=parts["coverage"],
        agreement=parts["agreement"],
        core=parts["qc"]["target"][PRIMARY],
        mixing=parts["mixing"],
        accept_rate=float(chains.accepted.mean()),
        ambiguity=symmetry.boundary.ambiguity or 0.0,
        reference_warnings=reference_warnings,
    )
    return Certificate(status=verdict(findings), **parts)


def _cores(
    held_out: np.ndarray, fresh: np.ndarray, effective: float
) -> dict[str, dict[float, Core]]:
    target = {rho: target_core(held_out, rho, DELTA, effective) for rho in RHOS}
    proposal = {rho: proposal_core(fresh, rho, DELTA) for rho in RHOS}
    return {
        "target": {rho: core.with_target_mass(held_out) for rho, core in target.items()},
        "proposal": {rho: core.with_target_mass(held_out) for rho, core in proposal.items()},
    }


def _core(tree: dict[str, Any]) -> Core:
    """A core from its tree, without what follows from the rest."""
    return Core(**{key: value for key, value in tree.items() if key != "predicted_ess"})


def _effective(held_out: np.ndarray) -> float:
    """Effective number of held-out h: never more than their count."""
    finite = np.where(np.isfinite(held_out), held_out, np.nan)
    if np.isnan(finite).any():
        finite = np.where(np.isnan(finite), np.nanmin(finite) - 1.0, finite)
    return float(min(effective_size(finite), held_out.size))


def _numbers(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """None back to NaN where a number is expected, lists back to tuples."""
    expected = {field.name: field.type for field in dataclasses.fields(kind)}
    return {
        key: math.nan
        if value is None and expected[key] == "float"
        else tuple(value)
        if isinstance(value, list)
        else value
        for key, value in fields.items()
    }
