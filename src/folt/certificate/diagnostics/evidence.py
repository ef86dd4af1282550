"""Evidence from the log ratio: by importance sampling, smoothed or not, and by a bridge.

Z = E_q[π̃_F/q_F], π̃_F the folded unnormalised target: the number of labellings is counted once, by
construction.
"""

from __future__ import annotations

import dataclasses
import enum
import math

import numpy as np
from scipy.special import expit, logsumexp

from folt.certificate.diagnostics.chains import effective_size
from folt.certificate.diagnostics.pareto import ParetoTail, pareto_tail

PLAIN_LIMIT = 0.4
"""Pareto k̂ from which plain weights are not believed.

Their variance is infinite from k = ½ on. The largest 3√n of 20 000 weights tell k to ±.07, so a
limit of ½ itself would believe weights of k = .55 in every fourth case, where intervals fail."""

SMOOTH_LIMIT = 1.0
"""Pareto k̂ from which smoothed weights have no mean."""

BRIDGE_ROUNDS = 1_000
"""Most rounds of the bridge's fixed point, a contraction that needs a handful."""

_ROUNDING = 1e-9
"""Differences of log Z up to which two estimates are the same number."""

SIZE_ROUNDS = 3
"""Rounds in which the bridge and the effective size of its summands settle on each other."""


class Method(enum.StrEnum):
    """How an estimate of log Z was made; `why` says when it is the one to report."""

    IMPORTANCE = (
        "importance",
        "Pareto k̂ is safely below 0.5, so the plain weights have a variance; or it is 1 or more, "
        "and they have a larger error than the bridge",
    )
    PSIS = (
        "psis",
        "Pareto k̂ may be 0.5 or more: the largest weights give way to a fitted tail",
    )
    BRIDGE = (
        "bridge",
        "Pareto k̂ is 1 or more, and the bridge has a larger error than the plain weights",
    )

    why: str

    def __new__(cls, value: str, why: str = "") -> Method:
        """Return a string that carries its reason."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.why = why
        return member


@dataclasses.dataclass(frozen=True)
class Evidence:
    """log Z with its standard error.

    Attributes:
        value: log Z.
        standard_error: of log Z, by the delta method.
        pareto_k: shape k̂ of the largest plain weights, whatever the method.
        draws: fresh proposal draws.
        chain_effective: independent draws that the chain's states counted as; zero without them.
        method: how it was made.
        proportional: whether the density lacked a constant that nobody knows, and log Z with it.
    """

    value: float
    standard_error: float
    pareto_k: float
    draws: int
    chain_effective: float = 0.0
    method: Method = Method.IMPORTANCE
    proportional: bool = False

    @property
    def believable(self) -> bool:
        """Whether the standard error means anything at this tail of the weights.

        From k̂ = 1 on, plain weights and bridge are reported only where theirs is the larger error.
        """
        if not math.isfinite(self.standard_error) or self.method == Method.BRIDGE:
            return math.isfinite(self.standard_error)
        smooth = self.pareto_k < SMOOTH_LIMIT
        return smooth == (self.method == Method.PSIS) or self.pareto_k < PLAIN_LIMIT

    def with_error(self, departure: float) -> Evidence:
        """Return the estimate with a systematic error added: se² + departure², infinite if NaN."""
        added = math.inf if math.isnan(departure) else abs(departure)
        return dataclasses.replace(self, standard_error=math.hypot(self.standard_error, added))


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far two estimates of log Z lie apart.

    Attributes:
        value: the first minus the second.
        standard_error: of that difference: both use the same fresh draws, so that it is not the
            sum of their variances.
    """

    value: float
    standard_error: float

    @property
    def score(self) -> float:
        """The difference in its standard errors; NaN where one of the two does not exist."""
        if abs(self.value) <= _ROUNDING:
            return 0.0
        if not math.isfinite(self.value) or not math.isfinite(self.standard_error):
            return math.nan
        return self.value / self.standard_error if self.standard_error > 0.0 else math.inf


@dataclasses.dataclass(frozen=True)
class Evidences:
    """Three estimates of log Z from the same fresh draws, and how well they agree.

    Attributes:
        importance: the mean of the plain weights.
        psis: their largest replaced by a fitted Pareto tail.
        bridge: from fresh proposals and the chain.
        difference: of importance (of `psis` where k̂ lies between 0.4 and 1) and bridge.
    """

    importance: Evidence
    psis: Evidence
    bridge: Evidence
    difference: Difference

    @property
    def best(self) -> Evidence:
        """The estimate whose error can be believed, by the Pareto k̂ of the plain weights.

        From k̂ = 1 on there is none: of plain weights and bridge the one with the larger error. The
        bridge looks precise there while states of the chain that hardly move carry its mean.
        """
        if self.importance.pareto_k < PLAIN_LIMIT:
            return self.importance
        if self.importance.pareto_k < SMOOTH_LIMIT:
            return self.psis
        return (
            self.bridge
            if self.bridge.standard_error > self.importance.standard_error
            else self.importance
        )


def evidences(fresh: np.ndarray, chain: np.ndarray, *, frozen: bool = False) -> Evidences:
    """Return all estimates of log Z.

    Args:
        fresh: h at proposals that the chain never saw; -inf counts as zero.
        chain: h along the chains, (chain, draw).
        frozen: whether a chain never moved, so that there is no bridge to it.
    """
    plain, smooth = importance_evidence(fresh), psis_evidence(fresh)
    bridge = bridge_evidence(fresh, chain, 0.0 if frozen else None)
    if plain.pareto_k >= PLAIN_LIMIT and smooth.believable:
        # Taken as independent, which overstates the error.
        spread = math.hypot(smooth.standard_error, bridge.standard_error)
        difference = Difference(smooth.value - bridge.value, spread)
    else:
        difference = _shared_difference(fresh, chain, plain, bridge)
    return Evidences(plain, smooth, bridge, difference)


def importance_evidence(log_ratios: np.ndarray) -> Evidence:
    """Return log Z = log mean e^h over proposal draws; draws outside the support count as zeros.

    The standard error is sd(w)/(mean(w)·sqrt(n)), w = e^h, by the delta method.
    """
    values = np.asarray(log_ratios, float).ravel()
    usable = values[np.isfinite(values)]
    n = values.size
    if usable.size < 2:
        return Evidence(-math.inf, math.inf, math.inf, n)
    log_z = float(logsumexp(usable) - np.log(n))
    log_second = float(logsumexp(2.0 * usable) - np.log(n))
    relative_variance = max(np.expm1(log_second - 2.0 * log_z), 0.0)
    return Evidence(log_z, float(np.sqrt(relative_variance / n)), _tail(usable).shape, n)


def psis_evidence(log_ratios: np.ndarray) -> Evidence:
    """Return log Z with the largest weights replaced by the mean of a Pareto law fitted to them.

    Z = mean(w; w ≤ u) + (m/n)·(u + σ/(1-k)) for the m weights above u. Unlike the plain mean this
    is asymptotically normal for k between ½ and 1; its error contains that of the fitted (k, σ). A
    few weights far beyond the others, as of a mode that the proposal all but misses, are no Pareto
    tail and would be smoothed away: so the distance from the plain mean is part of the error too.
    """
    values = np.asarray(log_ratios, float).ravel()
    usable = values[np.isfinite(values)]
    n = values.size
    if usable.size < 2:
        return Evidence(-math.inf, math.inf, math.inf, n, method=Method.PSIS)
    top = float(usable.max())
    weights = np.zeros(n)
    weights[: usable.size] = np.exp(usable - top)
    tail = pareto_tail(weights[: usable.size])
    if not tail.shape < 1.0:
        return Evidence(math.nan, math.inf, tail.shape, n, method=Method.PSIS)
    smooth = np.where(weights > tail.threshold, tail.mean, weights)
    mean = float(smooth.mean())
    share = float((weights > tail.threshold).mean())
    variance = smooth.var() / n + share**2 * tail.mean_variance
    error = math.hypot(math.sqrt(variance) / mean, math.log(mean / weights.mean()))
    return Evidence(top + math.log(mean), error, tail.shape, n, method=Method.PSIS)


def bridge_evidence(
    fresh: np.ndarray, chain: np.ndarray, effective: float | None = None
) -> Evidence:
    """Return log Z by a bridge between fresh proposal draws and the states of the chain.

    With v = e^h/Z and shares s of n proposals and m effective states, the fixed point of

        Z = E_q[e^h/(s_m·v + s_n)] / E_π[1/(s_m·v + s_n)]

    is the optimal bridge of Meng and Wong. Both summands are bounded in h, so that neither a heavy
    tail of w nor of 1/w ruins the error bar. The proposals must be *fresh*: the states of the
    chain are accepted proposals, and reusing those would make both sides agree too well.

    Args:
        fresh: h at proposals that the chain never saw; -inf counts as zero.
        chain: h along the chains, (chain, draw).
        effective: independent draws that the chain is worth; if None, the effective size of the
            summands themselves.
    """
    proposals, states = np.asarray(fresh, float).ravel(), np.asarray(chain, float)
    n = proposals.size
    usable = proposals[np.isfinite(proposals)]
    shape = _tail(usable).shape
    size = _state_size(usable, states) if effective is None else effective
    if usable.size < 2 or size < 2 or not np.isfinite(states).all():
        return Evidence(-math.inf, math.inf, shape, n, size, Method.BRIDGE)
    log_z = float(logsumexp(usable) - np.log(n))
    for _ in range(SIZE_ROUNDS if effective is None else 1):
        log_odds = math.log(size / n)
        log_z = _bridge_root(usable, states, n, log_odds, log_z)
        above, below = _bridge_terms(usable, states, log_z, log_odds)
        if effective is None:
            size = _own_size(below)
    above = np.concatenate([above, np.zeros(n - usable.size)])
    relative = above.var() / above.mean() ** 2 / n + below.var() / below.mean() ** 2 / size
    return Evidence(log_z, float(np.sqrt(relative)), shape, n, size, Method.BRIDGE)


def _tail(usable: np.ndarray) -> ParetoTail:
    """Return the tail of the plain weights, the largest of which is one."""
    return pareto_tail(np.exp(usable - usable.max(initial=-math.inf)))


def _bridge_root(
    usable: np.ndarray, states: np.ndarray, n: int, log_odds: float, log_z: float
) -> float:
    for _ in range(BRIDGE_ROUNDS):
        above, below = _bridge_terms(usable, states, log_z, log_odds)
        step = math.log(above.sum() / n) - math.log(below.mean())
        log_z += step
        if abs(step) < 1e-12:
            break
    return log_z


def _bridge_terms(
    proposals: np.ndarray, states: np.ndarray, log_z: float, log_odds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return v/(1 + o·v) at proposals and 1/(1 + o·v) at states; o = m/n, the ratio of sizes."""
    above = expit(log_odds + proposals - log_z) * math.exp(-log_odds)
    below = expit(-(log_odds + states - log_z))
    return above, below


def _state_size(usable: np.ndarray, states: np.ndarray) -> float:
    """Effective size of h along the chains; all of them where h is one constant everywhere."""
    if usable.size and np.ptp(usable) == 0.0 and (states == usable[0]).all():
        return float(states.size)
    return min(effective_size(states), states.size)


def _own_size(below: np.ndarray) -> float:
    """Return the effective size of the bridge's summands; all of them where they do not vary."""
    if np.ptp(below) <= 1e-12:
        return float(below.size)
    return max(min(effective_size(below, "mean"), below.size), 1.0)


def _shared_difference(
    fresh: np.ndarray, chain: np.ndarray, plain: Evidence, bridge: Evidence
) -> Difference:
    """Plain minus bridge by the delta method: influences of the shared fresh draws are subtracted.

    The bridge function may be held fixed: any other gives the same limit, so that its error enters
    in second order only.
    """
    value = plain.value - bridge.value
    if not math.isfinite(value) or not math.isfinite(bridge.standard_error):
        return Difference(math.nan, math.inf)
    proposals = np.where(np.isfinite(fresh), fresh, -np.inf).ravel()
    log_odds = math.log(bridge.chain_effective / proposals.size)
    above, below = _bridge_terms(proposals, chain, bridge.value, log_odds)
    influence = np.exp(proposals - plain.value) - above / above.mean()
    variance = influence.var() / proposals.size
    variance += below.var() / below.mean() ** 2 / bridge.chain_effective
    return Difference(value, math.sqrt(variance))
