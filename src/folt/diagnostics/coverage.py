"""Does the proposal cover what the reference draws see?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import logsumexp

from folt.diagnostics.chains import effective_size

FLOOR = 0.1
"""Normalised weight below which draws are left out of the coverage, on both sides alike."""

SLACK = 0.01
"""Departure of the coverage from one that is held against nobody."""

ERRORS = 4.0
"""Standard errors by which the coverage must depart from one as well."""


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The share of the reference that the proposal covers.

    Attributes:
        value: near one unless the proposal misses mass that the reference has.
        standard_error: of `value`, that of Ẑ included.
        raw: Ẑ·mean(1/w̃) over all held-out draws, the plain form of the check. It falls short of
            one by the proposal's own mass in places that a finite reference never visits, such as
            the λ of a tail safety, and its variance may be infinite.
    """

    value: float
    standard_error: float
    raw: float

    def departs(self, slack: float = SLACK, errors: float = ERRORS) -> bool:
        """Whether the value is further from one than `slack` and than that many errors."""
        return not abs(self.value - 1.0) <= max(slack, errors * self.standard_error)


def coverage(held_out: np.ndarray, fresh: np.ndarray, *, exact: bool = False) -> Coverage:
    """Compare the two expressions of q(w ≥ c), c = .1: they are equal if nothing is missed.

    For every set A inside the support, E_π[1_A/w] = q(A), with w = w̃/Z. On A = {w ≥ c} the left
    side has summands below 1/c, so its standard error exists; what the proposal keeps for places
    where the target is negligible is left out on both sides. A mode of mass β that the proposal
    misses adds nothing on the left while Ẑ falls short by the same β: the value is 1-β.

    The value is Ẑ·E_π[1_A/w̃]/q(A), and the fresh draws enter Ẑ and q(A) alike. Its relative error
    is that of the mean over them of w/Ẑ - 1_A/q(A), and of the mean over held-out draws of 1_A/w̃.
    That A depends on Ẑ does not matter to first order: the identity holds for every A.

    Args:
        held_out: h at draws of the target, (chain, draw).
        fresh: h at draws of the proposal.
        exact: whether the held-out draws are independent by construction.
    """
    fresh = np.asarray(fresh, float).ravel()
    usable = fresh[np.isfinite(fresh)]
    log_z = float(logsumexp(usable) - math.log(fresh.size)) if usable.size else -math.inf
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        inverse = np.exp(log_z - np.asarray(held_out, float))
        raw = float(np.mean(inverse))
        kept = np.where(inverse <= 1.0 / FLOOR, inverse, 0.0)
    inside = fresh - log_z >= math.log(FLOOR) if usable.size else np.zeros(fresh.size, bool)
    share = float(inside.mean())
    if share == 0.0 or not np.isfinite(held_out).all():
        return Coverage(math.nan, math.inf, raw)
    if kept.mean() == 0.0:
        return Coverage(0.0, 0.0, raw)
    value = float(kept.mean()) / share
    weights = np.where(np.isfinite(fresh), np.exp(fresh - log_z), 0.0)
    relative = (weights - inside / share).var() / fresh.size
    relative += kept.var() / kept.mean() ** 2 / _size(kept, exact)
    return Coverage(value, value * math.sqrt(relative), raw)


def _size(kept: np.ndarray, exact: bool) -> float:
    """Independent draws that the summands are worth: their own effective size."""
    if exact or np.ptp(kept) == 0.0:
        return float(kept.size)
    return max(min(effective_size(kept, "mean"), float(kept.size)), 1.0)
