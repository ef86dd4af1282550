"""How much of a target lies where labels are a matter of chance: facts about its symmetry.

The full-orbit chain does not care where the fold boundary runs; labels, and what is reported per
label, do.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jaxtyping import Float

from folt.groups import Group
from folt.problem.orbits import Action, action_of, orbit_sum
from folt.types import Distribution, in_float64

Draws = Float[np.ndarray, "..."]

IMAGES_AT_ONCE = 1 << 18
"""Images of points that are in memory at once."""


@dataclasses.dataclass(frozen=True)
class BoundaryMass:
    """Three shares, each zero where labels are plain.

    Attributes:
        crossing: share of draws that a nudge carries over the fold boundary. The nudge is normal
            noise of `nudge` posterior standard deviations in every coordinate. Depends on the
            domain: a low share means that the boundary runs through a valley.
        overlap: share of draws less than `nearness` posterior standard deviations away from a
            mirror, the plane half-way between a draw z and another image g·z, measured along
            z - g·z. A tie in the sort coordinate alone does not count: whole blocks must be near,
            or the domain so ill chosen that the spread of its draws comes from mixed copies.
        ambiguity: mean over draws of 1 minus the largest orbit responsibility q(g·z)/q_F(z): how
            often the proposal would pick another label than the likeliest, 1 - 1/s where all
            labels are exchangeable. The same for every domain; None without a proposal.
        nudge: standard deviations of the nudge.
        nearness: standard deviations from a mirror that count as near.
    """

    crossing: float
    overlap: float
    ambiguity: float | None
    nudge: float
    nearness: float


@in_float64
def boundary_mass(
    group: Group,
    draws: Draws,
    proposal: Distribution | None = None,
    *,
    nudge: float = 0.1,
    nearness: float = 1.0,
    seed: int = 0,
) -> BoundaryMass:
    """The share of a folded target near its fold boundary, in three readings.

    Args:
        group: the symmetry.
        draws: draws (..., dim), folded or not: each is folded into the group's own domain.
        proposal: q before folding, for the ambiguity of labels.
        nudge: size of the nudge in posterior standard deviations.
        nearness: how many posterior standard deviations from a mirror are near.
        seed: of the nudges.
    """
    action = action_of(group)
    points = action.fold(_flat(group, draws))
    count = points.shape[0]
    if count < 2:
        raise ValueError(f"expected at least two draws, got {count}")
    generator = np.random.default_rng(seed)
    nudged = points + nudge * points.std(axis=0) * generator.normal(size=points.shape)
    inside = action.contains(nudged)
    spread = np.cov(points.T).reshape(group.dim, group.dim)
    mirrors = mirror_distances(action, spread, points)
    ambiguity = None
    if proposal is not None and group.order > 1:
        ambiguity = float(1.0 - orbit_sum(proposal, group).largest_shares(points).mean())
    elif proposal is not None:
        ambiguity = 0.0
    return BoundaryMass(
        float(np.mean(~inside)), float((mirrors < nearness).mean()), ambiguity, nudge, nearness
    )


def mirror_distances(
    action: Action, spread: Float[np.ndarray, "dim dim"], points: Float[np.ndarray, "n dim"]
) -> Float[np.ndarray, " n"]:
    """Standard deviations from each point to its nearest mirror, infinite if there is none.

    With v = z - g·z, the mirror is |v|/2 away and the spread along v is sqrt(vᵀΣv)/|v|: the least
    of |v|²/(2·sqrt(vᵀΣv)) over g ≠ e.

    Args:
        action: the group on the host.
        spread: the covariance Σ of the draws.
        points: draws.
    """
    length = max(1, IMAGES_AT_ONCE // min(action.group.order, action.group.dim**2))
    parts = []
    for start in range(0, len(points), length):
        some = points[start : start + length]
        moved = some[:, None] - action.other_images(some)
        along = np.sqrt(np.einsum("ngi,ij,ngj->ng", moved, spread, moved, optimize=True))
        distances = 0.5 * np.sum(moved**2, axis=-1) / np.where(along > 0.0, along, 1.0)
        parts.append(np.min(distances, axis=1, initial=np.inf))
    return np.concatenate(parts)


@in_float64
def label_switch_rate(group: Group, raw_chain: Draws) -> float:
    """Share of consecutive steps of an unfolded chain whose folding element changes.

    Zero for a chain that never left its copy of the posterior; 1 - 1/s for independent draws.

    Args:
        group: the symmetry.
        raw_chain: (draw, dim) or (chain, draw, dim), never folded.
    """
    chains = np.asarray(raw_chain, float)
    if chains.ndim not in (2, 3) or chains.shape[-2] < 2:
        raise ValueError(
            "expected a chain of at least two draws, (draw, dim) or (chain, draw, dim), "
            f"got shape {chains.shape}"
        )
    elements = action_of(group).folding_elements(_flat(group, chains))
    changed = np.zeros((int(np.prod(chains.shape[:-2])), chains.shape[-2] - 1), bool)
    for leaf in jax.tree.leaves(elements):
        steps = np.diff(leaf.reshape(*changed.shape[:1], chains.shape[-2], -1), axis=1)
        changed |= steps.any(axis=-1)
    return float(changed.mean())


def _flat(group: Group, draws: Draws) -> np.ndarray:
    array = np.asarray(draws, float)
    if array.ndim < 2 or array.shape[-1] != group.dim:
        raise ValueError(f"expected draws of shape (..., {group.dim}), got {array.shape}")
    return array.reshape(-1, group.dim)
