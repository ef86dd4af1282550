"""The verdict: the gravest outcome whose condition the numbers of a certificate meet.

Conditions read numbers, never sentences, and are written so that one which meets NaN applies: what
cannot be computed speaks for nobody. They rest on the draws that the certificate saw
and on the search for modes before them: what both searches missed has no outcome.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from folt.certificate.diagnostics import draws_needed
from folt.certificate.diagnostics.switching import FALSE_ALARM
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
    MIXED,
    POOR_ACCEPTANCE,
    PRIMARY,
    RHAT_DOUBT,
    SMALLEST_DIFFERENCE,
    SMOOTH_TAIL,
    STRICT,
    Outcome,
)

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate


@dataclasses.dataclass(frozen=True)
class Shortfall:
    """A number that keeps a fit from a better verdict, and what it would have to be.

    Attributes:
        what: what was measured.
        value: how much it is; None where there is none.
        asked: what it would have to be; empty where the advice says it already.
    """

    what: str
    value: float | None
    asked: str

    def __str__(self) -> str:
        value = "none" if self.value is None else f"{self.value:.4g}"
        if self.value is not None and value == self.asked.split()[-1]:
            value = f"{self.value:.9g}"  # what misses its limit by little must not look equal to it
        return f"{self.what} {value} instead of {self.asked}"


Shortfalls = tuple[Shortfall, ...]

MOST_TOLD = 2
"""Shortfalls that the advice names; `Status.shortfalls` holds all of them."""


class NextStep(NamedTuple):
    """What to do next.

    Attributes:
        cure: a line of Python.
        command: the same for who works on the command line.
    """

    cure: str
    command: str


@dataclasses.dataclass(frozen=True)
class Status:
    """The verdict on one fit.

    Attributes:
        outcome: which of the outcomes it is.
        advice: what it means here, with the numbers that decide, and what to do next.
        shortfalls: the numbers that decide, the first ones first; empty where the fit is good.
        step: what to do next, where the numbers call for something else than the outcome's own.
    """

    outcome: Outcome
    advice: str
    shortfalls: Shortfalls = ()
    step: NextStep | None = None

    @property
    def name(self) -> str:
        """The outcome's label."""
        return self.outcome.label

    @property
    def cure(self) -> str:
        """A line of Python that is the next step."""
        return self.outcome.cure if self.step is None else self.step.cure

    @property
    def command(self) -> str:
        """The next step for who works on the command line."""
        return self.outcome.command if self.step is None else self.step.command


def status_of(certificate: Certificate) -> Status:
    """Return the gravest outcome that applies, in words."""
    outcome = gravest(certificate)
    shortfalls = CONDITIONS[outcome](certificate) if outcome in CONDITIONS else ()
    told = [str(each) for each in shortfalls[:MOST_TOLD] if each.asked]
    deciding = f" What decides: {'; '.join(told)}." if told else ""
    advice = outcome.advice.format(c=certificate) + deciding
    return Status(outcome, advice, shortfalls, _step(outcome, certificate))


MORE = 5
"""Times as many evaluations as those that limited a fit are proposed next."""


RELABELLED = NextStep(
    'fit.relabelled(sort_by="proposal")',
    "the same command with --labels proposal, or sort_by= in the file of the model",
)
"""What to do where the order of the labels mixes components that can be told apart."""


def _step(outcome: Outcome, certificate: Certificate) -> NextStep | None:
    """Return a larger cap on evaluations where one was set, or another order of the labels."""
    symmetry, cap = certificate.symmetry, certificate.reference.cap
    if outcome is Outcome.AMBIGUOUS_LABELS and symmetry.mixes:
        return RELABELLED
    if outcome not in CURED_BY_EVALUATIONS or cap is None:
        return None
    more = MORE * cap
    return NextStep(
        f"folt.sample(problem, evaluations={more:_})",
        f"the same command with --evaluations {more}",
    )


CURED_BY_EVALUATIONS = frozenset(
    {
        Outcome.FAIR,
        Outcome.POOR,
        Outcome.HEAVY_TAIL,
        Outcome.UNDECIDED,
        Outcome.EVIDENCE_IN_DOUBT,
        Outcome.REFERENCE_IN_DOUBT,
        Outcome.UNCOVERED,
        Outcome.FROZEN,
    }
)
"""Outcomes that a run with more evaluations may improve."""


def gravest(certificate: Certificate) -> Outcome:
    """Return the gravest outcome that applies."""
    applying = [outcome for outcome, applies in CONDITIONS.items() if applies(certificate)]
    return max(applying, key=lambda one: one.gravity, default=Outcome.GOOD)


def _found(*candidates: Shortfall | None) -> Shortfalls:
    return tuple(each for each in candidates if each is not None)


def _at_least(what: str, value: float, limit: float) -> Shortfall | None:
    """A shortfall unless the value reaches the limit; NaN never does."""
    return None if value >= limit else Shortfall(what, value, f"at least {limit:.4g}")


def _at_most(what: str, value: float, limit: float) -> Shortfall | None:
    """A shortfall unless the value stays within the limit; NaN never does."""
    return None if value <= limit else Shortfall(what, value, f"at most {limit:.4g}")


def _frozen(c: Certificate) -> Shortfalls:
    return _found(_at_most("chains that never moved", len(c.chains.frozen), 0))


def _faulty(c: Certificate) -> Shortfalls:
    return _found(_at_most("points at which the log density is no number", c.faults.real, 0))


def _broken_symmetry(c: Certificate) -> Shortfalls:
    if not c.symmetry.invariant or c.symmetry.holds:
        return ()
    return (
        Shortfall("change of the log density under relabelling", c.symmetry.defect, "rounding"),
    )


def _uncovered(c: Certificate) -> Shortfalls:
    """Exact draws cannot be in doubt: a chain that differs from them misses something."""
    return _found(
        Shortfall("coverage", c.coverage.value, "1 within .01 or 4 errors")
        if c.coverage.departs()
        else None,
        _disagreement("exact draws", c) if c.reference.exact else None,
        _modes_missed(c),
    )


def _modes_missed(c: Certificate) -> Shortfall | None:
    """Return whether the finished proposal under-reaches a part of the modes that were found."""
    found = c.exploration
    if found is None or not found.modes:
        return None
    limit = max(MISSED, MISSED_ERRORS * found.audited_error)
    return _at_most("mass around known modes that is hardly reached", found.audited, limit)


def _reference_in_doubt(c: Certificate) -> Shortfalls:
    reference = c.reference
    if reference.exact:
        return ()
    moved = reference.refreshed > 0
    apart = c.exploration is not None and c.exploration.doubted
    return _found(
        Shortfall("agreement of two searches for modes", None, "") if apart else None,
        _at_most("R-hat of the reference", reference.rhat, RHAT_DOUBT),
        _at_least("effective draws of the reference", reference.ess, ESS_DOUBT),
        _at_most(
            "R-hat of the reference after refreshment",
            reference.refreshed_rhat,
            reference.refreshed_limit,
        )
        if moved
        else None,
        _disagreement("reference", c),
    )


def _disagreement(other: str, c: Certificate) -> Shortfall | None:
    p_value = c.agreement.p_value
    return _at_least(f"p-value of the difference of chain and {other}", p_value, DISAGREEMENT)


def _evidence_in_doubt(c: Certificate) -> Shortfalls:
    difference = c.evidences.difference
    # Where proposals are nearly exact both estimates are made of nearly the same numbers: their
    # difference is then far below the error of either, and so rough is its own error.
    smallest = SMALLEST_DIFFERENCE * c.evidence.standard_error
    score = abs(difference.score)
    if smallest > difference.standard_error:
        score = min(score, abs(difference.value) / smallest)
    what = "difference of two estimates of log Z in its errors"
    return _found(_at_most(what, score, EVIDENCE_ERRORS))


def _undecided(c: Certificate) -> Shortfalls:
    return _found(_at_least("independent held-out draws", c.effective, draws_needed(PRIMARY)))


def _heavy_tail(c: Certificate) -> Shortfalls:
    return _found(
        _steps(c, PRIMARY, MANY_STEPS) if c.mixing.steps[PRIMARY] is None else None,
        _tail(c, HEAVY_TAIL),
    )


def _steps(c: Certificate, distance: float, limit: int) -> Shortfall | None:
    steps = c.mixing.steps[distance]
    if steps is not None and steps <= limit:
        return None
    what = f"certified steps to a total variation of {distance:g}:"
    return Shortfall(what, steps, f"at most {limit}")


def _tail(c: Certificate, limit: float) -> Shortfall | None:
    """Pareto k̂ of the plain weights, where some of them are large."""
    if c.gap_upper >= 1.0 / LARGE_WEIGHT or c.evidence.pareto_k < limit:
        return None
    return Shortfall("Pareto k̂ of the weights", c.evidence.pareto_k, f"below {limit:g}")


def _poor(c: Certificate) -> Shortfalls:
    steps = c.mixing.steps[PRIMARY]
    # Coordinates without an R-hat are suspect; h has none where it is one constant.
    rhat = math.nan if math.isnan(c.chains.rhat) else c.chains.worst_rhat
    return _found(
        _at_least("acceptance", c.chains.accept_rate, POOR_ACCEPTANCE),
        _at_most("standard error of log Z", c.evidence.standard_error, EVIDENCE_ERROR),
        None if steps is None else _steps(c, PRIMARY, MANY_STEPS),
        None if steps is None else _at_least("steps of burn-in", c.chains.burn_in, steps),
        _at_most("R-hat of the chains", rhat, CHAIN_RHAT),
    )


def _ambiguous_labels(c: Certificate) -> Shortfalls:
    boundary = c.symmetry.boundary
    chance = "share of labels that are a matter of chance"
    mixed = "share of labels that their order confuses and the proposal tells apart"
    return _found(
        _at_most(chance, boundary.ambiguity or 0.0, AMBIGUOUS),
        _at_most(mixed, boundary.mixed or 0.0, MIXED),
    )


def _symmetry_suspected(c: Certificate) -> Shortfalls:
    if not c.symmetry.suspected:
        return ()
    if c.symmetry.turning or c.symmetry.switching is None:
        return (Shortfall("a rotation that is left in", None, ""),)
    what = "chance of so deep a valley with one mode"
    return (Shortfall(what, c.symmetry.switching.p_value, f"above {FALSE_ALARM:g}"),)


def _fair(c: Certificate) -> Shortfalls:
    unseen = Shortfall("reference chains surely unseen in training:", None, "at least one")
    return _found(
        _at_least("acceptance", c.chains.accept_rate, GOOD_ACCEPTANCE),
        _steps(c, PRIMARY, FEW_STEPS),
        _steps(c, STRICT, FEW_STRICT_STEPS),
        _tail(c, SMOOTH_TAIL),
        None if c.reference.sealed else unseen,
        _searched_once(c),
    )


def _searched_once(c: Certificate) -> Shortfall | None:
    """Return whether no second search could confirm the first; given draws rest on their maker."""
    found = c.exploration
    if c.reference.exact or found is None or found.compared:
        return None
    return Shortfall("modes that a second search found to compare with:", 0, "at least one")


CONDITIONS: dict[Outcome, Callable[[Certificate], Shortfalls]] = {
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
"""The numbers by which each outcome applies, none where it does not; good is what is left."""
