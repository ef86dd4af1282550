"""The log ratio h = log π_F - log q_F: the sampler accepts with it, certificates read it.

Target and proposal are evaluated apart. The user's density is then compiled once, whatever shape the proposal
takes, and a density that only a host program can evaluate fits in the same place.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from folt._types import Distribution, Key, Point, Points, Scalar, Scalars
from folt.batching import map_points
from folt.fold import Folded
from folt.groups import Group
from folt.problem import Problem


@dataclasses.dataclass
class Target:
    """log π_F in batches, counting what it costs.

    Attributes:
        problem: the target.
        evaluations: log densities computed so far, and gradients that others reported.
    """

    problem: Problem
    evaluations: dict[str, int] = dataclasses.field(
        default_factory=lambda: {"value": 0, "gradient": 0}
    )

    def __call__(self, points: Points) -> Scalars:
        """log π_F at every point."""
        terms = 1 if self.problem.invariant else self.problem.group.order
        self.evaluations["value"] += points.shape[0] * terms
        return map_points(Folded.log_prob, self.problem.folded(), points, terms=terms)

    def add(self, evaluations: dict[str, int]) -> None:
        """Count evaluations made elsewhere."""
        for kind, count in evaluations.items():
            self.evaluations[kind] = self.evaluations.get(kind, 0) + count


@dataclasses.dataclass(frozen=True)
class LogRatio:
    """h for one target and one proposal.

    Args:
        target: log π_F in batches.
        proposal: q on all of R^dim, before folding.
        group: the group.
        whole_orbit: True sums q over the orbit. False is the truncation N = {e}: a draw outside D dies instead
            of being folded and q stands alone. Exact too, never better, and the sampler behind
            the published tables.
    """

    target: Target
    proposal: Distribution
    group: Group
    whole_orbit: bool = True

    @property
    def folded(self) -> Folded:
        """The folded proposal q_F."""
        return Folded(self.proposal, self.group)

    def at(self, points: Points) -> Scalars:
        """h at points of the domain D."""
        return _difference(self.target(points), self._log_proposal(points))

    def draw(self, key: Key, count: int) -> tuple[Points, Scalars]:
        """Proposals folded into D, with their h; -inf for those that died or lie outside."""
        keys = jax.random.split(key, count)
        points, alive = map_points(_propose, (self.proposal, self.group), keys)
        if self.whole_orbit:
            return points, self.at(points)
        return points, jnp.where(alive, self.at(points), -jnp.inf)

    def _log_proposal(self, points: Points) -> Scalars:
        if self.whole_orbit:
            return map_points(Folded.log_prob, self.folded, points, terms=self.group.order)
        return map_points(_plain, self.proposal, points)


def _plain(proposal: Distribution, z: Point) -> Scalar:
    return proposal.log_prob(z)


def _propose(context: tuple[Distribution, Group], key: Any) -> tuple[Array, Bool[Array, ""]]:
    proposal, group = context
    x = proposal.sample(key)
    return group.fold(x), group.contains(x)


def _difference(log_target: Scalars, log_proposal: Scalars) -> Scalars:
    """h, with -inf wherever the target vanishes whatever the proposal says there."""
    return jnp.where(jnp.isneginf(log_target), -jnp.inf, log_target - log_proposal)
