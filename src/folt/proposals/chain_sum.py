"""The orbit sum of a class chain with its tail safety, on the host."""

from __future__ import annotations

import math

import jax
import numpy as np
from jaxtyping import Float

from folt.batching import map_points
from folt.groups import Element, Group
from folt.proposals.action import action_of
from folt.proposals.class_chain import ClassChain
from folt.proposals.host_chain import HostChain
from folt.proposals.sums import HostDistribution, OrbitSum
from folt.types import Distribution, HostPoints, HostValues, Key, Point, host_generator


class ChainSum(OrbitSum):
    """The sum over all labellings of (1-λ)·chain + λ·guard, the guard the same at every image.

    Args:
        chain: the main part.
        guard: the tail safety; None for none.
        weight: λ.
    """

    def __init__(self, chain: ClassChain, guard: Distribution | None, weight: float) -> None:
        self.host, self.group = HostChain(chain), chain.group
        self.guard = None if guard is None else HostDistribution(guard)
        self.weight = weight if guard is not None else 0.0

    def log_sum(self, points: HostPoints) -> HostValues:
        """Return the log of (1-λ)·q_F + λ·s·r."""
        return self._with_guard(self.host.log_sums(points), points, self.group.log_order)

    def draw(self, key: Key, count: int) -> HostPoints:
        """Return draws of the whole proposal, folded into D."""
        generator = host_generator(key)
        points = self.host.sample(generator, count)
        guarded = np.flatnonzero(generator.random(count) < self.weight)
        if self.guard is not None and guarded.size:
            points[guarded] = self.guard.sample(jax.random.fold_in(key, 1), guarded.size)
        return action_of(self.group).fold(points)

    def responsibilities(self, points: HostPoints) -> Float[np.ndarray, "n order"]:
        """Not for groups whose elements are never listed.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"a sum over {self.group.order} labellings has too many terms to be told")

    def label_shares(self, points: HostPoints) -> tuple[HostValues, HostValues]:
        """Return shares of the likeliest labellings, and of the one that is so most often."""
        if not len(points):
            return np.empty(0), np.empty(0)
        images, log_sums = self.likeliest_images(points), self.log_sum(points)
        found = map_points(_element_between, self.group, (points, images))
        rows = np.concatenate([leaf.reshape(len(points), -1) for leaf in jax.tree.leaves(found)], 1)
        first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)[1:]
        usual = jax.tree.map(lambda leaf: leaf[first[counts.argmax()]], found)
        moved = map_points(_moved, (self.group, usual), points)
        largest, common = (
            self._with_guard(self.host.log_prob(each), each, 0.0) for each in (images, moved)
        )
        shares = [np.exp(np.minimum(logs - log_sums, 0.0)) for logs in (largest, common)]
        return np.maximum(*shares), shares[1]

    def likeliest_images(self, points: HostPoints) -> HostPoints:
        """Return every point under the labelling that is likeliest together with its classes."""
        return self.host.labellings(points)

    def _with_guard(self, main: HostValues, points: HostPoints, log_images: float) -> HostValues:
        if self.guard is None:
            return main
        guard = self.guard.log_probs(points) + math.log(self.weight) + log_images
        return np.logaddexp(main + math.log1p(-self.weight), guard)


def _element_between(group: Group, pair: tuple[Point, Point]) -> Element:
    """Return the element that moves the first point of an orbit to the second."""
    first, second = (group.folding_element(point) for point in pair)
    return group.compose(group.inverse(second), first)


def _moved(context: tuple[Group, Element], point: Point) -> Point:
    group, element = context
    return group.act(element, point)
