"""Does the proposal cover what the reference draws see?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import expit, logsumexp

from folt.diagnostics.chains import effective_size

DAMPING = 0.1
"""c of the functions 1/(1 + c·w) that are compared.

Small enough for draws with ordinary weights to count alike, which keeps the noise of the coverage
below that of the evidence; large enough for weights of some ten and more, which few proposals
reach, to be seen."""

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
    """Compare the two expressions of E_q[w/(1 + c·w)], c = .1: equal if nothing is missed.

    For every function f, E_π[f] = E_q[w·f], with w = w̃/Z. For f = 1/(1 + c·w) the summands on
    either side are bounded, by 1 and by 1/c, so that standard errors exist. A mode of mass β that
    the proposal misses adds nothing on the left, where w is large, while Ẑ falls short by the same
    β: the value is 1-β.

    The value is E_π[f]/E_q[w·f] with Ẑ in place of Z, which makes it proportional to Ẑ in first
    order. So its relative error is that of the mean over fresh draws of w - w·f/E_q[w·f], and of
    the mean of f over held-out draws.

    Args:
        held_out: h at draws of the target, (chain, draw).
        fresh: h at draws of the proposal.
        exact: whether the held-out draws are independent by construction.
    """
    fresh, held_out = np.asarray(fresh, float).ravel(), np.asarray(held_out, float)
    usable = fresh[np.isfinite(fresh)]
    log_z = float(logsumexp(usable) - math.log(fresh.size)) if usable.size else -math.inf
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        raw = float(np.mean(np.exp(log_z - held_out)))
    if not usable.size or not np.isfinite(held_out).all():
        return Coverage(math.nan, math.inf, raw)
    log_damping = math.log(DAMPING)
    reached = expit(-(log_damping + held_out - log_z))
    weights = np.where(np.isfinite(fresh), np.exp(fresh - log_z), 0.0)
    damped = np.where(np.isfinite(fresh), expit(log_damping + fresh - log_z) / DAMPING, 0.0)
    value = float(reached.mean() / damped.mean())
    if value == 0.0:
        return Coverage(0.0, 0.0, raw)
    relative = (weights - damped / damped.mean()).var() / fresh.size
    relative += reached.var() / reached.mean() ** 2 / _size(reached, exact)
    return Coverage(value, value * math.sqrt(relative), raw)


def _size(values: np.ndarray, exact: bool) -> float:
    """Independent draws that the summands are worth: their own effective size."""
    if exact or np.ptp(values) == 0.0:
        return float(values.size)
    return max(min(effective_size(values, "mean"), float(values.size)), 1.0)
