"""What may be concluded from a verdict, and what may not, in plain words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from folt.report.text import number

if TYPE_CHECKING:
    from folt.fit import Fit

USABLE = ("good", "fair", "ambiguous labels")
"""Verdicts under which the draws may be used."""

DOUBTFUL = ("undecided", "reference in doubt", "poor", "heavy tail")
"""Verdicts under which the draws are a first look, no more."""


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
    """What the verdict of a fit allows; a verdict that nobody has classified allows nothing."""
    name = fit.certificate.status.name
    if name in USABLE:
        return Conclusions(_allowed(fit, name), _reserved(fit, name))
    if name in DOUBTFUL:
        return Conclusions(
            (
                "The numbers and pictures below are a first look: what has been found so far, "
                "without a guarantee that it is all there is.",
            ),
            (
                "That the intervals, the weights of the modes or the evidence are right.",
                _unseen(),
            ),
        )
    return Conclusions(
        ("Nothing about the posterior: what follows shows what went wrong.",),
        ("That any estimate, interval or evidence below is right.",),
    )


def _allowed(fit: Fit, name: str) -> tuple[str, ...]:
    sentences = []
    steps = fit.certificate.mixing.steps.get(0.05)
    if steps is not None:
        after = "one step" if steps == 1 else f"{steps:,} steps"
        sentences.append(
            f"After {after} the probability of any event is off by at most 0.05, with "
            f"{100 * fit.certificate.mixing.confidence:.0f} % confidence; the chains ran "
            f"{fit.draws.shape[1]:,} each."
        )
    labels = "" if name == "ambiguous labels" else ", also of single components,"
    sentences.append(
        f"Means and intervals{labels} may be reported: they rest on "
        f"{fit.ess().min():,.0f} effective draws or more."
    )
    evidence = fit.log_evidence
    if _believable(fit):
        sentences.append(
            f"The log evidence {number(evidence.value, 2)} ± {number(evidence.standard_error, 3)} "
            f"may be compared with other models: each of the {fit.group.order:,} labellings is "
            "counted once."
        )
    return tuple(sentences)


def _reserved(fit: Fit, name: str) -> tuple[str, ...]:
    sentences = [_unseen()]
    if name == "ambiguous labels":
        sentences.append("Which component a single draw belongs to: labels overlap.")
    if not _believable(fit):
        sentences.append(
            "That the error of the log evidence is right: a few weights dominate (Pareto k̂ above "
            "0.7)."
        )
    sentences.append("That the model is right: folt judges the sampling, not the model.")
    return tuple(sentences)


def _believable(fit: Fit) -> bool:
    """Whether the error of the evidence is to be believed."""
    shape = fit.log_evidence.pareto_k
    return shape is not None and shape < 0.7


def _unseen() -> str:
    return "That no mode was missed: what reference run and proposal both missed, nobody sees."
