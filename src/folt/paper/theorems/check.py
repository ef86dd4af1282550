"""The conditions of the comparison theorem for a folded and an unfolded proposal."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np

from folt.batching import map_points
from folt.groups import Group
from folt.paper.theorems.conditions import Conditions, Interpolation, theorem_conditions
from folt.paper.theorems.cover import ALPHA, DELTA, Covering, CoverSide, covering_of
from folt.paper.theorems.oscillation import LARGEST_TABLE, halves, require_draws, thinned_points
from folt.problem import Problem
from folt.problem.ratio import Target
from folt.proposals.fold import Folded
from folt.store.strict_json import Document
from folt.types import Distribution, HostPoints, Point, Scalar, in_float64


@dataclasses.dataclass(frozen=True)
class TheoremCheck:
    """The conditions of the comparison theorem with the covering radii they use."""

    conditions: Conditions
    covering: Covering

    def to_dict(self) -> Document:
        """Plain numbers and strings, ready for JSON."""
        tree = dataclasses.asdict(self)
        gaps = tree["conditions"]["deltas"]
        tree["conditions"]["deltas"] = {str(label): gap for label, gap in gaps.items()}
        return tree


@in_float64
def conditions(
    problem: Problem,
    folded: Distribution,
    unfolded: Distribution,
    draws: HostPoints,
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
    points = require_draws(problem, draws)
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
    others = thinned_points(others, LARGEST_TABLE // group.order)
    return TheoremCheck(
        _found(problem, folding, unfolded, others, cover, log_evidence, seed), cover
    )


def _found(
    problem: Problem,
    folding: Folded,
    unfolded: Distribution,
    others: np.ndarray,
    cover: Covering,
    log_evidence: float,
    seed: int,
) -> Conditions:
    """Return the conditions at the draws that lie in the core."""
    group = problem.group
    log_target = Target(problem)(others)
    inside = math.log(group.order) + log_evidence - log_target <= cover.threshold
    core, log_target = others[inside], log_target[inside]
    plain, summed = map_points(_plain_and_folded, folding, core, terms=group.order)
    terms = map_points(Folded.log_terms, Folded(unfolded, group), core, terms=group.order)
    table = (log_target - math.log(group.order))[:, None] - terms
    drawn = np.random.default_rng(seed).integers(group.order, size=core.shape[0])
    return theorem_conditions(
        within=log_target - plain,
        residual=summed - plain,
        unfolded=table[np.arange(core.shape[0]), drawn],
        copies=(table.ravel(), np.tile(np.arange(group.order), core.shape[0])),
        order=group.order,
        alpha=cover.alpha,
        draws=others.shape[0],
        published=_interpolation(cover, "published"),
        corrected=_interpolation(cover, "corrected"),
    )


def _plain_and_folded(folding: Folded, z: Point) -> tuple[Scalar, Scalar]:
    return folding.density.log_prob(z), folding.log_prob(z)


def _interpolation(cover: Covering, which: str) -> Interpolation:
    def term(side: CoverSide) -> float | None:
        radius = getattr(side, which).radius
        if side.oscillation is None or side.oscillation.gradient is None or radius is None:
            return None
        return side.oscillation.gradient * radius

    return term(cover.folded), term(cover.unfolded)
