"""When an outcome applies: its condition in words, its limits, and the numbers that miss them.

Conditions read numbers, never sentences. A condition that meets NaN applies, because a number that
could not be computed is no evidence in favour of a fit. Conditions use the draws that the
certificate saw and the search for modes before them: a mode that both missed changes no outcome.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from folt.certificate.diagnostics.coverage import Faults
from folt.certificate.diagnostics.mixing import draws_needed
from folt.certificate.diagnostics.switching import FALSE_ALARM
from folt.certificate.exploration import DIFFERENCE

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate

RULES = 7
"""Number of the rules, raised whenever a condition changes: a file names those it was made by."""

PRIMARY = 0.05
"""The ρ of the core and the ε of the mixing certificate that the verdict reads first."""

STRICT = 0.01
"""The ε that a good fit needs as well: at 5 % a missed mode of 3 % would pass."""

FEW_STEPS, FEW_STRICT_STEPS = 100, 200
"""Certified steps to .05 and to .01 up to which a chain counts as mixing fast."""

MANY_STEPS = 2_000
"""Certified steps to .05 beyond which the fit is called poor; also the longest burn-in."""

GOOD_ACCEPTANCE, POOR_ACCEPTANCE = 0.5, 0.1
"""Share of steps that move from which a fit may be good, and below which it is poor."""

SMOOTH_TAIL, HEAVY_TAIL = 0.7, 1.0
"""Pareto k̂ of the plain weights below which a fit is good, and from which its tail is heavy."""

LARGE_WEIGHT = 5.0
"""Weight, the mean being one, without which k̂ is not held against a fit.

Where nearly all weights are alike, a few that are a little larger make a tail that is heavy beside
them and harmless: k̂ knows no scale."""

DISAGREEMENT = 1e-5
"""p-value below which chain and reference are said to disagree."""

EVIDENCE_ERRORS = 4.0
"""Standard errors of their difference by which two estimates of log Z may lie apart."""

SMALLEST_DIFFERENCE = 0.1
"""Share of the error of log Z that counts as the error of that difference where it is smaller.

Proposals that follow two rows of normals exactly gave a difference of 1e-5 with an error of 3e-6,
both estimates being right to 1e-3."""

EVIDENCE_ERROR = 0.01
"""Standard error of log Z that a usable fit may have.

A single proposal of weight 1 000 leaves k̂ below ½; the error of log Z shows it."""

RHAT_DOUBT, ESS_DOUBT = 1.1, 100.0
"""R-hat above which, and effective size below which, reference draws as they came are doubted."""

REFRESHED_RHAT, REFRESHED_ALARM = 1.01, 0.01
"""R-hat of refreshed reference draws above which separate modes are suspected, unless that of
renewed draws exceeds it by chance with more than this probability, all coordinates together."""

CHAIN_RHAT = 1.1
"""R-hat of the chains themselves above which they disagree, whatever was certified."""

MISSED, MISSED_ERRORS = 0.01, 4.0
"""Mass around known modes, and its standard errors, that a proposal may under-reach tenfold."""

AMBIGUOUS = 0.2
"""Mean share of the labels that are a matter of chance above which summaries by label mislead."""

MIXED = 0.05
"""Share of the labels that a sort key may confuse although the proposal tells them apart.

A mixture of experts sorted by its gate had .48 and means of its slopes of -.2 and .7 instead of
-1.1 and 1.6; benchmarks, and small posteriors whose labels are plain, stay below .01."""


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


class Condition(NamedTuple):
    """When an outcome applies.

    Attributes:
        sentence: the condition in words, for the table of the documentation.
        shortfalls: returns the numbers by which a certificate meets it; none where it does not.
    """

    sentence: str
    shortfalls: Callable[[Certificate], Shortfalls]


def condition(sentence: str) -> Callable[[Callable[[Certificate], Shortfalls]], Condition]:
    """Make a condition of the function below from the sentence that says the same."""
    return functools.partial(Condition, sentence)


def _found(*candidates: Shortfall | None) -> Shortfalls:
    return tuple(each for each in candidates if each is not None)


def _at_least(what: str, value: float, limit: float) -> Shortfall | None:
    """Return a shortfall unless the value reaches the limit; NaN never does."""
    return None if value >= limit else Shortfall(what, value, f"at least {limit:.4g}")


def _at_most(what: str, value: float, limit: float) -> Shortfall | None:
    """Return a shortfall unless the value stays within the limit; NaN never does."""
    return None if value <= limit else Shortfall(what, value, f"at most {limit:.4g}")


def _steps(c: Certificate, distance: float, limit: int) -> Shortfall | None:
    steps = c.mixing.steps[distance]
    if steps is not None and steps <= limit:
        return None
    what = f"certified steps to a total variation of {distance:g}:"
    return Shortfall(what, steps, f"at most {limit}")


def _tail(c: Certificate, limit: float) -> Shortfall | None:
    """Return Pareto k̂ of the plain weights where it is too large and some weights are large."""
    if c.gap_upper >= 1.0 / LARGE_WEIGHT or c.evidence.pareto_k < limit:
        return None
    return Shortfall("Pareto k̂ of the weights", c.evidence.pareto_k, f"below {limit:g}")


def _disagreement(other: str, c: Certificate) -> Shortfall | None:
    p_value = c.agreement.p_value
    return _at_least(f"p-value of the difference of chain and {other}", p_value, DISAGREEMENT)


@condition(
    f"none of the others: total variation {PRIMARY} certified within {FEW_STEPS} steps and "
    f"{STRICT} within {FEW_STRICT_STEPS}, acceptance at least {GOOD_ACCEPTANCE}, Pareto k̂ "
    f"below {SMOOTH_TAIL} or no weight above {LARGE_WEIGHT:g}"
)
def good(_: Certificate) -> Shortfalls:
    """Return nothing: good is what is left where no other outcome applies."""
    return ()


@condition(
    "one of these numbers falls short of what `good` asks, none by as much as `poor` needs; or "
    "the held-out draws may be of a chain that was learnt from; or a second search for modes "
    "found none to compare the first with"
)
def fair(c: Certificate) -> Shortfalls:
    """Return what keeps a fit from being good."""
    unseen = Shortfall("reference chains surely unseen in training:", None, "at least one")
    return _found(
        _at_least("acceptance", c.chains.accept_rate, GOOD_ACCEPTANCE),
        _steps(c, PRIMARY, FEW_STEPS),
        _steps(c, STRICT, FEW_STRICT_STEPS),
        _tail(c, SMOOTH_TAIL),
        None if c.reference.sealed else unseen,
        _searched_once(c),
    )


SECOND_SEARCH = "modes that a second search found to compare with:"
"""What a fit lacks whose modes were looked for in one way only."""


def _searched_once(c: Certificate) -> Shortfall | None:
    """Return whether no second search could confirm the first; given draws rest on their maker."""
    found = c.exploration
    if c.reference.exact or found is None or found.compared:
        return None
    return Shortfall(SECOND_SEARCH, 0, "at least one")


@condition(
    f"1 minus the largest probability of a labelling is above {AMBIGUOUS} on average, or the "
    f"order of the labels confuses more than {MIXED} of them that the proposal tells apart"
)
def ambiguous_labels(c: Certificate) -> Shortfalls:
    """Return the shares of the labels that chance or their order decides."""
    boundary = c.symmetry.boundary
    chance = "share of labels that are a matter of chance"
    mixed = "share of labels that their order confuses and the proposal tells apart"
    return _found(
        _at_most(chance, boundary.ambiguity or 0.0, AMBIGUOUS),
        _at_most(mixed, boundary.mixed or 0.0, MIXED),
    )


@condition(
    "a continuous rotation is left in (`allow_rotation=True`); or nothing was folded, and the "
    "difference of two entries is symmetric about zero with a "
    f"valley there (p ≤ {FALSE_ALARM:g} over all pairs of entries, were there one mode)"
)
def symmetry_suspected(c: Certificate) -> Shortfalls:
    """Return what looks like a symmetry that was not folded."""
    if not c.symmetry.suspected:
        return ()
    if c.symmetry.turning or c.symmetry.switching is None:
        return (Shortfall("a rotation that is left in", None, ""),)
    what = "chance of so deep a valley with one mode"
    return (Shortfall(what, c.symmetry.switching.p_value, f"above {FALSE_ALARM:g}"),)


@condition(
    f"acceptance below {POOR_ACCEPTANCE}, or more than {MANY_STEPS} certified steps to "
    f"{PRIMARY}, or a burn-in shorter than those, or chains that disagree (R-hat of a "
    f"coordinate or of h above {CHAIN_RHAT:g}), or a standard error of log Z above "
    f"{EVIDENCE_ERROR:g}"
)
def poor(c: Certificate) -> Shortfalls:
    """Return what makes a fit poor."""
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


@condition(
    f"no number of steps to {PRIMARY} can be certified, or Pareto k̂ is {HEAVY_TAIL:g} or more "
    f"with weights above {LARGE_WEIGHT:g}"
)
def heavy_tail(c: Certificate) -> Shortfalls:
    """Return what shows that the target outweighs the proposal."""
    return _found(
        _steps(c, PRIMARY, MANY_STEPS) if c.mixing.steps[PRIMARY] is None else None,
        _tail(c, HEAVY_TAIL),
    )


@condition(
    f"the held-out draws are worth fewer than {draws_needed(PRIMARY)} independent ones, as "
    "they came: too few for a statement at 5 %"
)
def undecided(c: Certificate) -> Shortfalls:
    """Return what the held-out draws are worth where that is too little for a statement."""
    return _found(_at_least("independent held-out draws", c.effective, draws_needed(PRIMARY)))


@condition(
    "importance sampling and bridge differ by more than "
    f"{EVIDENCE_ERRORS:g} standard errors of their difference, which count as at least "
    f"{SMALLEST_DIFFERENCE:g} of that of log Z, or cannot be compared"
)
def evidence_in_doubt(c: Certificate) -> Shortfalls:
    """Return by how many errors two estimates of log Z differ."""
    difference = c.evidences.difference
    # Where proposals are nearly exact both estimates are made of nearly the same numbers: their
    # difference is then far below the error of either, and so rough is its own error.
    smallest = SMALLEST_DIFFERENCE * c.evidence.standard_error
    score = abs(difference.score)
    if smallest > difference.standard_error:
        score = min(score, abs(difference.value) / smallest)
    what = "difference of two estimates of log Z in its errors"
    return _found(_at_most(what, score, EVIDENCE_ERRORS))


@condition(
    f"R-hat of the reference above {RHAT_DOUBT:g}, or after refreshment above "
    f"{REFRESHED_RHAT:g} and above what chance gives {100 * REFRESHED_ALARM:g} % of runs of "
    f"that size, fewer than {ESS_DOUBT:g} effective draws, means, second moments or "
    f"tails that differ from the chain's (p < {DISAGREEMENT:g}), or a mode of which tempering "
    f"has less than a third of the reference's share and {DIFFERENCE:g} less, also when it was "
    "climbed again"
)
def reference_in_doubt(c: Certificate) -> Shortfalls:
    """Return what speaks against reference draws that are not exact."""
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


@condition(
    "coverage off by more than .01 and by more than 4 of its standard errors, or a chain that "
    f"differs from exact reference draws (p < {DISAGREEMENT:g}), or more than {MISSED:g} of "
    f"the mass and {MISSED_ERRORS:g} of its errors around known modes where the target "
    "outweighs the proposal tenfold"
)
def uncovered(c: Certificate) -> Shortfalls:
    """Return what the proposal misses.

    Exact draws cannot be in doubt: a chain that differs from them misses something.
    """
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


@condition("a density declared invariant changes under relabelling at posterior draws")
def broken_symmetry(c: Certificate) -> Shortfalls:
    """Return by how much a density that was declared invariant changes under the group."""
    if not c.symmetry.invariant or c.symmetry.holds:
        return ()
    return (
        Shortfall("change of the log density under relabelling", c.symmetry.defect, "rounding"),
    )


@condition(
    f"a log ratio is +inf, or NaN at a held-out draw, at more than {Faults.RARE:g} of the "
    f"proposals, or beside weights above {Faults.NEGLIGIBLE:g} of their mean"
)
def faulty(c: Certificate) -> Shortfalls:
    """Return at how many points the log density is no number."""
    return _found(_at_most("points at which the log density is no number", c.faults.real, 0))


@condition("a chain never moved")
def frozen(c: Certificate) -> Shortfalls:
    """Return how many chains never moved."""
    return _found(_at_most("chains that never moved", len(c.chains.frozen), 0))
