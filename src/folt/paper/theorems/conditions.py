"""The conditions under which folding provably sharpens the core diagnostic, from arrays.

Two proposals are compared: q_T, trained on the folded target and folded to q_F, and q_U, trained
on the target as it is. K is the highest-density core; its part K_j in the chamber g_j·D holds the
j-th copy of the posterior, K_F the one in D.

(M′) h_U = log π - log q_U is larger on every other copy than on the first one, the copy that q_U
     knows best:  Δ_j = inf over K_j of h_U - sup over K_1 of h_U > 0.
(W)  the folded proposal fits its own copy:  osc over K_F of log(sπ) - log q_T ≤ 2r₁.
(R)  the other terms of the orbit sum hardly matter:  r_F = sup over K_F of log q_F - log q_T.

With oscillations over draws in K, osc_F ≤ 2r₁ + r_F always, since h_F is the difference of the two
functions in (W) and (R) and the latter lies in [0, r_F]. And osc_U ≥ min Δ_j as soon as the first
copy and any other are hit. So osc_U - osc_F ≥ Δ = min Δ_j - 2r₁ - r_F with no term for sampling
error: extremes do not concentrate at the rate of means, and none is needed.

Where two copies of the core touch, at the fold boundary, a continuous h_U takes the same values on
both sides, so Δ_j ≤ 0 there whatever the proposal: (M′) asks for a core that stays clear of it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """The sufficient condition Δ > c·(M_F·ε_F - M_U·ε_U)⁺ and what it promises, C_F < C_U.

    Attributes:
        slack: c·(M_F·ε_F - M_U·ε_U)⁺, with c = 2 as published and 4 as corrected.
        sufficient: whether Δ exceeds it.
        folded: C_F = osc_F + c·M_F·ε_F, osc_F over draws in the core.
        unfolded: C_U = osc_U + c·M_U·ε_U, likewise.
        share: Δ/C_U, how much of the unfolded oscillation is due to missed copies.

    None where a covering radius or a gradient is missing.
    """

    slack: float | None
    sufficient: bool | None
    folded: float | None
    unfolded: float | None
    share: float | None


@dataclasses.dataclass(frozen=True)
class Conditions:
    """(M′), (W), (R) and the repaired lemma over draws in the core.

    Infima and suprema are those of draws, so Δ is estimated from above and r₁, r_F from below.

    Attributes:
        primary: label of the copy that serves as the first, chosen to make min Δ_j largest.
        deltas: `{label: Δ_j}` of the other copies that were hit.
        min_delta: the smallest of them; None with fewer than two copies hit.
        twice_r1: 2r₁ of (W); None where infinite.
        residual: r_F of (R); None where infinite.
        delta: Δ = min Δ_j - 2r₁ - r_F.
        osc_folded: range of h_F over draws in the core.
        osc_unfolded: range of h_U over draws in the core.
        holds: `{"M", "W", "R"}`, which conditions hold: Δ_j > 0, and finite r₁ and r_F.
        folded_lemma: osc_F ≤ 2r₁ + r_F, true up to rounding whatever the draws.
        unfolded_lemma: osc_U ≥ min Δ_j; None with fewer than two copies hit.
        hit_probability: at least this probability for draws to hit the first copy and another.
        unhit: copies that no draw in the core belongs to.
        published: the sufficient condition with 2Mε*.
        corrected: the same with 4Mε* and the floor over the widened core.
    """

    primary: int | None
    deltas: dict[int, float]
    min_delta: float | None
    twice_r1: float | None
    residual: float | None
    delta: float | None
    osc_folded: float | None
    osc_unfolded: float | None
    holds: dict[str, bool]
    folded_lemma: bool
    unfolded_lemma: bool | None
    hit_probability: float
    unhit: int
    published: _Comparison
    corrected: _Comparison


Interpolation = tuple[float | None, float | None]
"""M·ε* of the folded and the unfolded side, for one of the two radii; None where there is none."""


def cross_copy_gaps(log_ratios: np.ndarray, labels: np.ndarray) -> tuple[int, dict[int, float]]:
    """(M′): the first copy and Δ_j = inf over copy j of h_U - sup over the first, for all others.

    Nothing singles out one copy beforehand; the first is the one that makes min Δ_j largest.

    Args:
        log_ratios: h_U at draws in the core.
        labels: the copy each belongs to: a number for the group element that folds it.

    Raises:
        ValueError: fewer than two copies.
    """
    values, labels = np.asarray(log_ratios, float), np.asarray(labels)
    copies, position = np.unique(labels, return_inverse=True)
    if copies.size < 2:
        raise ValueError(f"expected draws of at least two copies, got {copies.size}")
    low, high = np.full(copies.size, np.inf), np.full(copies.size, -np.inf)
    np.minimum.at(low, position, values)
    np.maximum.at(high, position, values)
    smallest = np.argsort(low)[:2]
    others = np.where(np.arange(copies.size) == smallest[0], low[smallest[1]], low[smallest[0]])
    first = int(np.argmax(others - high))
    gaps = {int(copy): float(low[j] - high[first]) for j, copy in enumerate(copies) if j != first}
    return int(copies[first]), gaps


def hit_probability(draws: int, order: int, alpha: float) -> float:
    """1 - 2(1 - (1-α)/s)^n: at least this, for n draws to hit the first copy and another.

    Each copy holds (1-α)/s of an invariant target within its core, so n draws miss the first with
    probability (1 - (1-α)/s)^n, and all of the others with no more than that.
    """
    if order < 2:
        return 0.0
    return max(0.0, 1.0 - 2.0 * math.exp(draws * math.log1p(-(1.0 - alpha) / order)))


def theorem_conditions(
    *,
    within: np.ndarray,
    residual: np.ndarray,
    unfolded: np.ndarray,
    copies: tuple[np.ndarray, np.ndarray],
    order: int,
    alpha: float,
    draws: int,
    published: Interpolation = (None, None),
    corrected: Interpolation = (None, None),
) -> Conditions:
    """Return all conditions from log ratios at draws in the core.

    Args:
        within: log(sπ) - log q_T at folded draws in the core.
        residual: log q_F - log q_T at the same draws.
        unfolded: h_U at draws in the core, one image per draw.
        copies: h_U and labels at all draws that infima and suprema are taken over; those of
            `unfolded` among them, so that they can only be more extreme.
        order: s = |G|.
        alpha: share of the target outside the core.
        draws: number n of draws before the core was taken.
        published: M·ε* of both sides, floor over the core.
        corrected: M·ε* of both sides, floor over the widened core.
    """
    within, residual = np.asarray(within, float), np.asarray(residual, float)
    if within.shape != residual.shape or within.size == 0:
        raise ValueError(
            f"expected as many values of (W) as of (R), got {within.shape} and {residual.shape}"
        )
    twice_r1, residual_sup = _range(within), _finite(residual.max())
    with np.errstate(invalid="ignore"):  # infinite terms leave no range, which is said
        osc_folded, osc_unfolded = _range(within - residual), _range(unfolded)
    hit = np.unique(copies[1]).size
    primary, gaps = cross_copy_gaps(*copies) if hit > 1 else (None, {})
    min_delta = _finite(min(gaps.values())) if gaps else None
    delta = _total(min_delta, _negative(twice_r1), _negative(residual_sup))
    rounding = 1e-9 * (1.0 + float(np.abs(within).max()))
    return Conditions(
        primary=primary,
        deltas=gaps,
        min_delta=min_delta,
        twice_r1=twice_r1,
        residual=residual_sup,
        delta=delta,
        osc_folded=osc_folded,
        osc_unfolded=osc_unfolded,
        holds={
            "M": min_delta is not None and min_delta > 0.0,
            "W": twice_r1 is not None,
            "R": residual_sup is not None,
        },
        folded_lemma=_at_most(osc_folded, _total(twice_r1, residual_sup), rounding),
        unfolded_lemma=None if min_delta is None else _at_most(min_delta, osc_unfolded, rounding),
        hit_probability=hit_probability(draws, order, alpha),
        unhit=order - hit,
        published=_comparison(2.0, published, delta, osc_folded, osc_unfolded),
        corrected=_comparison(4.0, corrected, delta, osc_folded, osc_unfolded),
    )


def _comparison(
    factor: float,
    terms: Interpolation,
    delta: float | None,
    osc_folded: float | None,
    osc_unfolded: float | None,
) -> _Comparison:
    folded_term, unfolded_term = terms
    if folded_term is None or unfolded_term is None:
        return _Comparison(None, None, None, None, None)
    slack = factor * max(folded_term - unfolded_term, 0.0)
    folded = _total(osc_folded, factor * folded_term)
    unfolded = _total(osc_unfolded, factor * unfolded_term)
    sufficient = None if delta is None else delta > slack
    share = None if delta is None or not unfolded else delta / unfolded
    return _Comparison(slack, sufficient, folded, unfolded, share)


def _range(values: np.ndarray) -> float | None:
    values = np.asarray(values, float)
    return _finite(np.ptp(values)) if values.size and np.isfinite(values).all() else None


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _total(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _at_most(value: float | None, bound: float | None, rounding: float) -> bool:
    """Value ≤ bound up to rounding; an infinite bound holds, an infinite value does not."""
    if bound is None:
        return True
    return value is not None and value <= bound + rounding
