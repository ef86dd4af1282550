"""The outcomes: one table of what a certificate may say, when it says so and what to do then.

Everything that shows, lists or decides by an outcome reads it here; no name stands twice. The
verdict on a fit is the gravest outcome that applies.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from folt.certificate import conditions, sentences
from folt.certificate.conditions import Condition, Shortfalls

if TYPE_CHECKING:
    from folt.certificate.certificate import Certificate


class NextStep(NamedTuple):
    """What to do next.

    Attributes:
        cure: a line of Python; it runs as it stands.
        command: the same for a user of the command line.
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

    @property
    def tone(self) -> str:
        """One of good, caution and bad, for the colour of a headline."""
        return {Use.EVERYTHING: "good", Use.NOTHING: "bad"}.get(self, "caution")


@dataclasses.dataclass(eq=False)
class _Row:
    """A row of the table of outcomes.

    Attributes:
        label: its name for people and files.
        headline: the verdict in a few words.
        when: the condition under which it applies.
        meaning: what it says of the fit.
        advice: meaning and next step, as a template for a certificate `c` or a function of it;
            `status_of` adds the numbers that decide.
        step: what to do next.
        use: what the draws may be used for.
        doubt: why statements in total variation are withheld; None where they are made. They rest
            on held-out draws of the target, on a density that can be evaluated, on its symmetry
            and on chains that move. Only the gravest outcomes have a doubt, so that one of them
            is the verdict whenever it applies.
    """

    label: str
    headline: str
    when: Condition
    meaning: str
    advice: str | Callable[[Certificate], str]
    step: NextStep
    use: Use
    doubt: str | None = None


class Outcome(_Row, enum.Enum):
    """The outcomes in the order of their gravity, the gravest last."""

    GOOD = (
        "good",
        "The fit can be trusted",
        conditions.good,
        "The proposal follows the folded target closely and the chain forgets its start at once.",
        "The proposal follows the folded target closely, and after its burn-in the chain is within "
        "{c.distance:.2g} of it in total variation: the draws can be used.",
        NextStep("fit.report('report.html')", "open the page that was written"),
        Use.EVERYTHING,
    )
    FAIR = (
        "fair",
        "The fit can be used, with room to improve",
        conditions.fair,
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
        "The components overlap, so that which draw belongs to which label is a matter of chance; "
        "or they are sorted by something in which they do not differ.",
        sentences.label_trouble,
        NextStep(
            "fit.unfolded()",
            "read what has no labels, such as the density, or fit fewer components",
        ),
        Use.CARE,
    )
    SYMMETRY_SUSPECTED = (
        "symmetry suspected",
        "The draws show a symmetry that was not folded",
        conditions.symmetry_suspected,
        "A symmetry was not folded, or the draws look as if there were one: what is said of a "
        "single label, or of what turns, mixes several.",
        sentences.suspicion,
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
        "The proposal fits badly: the chain mixes slowly, or the evidence is vague.",
        "The proposal fits badly: more effort makes a richer one.",
        MORE_EFFORT,
        Use.FIRST_LOOK,
    )
    HEAVY_TAIL = (
        "heavy tail",
        "The proposal is too narrow somewhere",
        conditions.heavy_tail,
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
        "The draws that the proposal learnt from do not agree with each other or with the chain, "
        "or two searches for modes do not agree.",
        sentences.reference_doubt,
        LONGER_REFERENCE,
        Use.FIRST_LOOK,
        "the reference draws that it would rest on are in doubt",
    )
    UNCOVERED = (
        "uncovered",
        "The proposal misses part of the posterior",
        conditions.uncovered,
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
        "The log density cannot be evaluated where the proposal goes.",
        "The log density was not a number or infinite at {c.faults.real} points, such as "
        "{c.faults.where}, too often or where the posterior may have mass: evaluate it there, "
        "guard the operation that fails, and return -inf only where the point is impossible.",
        NextStep("folt.check(problem)", "print(folt.check(problem)) in the file of the model"),
        Use.NOTHING,
        "the log density is at fault where the proposal goes",
    )
    FROZEN = (
        "frozen",
        "The chains are frozen",
        conditions.frozen,
        "The proposal does not reach the target.",
        sentences.frozen_chains,
        MORE_EFFORT,
        Use.NOTHING,
        "chains never moved",
    )

    @property
    def gravity(self) -> int:
        """Zero for good; the larger the graver."""
        return list(Outcome).index(self)

    @property
    def condition(self) -> str:
        """When it applies, in words."""
        return self.when.sentence

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


MOST_NAMED = 2
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

    def __str__(self) -> str:
        return f"{self.name}: {self.advice}"

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
        """The next step for a user of the command line."""
        return (self.step or self.outcome.step).command


def status_of(certificate: Certificate) -> Status:
    """Return the gravest outcome that applies, in words."""
    outcome = gravest(certificate)
    shortfalls = outcome.when.shortfalls(certificate)
    named = [str(each) for each in shortfalls[:MOST_NAMED] if each.asked]
    deciding = f" What decides: {'; '.join(named)}." if named else ""
    template = outcome.advice
    advice = template.format(c=certificate) if isinstance(template, str) else template(certificate)
    return Status(outcome, advice + deciding, shortfalls, _step(outcome, certificate))


MORE = 5
"""Times as many evaluations as those that limited a fit are proposed next."""


RELABELLED = NextStep(
    'fit.relabelled(sort_by="proposal")',
    "the same command with --labels proposal, or sort_by= in the file of the model",
)
"""What to do where the order of the labels mixes components that can be told apart."""


WITH_GRADIENT = NextStep(
    "folt.from_callable(function, dim, symmetry, gradient=gradient)",
    "give the function in the file of the model its gradient: from_callable(..., gradient=)",
)
"""What to do where only a second search for modes is missing: it descends along the gradient."""


def _step(outcome: Outcome, certificate: Certificate) -> NextStep | None:
    """Return a larger cap on evaluations where one was set, or another order of the labels."""
    symmetry, cap = certificate.symmetry, certificate.reference.cap
    if outcome is Outcome.AMBIGUOUS_LABELS and symmetry.mixes:
        return RELABELLED
    found = certificate.exploration
    if outcome is Outcome.FAIR and found is not None and not found.descents:
        asked = outcome.when.shortfalls(certificate)
        if len(asked) == 1 and asked[0].what == conditions.SECOND_SEARCH:
            return WITH_GRADIENT
    if cap is None or outcome.step not in (MORE_EFFORT, LONGER_REFERENCE):
        return None
    more = MORE * cap
    return NextStep(
        f"folt.sample(problem, evaluations={more:_})",
        f"the same command with --evaluations {more}",
    )


def gravest(certificate: Certificate) -> Outcome:
    """Return the gravest outcome that applies."""
    applying = [outcome for outcome in Outcome if outcome.when.shortfalls(certificate)]
    return applying[-1] if applying else Outcome.GOOD
