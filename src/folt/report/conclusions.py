"""What may be concluded from a verdict, and what may not, in plain words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from folt.certificate.outcomes import Outcome, Use
from folt.fit.text import number
from folt.problem.symmetry import TURNING
from folt.reference.exploration.words import explored_words

if TYPE_CHECKING:
    from folt.fit import Fit


@dataclasses.dataclass(frozen=True)
class Conclusions:
    """Sentences for a reader who never ran anything.

    Attributes:
        may: what may be concluded.
        may_not: what may not.
    """

    may: tuple[str, ...]
    may_not: tuple[str, ...]


def conclusions(fit: Fit) -> Conclusions:
    """What the verdict of a fit allows."""
    outcome = fit.certificate.status.outcome
    if outcome.usable:
        return Conclusions(_allowed(fit, outcome), _reserved(fit, outcome))
    if outcome is Outcome.SYMMETRY_SUSPECTED and fit.certificate.symmetry.turning:
        return _turned(fit)
    if outcome.use is Use.FIRST_LOOK:
        return Conclusions(
            (
                "The numbers and pictures below are a first look: what has been found so far, "
                "without a guarantee that it is all there is.",
            ),
            (
                "That the intervals, the weights of the modes or the evidence are right.",
                _unseen(fit),
            ),
        )
    return Conclusions(
        ("Nothing about the posterior: what follows shows what went wrong.",),
        ("That any estimate, interval or evidence below is right.",),
    )


def _turned(fit: Fit) -> Conclusions:
    """What a rotation that was left in the posterior allows."""
    names = ", ".join(fit.certificate.symmetry.turning[:TURNING])
    return Conclusions(
        ("Quantities that do not turn, such as ΛΛᵀ of loadings Λ and predictions, may be used.",),
        (f"Anything of what turns by itself ({names}): its means and intervals mix all angles.",),
    )


def _allowed(fit: Fit, outcome: Outcome) -> tuple[str, ...]:
    sentences = []
    steps = fit.certificate.mixing.steps.get(0.05)
    if steps is not None:
        after = "one step" if steps == 1 else f"{steps:,} steps"
        sentences.append(
            f"After {after} the probability of any event is off by at most 0.05, with "
            f"{100 * fit.certificate.mixing.confidence:.0f} % confidence; the first "
            f"{fit.certificate.chains.burn_in:,} steps of every chain were thrown away."
        )
    labels = "" if outcome is Outcome.AMBIGUOUS_LABELS else ", also of single components,"
    sentences.append(
        f"Means and intervals{labels} may be reported: they rest on "
        f"{fit.ess().min():,.0f} effective draws or more."
    )
    evidence, order = fit.log_evidence, fit.group.order
    counting = "" if order == 1 else f": each of the {order:,} labellings is counted once"
    if not evidence.proportional:
        sentences.append(
            f"The log evidence {number(evidence.value, 2)} ± {number(evidence.standard_error, 3)} "
            f"may be compared with other models{counting}."
        )
    return tuple(sentences)


def _reserved(fit: Fit, outcome: Outcome) -> tuple[str, ...]:
    sentences = [_unseen(fit)]
    if outcome is Outcome.AMBIGUOUS_LABELS:
        sentences.append("Which component a single draw belongs to: labels overlap.")
    if fit.log_evidence.proportional:
        sentences.append("How this model compares with others: log Z lacks the model's constants.")
    sentences.append("That the model is right: folt judges the sampling, not the model.")
    return tuple(sentences)


def _unseen(fit: Fit) -> str:
    reference = fit.certificate.reference
    return (
        f"That no mode was missed. {explored_words(fit.certificate.exploration, reference.exact)}"
    )
