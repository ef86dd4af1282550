"""The outcomes: what a certificate may say, each with its meaning, advice and gravity.

Everything that shows, lists or decides by an outcome reads it here; no name stands twice.
"""

from __future__ import annotations

import enum

from folt.certificate.diagnostics.coverage import Faults
from folt.certificate.diagnostics.mixing import draws_needed
from folt.certificate.diagnostics.switching import FALSE_ALARM
from folt.certificate.exploration import DIFFERENCE

RULES = 7
"""Number of the rules: raised whenever a condition changes, so that a file can be told apart."""

PRIMARY = 0.05
"""The ρ of the core and the ε of the mixing certificate that the verdict reads first."""

STRICT = 0.01
"""The ε that a good fit needs as well: at 5 % a missed mode of 3 % would pass."""

FEW_STEPS, FEW_STRICT_STEPS = 100, 200
"""Certified steps to .05 and to .01 up to which a chain counts as mixing fast."""

MANY_STEPS = 2_000
"""Certified steps to .05 beyond which the fit is called poor; also the longest burn-in."""

GOOD_ACCEPTANCE, POOR_ACCEPTANCE = 0.5, 0.1

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


THOROUGH = "the same command with --effort thorough"
"""Most cures on the command line."""


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
        condition: when it applies, in words.
        meaning: what it says of the fit.
        advice: meaning and next step, a template for a certificate `c`; `verdict` adds the numbers
            that decide.
        cure: a line of Python that is the next step; it runs as it stands.
        command: the next step for who works on the command line.
        use: what the draws may be used for.
    """

    GOOD = (
        "good",
        "The fit can be trusted",
        f"none of the others: total variation {PRIMARY} certified within {FEW_STEPS} steps and "
        f"{STRICT} within {FEW_STRICT_STEPS}, acceptance at least {GOOD_ACCEPTANCE}, Pareto k̂ "
        f"below {SMOOTH_TAIL} or no weight above {LARGE_WEIGHT:g}",
        "The proposal follows the folded target closely and the chain forgets its start at once.",
        "The proposal follows the folded target closely, and after its burn-in the chain is within "
        "{c.distance:.2g} of it in total variation: the draws can be used.",
        "fit.report('report.html')",
        "open the page that was written",
        Use.EVERYTHING,
    )
    FAIR = (
        "fair",
        "The fit can be used, with room to improve",
        "one of these numbers falls short of what `good` asks, none by as much as `poor` needs; or "
        "the held-out draws may be of a chain that was learnt from; or a second search for modes "
        "found none to compare the first with",
        "The chain works, but more slowly than it could, or part of it is not certified closely.",
        "The chain works but the fit has room: the draws can be used, and more effort would make "
        "it better.",
        "folt.sample(problem, effort=folt.Effort.thorough())",
        THOROUGH,
        Use.CARE,
    )
    AMBIGUOUS_LABELS = (
        "ambiguous labels",
        "The draws can be used, their labels with care",
        f"1 minus the largest probability of a labelling is above {AMBIGUOUS} on average, or the "
        f"order of the labels confuses more than {MIXED} of them that the proposal tells apart",
        "The components overlap, so that which draw belongs to which label is a matter of chance; "
        "or they are sorted by something in which they do not differ.",
        "The draws can be used, but {c.symmetry.label_trouble}",
        "fit.unfolded()",
        "fewer components, such as folt mixture --components 2",
        Use.CARE,
    )
    SYMMETRY_SUSPECTED = (
        "symmetry suspected",
        "The draws show a symmetry that was not folded",
        "a continuous rotation is left in (`allow_rotation=True`); or nothing was folded, and the "
        "difference of two entries is symmetric about zero with a "
        f"valley there (p ≤ {FALSE_ALARM:g} over all pairs of entries, were there one mode)",
        "A symmetry was not folded, or the draws look as if there were one: what is said of a "
        "single label, or of what turns, mixes several.",
        "{c.symmetry.suspicion}",
        "print(folt.check(problem, allow_rotation=True), problem.symmetry_found)",
        "print(problem.symmetry_found) in the file of the model says what nearly held",
        Use.FIRST_LOOK,
    )
    POOR = (
        "poor",
        "The fit is poor",
        f"acceptance below {POOR_ACCEPTANCE}, or more than {MANY_STEPS} certified steps to "
        f"{PRIMARY}, or a burn-in shorter than those, or chains that disagree (R-hat of a "
        f"coordinate or of h above {CHAIN_RHAT:g}), or a standard error of log Z above "
        f"{EVIDENCE_ERROR:g}",
        "The proposal fits badly: the chain mixes slowly, or the evidence is vague.",
        "The proposal fits badly: more effort makes a richer one.",
        "folt.sample(problem, effort=folt.Effort.thorough())",
        THOROUGH,
        Use.FIRST_LOOK,
    )
    HEAVY_TAIL = (
        "heavy tail",
        "The proposal is too narrow somewhere",
        f"no number of steps to {PRIMARY} can be certified, or Pareto k̂ is {HEAVY_TAIL:g} or more "
        f"with weights above {LARGE_WEIGHT:g}",
        "The target outweighs the proposal in part of its mass: there the chain stays too long.",
        "The target outweighs the proposal too much in part of its mass: more effort makes a "
        "richer one.",
        "folt.sample(problem, effort=folt.Effort.thorough())",
        THOROUGH,
        Use.FIRST_LOOK,
    )
    UNDECIDED = (
        "undecided",
        "Too few reference draws for a verdict",
        f"the held-out draws are worth fewer than {draws_needed(PRIMARY)} independent ones, as "
        "they came: too few for a statement at 5 %",
        "Nothing speaks against the fit, and too little for it.",
        "The reference is worth too few independent draws for a statement at 5 %: a longer one is "
        "needed.",
        "folt.sample(problem, reference=folt.reference.HostChains(particles=4096, draws=320))",
        THOROUGH,
        Use.FIRST_LOOK,
    )
    EVIDENCE_IN_DOUBT = (
        "evidence in doubt",
        "Two estimates of the evidence contradict each other",
        "importance sampling and bridge differ by more than "
        f"{EVIDENCE_ERRORS:g} standard errors of their difference, which count as at least "
        f"{SMALLEST_DIFFERENCE:g} of that of log Z, or cannot be compared",
        "Proposals and chain do not see the same target: one of them misses something.",
        "Two estimates of log Z, from proposals and from the chain, differ: they do not see the "
        "same target, so more effort is needed, or a log density that does not change while it "
        "runs.",
        "folt.sample(problem, effort=folt.Effort.thorough())",
        THOROUGH,
        Use.FIRST_LOOK,
    )
    REFERENCE_IN_DOUBT = (
        "reference in doubt",
        "The reference run is in doubt",
        f"R-hat of the reference above {RHAT_DOUBT:g}, or after refreshment above "
        f"{REFRESHED_RHAT:g} and above what chance gives {100 * REFRESHED_ALARM:g} % of runs of "
        f"that size, fewer than {ESS_DOUBT:g} effective draws, means, second moments or "
        f"tails that differ from the chain's (p < {DISAGREEMENT:g}), or a mode of which tempering "
        f"has less than a third of the reference's share and {DIFFERENCE:g} less, also when it was "
        "climbed again",
        "The draws that the proposal learnt from do not agree with each other or with the chain, "
        "or two searches for modes do not agree.",
        "{c.reference_doubt}",
        "folt.sample(problem, reference=folt.reference.HostChains(particles=4096, draws=320))",
        THOROUGH,
        Use.FIRST_LOOK,
    )
    UNCOVERED = (
        "uncovered",
        "The proposal misses part of the posterior",
        "coverage off by more than .01 and by more than 4 of its standard errors, or a chain that "
        f"differs from exact reference draws (p < {DISAGREEMENT:g}), or more than {MISSED:g} of "
        f"the mass and {MISSED_ERRORS:g} of its errors around known modes where the target "
        "outweighs the proposal tenfold",
        "The reference has mass that the proposal does not reach; or a sampler is not exact.",
        "The proposal misses or misjudges mass that the reference has (coverage "
        "{c.coverage.value:.3f} instead of 1, largest difference {c.agreement.size:.1f} errors in "
        "a {c.agreement.compared}): do not use these draws or this evidence before a "
        "richer proposal covers it.",
        "folt.sample(problem, effort=folt.Effort.thorough())",
        THOROUGH,
        Use.NOTHING,
    )
    BROKEN_SYMMETRY = (
        "broken symmetry",
        "The symmetry is not there",
        "a density declared invariant changes under relabelling at posterior draws",
        "The density was folded as if it were symmetric, and it is not.",
        "The log density was declared invariant but changes under relabelling at posterior draws "
        "(by {c.symmetry.defect:.2g}): declare invariant=False, which needs no symmetry, or "
        "give the group that the density really has.",
        "folt.Problem(log_density, group, invariant=False)",
        "pass invariant=False to Problem in the file of the model",
        Use.NOTHING,
    )
    FAULTY = (
        "faulty",
        "The log density is at fault",
        f"a log ratio is +inf, or NaN at a held-out draw, at more than {Faults.RARE:g} of the "
        f"proposals, or beside weights above {Faults.NEGLIGIBLE:g} of their mean",
        "The log density cannot be evaluated where the proposal goes.",
        "The log density was not a number or infinite at {c.faults.real} points, such as "
        "{c.faults.where}, too often or where the posterior may have mass: evaluate it there, "
        "guard the operation that fails, and return -inf only where the point is impossible.",
        "folt.check(problem)",
        "print(folt.check(problem)) in the file of the model",
        Use.NOTHING,
    )
    FROZEN = (
        "frozen",
        "The chains are frozen",
        "a chain never moved",
        "The proposal does not reach the target.",
        "{c.chains.frozen_words} never moved: the proposal does not reach the target, so do not "
        "use these draws; more effort makes a richer proposal.",
        "folt.sample(problem, effort=folt.Effort.thorough())",
        THOROUGH,
        Use.NOTHING,
    )

    def __init__(
        self,
        label: str,
        headline: str,
        condition: str,
        meaning: str,
        advice: str,
        cure: str,
        command: str,
        use: Use,
    ):
        self.label = label
        self.headline = headline
        self.condition = condition
        self.meaning = meaning
        self.advice = advice
        self.cure = cure
        self.command = command
        self.use = use

    @property
    def gravity(self) -> int:
        """Zero for good; the larger the graver."""
        return list(Outcome).index(self)

    @property
    def doubt(self) -> str | None:
        """Why statements in total variation are withheld; None where they are made.

        They rest on held-out draws of the target, on a density that can be evaluated, on its
        symmetry and on chains that move.
        """
        return _DOUBTS.get(self)

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


_DOUBTS = {
    Outcome.REFERENCE_IN_DOUBT: "the reference draws that it would rest on are in doubt",
    Outcome.UNCOVERED: "the proposal misses or misjudges part of the posterior",
    Outcome.BROKEN_SYMMETRY: "the symmetry that was folded is not there",
    Outcome.FAULTY: "the log density is at fault where the proposal goes",
    Outcome.FROZEN: "chains never moved",
}
"""What is in doubt under the outcomes that forbid statements in total variation.

These are the gravest ones, so that one of them is the verdict whenever it applies.
"""
