"""Does the proposal cover what the reference draws see, and do chain and reference agree?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.stats import norm

from folt.diagnostics.chains import effective_size

FLOOR = 0.1
"""Normalised weight below which draws are left out of the coverage, on both sides alike."""


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The share of the reference that the proposal covers.

    Attributes:
        value: near one unless the proposal misses mass that the reference has.
        standard_error: of `value`.
        raw: Ẑ·mean(1/w̃) over all held-out draws, the plain form of the check. It falls short of
            one by the proposal's own mass in places that a finite reference never visits, such as
            the λ of a tail safety, and its variance may be infinite.
    """

    value: float
    standard_error: float
    raw: float

    def departs(self, slack: float = 0.05, errors: float = 4.0) -> bool:
        """Whether the value is further from one than `slack` and that many standard errors."""
        return not abs(self.value - 1.0) <= slack + errors * self.standard_error


def coverage(
    held_out: np.ndarray, fresh: np.ndarray, log_evidence: float, effective: float
) -> Coverage:
    """Compare the two expressions of q(w ≥ c), c = .1: they are equal if nothing is missed.

    For every set A inside the support, E_π[1_A/w] = q(A), with w = π_F/q_F. On A = {w ≥ c} the
    left side has summands below 1/c, so its standard error exists; what the proposal keeps for
    places where the target is negligible is left out on both sides. A mode of mass β that the
    proposal misses adds nothing on the left while Ẑ falls short by the same β: the ratio is 1-β.

    Args:
        held_out: h at draws of the target.
        fresh: h at draws of the proposal.
        log_evidence: log Ẑ from proposal draws.
        effective: independent draws that the held-out ones are worth.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        inverse = np.exp(log_evidence - np.asarray(held_out, float).ravel())
        inside = np.asarray(fresh, float).ravel() - log_evidence >= math.log(FLOOR)
        raw = float(np.mean(inverse))
        kept = np.where(inverse <= 1.0 / FLOOR, inverse, 0.0)
        kept = np.where(np.isfinite(inverse), kept, np.nan)
    share = float(inside.mean())
    if share == 0.0 or effective < 2 or not np.isfinite(kept).all():
        return Coverage(math.nan, math.inf, raw)
    mean, count = float(kept.mean()), inside.size
    variance = kept.var() / effective / share**2 + (mean / share) ** 2 * (1 - share) / share / count
    return Coverage(mean / share, float(np.sqrt(variance)), raw)


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Whether chain and held-out reference draws have the same means.

    Attributes:
        p_value: smallest over the coordinates, times their number (Bonferroni).
        coordinate: where the difference is largest.
        score: that difference in standard errors.
    """

    p_value: float
    coordinate: int
    score: float


def agreement(chain: np.ndarray, held_out: np.ndarray, *, exact: bool) -> Agreement:
    """Two-sample z-test of the mean of every coordinate, with effective sample sizes.

    Args:
        chain: (chain, draw, dim) from the sampler.
        held_out: (chain, draw, dim) from the reference.
        exact: whether the held-out draws are independent by construction.
    """
    scores = np.array(
        [_score(chain[..., j], held_out[..., j], exact=exact) for j in range(chain.shape[-1])]
    )
    worst = int(np.argmax(np.abs(scores)))
    p_value = 2.0 * norm.sf(abs(scores[worst])) * len(scores)
    return Agreement(float(min(p_value, 1.0)), worst, float(scores[worst]))


def _score(chain: np.ndarray, held_out: np.ndarray, *, exact: bool) -> float:
    ours = min(effective_size(chain, "mean"), chain.size)
    theirs = held_out.size if exact else min(effective_size(held_out, "mean"), held_out.size)
    if ours < 1 or theirs < 1:
        return math.inf
    spread = chain.var() / ours + held_out.var() / theirs
    if spread == 0.0:
        return 0.0 if chain.mean() == held_out.mean() else math.inf
    return float((chain.mean() - held_out.mean()) / math.sqrt(spread))
