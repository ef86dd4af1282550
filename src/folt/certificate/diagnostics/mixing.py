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

import numpy as np
from jaxtyping import Float

from folt.certificate.diagnostics.coupling_bounds import (
    THRESHOLDS,
    Thresholds,
    accept_lower,
    bounds_at,
    check_level,
    effective_sizes,
    ess_bound,
    meeting_estimate,
    steps_to,
    threshold_ranks,
    total_variation_bound,
    variance_bound,
)

EPSILONS = (0.1, 0.05, 0.01)
"""The distances in total variation for which steps are reported."""


CURVE_POINTS = 200
"""Points of the curve of total variation over steps, for its picture."""

_ASSUMPTION = (
    "The held-out draws are from the folded target, and the chain starts from the proposal where "
    "it hits the support."
)


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
        computed: what was computed, where it is not stated (`withheld`); None where it is.
    """

    steps: dict[float, int | None]
    confidence: float
    grid: Thresholds
    curve: Curve
    log_evidence: float
    chain_length: int | None = None
    ess: float | None = None
    reason: str | None = None
    assumption: str = _ASSUMPTION
    computed: Mixing | None = None

    def withheld(self, reason: str) -> Mixing:
        """Return the same without any statement: what was computed rests on something in doubt."""
        known = (self.reason or "").removeprefix(reason).strip()  # a certificate read from JSON
        whole = f"{reason} {known}".strip()
        stated = _refused(1.0 - self.confidence, self.chain_length, whole)
        return dataclasses.replace(stated, confidence=self.confidence, computed=self)

    def bound(self, n: int | np.ndarray) -> np.ndarray:
        """Return the upper bound on TV(μPⁿ, π) for any number of steps; one if it was refused."""
        return total_variation_bound(n, *self.grid.bounds)

    def variance_bound(
        self, n: int | np.ndarray, oscillation_squared_over_variance: float = 4.0
    ) -> np.ndarray:
        """Return the upper bound on Var_π(Pⁿf)/Var_π(f) for a function with this osc(f)²/Var f."""
        return variance_bound(n, *self.grid.bounds[:2], oscillation_squared_over_variance)

    def ess_bound(self, count: int, oscillation_squared_over_variance: float = 4.0) -> float:
        """Return the lower bound on the effective size of stationary steps; one if refused."""
        return ess_bound(count, *self.grid.bounds[:2], oscillation_squared_over_variance)


def mixing_certificate(
    fresh: Float[np.ndarray, " proposals"],
    held_out: Float[np.ndarray, "chains draws"],
    *,
    delta: float = 0.05,
    exact: bool = False,
    effective: float | None = None,
    raw: Float[np.ndarray, "chains draws"] | None = None,
    chain_length: int | None = None,
) -> Mixing:
    """Certify steps to total variation .1, .05 and .01 with confidence 1 - δ.

    The thresholds are held-out draws themselves, at ranks from the largest down to the upper fifth
    that depend on their number alone. The mass of the target beyond a draw of given rank has the
    Clopper-Pearson bound whatever the law of h (ties included), so no draws are spent on choosing
    thresholds; and given the held-out draws, the fresh ones bound a(t) (by betting) and μ(w > t)
    (Clopper-Pearson among those that hit the support) as if t had been fixed. The budget δ is
    shared equally by three bounds at each threshold, so that every minimum over t is covered.

    Draws of a Markov chain are not independent. Their number is then replaced by an effective size
    at each threshold, which is an approximation, made on the careful side: that of the draws as
    they came (`effective_sizes`), whatever was done to them since. Constant h show none: say it
    with `effective`.

    Args:
        fresh: h at independent draws of the proposal that ran. -inf (outside the support, or dead
            under a truncated orbit) counts as never accepted; NaN or +inf is a fault.
        held_out: h at target draws that training and selection never saw.
        delta: δ, one minus the confidence.
        exact: whether the held-out draws are independent by construction.
        effective: independent draws that the held-out ones are worth, if known otherwise.
        raw: h at the held-out draws before they were refreshed; not refreshed if None.
        chain_length: N for which to store the bound on the effective size.

    Returns:
        The certificate. Faults refuse it: no steps, and the reason.
    """
    fresh, held_out = _checked(fresh, held_out, delta)
    if (fault := _fault(fresh, held_out)) is not None:
        return _refused(delta, chain_length, fault)
    ranks = threshold_ranks(held_out.size)
    log_thresholds = np.sort(held_out, axis=None)[::-1][ranks - 1]
    accepted = accept_lower(fresh, log_thresholds, delta)
    known = held_out.size if exact and effective is None else effective
    if known is None:
        sizes = effective_sizes(held_out if raw is None else raw, log_thresholds)
    else:
        sizes = np.full(ranks.size, float(min(known, held_out.size)))
    grid = bounds_at(fresh, log_thresholds, accepted, (ranks - 1) / held_out.size, sizes, delta)
    steps = {epsilon: steps_to(epsilon, grid) for epsilon in EPSILONS}
    return Mixing(
        steps=steps,
        confidence=1.0 - delta,
        grid=grid,
        curve=_curve(grid, fresh, held_out),
        log_evidence=float(np.logaddexp.reduce(fresh) - np.log(fresh.size)),
        chain_length=chain_length,
        ess=None if chain_length is None else ess_bound(chain_length, *grid.bounds[:2]),
        reason=_reason(steps, grid, int(np.isfinite(fresh).sum()), delta),
    )


def draws_needed(epsilon: float, delta: float = 0.05) -> int:
    """Return about how many independent draws a statement about total variation ε takes.

    Beyond the largest of n draws the bounds on target and start are both ln(3·16/δ)/n, about.
    """
    return math.ceil(math.log(3 * THRESHOLDS / delta) / (0.4 * epsilon))


def _curve(grid: Thresholds, fresh: np.ndarray, held_out: np.ndarray) -> Curve:
    """Return bound and estimate of the distance at numbers of steps chosen for a picture."""
    numbers = _step_numbers(grid)
    bound = total_variation_bound(numbers, *grid.bounds)
    estimate = meeting_estimate(numbers, fresh, held_out)
    return Curve(*(tuple(row.tolist()) for row in (numbers, bound, estimate)))


def _step_numbers(grid: Thresholds) -> np.ndarray:
    """Return numbers of steps for the curve: the first 21, then in equal ratios to its end."""
    accept = max(min(grid.accept_lower), 1e-5)
    last = max(int(np.ceil(np.log(1e-4) / np.log1p(-min(accept, 1 - 1e-16)))), 20)
    spread = np.geomspace(1, last, CURVE_POINTS - 21)
    return np.unique(np.concatenate([np.arange(21), np.round(spread).astype(int)]))


def _reason(
    steps: dict[float, int | None], grid: Thresholds, alive: int, delta: float
) -> str | None:
    """Return one sentence for the largest ε that cannot be had."""
    missing = [epsilon for epsilon, n in steps.items() if n is None]
    if not missing:
        return None
    epsilon, opening = max(missing), f"Total variation {max(missing)} cannot be certified: "
    needed = draws_needed(epsilon, delta)
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
    """Return what forbids any statement, in one sentence."""
    bad = int((np.isnan(fresh) | np.isposinf(fresh)).sum())
    if bad:
        return (
            f"{bad} of {fresh.size} fresh log ratios are not a number or infinite: a fault of the "
            "densities."
        )
    bad = int((~np.isfinite(held_out)).sum())
    if bad:
        count = held_out.size
        return f"{bad} of {count} held-out log ratios are not finite: a fault, or no density."
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
    check_level(delta)
    return fresh, held_out
