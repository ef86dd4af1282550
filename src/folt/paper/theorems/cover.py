"""The covering diagnostic of a fit or of its parts, folded beside unfolded.

Folding multiplies the mass of a ball by up to s and shrinks the diameter, so ε_F* ≤ ε_U*, roughly
by s^(-1/d). Where balls of radius ε overlap with their own images the gain is smaller, by h_max.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.batching import map_points
from folt.fit import Fit
from folt.groups import Element, Group, Trivial
from folt.paper.theorems.covering import (
    HEURISTIC,
    CoveringRadius,
    covering_radius,
    diameter,
    effective_count,
    hpd_threshold,
    overlap_scales,
)
from folt.paper.theorems.oscillation import (
    LARGEST_TABLE,
    OscillationTerm,
    halves,
    largest_gradient,
    nearly_independent,
    oscillation_term,
    require_draws,
    thinned_points,
    widened_floors,
)
from folt.problem import Problem
from folt.problem.ratio import LogRatio, Target
from folt.proposals.fold import Folded
from folt.store.strict_json import Document
from folt.types import Distribution, HostPoints, Point, in_float64

ALPHA = 0.05
"""Share of the target outside the core, that of the paper's separation table."""

DELTA = 0.05
"""One minus the confidence."""

_RADII, _BASES = 96, 32
"""Distances from the core at which its widened floor is looked for, and draws to start from."""


Radii = tuple[CoveringRadius, CoveringRadius]
"""The published one and the corrected one."""


@dataclasses.dataclass(frozen=True)
class CoverSide:
    """Covering radii of one side, and its oscillation terms where there is a proposal.

    Attributes:
        published: from the density floor over the core.
        corrected: from the floor over the core widened by the radius.
        oscillation: range of h and both terms; None without a proposal for this side.
    """

    published: CoveringRadius
    corrected: CoveringRadius
    oscillation: OscillationTerm | None


@dataclasses.dataclass(frozen=True)
class Covering:
    """The covering diagnostic, folded beside unfolded.

    Attributes:
        folded: the side of π_F and q_F.
        unfolded: the side of π.
        ratio: ε_F*/ε_U* as published; None where one is infeasible.
        scaling: s^(-1/d), what the ratio tends to.
        threshold: u_α, in units of the normalised density.
        inside: share of the covering draws that lie in the core; 1-α but for chance.
        draws: number n of covering draws.
        threshold_draws: draws that the threshold was taken from.
        alpha: share of the target outside the core.
        delta: one minus the confidence.
        heuristic: what all of it is.
    """

    folded: CoverSide
    unfolded: CoverSide
    ratio: float | None
    scaling: float
    threshold: float
    inside: float
    draws: int
    threshold_draws: int
    alpha: float
    delta: float
    heuristic: str = HEURISTIC

    def to_dict(self) -> Document:
        """Plain numbers and strings, ready for JSON."""
        return dataclasses.asdict(self)


class _Core(NamedTuple):
    """Covering draws with log π_F, the threshold, and which draws lie in the core."""

    points: HostPoints
    log_target: np.ndarray
    log_scale: float
    threshold: float
    inside: np.ndarray

    @property
    def draws(self) -> HostPoints:
        return self.points[self.inside]

    @property
    def edge(self) -> HostPoints:
        """The draws in the core with the lowest density."""
        return self.draws[np.argsort(self.log_target[self.inside])[:_BASES]]


@in_float64
def covering(
    fit: Fit,
    *,
    unfolded: Distribution | None = None,
    alpha: float = ALPHA,
    delta: float = DELTA,
    seed: int = 0,
) -> Covering:
    """Return the covering diagnostic of a fit, from its chains, which training never saw.

    Chains are thinned to their effective size, half of them give the threshold and the others
    cover; a single chain is cut in two. The floor is normalised by the fit's evidence. The whole
    orbit is summed, also where the sampler truncated it.

    Args:
        fit: with its problem and proposal.
        unfolded: a proposal for the unfolded target, for the oscillation terms of that side.
        alpha: share of the target outside the core.
        delta: one minus the confidence.
        seed: of images and directions.
    """
    if fit.problem is None or fit.proposal is None:
        raise ValueError("a loaded fit needs its problem: folt.load(path, problem=problem)")
    own, others = halves(nearly_independent(fit))
    return covering_of(
        fit.problem,
        fit.proposal,
        own,
        others,
        log_evidence=fit.log_evidence.value,
        unfolded=unfolded,
        alpha=alpha,
        delta=delta,
        seed=seed,
    )


@in_float64
def covering_of(
    problem: Problem,
    proposal: Distribution | None,
    threshold_draws: HostPoints,
    draws: HostPoints,
    *,
    log_evidence: float,
    unfolded: Distribution | None = None,
    alpha: float = ALPHA,
    delta: float = DELTA,
    seed: int = 0,
) -> Covering:
    """Return the covering diagnostic from its parts.

    Args:
        problem: an invariant target.
        proposal: q before folding; None for the radii alone.
        threshold_draws: independent draws of π_F for u_α, used for nothing else.
        draws: independent draws of π_F that cover the core, on the domain in question.
        log_evidence: log Z of the problem's density over all of R^dim; zero if it is normalised.
        unfolded: a proposal for the unfolded target.
        alpha: share of the target outside the core.
        delta: one minus the confidence.
        seed: of images and directions.
    """
    own, points = require_draws(problem, threshold_draws), require_draws(problem, draws)
    generator, target = np.random.default_rng(seed), Target(problem)
    core = _core_of(target, own, points, log_evidence, alpha)
    radii = _radii(generator, target, core, alpha, delta)
    folded_term = unfolded_term = None
    if proposal is not None:
        h = LogRatio(target, proposal, problem.group).at(points)
        pair = (problem.folded(), Folded(proposal, problem.group))
        folded_term = _oscillation(h, pair, points, radii["folded"])
    if unfolded is not None:
        images = _random_images(generator, problem.group, points)
        plain = Trivial(problem.dim)
        pair = (Folded(problem, plain, True), Folded(unfolded, plain))
        log_target = core.log_target - math.log(problem.group.order)
        h = log_target - map_points(Folded.log_prob, pair[1], images)
        unfolded_term = _oscillation(h, pair, images, radii["unfolded"])
    sides = CoverSide(*radii["folded"], folded_term), CoverSide(*radii["unfolded"], unfolded_term)
    return Covering(
        *sides,
        ratio=_ratio(*(side.published.radius for side in sides)),
        scaling=problem.group.order ** (-1.0 / problem.dim),
        threshold=core.threshold,
        inside=float(core.inside.mean()),
        draws=points.shape[0],
        threshold_draws=own.shape[0],
        alpha=alpha,
        delta=delta,
    )


def _core_of(
    target: Target, own: HostPoints, points: HostPoints, log_evidence: float, alpha: float
) -> _Core:
    # The floor is that of π = π_F/s: s enters the covering condition by itself.
    log_scale = math.log(target.problem.group.order) + log_evidence
    threshold = hpd_threshold(log_scale - target(own), alpha)
    log_target = target(points)
    inside = log_scale - log_target <= threshold
    if not inside.any():
        raise ValueError("no draw lies in the core: the two sets of draws disagree")
    return _Core(points, log_target, log_scale, threshold, inside)


def _radii(
    generator: np.random.Generator, target: Target, core: _Core, alpha: float, delta: float
) -> dict[str, Radii]:
    """Published and corrected radius of both sides."""
    group, draws = target.problem.group, core.draws
    folded_width = diameter(draws)
    width = max(folded_width, diameter(draws, lambda some: _orbits(group, some)))
    # On K itself π ≥ e^(-u_α) by definition; around it the floor has to be looked for.
    floor = -core.threshold
    distances = max(width, np.finfo(float).tiny) * np.geomspace(1e-3, 1.0, _RADII)
    found = widened_floors(generator, target, core.edge, draws.mean(axis=0), distances)
    around = np.minimum(found - core.log_scale, floor)
    effective = effective_count(core.points.shape[0], alpha, delta)

    def both(width: float, order: int, scales: np.ndarray | None) -> Radii:
        common: Document = {
            "diameter": width,
            "dim": group.dim,
            "effective": effective,
            "delta": delta,
            "order": order,
            "scales": scales,
        }
        return (
            covering_radius(log_floor=floor, **common),
            covering_radius(log_floor=around, radii=distances, **common),
        )

    return {
        "folded": both(folded_width, group.order, _scales(group, draws)),
        "unfolded": both(width, 1, None),
    }


def _oscillation(
    h: np.ndarray,
    pair: tuple[Folded, Folded],
    points: HostPoints,
    radii: Radii,
) -> OscillationTerm:
    gradient, count, reason = largest_gradient(*pair, points)
    return oscillation_term(h, gradient, count, *radii, reason)


def _ratio(folded: float | None, unfolded: float | None) -> float | None:
    return None if folded is None or not unfolded else folded / unfolded


def _scales(group: Group, core: HostPoints) -> np.ndarray:
    some = thinned_points(core, LARGEST_TABLE // group.order)
    return overlap_scales(map_points(_image_distances, group, some, terms=group.order))


def _image_distances(group: Group, z: Point) -> Float[Array, " order"]:
    return jnp.linalg.norm(z - group.orbit(z), axis=-1)


def _orbits(group: Group, points: HostPoints) -> np.ndarray:
    return map_points(Group.orbit, group, points, terms=group.order)


def _random_images(generator: np.random.Generator, group: Group, points: HostPoints) -> HostPoints:
    positions = generator.integers(group.order, size=points.shape[0])
    elements = jax.tree.map(lambda leaf: np.asarray(leaf)[positions], group.elements)
    return map_points(_image, group, (elements, points))


def _image(group: Group, pair: tuple[Element, Point]) -> Point:
    return group.act(*pair)
