"""Evidence by importance sampling with the folded proposal.

Z = E_q[π̃_F/q_F], π̃_F the folded unnormalised target: the number of labellings is counted once, by
construction.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import logsumexp
from scipy.stats import genpareto


@dataclasses.dataclass(frozen=True)
class Evidence:
    """log Z with its standard error and the Pareto shape k̂ of the largest weights.

    k̂ below 0.7 means that the standard error can be believed.
    """

    value: float
    standard_error: float
    pareto_k: float
    draws: int


def importance_evidence(log_ratios: np.ndarray) -> Evidence:
    """Log Z = log mean e^h over proposal draws; draws outside the support count as zeros.

    The standard error is sd(w)/(mean(w)·sqrt(n)), w = e^h, by the delta method.
    """
    values = np.asarray(log_ratios, float).ravel()
    n = values.size
    usable = values[np.isfinite(values)]
    if usable.size < 2:
        return Evidence(-math.inf, math.inf, math.inf, n)
    log_z = float(logsumexp(usable) - np.log(n))
    log_second = float(logsumexp(2.0 * usable) - np.log(n))
    relative_variance = max(np.expm1(log_second - 2.0 * log_z), 0.0)
    return Evidence(log_z, float(np.sqrt(relative_variance / n)), pareto_shape(usable), n)


def pareto_shape(log_weights: np.ndarray) -> float:
    """Generalised Pareto shape fitted to the largest min(n/5, 3√n) weights."""
    n = log_weights.size
    tail = int(min(n // 5, 3 * math.sqrt(n)))
    if tail < 5:
        return math.inf
    ordered = np.sort(np.exp(log_weights - log_weights.max()))
    excess = ordered[-tail:] - ordered[-tail - 1]
    if excess[-1] <= 1e-12:
        return -math.inf
    return float(genpareto.fit(excess / excess.mean(), floc=0.0)[0])
