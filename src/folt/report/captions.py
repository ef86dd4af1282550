"""Sentences under figures, chosen by the numbers that the figures show.

What may be concluded from a verdict, and what may not, in plain words.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.batching import map_points
from folt.certificate.cautions import RHAT_LIMIT
from folt.certificate.conditions import AMBIGUOUS
from folt.certificate.outcomes import RELABELLED, Outcome, Use
from folt.fit.text import rounded_number
from folt.groups import Element, Group
from folt.problem.symmetry import TURNING
from folt.types import Point, in_float64

if TYPE_CHECKING:
    from folt.fit import Fit


@dataclasses.dataclass(frozen=True)
class Labelling:
    """Under which labellings unfolded chains stand.

    Attributes:
        order: how many labellings there are.
        visited: how many of them the chains that are pictured visit, all together.
        switches: share of steps at which a chain changes its labelling.
        exact: whether the draws are independent, so that there are no steps.
    """

    order: int
    visited: int
    switches: float
    exact: bool

    @classmethod
    def of(cls, fit: Fit) -> Labelling | None:
        """Return what the raw chains of a fit show; None where none were kept."""
        raw = fit.reference.raw
        if raw is None:
            return None
        numbers = labelling_numbers(fit, raw)
        switches = np.mean(numbers[:, 1:] != numbers[:, :-1]) if numbers.shape[1] > 1 else 0.0
        return cls(
            order=fit.group.order,
            visited=len(np.unique(numbers)),
            switches=float(switches),
            exact=fit.certificate.reference.exact,
        )


@in_float64
def labelling_numbers(fit: Fit, raw: np.ndarray) -> np.ndarray:
    """(chain, draw): a number for the element that folds each draw."""
    elements = map_points(_folding_element, fit.group, raw.reshape(-1, raw.shape[-1]))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(elements)]
    columns = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)
    return np.unique(columns, axis=0, return_inverse=True)[1].reshape(raw.shape[:2])


def _folding_element(group: Group, x: Point) -> Element:
    return group.folding_element(x)


def left_remark(shown: Labelling | None) -> str:
    """Return what to see in the unfolded chains, in a few words."""
    if shown is None or shown.order == 1:
        return "as they came"
    if shown.visited == 1:
        return "as they came, all under one labelling"
    if shown.switches == 0.0:
        return f"as they came, each chain under one of {shown.visited} labellings"
    return f"as they came, under {shown.visited} labellings"


def right_remark(fit: Fit) -> str:
    """Return what to see in the folded chains, in a few words."""
    if fit.group.order == 1:
        return "nothing was folded"
    if _ambiguous(fit):
        return "one copy of the posterior; components mix"
    return "one copy of the posterior: a colour keeps its meaning"


def chains_caption(fit: Fit, shown: Labelling | None) -> str:
    """Return the sentences under the traces."""
    return " ".join(["One colour per label.", _left(shown), *_right(fit, shown)])


def _left(shown: Labelling | None) -> str:
    if shown is None:
        return "No unfolded chain was kept, so the draws of this fit alone."
    if shown.order == 1:
        return "The posterior has no relabelling that was folded, so both sides show it as it is."
    seen = f"({shown.visited:,} of {shown.order:,} labellings are seen)"
    if shown.visited == 1:
        return (
            f"Not folded, all chains stayed under one of the {shown.order:,} labellings, so that "
            "both sides look alike."
        )
    if shown.exact:
        return f"Not folded are independent draws, each under a labelling by chance {seen}."
    if shown.switches == 0.0:
        return (
            "Not folded, no chain changes its labels, but the chains stand under "
            f"{shown.visited:,} different labellings: a colour means one component in one chain "
            "and another in the next."
        )
    return (
        f"Not folded, chains change their labels at {_percent(shown.switches)} of the steps kept "
        f"and a colour wanders from one component to another, which is label switching {seen}."
    )


def _right(fit: Fit, shown: Labelling | None) -> list[str]:
    if fit.group.order == 1:
        return []
    sentences = []
    if _ambiguous(fit):
        sentences.append(
            "Folded, the draws are one copy of the posterior, but "
            + ("their order confuses" if fit.certificate.symmetry.mixes else "overlap blurs")
            + " its components so much that colours still mix."
        )
    elif shown is not None and shown.visited > 1:
        sentences.append("Folded, on one copy of the posterior, a colour keeps its component.")
    rhat = fit.certificate.chains.rhat
    if rhat > RHAT_LIMIT:
        sentences.append(f"R-hat of the folded chains is {rhat:.3f}: they do not agree yet.")
    return sentences


def pairs_caption(fit: Fit, shown: Labelling | None) -> str:
    """Return the sentences under the pairs."""
    words = "How two parameters vary together."
    if shown is None or shown.order == 1:
        return words
    if shown.visited == 1:
        return f"{words} The unfolded chains stayed under one labelling: the cloud stands once."
    return (
        f"{words} Unfolded, what relabelling moves stands under {shown.visited:,} of the "
        f"{shown.order:,} labellings; folding keeps one copy."
    )


def _ambiguous(fit: Fit) -> bool:
    """Whether a colour does not keep its component: labels overlap, or are confused."""
    symmetry = fit.certificate.symmetry
    return symmetry.mixes or (symmetry.boundary.ambiguity or 0.0) > AMBIGUOUS


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


_UNSEEN = "That no mode was missed: the sentence below says what was looked for, and how."


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
    """Return what the verdict of a fit allows."""
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
                _UNSEEN,
            ),
        )
    return Conclusions(
        ("Nothing about the posterior: what follows shows what went wrong.",),
        ("That any estimate, interval or evidence below is right.",),
    )


def _turned(fit: Fit) -> Conclusions:
    """Return what a rotation that was left in the posterior allows."""
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
    labels = ", also of single components,"
    if outcome is Outcome.AMBIGUOUS_LABELS:
        labels = " of what no relabelling changes"
        if fit.certificate.symmetry.mixes:
            labels += f", and of components under the labels of {RELABELLED.cure},"
    sentences.append(
        f"Means and intervals{labels} may be reported: they rest on "
        f"{fit.ess().min():,.0f} effective draws or more."
    )
    evidence, order = fit.log_evidence, fit.group.order
    counting = "" if order == 1 else f": each of the {order:,} labellings is counted once"
    if not evidence.proportional:
        sentences.append(
            f"The log evidence {rounded_number(evidence.value, 2)} ± "
            f"{rounded_number(evidence.standard_error, 3)} "
            f"may be compared with other models{counting}."
        )
    return tuple(sentences)


def _reserved(fit: Fit, outcome: Outcome) -> tuple[str, ...]:
    sentences = [_UNSEEN]
    if outcome is Outcome.AMBIGUOUS_LABELS:
        mixes = fit.certificate.symmetry.mixes
        why = "their order confuses them" if mixes else "labels overlap"
        sentences.append(f"Which component a single draw belongs to: {why}.")
    if fit.log_evidence.proportional:
        sentences.append("How this model compares with others: log Z lacks the model's constants.")
    sentences.append("That the model is right: folt judges the sampling, not the model.")
    return tuple(sentences)
