"""The outcomes: one table of what a certificate may say, when it says so and what to do then.

Everything that shows, lists or decides by an outcome reads it here; no name stands twice. The
verdict on a fit is the gravest outcome that applies.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from folt.certificate import conditions
from folt.certificate.conditions import (
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
    REFRESHED_ALARM,
    REFRESHED_RHAT,
    RHAT_DOUBT,
    SMALLEST_DIFFERENCE,
    SMOOTH_TAIL,
    STRICT,
    Shortfalls,
)
from folt.certificate.diagnostics.coverage import Faults
from folt.certificate.diagnostics.mixing import draws_needed
from folt.certificate.diagnostics.switching import FALSE_ALARM
from folt.certificate.exploration import DIFFERENCE

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate


class NextStep(NamedTuple):
    """What to do next.

    Attributes:
        cure: a line of Python; it runs as it stands.
        command: the same for who works on the command line.
    """

    cure: str
    command: str


THOROUGH = "the same command with --effort thorough"

MORE_EFFORT = NextStep("folt.sample(problem, effort=folt.Effort.thorough())", THOROUGH)

LONGER_REFERENCE = NextStep(
    "folt.sample(problem, reference=folt.reference.HostChains(particles=4096, draws=320))",
    THOROUGH,
)


class Use(enum.Enum):
    """What the draws may be used for."""

    EVERYTHING = "everything"
    CARE = "with care"
    FIRST_LOOK = "a first look"
    NOTHING = "nothing"


class Outcome(enum.Enum):
    """A named outcome; the members stand in the order of their gravity, the gravest last.

    Attributes:
        label: its name for people and files.
        headline: the verdict in a few words.
        applies: the numbers by which it applies to a certificate; none where it does not.
        condition: the same in words.
        meaning: what it says of the fit.
        advice: meaning and next step, a template for a certificate `c`; `status_of` adds the
            numbers that decide.
        step: what to do next.
        use: what the draws may be used for.
        doubt: why statements in total variation are withheld; None where they are made. They rest
            on held-out draws of the target, on a density that can be evaluated, on its symmetry
            and on chains that move. Only the gravest have one, so that one of them is the
            verdict whenever it applies.
    """

    GOOD = (
        "good",
        "The fit can be trusted",
        conditions.good,
        f"none of the others: total variation {PRIMARY} certified within {FEW_STEPS} steps and "
        f"{STRICT} within {FEW_STRICT_STEPS}, acceptance at least {GOOD_ACCEPTANCE}, Pareto k̂ "
        f"below {SMOOTH_TAIL} or no weight above {LARGE_WEIGHT:g}",
        "The proposal follows the folded target closely and the chain forgets its start at once.",
        "The proposal follows the folded target closely, and after its burn-in the chain is within "
        "{c.distance:.2g} of it in total variation: the draws can be used.",
        NextStep(
            "fit.report('report.html')",
            "open the page that was written",
        ),
        Use.EVERYTHING,
    )
    FAIR = (
        "fair",
        "The fit can be used, with room to improve",
        conditions.fair,
        "one of these numbers falls short of what `good` asks, none by as much as `poor` needs; or "
        "the held-out draws may be of a chain that was learnt from; or a second search for modes "
        "found none to compare the first with",
        "The chain works, but more slowly than it could, or part of it is not certified closely.",
        "The chain works but the fit has room: the draws can be used, and more effort would make "
        "it better.",
        MORE_EFFORT,
        Use.CARE,
    )
    AMBIGUOUS_LABELS = (
        "ambiguous labels",
        "The draws can be used, their labels with care",
        conditions.ambiguous_labels,
        f"1 minus the largest probability of a labelling is above {AMBIGUOUS} on average, or the "
        f"order of the labels confuses more than {MIXED} of them that the proposal tells apart",
        "The components overlap, so that which draw belongs to which label is a matter of chance; "
        "or they are sorted by something in which they do not differ.",
        "The draws can be used, but {c.symmetry.label_trouble}",
        NextStep(
            "fit.unfolded()",
            "fewer components, such as folt mixture --components 2",
        ),
        Use.CARE,
    )
    SYMMETRY_SUSPECTED = (
        "symmetry suspected",
        "The draws show a symmetry that was not folded",
        conditions.symmetry_suspected,
        "a continuous rotation is left in (`allow_rotation=True`); or nothing was folded, and the "
        "difference of two entries is symmetric about zero with a "
        f"valley there (p ≤ {FALSE_ALARM:g} over all pairs of entries, were there one mode)",
        "A symmetry was not folded, or the draws look as if there were one: what is said of a "
        "single label, or of what turns, mixes several.",
        "{c.symmetry.suspicion}",
        NextStep(
            "print(folt.check(problem, allow_rotation=True), problem.symmetry_found)",
            "print(problem.symmetry_found) in the file of the model says what nearly held",
        ),
        Use.FIRST_LOOK,
    )
    POOR = (
        "poor",
        "The fit is poor",
        conditions.poor,
        f"acceptance below {POOR_ACCEPTANCE}, or more than {MANY_STEPS} certified steps to "
        f"{PRIMARY}, or a burn-in shorter than those, or chains that disagree (R-hat of a "
        f"coordinate or of h above {CHAIN_RHAT:g}), or a standard error of log Z above "
        f"{EVIDENCE_ERROR:g}",
        "The proposal fits badly: the chain mixes slowly, or the evidence is vague.",
        "The proposal fits badly: more effort makes a richer one.",
        MORE_EFFORT,
        Use.FIRST_LOOK,
    )
    HEAVY_TAIL = (
        "heavy tail",
        "The proposal is too narrow somewhere",
        conditions.heavy_tail,
        f"no number of steps to {PRIMARY} can be certified, or Pareto k̂ is {HEAVY_TAIL:g} or more "
        f"with weights above {LARGE_WEIGHT:g}",
        "The target outweighs the proposal in part of its mass: there the chain stays too long.",
        "The target outweighs the proposal too much in part of its mass: more effort makes a "
        "richer one.",
        MORE_EFFORT,
        Use.FIRST_LOOK,
    )
    UNDECIDED = (
        "undecided",
        "Too few reference draws for a verdict",
        conditions.undecided,
        f"the held-out draws are worth fewer than {draws_needed(PRIMARY)} independent ones, as "
        "they came: too few for a statement at 5 %",
        "Nothing speaks against the fit, and too little for it.",
        "The reference is worth too few independent draws for a statement at 5 %: a longer one is "
        "needed.",
        LONGER_REFERENCE,
        Use.FIRST_LOOK,
    )
    EVIDENCE_IN_DOUBT = (
        "evidence in doubt",
        "Two estimates of the evidence contradict each other",
        conditions.evidence_in_doubt,
        "importance sampling and bridge differ by more than "
        f"{EVIDENCE_ERRORS:g} standard errors of their difference, which count as at least "
        f"{SMALLEST_DIFFERENCE:g} of that of log Z, or cannot be compared",
        "Proposals and chain do not see the same target: one of them misses something.",
        "Two estimates of log Z, from proposals and from the chain, differ: they do not see the "
        "same target, so more effort is needed, or a log density that does not change while it "
        "runs.",
        MORE_EFFORT,
        Use.FIRST_LOOK,
    )
    REFERENCE_IN_DOUBT = (
        "reference in doubt",
        "The reference run is in doubt",
        conditions.reference_in_doubt,
        f"R-hat of the reference above {RHAT_DOUBT:g}, or after refreshment above "
        f"{REFRESHED_RHAT:g} and above what chance gives {100 * REFRESHED_ALARM:g} % of runs of "
        f"that size, fewer than {ESS_DOUBT:g} effective draws, means, second moments or "
        f"tails that differ from the chain's (p < {DISAGREEMENT:g}), or a mode of which tempering "
        f"has less than a third of the reference's share and {DIFFERENCE:g} less, also when it was "
        "climbed again",
        "The draws that the proposal learnt from do not agree with each other or with the chain, "
        "or two searches for modes do not agree.",
        "{c.reference_doubt}",
        LONGER_REFERENCE,
        Use.FIRST_LOOK,
        "the reference draws that it would rest on are in doubt",
    )
    UNCOVERED = (
        "uncovered",
        "The proposal misses part of the posterior",
        conditions.uncovered,
        "coverage off by more than .01 and by more than 4 of its standard errors, or a chain that "
        f"differs from exact reference draws (p < {DISAGREEMENT:g}), or more than {MISSED:g} of "
        f"the mass and {MISSED_ERRORS:g} of its errors around known modes where the target "
        "outweighs the proposal tenfold",
        "The reference has mass that the proposal does not reach; or a sampler is not exact.",
        "The proposal misses or misjudges mass that the reference has (coverage "
        "{c.coverage.value:.3f} instead of 1, largest difference {c.agreement.size:.1f} errors in "
        "a {c.agreement.compared}): do not use these draws or this evidence before a "
        "richer proposal covers it.",
        MORE_EFFORT,
        Use.NOTHING,
        "the proposal misses or misjudges part of the posterior",
    )
    BROKEN_SYMMETRY = (
        "broken symmetry",
        "The symmetry is not there",
        conditions.broken_symmetry,
        "a density declared invariant changes under relabelling at posterior draws",
        "The density was folded as if it were symmetric, and it is not.",
        "The log density was declared invariant but changes under relabelling at posterior draws "
        "(by {c.symmetry.defect:.2g}): declare invariant=False, which needs no symmetry, or "
        "give the group that the density really has.",
        NextStep(
            "folt.Problem(log_density, group, invariant=False)",
            "pass invariant=False to Problem in the file of the model",
        ),
        Use.NOTHING,
        "the symmetry that was folded is not there",
    )
    FAULTY = (
        "faulty",
        "The log density is at fault",
        conditions.faulty,
        f"a log ratio is +inf, or NaN at a held-out draw, at more than {Faults.RARE:g} of the "
        f"proposals, or beside weights above {Faults.NEGLIGIBLE:g} of their mean",
        "The log density cannot be evaluated where the proposal goes.",
        "The log density was not a number or infinite at {c.faults.real} points, such as "
        "{c.faults.where}, too often or where the posterior may have mass: evaluate it there, "
        "guard the operation that fails, and return -inf only where the point is impossible.",
        NextStep(
            "folt.check(problem)",
            "print(folt.check(problem)) in the file of the model",
        ),
        Use.NOTHING,
        "the log density is at fault where the proposal goes",
    )
    FROZEN = (
        "frozen",
        "The chains are frozen",
        conditions.frozen,
        "a chain never moved",
        "The proposal does not reach the target.",
        "{c.chains.frozen_words} never moved: the proposal does not reach the target, so do not "
        "use these draws; more effort makes a richer proposal.",
        MORE_EFFORT,
        Use.NOTHING,
        "chains never moved",
    )

    def __init__(
        self,
        label: str,
        headline: str,
        applies: Callable[[Certificate], Shortfalls],
        condition: str,
        meaning: str,
        advice: str,
        step: NextStep,
        use: Use,
        doubt: str | None = None,
    ):
        self.label = label
        self.headline = headline
        self.applies = applies
        self.condition = condition
        self.meaning = meaning
        self.advice = advice
        self.step = step
        self.use = use
        self.doubt = doubt

    @property
    def gravity(self) -> int:
        """Zero for good; the larger the graver."""
        return list(Outcome).index(self)

    @property
    def usable(self) -> bool:
        """Whether the draws may be reported, with or without care."""
        return self.use in (Use.EVERYTHING, Use.CARE)

    @classmethod
    def named(cls, label: str) -> Outcome:
        """Return the outcome of this label.

        Raises:
            ValueError: naming those that exist.
        """
        for outcome in cls:
            if outcome.label == label:
                return outcome
        known = ", ".join(outcome.label for outcome in cls)
        raise ValueError(f"expected one of the outcomes {known}, got {label!r}")


MOST_TOLD = 2
"""Shortfalls that the advice names; `Status.shortfalls` holds all of them."""


@dataclasses.dataclass(frozen=True)
class Status:
    """The verdict on one fit.

    Attributes:
        outcome: which of the outcomes it is.
        advice: what it means here, with the numbers that decide, and what to do next.
        shortfalls: the numbers that decide, the first ones first; empty where the fit is good.
        step: what to do next: the outcome's own step unless the numbers call for another.
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
        return (self.step or self.outcome.step).cure

    @property
    def command(self) -> str:
        """The next step for who works on the command line."""
        return (self.step or self.outcome.step).command


def status_of(certificate: Certificate) -> Status:
    """Return the gravest outcome that applies, in words."""
    outcome = gravest(certificate)
    shortfalls = outcome.applies(certificate)
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
    if cap is None or outcome.step not in (MORE_EFFORT, LONGER_REFERENCE):
        return None
    more = MORE * cap
    return NextStep(
        f"folt.sample(problem, evaluations={more:_})",
        f"the same command with --evaluations {more}",
    )


def gravest(certificate: Certificate) -> Outcome:
    """Return the gravest outcome that applies."""
    applying = [outcome for outcome in Outcome if outcome.applies(certificate)]
    return applying[-1] if applying else Outcome.GOOD
