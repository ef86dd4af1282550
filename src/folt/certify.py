"""The certificate: the one place where the log ratio meets the diagnostics.

It is computed from two sets of draws that training and selection never saw: held-out reference
draws of π_F, and fresh draws of the proposal that ran.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from folt.diagnostics import (
    RHOS,
    ChainSummary,
    Core,
    Evidence,
    gap_upper,
    importance_evidence,
    proposal_core,
    target_core,
)
from folt.diagnostics.chains import effective_size

DELTA = 0.05

ASSUMPTION = (
    "The certificate assumes that the held-out draws are from the folded target. Modes that the "
    "reference run and the proposal both missed cannot be seen by anyone."
)


@dataclasses.dataclass(frozen=True)
class Status:
    """A named outcome, and one sentence that says what it means and what to do next."""

    name: str
    advice: str


@dataclasses.dataclass(frozen=True)
class Faults:
    """Log ratios that are not finite among proposals: rejections and real faults."""

    outside_support: int
    not_a_number: int
    infinite: int

    @classmethod
    def count(cls, log_ratios: np.ndarray) -> Faults:
        """Count -inf (outside the support), NaN and +inf."""
        return cls(
            int(np.isneginf(log_ratios).sum()),
            int(np.isnan(log_ratios).sum()),
            int(np.isposinf(log_ratios).sum()),
        )


@dataclasses.dataclass(frozen=True)
class Certificate:
    """How far the chain can be trusted.

    Attributes:
        qc: `qc["target" | "proposal"][rho]`, the quantile cores in both protocols.
        full_osc: range of h over all held-out draws; grows with their number, bounds nothing.
        gap_upper: upper estimate of the spectral gap from the largest h seen.
        evidence: importance estimate of log Z.
        coverage: Ẑ·mean(1/w) over held-out draws; near one unless the proposal misses mass.
        effective: independent draws that the held-out h are worth.
        faults: log ratios that were not finite.
        safety_weight: λ of the tail safety, which costs at most this share of acceptance.
        status: the verdict.
        assumption: what all of it rests on.
    """

    qc: dict[str, dict[float, Core]]
    full_osc: float
    gap_upper: float
    evidence: Evidence
    coverage: float
    effective: float
    faults: Faults
    safety_weight: float
    status: Status
    assumption: str = ASSUMPTION

    def tree(self) -> dict[str, Any]:
        """Plain numbers, strings and dictionaries, infinities and NaN as they are."""
        tree = dataclasses.asdict(self)
        tree["qc"] = {
            protocol: {str(rho): dataclasses.asdict(core) for rho, core in cores.items()}
            for protocol, cores in self.qc.items()
        }
        return tree

    def to_dict(self) -> dict[str, Any]:
        """The tree ready for JSON: null for what is not finite."""
        return _finite_tree(self.tree())

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Certificate:
        """The inverse of `tree`, and of `to_dict` but for null, which comes back as NaN."""
        fields = {**tree}
        fields["qc"] = {
            protocol: {float(rho): Core(**core) for rho, core in cores.items()}
            for protocol, cores in tree["qc"].items()
        }
        for name, kind in (("evidence", Evidence), ("faults", Faults), ("status", Status)):
            fields[name] = kind(**_numbers(tree[name]))
        return cls(**_numbers(fields))


def certify(
    held_out: np.ndarray,
    fresh: np.ndarray,
    chains: ChainSummary,
    accept_rate: float,
    *,
    exact: bool,
    reference_warnings: tuple[str, ...] = (),
    safety_weight: float = 0.0,
) -> Certificate:
    """The certificate from log ratios.

    Args:
        held_out: h at reference draws (chain, draw) that training never saw.
        fresh: h at fresh proposal draws.
        chains: what the chains showed.
        accept_rate: share of steps that moved.
        exact: whether the reference draws are independent by construction; otherwise the
            effective size of h counts, which is an approximation.
        reference_warnings: what the reference run said of itself.
        safety_weight: λ.
    """
    effective = float(held_out.size) if exact else _effective(held_out)
    cores = {
        "target": {rho: target_core(held_out, rho, DELTA, effective) for rho in RHOS},
        "proposal": {rho: proposal_core(fresh, rho, DELTA) for rho in RHOS},
    }
    evidence = importance_evidence(fresh)
    finite = held_out[np.isfinite(held_out)]
    full_osc = float(np.ptp(finite)) if finite.size == held_out.size else math.inf
    with np.errstate(invalid="ignore"):  # NaN where neither is finite, which the verdict names
        coverage = float(np.mean(np.exp(evidence.value - held_out)))
    status = verdict(cores["target"][0.05], chains, coverage, accept_rate, reference_warnings)
    return Certificate(
        qc=cores,
        full_osc=full_osc,
        gap_upper=gap_upper(np.concatenate([held_out.ravel(), fresh]), evidence.value),
        evidence=evidence,
        coverage=coverage,
        effective=effective,
        faults=Faults.count(fresh),
        safety_weight=safety_weight,
        status=status,
    )


def verdict(
    core: Core,
    chains: ChainSummary,
    coverage: float,
    accept_rate: float,
    reference_warnings: tuple[str, ...] = (),
) -> Status:
    """The named outcome, the gravest first."""
    if chains.frozen:
        return Status(
            "frozen",
            f"{len(chains.frozen)} chains never moved: the proposal does not reach the target, "
            "so use a richer proposal or better reference draws and do not use these draws.",
        )
    if not 0.8 < coverage < 1.25:
        return Status(
            "uncovered",
            f"The proposal misses or misjudges mass that the reference has (coverage "
            f"{coverage:.3g} instead of 1): train longer or with a richer proposal.",
        )
    if not core.feasible:
        return Status(
            "undecided",
            f"The reference is worth {core.n:.0f} independent draws, too few for a statement at "
            "5 %: ask for more reference draws.",
        )
    if any("R-hat" in sentence for sentence in reference_warnings):
        return Status(
            "reference in doubt",
            "The reference chains do not agree, so separate modes are suspected: run a longer "
            "reference before trusting the weights of the modes.",
        )
    assert core.gamma is not None
    if core.gamma < 0.1 or accept_rate < 0.1:
        return Status(
            "poor",
            "The proposal fits badly and the chain mixes slowly: train a richer proposal or run "
            "many more draws and look at R-hat.",
        )
    return Status(
        "good" if core.gamma >= 0.5 else "fair",
        "The proposal follows the folded target closely: the draws can be used."
        if core.gamma >= 0.5
        else "The chain works but the fit has room: draws can be used, with more of them wanted.",
    )


def _effective(held_out: np.ndarray) -> float:
    """Effective number of held-out h: never more than their count."""
    finite = np.where(np.isfinite(held_out), held_out, np.nan)
    if np.isnan(finite).any():
        finite = np.where(np.isnan(finite), np.nanmin(finite) - 1.0, finite)
    return float(min(effective_size(finite), held_out.size))


def _finite_tree(tree: Any) -> Any:
    """The tree with None for numbers that are not finite, tuples as lists."""
    if isinstance(tree, dict):
        return {str(key): _finite_tree(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_finite_tree(value) for value in tree]
    if isinstance(tree, (float, np.floating)):
        return float(tree) if math.isfinite(tree) else None
    return tree.item() if isinstance(tree, np.generic) else tree


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """None back to NaN where a number is expected."""
    return {key: math.nan if value is None else value for key, value in fields.items()}
