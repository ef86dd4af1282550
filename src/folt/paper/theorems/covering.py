"""The covering radius over a highest-density core: the paper's first diagnostic, a heuristic.

Draws of π_F are scattered over the core K = {U ≤ u_α}, U = -log π. If every point of K has a draw
nearby, the range of h over the draws, plus a gradient times that distance, bounds the range of h
over K. The radius ε* is the smallest ε at which a union bound over balls allows it.

Two holes keep this from being a theorem. The way from a point to a draw leads through the centre
of a ball and is 2ε long, so the term is 4Mε*, not 2Mε*. And near the edge of K a ball leaves K,
where the density is below its floor over K, so the balls hold less than is claimed: on a uniform
square the draws fail to cover in more than half of all runs instead of one in twenty. `corrected`
repairs both. The gradient, the diameter and the overlap remain maxima over draws.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

MASS_CEILING = 1.0 - 1e-12
"""Share of the target that a ball may claim; from here on it counts as one."""


_LARGEST_TABLE = 2_000_000
"""Distances held in memory at once."""

HEURISTIC = (
    "A heuristic, not a bound: gradient, diameter and overlap are maxima over draws, and the "
    "statement concerns the core only."
)


@dataclasses.dataclass(frozen=True)
class CoveringRadius:
    """The covering radius ε* with what it was computed from.

    Attributes:
        radius: ε*; None where infeasible.
        feasible: whether some ε satisfies the covering condition.
        reason: why not, in one sentence; None where feasible.
        effective: n_eff, draws that lie in the core with high probability.
        diameter: D of the core.
        log_floor: log of the density floor that the radius was computed with.
        overlap: h_max(ε*), images of one point that lie within 2ε* of it, itself included.
        ball_mass: the share of the target that a ball of this radius is credited with.
        vacuous: ε* reaches the diameter, so that a single draw would cover the core.
    """

    radius: float | None
    feasible: bool
    reason: str | None
    effective: float
    diameter: float
    log_floor: float | None
    overlap: int | None
    ball_mass: float | None
    vacuous: bool | None


def hpd_threshold(potentials: np.ndarray, alpha: float) -> float:
    """u_α, the (1-α)-quantile of U = -log π over draws that are used for nothing else.

    The order statistic number ⌈(1-α)n⌉. The distribution of U is the same under π and under π_F
    if π is invariant, so folded draws give the core of both.
    """
    require_share("alpha", alpha)
    values = np.sort(np.asarray(potentials, float).ravel())
    if values.size == 0 or np.isnan(values).any():
        raise ValueError(f"expected potentials that are numbers, got {values.size} values")
    return float(values[max(math.ceil((1.0 - alpha) * values.size), 1) - 1])


def effective_count(n: float, alpha: float, delta: float) -> float:
    """n_eff = n(1-α) - sqrt(n·½·ln(3/δ)): draws in the core, all but with probability δ/3."""
    return n * (1.0 - alpha) - math.sqrt(n * 0.5 * math.log(3.0 / delta))


def log_ball_volume(dim: int) -> float:
    """Return log V_d of the unit ball, V_d = π^(d/2) / Γ(d/2 + 1)."""
    return float(0.5 * dim * math.log(math.pi) - gammaln(0.5 * dim + 1.0))


def overlap_scales(distances: np.ndarray) -> np.ndarray:
    """Return the radii t_1 = 0 ≤ t_2 ≤ ... at which h_max(ε) = #{k : t_k < ε} jumps.

    h_max(ε) is the largest number of images, over draws z, with |z - g·z| < 2ε; so t_k is half of
    the smallest k-th nearest image distance. Equal sort keys alone do not count: two blocks
    overlap only where they coincide as a whole.

    Args:
        distances: |z - g·z|, one row per draw, one column per element, the identity included.
    """
    return 0.5 * np.sort(np.asarray(distances, float), axis=1).min(axis=0)


def log_covering_condition(
    radius: float, *, diameter: float, log_mass: float, dim: int, effective: float
) -> float:
    """Return the log of (D/ε + 1)^d · (1 - mass)^n_eff, in logarithms because d may be large.

    The first factor bounds the number of balls with centres in K: by the isodiametric inequality
    no more points of K can be ε apart from each other.
    """
    missed = math.log(-math.expm1(log_mass)) if log_mass < 0.0 else -math.inf
    return dim * math.log1p(diameter / radius) + effective * missed


def covering_radius(
    *,
    diameter: float,
    log_floor: float | np.ndarray,
    dim: int,
    effective: float,
    delta: float = 0.05,
    order: int = 1,
    scales: np.ndarray | None = None,
    radii: np.ndarray | None = None,
) -> CoveringRadius:
    """ε*, the smallest ε with (D/ε + 1)^d (1 - (s/h_max(ε))·π_min·V_d·ε^d)^n_eff ≤ δ/3.

    h_max jumps, and so does a floor that depends on ε. Between two jumps the left side falls
    strictly, so the jumps are walked through in order and the root is sought in the first stretch
    whose right end satisfies the condition: exact, where bisection over all ε would not be.
    For n_eff > 0 and a fixed floor the condition is met before a ball holds all the mass, but
    perhaps so late that no number lies between: that is infeasible too.

    Args:
        diameter: D, of the core on the side in question.
        log_floor: log π_min, of π and not of π_F, because s stands apart. With `radii`, the log
            floor over the core widened by each radius.
        dim: d.
        effective: n_eff.
        delta: one minus the confidence.
        order: s = |G|; one on the unfolded side.
        scales: where h_max jumps, from `overlap_scales`; no overlap if None.
        radii: increasing; the floor at ε is that of the next larger radius, and beyond the last
            one nothing is known.
    """
    require_share("delta", delta)
    if dim < 1 or order < 1 or not diameter >= 0.0:
        raise ValueError(
            f"expected dim ≥ 1, order ≥ 1, diameter ≥ 0, got {dim}, {order}, {diameter}"
        )

    def refuse(reason: str) -> CoveringRadius:
        return CoveringRadius(None, False, reason, effective, diameter, None, None, None, None)

    if effective <= 0.0:
        return refuse("too few draws: none are certain to lie in the core")
    goal = math.log(delta / 3.0)
    for left, right, overlap, floor in _stretches(log_floor, scales, radii):
        if not math.isfinite(floor):
            return refuse("the density has no positive floor over the core widened this far")
        balls = _Balls(math.log(order / overlap) + floor, dim, diameter, effective)
        log_radius = balls.smallest(left, min(right, balls.full), goal)
        if log_radius is not None:
            radius, mass = math.exp(log_radius), math.exp(balls.log_mass(log_radius))
            return CoveringRadius(
                radius, True, None, effective, diameter, floor, overlap, mass, radius >= diameter
            )
        if balls.full <= right:
            return refuse("a ball would have to hold all of the mass before balls cover the core")
    return refuse("the density falls faster around the core than balls grow")


def require_share(name: str, value: float) -> None:
    """Raise unless a value lies strictly between zero and one."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"expected {name} between 0 and 1, got {value}")


class _Balls:
    """Balls that hold at least a floor of mass per volume, and the condition that they cover.

    Args:
        log_density: log of that floor, with the order of the group and the overlap in it.
        dim: d.
        diameter: D.
        effective: n_eff.
    """

    def __init__(self, log_density: float, dim: int, diameter: float, effective: float) -> None:
        self.log_unit = log_density + log_ball_volume(dim)
        self.dim, self.diameter, self.effective = dim, diameter, effective
        self.full = math.exp(min((math.log(MASS_CEILING) - self.log_unit) / dim, 700.0))

    def log_mass(self, log_radius: float) -> float:
        """Return the log of the mass that a ball of this radius holds at least."""
        return min(self.log_unit + self.dim * log_radius, math.log(MASS_CEILING))

    def smallest(self, left: float, right: float, goal: float) -> float | None:
        """Log of the smallest radius in (left, right] that satisfies the condition, if any does."""

        def excess(log_radius: float) -> float:
            condition = log_covering_condition(
                math.exp(log_radius),
                diameter=self.diameter,
                log_mass=self.log_mass(log_radius),
                dim=self.dim,
                effective=self.effective,
            )
            return condition - goal

        if right <= left or excess(math.log(right)) > 0.0:
            return None
        lowest = math.log(left) if left > 0.0 else -math.inf
        start = max(lowest, math.log(self.full) - 600.0 / self.dim)
        return _root(excess, start, math.log(right))


def _stretches(
    log_floor: float | np.ndarray, scales: np.ndarray | None, radii: np.ndarray | None
) -> list[tuple[float, float, int, float]]:
    """Intervals (left, right] without a jump inside, with h_max and the log floor there."""
    scales = np.zeros(1) if scales is None else np.sort(np.asarray(scales, float))
    floors = np.minimum.accumulate(np.atleast_1d(np.asarray(log_floor, float)))
    reach = np.array([math.inf]) if radii is None else np.asarray(radii, float)
    if floors.shape != reach.shape or (np.diff(reach) <= 0).any():
        raise ValueError(
            f"expected one log floor per increasing radius, got {floors.shape} and {reach.shape}"
        )
    ends = np.unique(np.concatenate([scales[scales > 0.0], reach]))
    ends = ends[ends <= reach[-1]]
    overlaps = np.maximum(np.searchsorted(scales, ends, side="left"), 1)
    covered = floors[np.searchsorted(reach, ends, side="left")]
    lefts = np.concatenate([[0.0], ends[:-1]])
    return [
        (float(a), float(b), int(h), float(f))
        for a, b, h, f in zip(lefts, ends, overlaps, covered, strict=True)
    ]


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """The sign change of a falling function, rounded to the side where the condition holds."""
    if excess(low) <= 0.0:
        return low
    root = float(brentq(excess, low, high, xtol=1e-13, rtol=1e-14))
    while excess(root) > 0.0 and root < high:
        root = min(root + 1e-13 * max(1.0, abs(root)), high)
    return root


QUERIES = 64
"""Points from which the search for the diameter starts."""


def diameter(points: np.ndarray, orbit: Callable[[np.ndarray], np.ndarray] | None = None) -> float:
    """Return the largest distance between two draws, or between images of two draws.

    With `orbit`, max over i, j, g of |z_i - g·z_j|: the diameter of all images, because the action
    is orthogonal. Looks for the farthest draw from each of the `QUERIES` outermost ones, then from
    those it found, until it finds no new ones. Exact for up to `QUERIES` draws; never too large.

    Args:
        points: draws (n, dim).
        orbit: from points (k, dim) to their images (k, s, dim).
    """
    points = np.asarray(points, float)
    if points.shape[0] == 0:
        raise ValueError("expected at least one point, got none")
    squares = np.einsum("ij,ij->i", points, points)
    queries = np.argsort(np.linalg.norm(points - points.mean(axis=0), axis=1))[-QUERIES:]
    seen: set[int] = set()
    largest = 0.0
    while queries.size:
        seen.update(queries.tolist())
        images = points[queries][:, None] if orbit is None else orbit(points[queries])
        ends = [_farthest(stack, points, squares) for stack in images]
        largest = max(largest, max(distance for _, distance in ends))
        queries = np.array(sorted({at for at, _ in ends} - seen), int)
    return largest


def _farthest(images: np.ndarray, points: np.ndarray, squares: np.ndarray) -> tuple[int, float]:
    """Return the point farthest from any image of one query, all images having the same norm."""
    rows = max(_LARGEST_TABLE // points.shape[0], 1)
    best, at = -math.inf, 0
    for start in range(0, images.shape[0], rows):
        reach = (squares - 2.0 * (images[start : start + rows] @ points.T)).max(axis=0)
        if reach.max() > best:
            best, at = float(reach.max()), int(np.argmax(reach))
    return at, float(np.linalg.norm(images - points[at], axis=1).max())
