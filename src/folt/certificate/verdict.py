"""The verdict: the gravest outcome whose condition the numbers of a certificate meet.

Conditions read numbers, never sentences, and are written so that one which meets NaN applies: what
cannot be computed speaks for nobody. They rest on the draws that the certificate saw
and on the search for modes before them: what both searches missed has no outcome.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from folt.certificate.outcomes import (
    AMBIGUOUS,
    CHAIN_RHAT,
    DISAGREEMENT,
    ESS_DOUBT,
    EVIDENCE_ERROR,
    EVIDENCE_ERRORS,
    FEW_STEPS,
    FEW_STRICT_STEPS,
    GOOD_ACCEPTANCE,
    HEAVY_TAIL,
    LARGE_WEIGHT,
    MANY_STEPS,
    MISSED,
    MISSED_ERRORS,
    POOR_ACCEPTANCE,
    PRIMARY,
    RHAT_DOUBT,
    SMOOTH_TAIL,
    STRICT,
    Outcome,
)
from folt.diagnostics import draws_needed

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate


@dataclasses.dataclass(frozen=True)
class Status:
    """The verdict on one fit.

    Attributes:
        outcome: which of the outcomes it is.
        advice: what it means here, with its numbers, and what to do next.
    """

    outcome: Outcome
    advice: str

    @property
    def name(self) -> str:
        """The outcome's label."""
        return self.outcome.label

    @property
    def cure(self) -> str:
        """A line of code that is the next step."""
        return self.outcome.cure


def verdict(certificate: Certificate) -> Status:
    """The gravest outcome that applies, in words."""
    outcome = gravest(certificate)
    return Status(outcome, outcome.advice.format(c=certificate))


def gravest(certificate: Certificate) -> Outcome:
    """The gravest outcome that applies."""
    applying = [outcome for outcome, applies in CONDITIONS.items() if applies(certificate)]
    return max(applying, key=lambda one: one.gravity, default=Outcome.GOOD)


def _frozen(c: Certificate) -> bool:
    return len(c.chains.frozen) > 0


def _faulty(c: Certificate) -> bool:
    return c.faults.real > 0


def _broken_symmetry(c: Certificate) -> bool:
    return c.symmetry.invariant and not c.symmetry.holds


def _uncovered(c: Certificate) -> bool:
    """Exact draws cannot be in doubt: a chain that differs from them misses something."""
    return c.coverage.departs() or (c.reference.exact and _disagree(c)) or _modes_missed(c)


def _modes_missed(c: Certificate) -> bool:
    """Whether the finished proposal under-reaches a part of the modes that were found."""
    found = c.exploration
    if found is None or not found.modes:
        return False
    small = found.audited <= MISSED or found.audited <= MISSED_ERRORS * found.audited_error
    return not small


def _reference_in_doubt(c: Certificate) -> bool:
    reference = c.reference
    return not reference.exact and (
        not reference.rhat <= RHAT_DOUBT
        or not reference.ess >= ESS_DOUBT
        or (reference.refreshed > 0 and not reference.refreshed_rhat <= reference.refreshed_limit)
        or _disagree(c)
        or not (c.exploration is None or c.exploration.agree)
    )


def _disagree(c: Certificate) -> bool:
    return not c.agreement.p_value >= DISAGREEMENT


def _evidence_in_doubt(c: Certificate) -> bool:
    return not abs(c.evidences.difference.score) <= EVIDENCE_ERRORS


def _undecided(c: Certificate) -> bool:
    return not c.effective >= draws_needed(PRIMARY)


def _heavy_tail(c: Certificate) -> bool:
    return c.mixing.steps[PRIMARY] is None or not _tail_shape(c) < HEAVY_TAIL


def _tail_shape(c: Certificate) -> float:
    """Pareto k̂ of the plain weights, where some of them are large."""
    return -math.inf if c.gap_upper >= 1.0 / LARGE_WEIGHT else c.evidence.pareto_k


def _poor(c: Certificate) -> bool:
    steps = c.mixing.steps[PRIMARY]
    slow = steps is not None and (steps > MANY_STEPS or c.chains.burn_in < steps)
    # Coordinates without an R-hat are suspect; h has none where it is one constant.
    apart = math.isnan(c.chains.rhat) or c.chains.worst_rhat > CHAIN_RHAT
    vague = not c.evidence.standard_error <= EVIDENCE_ERROR
    return slow or apart or vague or not c.chains.accept_rate >= POOR_ACCEPTANCE


def _ambiguous_labels(c: Certificate) -> bool:
    return not (c.symmetry.boundary.ambiguity or 0.0) <= AMBIGUOUS


def _symmetry_suspected(c: Certificate) -> bool:
    return c.symmetry.suspected


def _fair(c: Certificate) -> bool:
    steps, strict = c.mixing.steps[PRIMARY], c.mixing.steps[STRICT]
    fast = steps is not None and steps <= FEW_STEPS
    close = strict is not None and strict <= FEW_STRICT_STEPS
    smooth = _tail_shape(c) < SMOOTH_TAIL
    sealed = c.reference.sealed
    return not (fast and close and smooth and sealed and c.chains.accept_rate >= GOOD_ACCEPTANCE)


CONDITIONS: dict[Outcome, Callable[[Certificate], bool]] = {
    Outcome.FROZEN: _frozen,
    Outcome.FAULTY: _faulty,
    Outcome.BROKEN_SYMMETRY: _broken_symmetry,
    Outcome.UNCOVERED: _uncovered,
    Outcome.REFERENCE_IN_DOUBT: _reference_in_doubt,
    Outcome.EVIDENCE_IN_DOUBT: _evidence_in_doubt,
    Outcome.UNDECIDED: _undecided,
    Outcome.HEAVY_TAIL: _heavy_tail,
    Outcome.POOR: _poor,
    Outcome.SYMMETRY_SUSPECTED: _symmetry_suspected,
    Outcome.AMBIGUOUS_LABELS: _ambiguous_labels,
    Outcome.FAIR: _fair,
}
"""What each outcome asks of the numbers; good is what is left."""
