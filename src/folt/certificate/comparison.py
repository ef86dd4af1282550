"""Models compared by their evidence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from folt.diagnostics import Evidence


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One model among several.

    Attributes:
        name: what tells it from the others, such as its number of components.
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


def compare(evidences: Mapping[str, Evidence]) -> tuple[Candidate, ...]:
    """Posterior probabilities p_k ∝ Z_k of models that were equally probable before.

    The error of p_k follows from those of the log evidences s by the delta method:
    p_k² [(1-p_k)² s_k² + Σ_{j≠k} p_j² s_j²].
    """
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
