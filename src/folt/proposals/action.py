"""A group on the host: how it folds points, and the matrices of its elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from folt.batching import LARGE_CHUNK, map_points
from folt.groups import Element, Group
from folt.proposals.components import rows_times
from folt.types import HostPoints, in_float64

LISTED = 5_040
"""Largest group whose matrices are listed."""

LISTED_ENTRIES = 1 << 22
"""Most entries of all matrices together."""


class Action:
    """What a group does to many points at once.

    Fold, folding element and matrices come out of one compiled program; everything else is NumPy.

    Args:
        group: the group.
    """

    def __init__(self, group: Group):
        self.group = group
        self.listed = group.order <= LISTED and group.order * group.dim**2 <= LISTED_ENTRIES

    def fold(self, points: HostPoints) -> HostPoints:
        """Return the representatives of the points in the fundamental domain D."""
        return self._folded(points)[1]

    def folding_elements(self, points: HostPoints) -> Element:
        """The elements that fold the points, as arrays with the point along the leading axis."""
        return self._folded(points)[0]

    def contains(self, points: HostPoints) -> Bool[np.ndarray, " n"]:
        """Return whether each point lies in D: whether the identity folds it."""
        elements = jax.tree.leaves(self.folding_elements(points))
        identity = jax.tree.leaves(self.group.identity)
        inside = np.ones(len(points), bool)
        for found, plain in zip(elements, identity, strict=True):
            inside &= _flat(found == np.asarray(plain), len(points)).all(axis=1)
        return inside

    @functools.cached_property
    def matrices(self) -> Float[np.ndarray, "order dim dim"]:
        """The matrix of every element, in the order of `group.elements`.

        Raises:
            ValueError: the group is too large to be listed.
        """
        if not self.listed:
            raise ValueError(f"a group of {self.group.order} elements is not listed")
        columns = self._chunk(np.zeros((1, self.group.dim)))[2]
        return np.ascontiguousarray(np.asarray(columns).transpose(1, 2, 0))

    def places(self, elements: Element) -> np.ndarray:
        """Where each of a stack of elements stands in the list."""
        listed = [np.asarray(leaf) for leaf in jax.tree.leaves(self.group.elements)]
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(elements)]
        count = len(wanted[0])
        rows = np.concatenate([_flat(leaf, self.group.order) for leaf in listed], axis=1)
        sought = np.concatenate([_flat(leaf, count) for leaf in wanted], axis=1)
        return np.array([np.flatnonzero((rows == one).all(axis=1))[0] for one in sought], int)

    def images(self, points: HostPoints) -> Float[np.ndarray, "n order dim"]:
        """Return all images of every point."""
        if not self.listed:
            return map_points(Group.orbit, self.group, points, terms=self.group.order)
        order, dim, _ = self.matrices.shape
        flat = points @ self.matrices.transpose(2, 0, 1).reshape(dim, order * dim)
        return flat.reshape(len(points), order, dim)

    def other_images(self, points: HostPoints) -> Float[np.ndarray, "n others dim"]:
        """Return images under all elements but the identity, or under those nearest to it."""
        if self.listed:
            return self.images(points)[:, 1:]
        return map_points(_near_images, self.group, points, terms=self.group.dim)

    def move(self, indices: np.ndarray, points: HostPoints) -> HostPoints:
        """Return every point moved by the element at its own position of the list."""
        return rows_times(self.matrices, indices, points)

    def average(self, matrix: Float[np.ndarray, "dim dim"]) -> Float[np.ndarray, "dim dim"]:
        """Return the projection (1/s) Σ_g g M gᵀ onto the matrices that commute with the action."""
        if not self.listed:
            return _averaged(Group.average, self.group, jax.device_put(matrix))
        return np.mean(self.matrices @ matrix @ self.matrices.transpose(0, 2, 1), axis=0)

    def average_mean(self, vector: Float[np.ndarray, " dim"]) -> Float[np.ndarray, " dim"]:
        """Return the projection (1/s) Σ_g g·v onto the vectors that every element leaves alone."""
        if not self.listed:
            return _averaged(Group.average_mean, self.group, jax.device_put(vector))
        return np.mean(self.matrices @ vector, axis=0)

    def covariance(self, points: HostPoints) -> Float[np.ndarray, "dim dim"]:
        """Σ̄, the averaged covariance of the folded points: it commutes with the action.

        A trace of ridge keeps it positive definite when a few points have many copies.
        """
        images = self.fold(points)
        centred = images - images.mean(axis=0)
        covariance = self.average(centred.T @ centred / len(points))
        variances = np.diagonal(covariance)
        ridge = 1e-8 * variances + 1e-14 * variances.max() + np.finfo(float).tiny
        return covariance + np.diag(ridge)

    def _folded(self, points: HostPoints) -> tuple[Element, HostPoints]:
        """Folding elements and folded points, chunk by chunk."""
        starts = range(0, max(len(points), 1), LARGE_CHUNK)
        pieces = [self._chunk(points[i : i + LARGE_CHUNK])[:2] for i in starts]
        return jax.tree.map(lambda *parts: np.concatenate(parts), *pieces)

    @in_float64
    def _chunk(self, points: HostPoints) -> tuple[Element, HostPoints, np.ndarray]:
        count = len(points)
        padded = np.zeros((LARGE_CHUNK, self.group.dim))
        padded[:count] = points
        basis = np.eye(self.group.dim)[: self.group.dim if self.listed else 0]
        elements, folded, columns = jax.tree.map(
            np.asarray, _program(self.group, *map(jax.device_put, (padded, basis)))
        )
        return jax.tree.map(lambda leaf: leaf[:count], elements), folded[:count], columns


def _flat(leaf: np.ndarray, count: int) -> np.ndarray:
    """Return an array (count, ...) as (count, entries), also where there are no entries."""
    return leaf.reshape(count, math.prod(leaf.shape[1:]))


@eqx.filter_jit
def _program(group: Group, points: Array, basis: Array) -> tuple[Element, Array, Array]:
    """Folding elements, folded points, and the images of a basis (none where it is empty)."""
    elements = jax.vmap(group.folding_element)(points)
    folded = jax.vmap(group.act)(elements, points)
    return elements, folded, jax.vmap(group.orbit)(basis) if len(basis) else basis


def _near_images(group: Group, point: Array) -> Array:
    return jax.vmap(group.act, in_axes=(0, None))(group.neighbours, point)


@in_float64
def _averaged(average: Callable[[Group, Array], Array], group: Group, value: Array) -> np.ndarray:
    return np.asarray(eqx.filter_jit(average)(group, value))


def action_of(group: Group) -> Action:
    """The action of a group; equal groups share one, where they can be told by their hash."""
    try:
        return _shared(group)
    except TypeError:  # a group that holds arrays
        return Action(group)


@functools.lru_cache(maxsize=64)
def _shared(group: Group) -> Action:
    return Action(group)
