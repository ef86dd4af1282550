"""The mixing certificate: after how many steps the running chain is close to its target.

Two independence chains driven by the same proposals and uniforms, one from μ and one from π, meet
as soon as the one with the larger w = π_F/q_F moves, for then the other moves too. Until then that
one stands still, so given the larger w, M, the meeting time is geometric with success
a(M) = E_q[min(1, w/M)], and for every threshold t

    TV(μPⁿ, π) ≤ (1 - a(t))ⁿ + π(w > t) + μ(w > t).

Only ratios of w enter: no normalising constant, no covering, no bounded support. The same a and
β = π(w > t) bound variances: P shrinks functions of {w ≤ t} by 1 - a(t), and what it leaves is a
function that is constant there, hence for bounded f

    Var_π(Pⁿf) ≤ (1 - a(t))²ⁿ Var f + β(1 - β/2) osc(f)².

Here the right-hand sides are made into statements with a stated confidence, from log ratios alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Real

from folt.diagnostics.confidence import binomial_upper, mean_lower
from folt.diagnostics.dependence import Dependence

EPSILONS = (0.1, 0.05, 0.01)
"""The distances in total variation for which steps are reported."""

THRESHOLDS = 16
"""Number of thresholds; their ranks among the held-out draws depend on the count alone."""

CURVE_POINTS = 200

ASSUMPTION = (
    "The held-out draws are from the folded target, the chain starts from the proposal where it "
    "hits the support, and modes that the reference and the proposal both missed stay unseen."
)


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """What is known at each threshold t, from the largest downwards.

    Attributes:
        log_threshold: log t on the scale of h.
        accept_lower: lower bound on a(t) = E_q[min(1, w/t)].
        accept_estimate: the mean that the bound is for.
        exceed_upper: upper bound on β(t) = π(w > t).
        start_upper: upper bound on μ(w > t), μ the proposal where it hits the support.
        effective: independent draws that the held-out ones are worth at this threshold.
    """

    log_threshold: tuple[float, ...] = ()
    accept_lower: tuple[float, ...] = ()
    accept_estimate: tuple[float, ...] = ()
    exceed_upper: tuple[float, ...] = ()
    start_upper: tuple[float, ...] = ()
    effective: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Curve:
    """Distance to the target against the number of steps, thinned.

    Attributes:
        steps: n.
        bound: upper bound on TV(μPⁿ, π), for all n at once with the stated confidence.
        estimate: E[(1 - a(M))ⁿ] over the draws: an estimate of an upper bound, without confidence.
    """

    steps: tuple[int, ...] = ()
    bound: tuple[float, ...] = ()
    estimate: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Mixing:
    """How fast the chain forgets its start. All bounds hold together with the confidence given.

    Attributes:
        steps: for each ε the smallest n with TV(μPⁿ, π) ≤ ε; None where it cannot be had.
        confidence: probability with which everything here that is called a bound holds.
        grid: the thresholds and the bounds at each.
        curve: bound and estimate against n.
        log_evidence: importance estimate of log Z, to read log t as log w; NaN if refused.
        chain_length: N of `ess`, if one was given.
        ess: lower bound on the effective size of N stationary steps for a bounded function with
            osc² = 4 Var, such as the indicator of a median; None without N or if refused.
        reason: why some ε cannot be had; None if all can.
        assumption: what all of it rests on.
    """

    steps: dict[float, int | None]
    confidence: float
    grid: Thresholds
    curve: Curve
    log_evidence: float
    chain_length: int | None = None
    ess: float | None = None
    reason: str | None = None
    assumption: str = ASSUMPTION

    def bound(self, n: int | np.ndarray) -> np.ndarray:
        """Upper bound on TV(μPⁿ, π) for any number of steps; one if the certificate was refused."""
        return total_variation_bound(
            n, self.grid.accept_lower, self.grid.exceed_upper, self.grid.start_upper
        )

    def variance_bound(
        self, n: int | np.ndarray, oscillation_squared_over_variance: float = 4.0
    ) -> np.ndarray:
        """Upper bound on Var_π(Pⁿf)/Var_π(f) for a function with this osc(f)²/Var f."""
        return variance_bound(
            n,
            self.grid.accept_lower,
            self.grid.exceed_upper,
            oscillation_squared_over_variance,
        )

    def ess_bound(self, count: int, oscillation_squared_over_variance: float = 4.0) -> float:
        """Lower bound on the effective size of this many stationary steps; zero if refused."""
        return ess_bound(
            count,
            self.grid.accept_lower,
            self.grid.exceed_upper,
            oscillation_squared_over_variance,
        )

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Mixing:
        """Rebuild from `dataclasses.asdict`, also after a trip through JSON."""
        fields = {**tree}
        fields["steps"] = {float(epsilon): n for epsilon, n in tree["steps"].items()}
        fields["grid"] = Thresholds(**{key: tuple(row) for key, row in tree["grid"].items()})
        fields["curve"] = Curve(**{key: tuple(row) for key, row in tree["curve"].items()})
        if fields["log_evidence"] is None:
            fields["log_evidence"] = math.nan
        return cls(**fields)


def mixing_certificate(
    fresh: Float[np.ndarray, " proposals"],
    held_out: Float[np.ndarray, "chains draws"],
    *,
    delta: float = 0.05,
    exact: bool = False,
    effective: float | None = None,
    dependence: Dependence | None = None,
    chain_length: int | None = None,
) -> Mixing:
    """Steps to total variation .1, .05 and .01 with confidence 1 - δ, and all that goes with them.

    The thresholds are held-out draws themselves, at ranks from the largest down to the upper fifth
    that depend on their number alone. The mass of the target beyond a draw of given rank has the
    Clopper-Pearson bound whatever the law of h (ties included), so no draws are spent on choosing
    thresholds; and given the held-out draws, the fresh ones bound a(t) (by betting) and μ(w > t)
    (Clopper-Pearson among those that hit the support) as if t had been fixed. The budget δ is
    shared equally by three bounds at each threshold, so that every minimum over t is covered.

    Draws of a Markov chain are not independent. Their number is then replaced by an effective size
    at each threshold, which is an approximation, made on the careful side: that of the draws as
    they came (`Dependence.raw_sizes`), raised only for the share that refreshment is sure to have
    moved. Constant h show no effective size: say it with `effective`.

    Args:
        fresh: h at independent draws of the proposal that ran. -inf (outside the support, or dead
            under a truncated orbit) counts as never accepted; NaN or +inf is a fault.
        held_out: h at target draws that training and selection never saw.
        delta: δ, one minus the confidence.
        exact: whether the held-out draws are independent by construction.
        effective: independent draws that the held-out ones are worth, if known otherwise.
        dependence: the held-out draws before they were refreshed; not refreshed if None.
        chain_length: N for which to store the bound on the effective size.

    Returns:
        The certificate. Faults refuse it: no steps, and the reason.
    """
    fresh, held_out = _checked(fresh, held_out, delta)
    fault = _fault(fresh, held_out)
    if fault is not None:
        return _refused(delta, chain_length, fault)
    ranks = threshold_ranks(held_out.size)
    log_thresholds = np.sort(held_out, axis=None)[::-1][ranks - 1]
    accepted = _accept_lower(fresh, log_thresholds, delta)
    if exact or effective is not None:
        known = held_out.size if effective is None else effective
        sizes = np.full(ranks.size, float(min(known, held_out.size)))
    else:
        sizes = (dependence or Dependence(held_out)).sizes(log_thresholds, accepted[0])
    grid = _bounds(fresh, log_thresholds, accepted, (ranks - 1) / held_out.size, sizes, delta)
    steps = {epsilon: steps_to(epsilon, grid) for epsilon in EPSILONS}
    numbers = _step_numbers(grid)
    bound = total_variation_bound(numbers, grid.accept_lower, grid.exceed_upper, grid.start_upper)
    estimate = meeting_estimate(numbers, fresh, held_out)
    ess = None
    if chain_length is not None:
        ess = ess_bound(chain_length, grid.accept_lower, grid.exceed_upper)
    return Mixing(
        steps=steps,
        confidence=1.0 - delta,
        grid=grid,
        curve=Curve(*(tuple(row.tolist()) for row in (numbers, bound, estimate))),
        log_evidence=float(np.logaddexp.reduce(fresh) - np.log(fresh.size)),
        chain_length=chain_length,
        ess=ess,
        reason=_reason(steps, grid, int(np.isfinite(fresh).sum()), delta),
    )


def total_variation_bound(
    n: int | np.ndarray,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    start: tuple[float, ...] | np.ndarray,
) -> np.ndarray:
    """The least over t of (1 - a(t))ⁿ + π(w > t) + μ(w > t), and at most one.

    Args:
        n: numbers of steps, any shape.
        accept: a(t) at each threshold.
        exceed: π(w > t).
        start: μ(w > t). Zero will do if μ is the proposal where it hits the support: two chains
            driven alike keep the order of their w, so the density of μPⁿ against π falls in w,
            as that of μ does, and where w ≤ t it is at least the chance 1 - (1 - a(t))ⁿ of having
            left a state of weight t. The certificate keeps the term, because it is the one that
            notices a reference without the largest w.
    """
    n = np.asarray(n, float)[..., None]
    stay = 1.0 - np.asarray(accept, float)
    terms = stay**n + np.asarray(exceed, float) + np.asarray(start, float)
    return np.minimum(np.min(terms, axis=-1, initial=1.0), 1.0)


def variance_bound(
    n: int | np.ndarray,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    oscillation_squared_over_variance: float = 4.0,
) -> np.ndarray:
    """The bound on Var_π(Pⁿf)/Var f: least over t of (1-a)²ⁿ + β(1-β/2) osc(f)²/Var f, or one."""
    n = np.asarray(n, float)[..., None]
    terms = (1.0 - np.asarray(accept, float)) ** (2.0 * n) + (
        _remainder(exceed) * oscillation_squared_over_variance
    )
    return np.minimum(np.min(terms, axis=-1, initial=1.0), 1.0)


def ess_bound(
    count: int,
    accept: tuple[float, ...] | np.ndarray,
    exceed: tuple[float, ...] | np.ndarray,
    oscillation_squared_over_variance: float = 4.0,
) -> float:
    """Largest over t of N / [(2-a)/a + (N-1) β(1-β/2) osc(f)²/Var f], for N stationary steps.

    The autocovariance at lag k is at most (1 - a)ᵏ Var f + β(1 - β/2) osc(f)², at odd lags too,
    because the spectrum of an independence chain is not negative. Summed over the lags of a mean
    of N steps this is the denominator; it never falls below one draw's worth.
    """
    accept = np.asarray(accept, float)
    with np.errstate(divide="ignore"):
        inflation = (2.0 - accept) / accept
    inflation = inflation + (count - 1) * _remainder(exceed) * oscillation_squared_over_variance
    return float(np.max(count / inflation, initial=min(1.0, count)))


def acceptance(fresh: Float[np.ndarray, " proposals"], log_thresholds: np.ndarray) -> np.ndarray:
    """a(t) = E_q[min(1, w/t)] under the empirical law of the fresh draws, at many t."""
    ordered = np.sort(fresh)
    below = np.logaddexp.accumulate(ordered)
    rank = np.searchsorted(ordered, log_thresholds, side="right")
    sums = np.where(rank > 0, np.exp(below[np.maximum(rank, 1) - 1] - log_thresholds), 0.0)
    return np.asarray((sums + (ordered.size - rank)) / ordered.size)


def meeting_estimate(
    n: Real[np.ndarray, " points"],
    fresh: Float[np.ndarray, " proposals"],
    held_out: np.ndarray,
) -> Float[np.ndarray, " points"]:
    """E[(1 - a(M))ⁿ], the probability that two chains have not met after n steps, from draws.

    M is the larger of w at a start from the proposal and at an independent draw of the target; its
    law is taken from the product of the two empirical distributions, without simulation.
    """
    starts, targets = np.sort(fresh[np.isfinite(fresh)]), np.sort(held_out, axis=None)
    values = np.unique(np.concatenate([starts, targets]))
    mass = np.searchsorted(starts, values, side="right") / starts.size
    mass *= np.searchsorted(targets, values, side="right") / targets.size
    weights = np.diff(mass, prepend=0.0)
    kept = weights > 0
    weights = weights[kept]
    with np.errstate(divide="ignore"):  # a = 1: the chains meet at once
        log_stay = np.log1p(-np.minimum(acceptance(fresh, values[kept]), 1.0))
    return np.array([weights @ np.exp(k * log_stay) if k > 0 else 1.0 for k in n])


def threshold_ranks(count: int) -> np.ndarray:
    """Ranks from the top, in equal ratios from the largest draw to the upper fifth."""
    top = max(count // 5, 1)
    return np.unique(np.round(np.geomspace(1, top, THRESHOLDS)).astype(int))


def steps_to(epsilon: float, grid: Thresholds) -> int | None:
    """The smallest n whose bound on the total variation is ε or less; None if there is none."""
    accept = np.asarray(grid.accept_lower)
    spare = epsilon - np.asarray(grid.exceed_upper) - np.asarray(grid.start_upper)
    usable = (spare > 0) & (accept > 0)
    if not usable.any():
        return None
    guess = np.ceil(np.log(spare[usable]) / np.log1p(-np.minimum(accept[usable], 1 - 1e-16))).min()
    for n in range(max(int(guess) - 1, 1), int(guess) + 2):  # rounding may be off by one
        if total_variation_bound(n, accept, grid.exceed_upper, grid.start_upper) <= epsilon:
            return n
    return int(guess) + 1


def _accept_lower(
    fresh: np.ndarray, log_thresholds: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower bound on a(t) at each threshold with its share of δ, and the mean it is for."""
    accepted = np.exp(np.minimum(fresh - log_thresholds[:, None], 0.0))
    return mean_lower(accepted, delta / (3 * log_thresholds.size)), accepted.mean(axis=1)


def _bounds(
    fresh: np.ndarray,
    log_thresholds: np.ndarray,
    accepted: tuple[np.ndarray, np.ndarray],
    beyond: np.ndarray,
    sizes: np.ndarray,
    delta: float,
) -> Thresholds:
    """The three bounds at each threshold, each with an equal share of δ."""
    share = delta / (3 * log_thresholds.size)
    alive = np.isfinite(fresh).sum()
    above = (fresh > log_thresholds[:, None]).sum(axis=1)
    rows = (
        log_thresholds,
        *accepted,
        binomial_upper(beyond * sizes, sizes, share),
        binomial_upper(above, alive, share),
        sizes,
    )
    return Thresholds(*(tuple(row.tolist()) for row in rows))


def _step_numbers(grid: Thresholds) -> np.ndarray:
    """Numbers of steps for the curve: all the first ones, then in equal ratios to where it ends."""
    accept = max(min(grid.accept_lower), 1e-5)
    last = max(int(np.ceil(np.log(1e-4) / np.log1p(-min(accept, 1 - 1e-16)))), 20)
    spread = np.geomspace(1, last, CURVE_POINTS - 21)
    return np.unique(np.concatenate([np.arange(21), np.round(spread).astype(int)]))


def _remainder(exceed: tuple[float, ...] | np.ndarray) -> np.ndarray:
    """β(1 - β/2): half the mass of pairs of which at least one lies beyond the threshold."""
    exceed = np.asarray(exceed, float)
    return np.asarray(exceed * (1.0 - exceed / 2.0))


def _reason(
    steps: dict[float, int | None], grid: Thresholds, alive: int, delta: float
) -> str | None:
    """One sentence for the largest ε that cannot be had."""
    missing = [epsilon for epsilon, n in steps.items() if n is None]
    if not missing:
        return None
    epsilon, opening = max(missing), f"Total variation {max(missing)} cannot be certified: "
    # Beyond the largest of n draws the bounds on target and start are both about this over n.
    needed = math.ceil(math.log(3 * THRESHOLDS / delta) / (0.4 * epsilon))
    size = min(grid.effective)
    if size == 0:
        return opening + "the held-out log ratios show no effective size (constant, or too few)."
    left_out = np.add(grid.exceed_upper, grid.start_upper).min()
    if left_out >= epsilon and size < needed:
        return opening + (
            f"the held-out draws are worth {size:.0f} independent ones and about {needed} are "
            "needed."
        )
    if left_out >= epsilon and alive < needed:
        return opening + (
            f"{alive} fresh proposals hit the support of the target and about {needed} are needed."
        )
    if left_out >= epsilon:
        return opening + (
            f"up to {min(grid.start_upper):.2g} of the proposal lies where w exceeds that of "
            "every held-out draw, so these miss a part of the target."
        )
    return opening + (
        f"w has a heavy tail, and at the thresholds that leave out less than {epsilon} of the "
        f"target {alive} fresh proposals do not show that the chain moves at all: train a richer "
        "proposal or draw more."
    )


def _fault(fresh: np.ndarray, held_out: np.ndarray) -> str | None:
    """What forbids any statement, in one sentence."""
    bad = int((np.isnan(fresh) | np.isposinf(fresh)).sum())
    if bad:
        return (
            f"{bad} of {fresh.size} fresh log ratios are not a number or infinite: a fault of the "
            "densities."
        )
    bad = int((~np.isfinite(held_out)).sum())
    if bad:
        return (
            f"{bad} of {held_out.size} held-out log ratios are not finite: a fault, or no density."
        )
    if not np.isfinite(fresh).any():
        return f"None of {fresh.size} fresh proposals hits the support of the target."
    return None


def _refused(delta: float, chain_length: int | None, reason: str) -> Mixing:
    return Mixing(
        steps=dict.fromkeys(EPSILONS),
        confidence=1.0 - delta,
        grid=Thresholds(),
        curve=Curve(),
        log_evidence=math.nan,
        chain_length=chain_length,
        reason=reason,
    )


def _checked(
    fresh: np.ndarray, held_out: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    fresh, held_out = np.asarray(fresh, float), np.asarray(held_out, float)
    if fresh.ndim != 1 or fresh.size == 0:
        raise ValueError(f"expected fresh log ratios of shape (proposals,), got {fresh.shape}")
    if held_out.ndim != 2 or held_out.size == 0:
        raise ValueError(f"expected held-out log ratios (chains, draws), got {held_out.shape}")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"expected delta between 0 and 1, got {delta}")
    return fresh, held_out
