"""The verdict: a few named outcomes, each with one sentence of what it means and what to do next.

The gravest outcome that applies is the one reported. All of them rest on the draws that the
certificate saw: what the reference and the proposal both missed has no outcome.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from folt.diagnostics import Agreement, Core, Coverage, Faults, Mixing

PRIMARY = 0.05
"""The ρ of the core and the ε of the mixing certificate that the verdict reads."""

FEW_STEPS = 100
"""Certified steps to total variation .05 up to which a chain counts as mixing fast."""

MANY_STEPS = 2_000
"""Certified steps beyond which the fit is called poor."""

DISAGREEMENT = 1e-5
"""p-value below which chain and reference are said to disagree."""

AMBIGUOUS = 0.2
"""Share of draws with ambiguous labels above which summaries by label mislead."""


@dataclasses.dataclass(frozen=True)
class Status:
    """A named outcome, and one sentence that says what it means and what to do next."""

    name: str
    advice: str


@dataclasses.dataclass(frozen=True)
class Findings:
    """What the verdict is made from.

    Attributes:
        frozen: number of chains that never moved.
        faults: log ratios that were not finite.
        symmetry_defect: relative change of a density declared invariant at held-out draws;
            zero where the symmetry holds or was declared broken.
        coverage: whether the proposal covers the reference.
        agreement: whether chain and reference have the same means.
        core: quantile core of the target draws at ρ = .05.
        mixing: the mixing certificate.
        accept_rate: share of steps that moved.
        ambiguity: share of draws whose label is a matter of chance.
        reference_warnings: what the reference run said of itself.
    """

    frozen: int
    faults: Faults
    symmetry_defect: float
    coverage: Coverage
    agreement: Agreement
    core: Core
    mixing: Mixing
    accept_rate: float
    ambiguity: float
    reference_warnings: tuple[str, ...]


def verdict(findings: Findings) -> Status:
    """The gravest outcome that applies."""
    for rule in RULES:
        status = rule(findings)
        if status is not None:
            return status
    return Status(
        "good",
        "The proposal follows the folded target closely and the chain forgets its start within "
        f"{_counted(findings.mixing.steps[PRIMARY], 'step')}: the draws can be used.",
    )


def _counted(count: int | None, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _frozen(findings: Findings) -> Status | None:
    if findings.frozen == 0:
        return None
    return Status(
        "frozen",
        f"{_counted(findings.frozen, 'chain')} never moved: the proposal does not reach the "
        "target, so use a richer proposal or better reference draws, not these draws.",
    )


def _faulty(findings: Findings) -> Status | None:
    count = findings.faults.not_a_number + findings.faults.infinite
    if count == 0:
        return None
    return Status(
        "faulty",
        f"The log density was not a number or infinite at {count} proposals: repair it there "
        "(return -inf outside the support) before using the draws.",
    )


def _broken_symmetry(findings: Findings) -> Status | None:
    if findings.symmetry_defect == 0.0:
        return None
    return Status(
        "broken symmetry",
        "The log density was declared invariant but changes under relabelling at posterior draws "
        f"(relative defect {findings.symmetry_defect:.2g}): declare invariant=False, which is "
        "exact, or give the group that the density really has.",
    )


def _uncovered(findings: Findings) -> Status | None:
    if not findings.coverage.departs():
        return None
    return Status(
        "uncovered",
        "The proposal misses or misjudges mass that the reference has (coverage "
        f"{findings.coverage.value:.3g} instead of 1): train a richer proposal, and do not use "
        "these draws or this evidence.",
    )


def _reference_in_doubt(findings: Findings) -> Status | None:
    if any("R-hat" in sentence for sentence in findings.reference_warnings):
        return Status(
            "reference in doubt",
            "The reference chains do not agree, so separate modes are suspected that are no images "
            "of each other: run a longer reference before trusting the weights of the modes.",
        )
    if not findings.agreement.p_value >= DISAGREEMENT:
        return Status(
            "reference in doubt",
            "The chain and the reference draws differ in their means "
            f"({abs(findings.agreement.score):.1f} standard errors): separate modes are suspected, "
            "so run a longer reference before trusting the weights of the modes.",
        )
    return None


def _undecided(findings: Findings) -> Status | None:
    if findings.core.feasible:
        return None
    return Status(
        "undecided",
        f"The reference is worth {findings.core.n:.0f} independent draws, too few for a statement "
        "at 5 %: ask for more reference draws.",
    )


def _heavy_tail(findings: Findings) -> Status | None:
    if findings.mixing.steps[PRIMARY] is not None:
        return None
    return Status(
        "heavy tail",
        "The target outweighs the proposal too much in part of its mass for any number of steps to "
        "be certified: train a richer proposal or raise the weight of the tail safety.",
    )


def _poor(findings: Findings) -> Status | None:
    steps = findings.mixing.steps[PRIMARY]
    if findings.accept_rate >= 0.1 and (steps is None or steps <= MANY_STEPS):
        return None
    return Status(
        "poor",
        "The proposal fits badly and the chain mixes slowly: train a richer proposal, or run many "
        "more draws and look at R-hat.",
    )


def _ambiguous(findings: Findings) -> Status | None:
    if findings.ambiguity <= AMBIGUOUS:
        return None
    return Status(
        "ambiguous labels",
        f"The draws can be used, but {100 * findings.ambiguity:.0f} % of them lie at the fold "
        "boundary where labels are a matter of chance: summaries by label mislead, so use "
        "quantities that no relabelling changes, or fewer components.",
    )


def _fair(findings: Findings) -> Status | None:
    steps = findings.mixing.steps[PRIMARY]
    if findings.accept_rate >= 0.5 and steps is not None and steps <= FEW_STEPS:
        return None
    return Status(
        "fair",
        "The chain works but the fit has room: the draws can be used, with more of them or a "
        "richer proposal wanted.",
    )


RULES: tuple[Callable[[Findings], Status | None], ...] = (
    _frozen,
    _faulty,
    _broken_symmetry,
    _uncovered,
    _reference_in_doubt,
    _undecided,
    _heavy_tail,
    _poor,
    _ambiguous,
    _fair,
)
"""The gravest first."""
