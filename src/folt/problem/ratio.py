"""The log ratio h = log π_F - log q_F: the sampler accepts with it, certificates read it.

Target and proposal are evaluated apart. The user's density is then compiled once, whatever shape
the proposal takes, and a density that only a host program can evaluate fits in the same place.

How much of a target lies where labels are a matter of chance: facts about its symmetry.

The full-orbit chain does not care where the fold boundary runs; labels, and what is reported per
label, do.
"""

from __future__ import annotations

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from folt.batching import map_keys, map_points
from folt.groups import Element, Group
from folt.problem.problem import Problem
from folt.proposals.action import Action, action_of
from folt.proposals.fold import Folded
from folt.proposals.sums import OrbitSum, orbit_sum
from folt.types import (
    Distribution,
    HostPoints,
    HostValues,
    Key,
    OrbitSummed,
    Point,
    Scalar,
    in_float64,
)

IDENTITY_ONLY = (0,)
"""The truncation N = {e}."""


@dataclasses.dataclass
class Target:
    """log π_F in batches, counting what it costs.

    Attributes:
        problem: the target.
        evaluations: log densities and gradients so far, those that others reported among them.
    """

    problem: Problem
    evaluations: dict[str, int] = dataclasses.field(
        default_factory=lambda: {"value": 0, "gradient": 0}
    )

    def __call__(self, points: HostPoints) -> HostValues:
        """Return log π_F at every point."""
        terms = 1 if self.problem.invariant else self.problem.group.order
        self.evaluations["value"] += points.shape[0] * terms
        return self.problem.log_folds(points)

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return log π_F and its gradient at every point."""
        terms = 1 if self.problem.invariant else self.problem.group.order
        self.evaluations["gradient"] += points.shape[0] * terms
        return self.problem.folded_gradients(points)

    def add(self, evaluations: dict[str, int]) -> None:
        """Add evaluations that were made elsewhere to the count."""
        for kind, count in evaluations.items():
            self.evaluations[kind] = self.evaluations.get(kind, 0) + count


@dataclasses.dataclass(frozen=True)
class LogRatio:
    """h for one target and one proposal.

    Args:
        target: log π_F in batches.
        proposal: q on all of R^dim, before folding.
        group: the group.
        kept: positions in `group.elements` of a subset N with the identity (position 0) in it, to
            truncate the orbit: q_N(z) = Σ_{g in N} q(g·z), and a draw θ = g'·z' with g' not in N
            dies. The chain leaves π_F invariant for every N; none is better than the whole orbit
            (None). N = {e} is the sampler behind the published tables.
    """

    target: Target
    proposal: Distribution
    group: Group
    kept: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.kept is not None and 0 not in self.kept:
            raise ValueError(f"a truncated orbit must keep the identity, got {self.kept}")

    @property
    def dim(self) -> int:
        """Coordinates of a point."""
        return self.group.dim

    def at(self, points: HostPoints, log_target: HostValues | None = None) -> HostValues:
        """H at points of the domain D; log π_F there may be known already."""
        points = np.asarray(points)  # threads that sum have settings of JAX of their own
        values = self.target(points) if log_target is None else log_target
        return _difference(values, self.log_proposal(points))

    def draw(self, key: Key, count: int) -> tuple[HostPoints, HostValues]:
        """Proposals folded into D, with their h; -inf for those that died or lie outside."""
        return self.propose(key, count)[:2]

    def propose(
        self, key: Key, count: int
    ) -> tuple[HostPoints, HostValues, Bool[np.ndarray, " n"]]:
        """Proposals as `draw` gives them, and whether each lives: only a truncated orbit kills."""
        if self.kept is not None:
            points, alive = map_keys(_propose, self._truncated, key, count)
        elif isinstance(self.proposal, OrbitSummed) and not self.proposal.whole:
            terms = self.proposal.orbit_cost
            points, alive = map_keys(_propose_alive, self.proposal, key, count, terms=terms)
        else:
            points, alive = self.orbit.draw(key, count), np.ones(count, bool)
        return points, np.where(alive, self.at(points), -np.inf), alive

    def log_proposal(self, points: HostPoints) -> HostValues:
        """Return log q_F, or log q_N of the truncated orbit."""
        if self.kept is None:
            return self.orbit.log_sum(points)
        return map_points(_Truncated.log_prob, self._truncated, points, terms=len(self.kept))

    @property
    def terms(self) -> int:
        """Density terms that one log q_F costs."""
        return len(self.kept) if self.kept is not None else Folded(self.proposal, self.group).terms

    @functools.cached_property
    def orbit(self) -> OrbitSum:
        """The proposal summed over the whole orbit."""
        return orbit_sum(self.proposal, self.group)

    @property
    def _truncated(self) -> _Truncated:
        assert self.kept is not None
        return _Truncated(self.proposal, self.group, self.kept)


class _Truncated(eqx.Module):
    """A proposal with the part of the orbit that its draws may come from."""

    proposal: Distribution
    group: Group
    kept: tuple[int, ...] = eqx.field(static=True)

    @property
    def elements(self) -> Element:
        """The kept elements of the group, stacked."""
        rows = np.asarray(self.kept)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], self.group.elements)

    def log_prob(self, z: Point) -> Scalar:
        """Return log q_N(z): the density of proposals that survive; it is never renormalised."""
        images = jax.vmap(self.group.act, in_axes=(0, None))(self.elements, z)
        return logsumexp(jax.vmap(self.proposal.log_prob)(images))

    def survives(self, x: Point) -> Bool[Array, ""]:
        """Return whether x = g'·z' with g' kept; g' is the inverse of the element that folds x."""
        origin = self.group.inverse(self.group.folding_element(x))
        same = jax.tree.map(
            lambda kept, one: jnp.all((kept == one).reshape(len(kept), -1), axis=1),
            self.elements,
            origin,
        )
        return jnp.any(jnp.all(jnp.stack(jax.tree.leaves(same)), axis=0))


def _propose(orbit: _Truncated, key: Key) -> tuple[Array, Bool[Array, ""]]:
    x = orbit.proposal.sample(key)
    return orbit.group.fold(x), orbit.survives(x)


def _propose_alive(proposal: OrbitSummed, key: Key) -> tuple[Array, Bool[Array, ""]]:
    x, alive = proposal.propose(key)
    return proposal.summed_over.fold(x), alive


def _difference(log_target: HostValues, log_proposal: HostValues) -> HostValues:
    """h, with -inf wherever the target vanishes whatever the proposal says there."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_target), -np.inf, log_target - log_proposal)


_Draws = Float[np.ndarray, "..."]

_NUMBERS_AT_ONCE = 1 << 21
"""Coordinates of images of points that are in memory at once."""


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
        mixed: how much larger the share of wrong labels is under the group's own order than under
            the labels that the proposal finds likeliest: the mean over draws of the largest
            responsibility less that of the one labelling which is likeliest on the whole. Large
            where components are sorted by something in which they do not differ; zero where they
            only overlap. None where labellings are too many to be told.
    """

    crossing: float
    overlap: float
    ambiguity: float | None
    nudge: float
    nearness: float
    mixed: float | None = None


@in_float64
def boundary_mass(
    group: Group,
    draws: _Draws,
    proposal: Distribution | None = None,
    *,
    nudge: float = 0.1,
    nearness: float = 1.0,
    seed: int = 0,
) -> BoundaryMass:
    """Return the share of a folded target near its fold boundary, in three readings.

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
    ambiguity, mixed = None, None
    if proposal is not None and group.order > 1:
        ambiguity, mixed = label_errors(proposal, group, points)
    elif proposal is not None:
        ambiguity = mixed = 0.0
    shares = float(np.mean(~inside)), float((mirrors < nearness).mean())
    return BoundaryMass(*shares, ambiguity, nudge, nearness, mixed)


@in_float64
def label_errors(
    proposal: Distribution, group: Group, points: Float[np.ndarray, "n dim"]
) -> tuple[float, float | None]:
    """Return `BoundaryMass.ambiguity` and `BoundaryMass.mixed` of points as they are labelled."""
    largest, usual = orbit_sum(proposal, group).label_shares(points)
    mixed = None if usual is None else float(np.clip((largest - usual).mean(), 0.0, 1.0))
    return float(1.0 - largest.mean()), mixed


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
    dim = action.group.dim
    length = max(1, _NUMBERS_AT_ONCE // (dim * min(action.group.order, dim**2)))
    parts = []
    for start in range(0, len(points), length):
        some = points[start : start + length]
        moved = some[:, None] - action.other_images(some)
        along = np.sqrt(np.einsum("ngi,ij,ngj->ng", moved, spread, moved, optimize=True))
        distances = 0.5 * np.sum(moved**2, axis=-1) / np.where(along > 0.0, along, 1.0)
        parts.append(np.min(distances, axis=1, initial=np.inf))
    return np.concatenate(parts)


@in_float64
def label_switch_rate(group: Group, raw_chain: _Draws) -> float:
    """Return the share of consecutive steps of an unfolded chain whose folding element changes.

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


def _flat(group: Group, draws: _Draws) -> np.ndarray:
    array = np.asarray(draws, float)
    if array.ndim < 2 or array.shape[-1] != group.dim:
        raise ValueError(f"expected draws of shape (..., {group.dim}), got {array.shape}")
    return array.reshape(-1, group.dim)
