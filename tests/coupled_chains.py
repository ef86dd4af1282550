"""Two chains driven by the same proposals and uniforms: when they meet, seen from scalars alone.

The mixing certificate rests on one law: given the larger w of the two starts, M, the meeting time
is geometric with success a(M) = E_q[min(1, w/M)]. Here the chains are run and the law is tested.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from folt.certificate.diagnostics.coupling_bounds import acceptance

NOT_MET = 0
"""The meeting time of a pair that was still apart when the run ended."""


@dataclasses.dataclass(frozen=True)
class Meetings:
    """Meeting times of many pairs, with the law they should follow.

    Attributes:
        times: steps until the pair met; `NOT_MET` after `limit` steps apart.
        success: a(M) of each pair.
        limit: steps that were run at most.
    """

    times: Int[np.ndarray, " pairs"]
    success: Float[np.ndarray, " pairs"]
    limit: int


def coupled_times(
    starts: Float[np.ndarray, " pairs"],
    others: Float[np.ndarray, " pairs"],
    proposals: Float[np.ndarray, "steps pairs"],
    uniforms: Float[np.ndarray, "steps pairs"],
) -> Int[np.ndarray, " pairs"]:
    """The step at which both chains of a pair take the same proposal; `NOT_MET` if they never do.

    Args:
        starts: h where the first chain of each pair begins; finite.
        others: h where the second begins.
        proposals: h of the common proposals; -inf is never accepted.
        uniforms: the common uniforms, in (0, 1).
    """
    first, second = np.array(starts, float), np.array(others, float)
    times = np.full(first.shape, NOT_MET)
    for step, (proposed, uniform) in enumerate(zip(proposals, uniforms, strict=True), start=1):
        first, second, met = _advance(first, second, proposed, np.log(uniform))
        times[met & (times == NOT_MET)] = step
    return times


def meeting_times(
    generator: np.random.Generator,
    fresh: Float[np.ndarray, " proposals"],
    held_out: np.ndarray,
    count: int = 1000,
    limit: int = 10_000,
) -> Meetings:
    """Run pairs of chains whose starts, targets and proposals are resampled from log ratios.

    One chain starts from the proposal where it hits the support, the other from the target. With
    proposals resampled from `fresh`, a(M) is known exactly: the mean over these draws.

    Args:
        generator: source of all randomness.
        fresh: h at draws of the proposal; -inf is a rejection.
        held_out: h at draws of the target, of any shape.
        count: number of pairs.
        limit: steps after which pairs still apart are given up.
    """
    fresh, held_out = np.asarray(fresh, float), np.asarray(held_out, float).ravel()
    if np.isnan(fresh).any() or np.isposinf(fresh).any() or not np.isfinite(held_out).all():
        raise ValueError("expected log ratios without NaN or +inf, and finite ones at target draws")
    first = generator.choice(fresh[np.isfinite(fresh)], count)
    second = generator.choice(held_out, count)
    success = acceptance(fresh, np.maximum(first, second))
    times, apart = np.full(count, NOT_MET), np.arange(count)
    for step in range(1, limit + 1):
        proposed, uniform = generator.choice(fresh, apart.size), generator.random(apart.size)
        first, second, met = _advance(first, second, proposed, np.log1p(-uniform))
        times[apart[met]] = step
        apart, first, second = apart[~met], first[~met], second[~met]
        if apart.size == 0:
            break
    return Meetings(times, success, limit)


def geometric_p_value(generator: np.random.Generator, meetings: Meetings) -> float:
    """p-value of "given M, the meeting time is geometric with success a(M)".

    Each time T is turned into F(T-1) + V (F(T) - F(T-1)) with F the pair's own law and V uniform:
    exactly uniform if the law holds, also for pairs cut off at the limit. Kolmogorov-Smirnov then
    compares these values with the uniform law.
    """
    with np.errstate(divide="ignore"):
        log_stay = np.log1p(-np.minimum(meetings.success, 1.0))
    met = meetings.times != NOT_MET
    waited = np.where(met, meetings.times - 1, meetings.limit)
    before = np.where(waited > 0, np.exp(np.maximum(waited, 1) * log_stay), 1.0)
    after = np.where(met, np.exp((waited + 1) * log_stay), 0.0)
    values = 1.0 - after - generator.random(met.size) * (before - after)
    from scipy.stats import kstest

    return float(kstest(values, "uniform").pvalue)


def _advance(
    first: np.ndarray, second: np.ndarray, proposed: np.ndarray, log_uniform: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step of both chains, and whether both took the proposal."""
    first_moves, second_moves = log_uniform < proposed - first, log_uniform < proposed - second
    return (
        np.where(first_moves, proposed, first),
        np.where(second_moves, proposed, second),
        first_moves & second_moves,
    )
