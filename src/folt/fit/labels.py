"""Draws under other labels: sorted, as the proposal has them, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.groups import Element, Group
from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.types import Distribution, Key, Point, Scalars, in_float64

if TYPE_CHECKING:
    pass


ORDERING_DRAWS = 512
"""Draws of the proposal whose median is sorted to number the components."""


@in_float64
def labelled(draws: np.ndarray, proposal: Distribution, group: Group, labels: str) -> np.ndarray:
    """Draws under the sorted labels they have, or under those the proposal finds likeliest."""
    if labels == "sorted":
        return draws
    points = draws.reshape(-1, group.dim)
    folded = Folded(proposal, group)
    images = map_points(Folded.most_likely_image, folded, points, terms=folded.terms)
    ordered = map_points(_moved, (group, _ordering(proposal, group)), images)
    return np.asarray(ordered).reshape(draws.shape)


def _ordering(proposal: Distribution, group: Group) -> Element:
    """The one element that sorts the proposal's own labels by its median.

    Any relabelling of all draws alike is as good; this one numbers components as a reader expects.
    """
    drawn = map_keys(_drawn, proposal, jax.random.key(0), ORDERING_DRAWS)
    middle = np.median(drawn, axis=0)[None]
    return jax.tree.map(lambda leaf: leaf[0], map_points(_folding, group, middle))


def _drawn(proposal: Distribution, key: Key) -> Point:
    return proposal.sample(key)


def _folding(group: Group, point: Point) -> Element:
    return group.folding_element(point)


def _moved(context: tuple[Group, Element], point: Point) -> Point:
    group, element = context
    return group.act(element, point)


def random_image(group: Group, pair: tuple[Key, Point]) -> Point:
    """The point under labels drawn uniformly."""
    return group.random_image(*pair)


def likely_image(group: Group, drawn: tuple[Key, Point, Scalars]) -> Point:
    """The point under labels drawn in proportion to the density at its images."""
    key, point, log_terms = drawn
    return group.act(group.element(jax.random.categorical(key, log_terms)), point)
