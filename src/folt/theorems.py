"""The paper's first diagnostic and the conditions of its theorem, evaluated on a problem.

Both concern the highest-density core K = {U ≤ u_α} of an invariant target, U = -log π with π
normalised by an evidence. The threshold comes from draws of its own. Folded and unfolded side are
reported next to each other: folding multiplies the mass of a ball by up to s and shrinks the
diameter, so ε_F* ≤ ε_U*, roughly by s^(-1/d).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from folt._types import Distribution, Point, Scalar, in_float64
from folt.batching import map_points
from folt.diagnostics.chains import effective_size
from folt.diagnostics.conditions import Conditions, Interpolation, theorem_conditions
from folt.diagnostics.covering import (
    HEURISTIC,
    CoveringRadius,
    OscillationTerm,
    covering_radius,
    diameter,
    effective_draws,
    hpd_threshold,
    oscillation_term,
    overlap_scales,
)
from folt.fit import Fit
from folt.fold import Folded
from folt.groups import Group, Trivial
from folt.problem import Problem
from folt.ratio import LogRatio, Target

Draws = Float[np.ndarray, "n dim"]

ALPHA = 0.05
"""Share of the target outside the core, that of the paper's separation table."""

DELTA = 0.05
GRADIENT_DRAWS = 2_000
"""Most draws at which |∇h| is looked at."""

LARGEST_TABLE = 5_000_000
"""Most numbers in a table of draws times group elements."""

RADII, BASES, DIRECTIONS = 48, 64, 8
"""Where the floor around the core is looked for: distances, draws, random directions of each."""


@dataclasses.dataclass(frozen=True)
class Side:
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

    folded: Side
    unfolded: Side
    ratio: float | None
    scaling: float
    threshold: float
    inside: float
    draws: int
    threshold_draws: int
    alpha: float
    delta: float
    heuristic: str = HEURISTIC

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class TheoremCheck:
    """The conditions of the comparison theorem with the covering radii they use."""

    conditions: Conditions
    covering: Covering

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        tree = dataclasses.asdict(self)
        gaps = tree["conditions"]["deltas"]
        tree["conditions"]["deltas"] = {str(label): gap for label, gap in gaps.items()}
        return tree


@in_float64
def covering(
    fit: Fit,
    *,
    unfolded: Distribution | None = None,
    alpha: float = ALPHA,
    delta: float = DELTA,
    seed: int = 0,
) -> Covering:
    """The covering diagnostic of a fit, from its chains, which training never saw.

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
    own, others = halves(_nearly_independent(fit))
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
    threshold_draws: Draws,
    draws: Draws,
    *,
    log_evidence: float,
    unfolded: Distribution | None = None,
    alpha: float = ALPHA,
    delta: float = DELTA,
    seed: int = 0,
) -> Covering:
    """The covering diagnostic from its parts.

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
    own, points = _require_draws(problem, threshold_draws), _require_draws(problem, draws)
    group, generator = problem.group, np.random.default_rng(seed)
    target = Target(problem)
    log_scale = math.log(group.order) + log_evidence
    threshold = hpd_threshold(log_scale - target(own), alpha)
    log_target = target(points)
    potentials = log_scale - log_target
    core, outermost = _core(points, potentials, threshold)
    effective = effective_draws(points.shape[0], alpha, delta)
    folded_diameter = diameter(core)
    widths = {
        True: folded_diameter,
        False: max(folded_diameter, diameter(core, lambda some: _orbits(group, some))),
    }
    radii = widths[False] * np.geomspace(1e-3, 1.0, RADII)
    floors = _widened_floors(generator, target, outermost, core.mean(axis=0), radii) - log_scale
    floors = np.minimum(floors, -threshold)
    scales = _scales(group, core)
    sides = {}
    for is_folded in (True, False):
        common: dict[str, Any] = {
            "diameter": widths[is_folded],
            "dim": problem.dim,
            "effective": effective,
            "delta": delta,
            "order": group.order if is_folded else 1,
            "scales": scales if is_folded else None,
        }
        sides[is_folded] = (
            covering_radius(log_floor=-threshold, **common),
            covering_radius(log_floor=floors, radii=radii, **common),
        )
    folded_term = unfolded_term = None
    if proposal is not None:
        h = LogRatio(target, proposal, group).at(points)
        pair = (problem.folded(), Folded(proposal, group))
        folded_term = _oscillation(h, pair, points, *sides[True])
    if unfolded is not None:
        images = _random_images(generator, group, points)
        plain = Trivial(problem.dim)
        pair = (Folded(problem, plain, True), Folded(unfolded, plain))
        h = log_target - math.log(group.order) - map_points(Folded.log_prob, pair[1], images)
        unfolded_term = _oscillation(h, pair, images, *sides[False])
    folded_radius, unfolded_radius = sides[True][0].radius, sides[False][0].radius
    return Covering(
        folded=Side(*sides[True], folded_term),
        unfolded=Side(*sides[False], unfolded_term),
        ratio=folded_radius / unfolded_radius if folded_radius and unfolded_radius else None,
        scaling=group.order ** (-1.0 / problem.dim),
        threshold=threshold,
        inside=float((potentials <= threshold).mean()),
        draws=points.shape[0],
        threshold_draws=own.shape[0],
        alpha=alpha,
        delta=delta,
    )


@in_float64
def conditions(
    problem: Problem,
    folded: Distribution,
    unfolded: Distribution,
    draws: Draws,
    *,
    log_evidence: float,
    labels: Literal["sorted", "proposal"] = "sorted",
    alpha: float = ALPHA,
    delta: float = DELTA,
    seed: int = 0,
) -> TheoremCheck:
    """(M′), (W), (R), the repaired lemma and the sufficient condition for a pair of proposals.

    The h_U of (M′) is read at all images of every draw in the core, its oscillation at one random
    image each, as draws of π would have it.

    Args:
        problem: an invariant target.
        folded: the proposal q_T for the folded target, before folding.
        unfolded: the proposal q_U for the target as it is.
        draws: independent draws of π or of π_F; the first half gives the threshold.
        log_evidence: log Z of the problem's density.
        labels: the domain on which (W) and (R) are read: the group's own, or that of the images
            likeliest under `folded`, where r_F ≤ log s.
        alpha: share of the target outside the core.
        delta: one minus the confidence.
        seed: of images and directions.
    """
    if labels not in ("sorted", "proposal"):
        raise ValueError(f"expected labels 'sorted' or 'proposal', got {labels!r}")
    group, folding = problem.group, Folded(folded, problem.group)
    points = _require_draws(problem, draws)
    if labels == "sorted":
        points = map_points(Group.fold, group, points)
    else:
        points = map_points(Folded.most_likely_image, folding, points, terms=group.order)
    own, others = halves(points[None])
    cover = covering_of(
        problem,
        folded,
        own,
        others,
        log_evidence=log_evidence,
        unfolded=unfolded,
        alpha=alpha,
        delta=delta,
        seed=seed,
    )
    others = _thinned(others, LARGEST_TABLE // group.order)
    log_target = Target(problem)(others)
    inside = math.log(group.order) + log_evidence - log_target <= cover.threshold
    core, log_target = others[inside], log_target[inside]
    plain, summed = map_points(_plain_and_folded, folding, core, terms=group.order)
    terms = map_points(Folded.log_terms, Folded(unfolded, group), core, terms=group.order)
    table = (log_target - math.log(group.order))[:, None] - terms
    drawn = np.random.default_rng(seed).integers(group.order, size=core.shape[0])
    found = theorem_conditions(
        within=log_target - plain,
        residual=summed - plain,
        unfolded=table[np.arange(core.shape[0]), drawn],
        copies=(table.ravel(), np.tile(np.arange(group.order), core.shape[0])),
        order=group.order,
        alpha=alpha,
        draws=others.shape[0],
        published=_interpolation(cover, "published"),
        corrected=_interpolation(cover, "corrected"),
    )
    return TheoremCheck(found, cover)


def halves(draws: Float[np.ndarray, "chain draw dim"]) -> tuple[Draws, Draws]:
    """Two sets of draws from different chains; from the two ends of a single chain."""
    count, length, dim = draws.shape
    if count > 1:
        first, second = draws[: count // 2], draws[count // 2 :]
    else:
        first, second = draws[:, : length // 2], draws[:, length // 2 :]
    return first.reshape(-1, dim), second.reshape(-1, dim)


def largest_gradient(
    target: Folded, proposal: Folded, points: Draws
) -> tuple[float | None, int, str | None]:
    """M = max |∇(log π_F - log q_F)| over at most `GRADIENT_DRAWS` draws.

    Returns:
        M, the number of draws, and a reason where M is None.
    """
    some = _thinned(points, GRADIENT_DRAWS)
    pair = (target, proposal)
    reason = _untraceable(_gradient_norm, pair, points.shape[1])
    if reason is not None:
        return None, 0, reason
    norms = map_points(_gradient_norm, pair, some, terms=proposal.group.order)
    if not np.isfinite(norms).all():
        wrong = int((~np.isfinite(norms)).sum())
        return None, some.shape[0], f"the gradient of h is not finite at {wrong} draws"
    return float(norms.max()), some.shape[0], None


def _untraceable(function: Any, module: Any, dim: int) -> str | None:
    """Why a gradient cannot be had, found by tracing alone; None if it can."""
    try:
        eqx.filter_eval_shape(function, module, jax.ShapeDtypeStruct((dim,), jnp.float64))
    except (TypeError, ValueError, NotImplementedError) as error:
        return f"no gradient: {str(error).splitlines()[0]}"
    return None


def _gradient_norm(pair: tuple[Folded, Folded], z: Point) -> Scalar:
    target, proposal = pair
    return jnp.linalg.norm(jax.grad(lambda x: target.log_prob(x) - proposal.log_prob(x))(z))


def _plain_and_folded(folding: Folded, z: Point) -> tuple[Scalar, Scalar]:
    return folding.density.log_prob(z), folding.log_prob(z)


def _oscillation(
    h: np.ndarray,
    pair: tuple[Folded, Folded],
    points: Draws,
    published: CoveringRadius,
    corrected: CoveringRadius,
) -> OscillationTerm:
    gradient, count, reason = largest_gradient(*pair, points)
    return oscillation_term(h, gradient, count, published, corrected, reason)


def _core(points: Draws, potentials: np.ndarray, threshold: float) -> tuple[Draws, Draws]:
    """The draws in the core, and those of them that lie closest to its edge."""
    inside = np.flatnonzero(potentials <= threshold)
    if inside.size == 0:
        raise ValueError("no draw lies in the core: the two sets of draws disagree")
    ordered = inside[np.argsort(potentials[inside])]
    return points[inside], points[ordered[-BASES:]]


def _widened_floors(
    generator: np.random.Generator, target: Target, bases: Draws, centre: Point, radii: np.ndarray
) -> np.ndarray:
    """The smallest log π_F found at each distance from draws at the edge of the core.

    Looked for away from the centre, down the slope where there is one, and at random.
    """
    count, dim = bases.shape
    folded = target.problem.folded()
    ways = [bases - centre, *generator.normal(size=(DIRECTIONS, count, dim))]
    if _untraceable(_slope, folded, dim) is None:
        ways.append(-map_points(_slope, folded, bases))
    lengths = np.linalg.norm(ways, axis=-1, keepdims=True)
    directions = np.stack(ways) / np.where(lengths > 0.0, lengths, 1.0)
    around = bases + radii[:, None, None, None] * directions
    values = target(around.reshape(-1, dim)).reshape(radii.size, -1)
    return np.where(np.isnan(values), -np.inf, values).min(axis=1)


def _slope(target: Folded, z: Point) -> Point:
    slope = jax.grad(target.log_prob)(z)
    return jnp.where(jnp.isfinite(slope), slope, 0.0)


def _scales(group: Group, core: Draws) -> np.ndarray:
    some = _thinned(core, LARGEST_TABLE // group.order)
    return overlap_scales(map_points(_image_distances, group, some, terms=group.order))


def _image_distances(group: Group, z: Point) -> Any:
    return jnp.linalg.norm(z - group.orbit(z), axis=-1)


def _orbits(group: Group, points: Draws) -> np.ndarray:
    return map_points(Group.orbit, group, points, terms=group.order)


def _random_images(generator: np.random.Generator, group: Group, points: Draws) -> Draws:
    positions = generator.integers(group.order, size=points.shape[0])
    elements = jax.tree.map(lambda leaf: np.asarray(leaf)[positions], group.elements)
    return map_points(_image, group, (elements, points))


def _image(group: Group, pair: tuple[Any, Point]) -> Point:
    return group.act(*pair)


def _nearly_independent(fit: Fit) -> Float[np.ndarray, "chain draw dim"]:
    """Every k-th draw, k the draws per effective one of the slowest coordinate and of h."""
    sizes = [*fit.ess(), effective_size(fit.log_ratio)]
    total = fit.accepted.size
    smallest = min(size for size in sizes if not math.isnan(size))
    step = math.ceil(total / smallest) if smallest > 0 else fit.draws.shape[1]
    return fit.draws[:, :: max(step, 1)]


def _thinned(points: Draws, most: int) -> Draws:
    """At most `most` rows, evenly spaced."""
    if points.shape[0] <= most:
        return points
    return points[np.linspace(0, points.shape[0] - 1, max(most, 1)).astype(int)]


def _interpolation(cover: Covering, which: str) -> Interpolation:
    def term(side: Side) -> float | None:
        radius = getattr(side, which).radius
        if side.oscillation is None or side.oscillation.gradient is None or radius is None:
            return None
        return side.oscillation.gradient * radius

    return Interpolation(term(cover.folded), term(cover.unfolded))


def _require_draws(problem: Problem, draws: Any) -> Draws:
    if not problem.invariant:
        raise ValueError(
            "the highest-density core folds only if the target is invariant, and this problem "
            "declares a broken symmetry"
        )
    array = np.asarray(draws, float)
    if array.ndim != 2 or array.shape[1] != problem.dim or array.shape[0] == 0:
        raise ValueError(f"expected draws of shape (n, {problem.dim}), got {array.shape}")
    return array
