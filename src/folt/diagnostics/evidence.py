"""Evidence from the log ratio: by importance sampling, and by a bridge to the chain.

Z = E_q[π̃_F/q_F], π̃_F the folded unnormalised target: the number of labellings is counted once, by
construction.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import genpareto

BRIDGE_ROUNDS = 1_000
"""Most rounds of the bridge's fixed point, a contraction that needs a handful."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """log Z with its standard error.

    Attributes:
        value: log Z.
        standard_error: of log Z, by the delta method.
        pareto_k: shape k̂ of the largest weights; below 0.7 the standard error can be believed.
            None for the bridge, whose summands are bounded.
        draws: fresh proposal draws.
        chain_effective: independent draws that the chain's states counted as; zero without them.
    """

    value: float
    standard_error: float
    pareto_k: float | None
    draws: int
    chain_effective: float = 0.0


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


def bridge_evidence(fresh: np.ndarray, chain: np.ndarray, effective: float) -> Evidence:
    """Log Z by a bridge between fresh proposal draws and the states of the chain.

    With v = e^h/Z and shares s of n proposals and m effective states, the fixed point of

        Z = E_q[e^h/(s_m·v + s_n)] / E_π[1/(s_m·v + s_n)]

    is the optimal bridge of Meng and Wong. Both summands are bounded in h, so that neither a heavy
    tail of w nor of 1/w ruins the error bar. The proposals must be *fresh*: the states of the
    chain are accepted proposals, and reusing those would make both sides agree too well.

    Args:
        fresh: h at proposals that the chain never saw; -inf counts as zero.
        chain: h along the chain.
        effective: independent draws that the chain is worth.
    """
    proposals, states = np.asarray(fresh, float).ravel(), np.asarray(chain, float).ravel()
    n = proposals.size
    usable = proposals[np.isfinite(proposals)]
    if usable.size < 2 or effective < 2 or not np.isfinite(states).all():
        return Evidence(-math.inf, math.inf, None, n, effective)
    log_odds = math.log(effective / n)
    log_z = float(logsumexp(usable) - np.log(n))
    for _ in range(BRIDGE_ROUNDS):
        above, below = _bridge_terms(usable, states, log_z, log_odds)
        step = math.log(above.sum() / n) - math.log(below.mean())
        log_z += step
        if abs(step) < 1e-12:
            break
    above, below = _bridge_terms(usable, states, log_z, log_odds)
    padded = np.concatenate([above, np.zeros(n - usable.size)])
    relative = padded.var() / padded.mean() ** 2 / n + below.var() / below.mean() ** 2 / effective
    return Evidence(log_z, float(np.sqrt(relative)), None, n, effective)


def _bridge_terms(
    proposals: np.ndarray, states: np.ndarray, log_z: float, log_odds: float
) -> tuple[np.ndarray, np.ndarray]:
    """v/(1 + o·v) at proposals and 1/(1 + o·v) at states, o = m/n the odds of the two samples."""
    above = expit(log_odds + proposals - log_z) * math.exp(-log_odds)
    below = expit(-(log_odds + states - log_z))
    return above, below


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
