"""Models compared by their evidence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.certificate.diagnostics.evidence import Evidence
from folt.certificate.outcomes import Outcome, Use

if TYPE_CHECKING:
    from folt.certificate.outcomes import Status

TOO_SMALL = (Outcome.UNCOVERED, Outcome.HEAVY_TAIL, Outcome.FROZEN)
"""Outcomes of proposals that miss mass: what they miss is missing in the evidence."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One model among several.

    Attributes:
        name: what distinguishes it from the others, such as its number of components.
        log_evidence: log Z.
        standard_error: of log Z.
        probability: posterior probability under equal prior probabilities.
        probability_error: standard error of that, from the errors of all evidences.
        believable: whether the error of log Z can be believed (`Evidence.believable`).
    """

    name: str
    log_evidence: float
    standard_error: float
    probability: float
    probability_error: float
    believable: bool


def compare_evidences(evidences: Mapping[str, Evidence]) -> tuple[Candidate, ...]:
    """Return the posterior probabilities p_k ∝ Z_k of models that were equally probable before.

    The error of p_k follows from those of the log evidences s by the delta method:
    p_k² [(1-p_k)² s_k² + Σ_{j≠k} p_j² s_j²].

    Raises:
        ValueError: an evidence that lacks a constant.
    """
    lacking = [name for name, evidence in evidences.items() if evidence.proportional]
    if lacking:
        raise ValueError(
            f"the evidence of {', '.join(lacking)} is known up to a constant only and cannot be "
            "compared: in a Stan program write target += ..._lpdf(...) instead of ~, or compile "
            "it with BridgeStan"
        )
    values = np.array([evidence.value for evidence in evidences.values()])
    errors = np.array([evidence.standard_error for evidence in evidences.values()])
    if not np.isfinite(values).any():
        probabilities = np.full(len(values), math.nan)
    else:
        weights = np.exp(values - values[np.isfinite(values)].max())
        probabilities = weights / weights.sum()
    with np.errstate(invalid="ignore"):  # no probability, and no error of it
        products = np.where(probabilities == 0.0, 0.0, probabilities * errors)
    squares = np.square(products)
    others = squares.sum() - squares
    own = np.where(probabilities == 0.0, 0.0, np.square((1.0 - probabilities) * errors))
    spread = probabilities * np.sqrt(own + others)
    return tuple(
        Candidate(
            name,
            evidence.value,
            evidence.standard_error,
            float(probability),
            float(error),
            evidence.believable,
        )
        for (name, evidence), probability, error in zip(
            evidences.items(), probabilities, spread, strict=True
        )
    )


def doubts(ranking: Sequence[Candidate], statuses: Mapping[str, Status]) -> tuple[str, ...]:
    """Return a sentence of advice for every model whose evidence is not certified.

    Args:
        ranking: the models, as `compare` gives them.
        statuses: the verdict on the fit of each, by its name.
    """
    doubtful = [row for row in ranking if _doubtful(row, statuses[row.name].outcome)]
    sentences = [_doubt(row, statuses[row.name].outcome) for row in doubtful]
    share = sum(row.probability for row in doubtful)
    if doubtful and len(doubtful) < len(ranking) and not math.isnan(share):
        held = f"{share:.2g}" if share < 0.995 else "nearly all"
        several = len(doubtful) > 1
        sentences.append(
            f"{'Together they hold' if several else 'It holds'} {held} of the probability, as "
            "estimated; the others compare with each other as the table says, whatever becomes of "
            f"{'these' if several else 'it'}."
        )
    return tuple(sentences)


def _doubtful(row: Candidate, outcome: Outcome) -> bool:
    return not (row.believable and outcome.usable)


def _doubt(row: Candidate, outcome: Outcome) -> str:
    doubt = f"{row.name}: not certified ({outcome.label})"
    if outcome.usable:
        return (
            f"{row.name}: the weights have too heavy a tail for the error of log Z to mean "
            "anything; fit it again with more effort."
        )
    if outcome in TOO_SMALL:
        doubt += "; what its proposal misses is missing in log Z too, which may be too small"
    elif outcome.use is Use.FIRST_LOOK:
        doubt += "; its log Z is a first look"
    else:
        doubt += "; its log Z says nothing"
    return f"{doubt}. Fit it again with more effort, or compare without it."
