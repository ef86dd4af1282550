"""The quantile core: how much h varies over most of the draws, in two protocols.

`target_core` follows the paper's text: draws of π_F, the fraction ρ with the largest |h - median|
dropped. `proposal_core` follows its released code, which made its tables: draws of the proposal, ρ
dropped in each tail. The first is primary, because proposal draws cannot see a region that the
proposal misses. Both give C, gamma = 2/(1+e^C) and core_gap = e^(-C): diagnostics, not bounds on
the running chain.

From the oscillation of h to a spectral gap: three functionals, each named for what it is.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from scipy.special import expit


def published_gap(oscillation: float) -> float:
    """Return the paper's functional 2/(1 + e^C). Not a lower bound on the gap.

    Two states with q = (.99, .01) and osc(h) = ln 3 have the exact gap .340; this gives .500.
    """
    return float(2.0 * expit(-oscillation))


def valid_gap(oscillation: float, mass: float = 1.0) -> float:
    """Return a lower bound κ·e^(-C) on the gap, C an oscillation over the *full* support.

    Args:
        oscillation: C ≥ sup h - inf h over the support; from a core it bounds nothing.
        mass: κ, the total mass of the proposal on the domain: one unless orbits are truncated.
    """
    return float(mass * np.exp(-oscillation))


def gap_upper(log_ratios: np.ndarray, log_evidence: float) -> float:
    """Return an upper estimate Ẑ·e^(-max h) of the gap 1/ess sup w, from draws.

    A sample maximum lies below the supremum, so this can only overestimate.
    """
    finite = log_ratios[np.isfinite(log_ratios)]
    if finite.size == 0:
        return float("nan")
    return float(min(1.0, np.exp(log_evidence - finite.max())))


RHOS = (0.025, 0.05, 0.1, 0.25)
"""The shares of draws that may be dropped; .05 is primary."""


@dataclasses.dataclass(frozen=True)
class Core:
    """One quantile core.

    Attributes:
        osc: C, the width of the interval of h; None where infeasible.
        gamma: the paper's 2/(1+e^C).
        core_gap: e^(-C).
        feasible: whether n draws suffice for this ρ at this confidence.
        n: effective number of independent draws.
        dropped: draws outside the support, which the protocol leaves out.
        low: lower end of the interval.
        high: its upper end.
        target_mass: share of held-out target draws whose h lies in the interval; None if unknown.
    """

    DERIVED: ClassVar = ("predicted_ess",)
    """What follows from the rest and stands in a document for its readers."""

    osc: float | None
    gamma: float | None
    core_gap: float | None
    feasible: bool
    n: float
    dropped: int = 0
    low: float | None = None
    high: float | None = None
    target_mass: float | None = None

    @property
    def predicted_ess(self) -> float | None:
        """The paper's heuristic γ/(2-γ) for effective draws per draw; it promises nothing."""
        return None if self.gamma is None else self.gamma / (2.0 - self.gamma)

    def with_target_mass(self, held_out: np.ndarray) -> Core:
        """The core with the share of held-out target draws inside it.

        Proposal draws cannot see what the proposal misses; this number can.
        """
        if self.low is None or self.high is None:
            return self
        inside = np.mean((held_out >= self.low) & (held_out <= self.high))
        return dataclasses.replace(self, target_mass=float(inside))


def dkw_radius(n: float, delta: float) -> float:
    """ε_n = sqrt(ln(2/δ) / 2n): uniform deviation of the empirical law of n draws."""
    return float(np.sqrt(np.log(2.0 / delta) / (2.0 * n))) if n > 0 else float("inf")


def target_core(
    log_ratios: np.ndarray, rho: float, delta: float = 0.05, effective: float | None = None
) -> Core:
    """Median-centred interval of h that holds target mass ≥ 1-ρ with probability ≥ 1-δ.

    Every interval of empirical mass ≥ 1-ρ+2ε_n has target mass ≥ 1-ρ, uniformly over intervals,
    so choosing the median-centred one after looking costs nothing. Feasible iff
    n ≥ 2 ln(2/δ)/ρ².

    Args:
        log_ratios: h at draws of π_F; values that are not finite count as outside the core.
        rho: share of the target that may lie outside.
        delta: one minus the confidence.
        effective: number of independent draws they are worth; their count if None.
    """
    values = np.asarray(log_ratios, float).ravel()
    count = values.size
    n = float(min(count, effective if effective is not None else count))
    needed = int(np.ceil((1.0 - rho + 2.0 * dkw_radius(n, delta)) * count)) if n > 0 else count + 1
    finite = values[np.isfinite(values)]
    if needed > count or needed > finite.size or finite.size == 0:
        return Core(None, None, None, False, n, count - finite.size)
    distance = np.abs(finite - np.median(finite))
    radius = np.partition(distance, needed - 1)[needed - 1]
    inside = finite[distance <= radius]
    return _core(float(inside.min()), float(inside.max()), n, count - finite.size)


def proposal_core(log_ratios: np.ndarray, rho: float, delta: float = 0.05) -> Core:
    """Return the tables' protocol: C = Q(1-ρ+ε_n) - Q(ρ-ε_n) of h over proposal draws.

    Draws outside the support (h = -inf) are dropped and counted. Feasible iff ε_n < ρ.
    """
    values = np.asarray(log_ratios, float).ravel()
    finite = np.sort(values[np.isfinite(values)])
    n, dropped = finite.size, values.size - finite.size
    radius = dkw_radius(n, delta)
    if n == 0 or radius >= rho:
        return Core(None, None, None, False, float(n), dropped)
    low = finite[max(int(np.floor((rho - radius) * n)) - 1, 0)]
    high = finite[min(int(np.ceil((1.0 - rho + radius) * n)), n - 1)]
    return _core(float(low), float(high), float(n), dropped)


def _core(low: float, high: float, n: float, dropped: int) -> Core:
    osc = high - low
    return Core(osc, published_gap(osc), valid_gap(osc), True, n, dropped, low, high)
