"""From the oscillation of h to a spectral gap: three functionals, each named for what it is."""

from __future__ import annotations

import numpy as np
from scipy.special import expit


def published_gap(oscillation: float) -> float:
    """The paper's functional 2/(1 + e^C). Not a lower bound on the gap.

    Two states with q = (.99, .01) and osc(h) = ln 3 have the exact gap .340; this gives .500.
    """
    return float(2.0 * expit(-oscillation))


def valid_gap(oscillation: float, mass: float = 1.0) -> float:
    """A lower bound κ·e^(-C) on the gap, C an oscillation over the *full* support.

    Args:
        oscillation: C ≥ sup h - inf h over the support; from a core it bounds nothing.
        mass: κ, the total mass of the proposal on the domain: one unless orbits are truncated.
    """
    return float(mass * np.exp(-oscillation))


def gap_upper(log_ratios: np.ndarray, log_evidence: float) -> float:
    """An upper estimate Ẑ·e^(-max h) of the gap 1/ess sup w, from draws.

    A sample maximum lies below the supremum, so this can only overestimate.
    """
    finite = log_ratios[np.isfinite(log_ratios)]
    if finite.size == 0:
        return float("nan")
    return float(min(1.0, np.exp(log_evidence - finite.max())))
