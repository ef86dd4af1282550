"""Direct products: several symmetries, each on its own coordinates.

Any finite group of orthogonal maps, from a few that generate it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from folt.groups.base import BlockForm, Element, Group, require_enumerable
from folt.types import Key, Point


class Product(Group):
    """The direct product of groups that act on consecutive coordinates.

    An element is a tuple with one element per group, D the product of their domains. For one
    permutation that moves several pieces at once use `Joint`.

    Args:
        groups: the groups, in the order of their coordinates.
    """

    groups: tuple[Group, ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, *groups: Group):
        if not groups:
            raise ValueError("expected at least one group, got none")
        for group in groups:
            if not isinstance(group, Group):
                raise ValueError(f"expected groups, got {type(group).__name__}")
        self.groups = groups
        self.dim = sum(group.dim for group in groups)

    @property
    def order(self) -> int:
        """Number of elements, the product of the orders."""
        return math.prod(group.order for group in self.groups)

    @property
    def elements(self) -> Element:
        """Every combination of elements, the last group changing fastest."""
        require_enumerable(self.order)
        return _combinations(self.groups)

    @property
    def identity(self) -> Element:
        """The identity of every group."""
        return tuple(group.identity for group in self.groups)

    @property
    def generators(self) -> Element:
        """The generators of each group, with the identity in all other places."""
        stacks = [
            self._embedded(place, group.generators) for place, group in enumerate(self.groups)
        ]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *stacks)

    @property
    def factors(self) -> tuple[Element, ...]:
        """The factors of each group, with the identity in all other places."""
        return tuple(
            self._embedded(place, stack)
            for place, group in enumerate(self.groups)
            for stack in group.factors
        )

    @property
    def block_form(self) -> BlockForm | None:
        """That of the only group which moves anything; None if there are several."""
        moving = [place for place, group in enumerate(self.groups) if group.order > 1]
        if len(moving) != 1:
            return None
        form = self.groups[moving[0]].block_form
        if form is None:
            return None
        start = sum(group.dim for group in self.groups[: moving[0]])
        own = form.shifted(start)
        end = start + form.dim
        return dataclasses.replace(own, fixed=(*range(start), *own.fixed, *range(end, self.dim)))

    def act(self, element: Element, x: Point) -> Point:
        """Return each group on its own coordinates."""
        images = self._each(lambda group, piece, part: group.act(part, piece), x, element)
        return jnp.concatenate(images)

    def compose(self, first: Element, second: Element) -> Element:
        """Group by group."""
        triples = zip(self.groups, first, second, strict=True)
        return tuple(group.compose(one, other) for group, one, other in triples)

    def inverse(self, element: Element) -> Element:
        """Group by group."""
        return tuple(group.inverse(part) for group, part in zip(self.groups, element, strict=True))

    def folding_element(self, x: Point) -> Element:
        """Group by group."""
        return tuple(self._each(lambda group, piece: group.folding_element(piece), x))

    def random_element(self, key: Key) -> Element:
        """Return an independent uniform element of every group."""
        keys = jax.random.split(key, len(self.groups))
        return tuple(
            group.random_element(own) for group, own in zip(self.groups, keys, strict=True)
        )

    def describe(self, element: Element) -> str:
        """Factor by factor: "factor 1: swap components 1 and 2"."""
        words = [group.describe(part) for group, part in zip(self.groups, element, strict=True)]
        named = [f"factor {n}: {word}" for n, word in enumerate(words, 1) if word != "identity"]
        return "; ".join(named) or "identity"

    def _each(self, function: Callable, x: Point, *elements: Element) -> list:
        ends = np.cumsum([group.dim for group in self.groups])[:-1].tolist()
        pieces = jnp.split(x, ends)
        return [function(*own) for own in zip(self.groups, pieces, *elements, strict=True)]

    def _embedded(self, place: int, stack: Element) -> Element:
        count = jax.tree.leaves(stack)[0].shape[0]
        still = [
            jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], count, axis=0), part)
            for part in self.identity
        ]
        return (*still[:place], stack, *still[place + 1 :])


@functools.lru_cache
def _combinations(groups: tuple[Group, ...]) -> Element:
    positions = np.indices([group.order for group in groups]).reshape(len(groups), -1)
    return tuple(
        jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at], group.elements)
        for group, at in zip(groups, positions, strict=True)
    )


_Place = Int[Array, " 1"]
"""Where an element stands in the list of all."""

_Matrix = tuple[tuple[float, ...], ...]

LARGEST_GENERATED = 1_000
"""Most elements of a group that is given by its generators."""

MOST_ENTRIES = 1 << 22
"""Most entries of all its matrices together."""

_ROUNDING = 1e-9
"""Difference of two entries that counts as rounding."""


class Generated(Group):
    """The group that some orthogonal matrices generate, all elements listed.

    For symmetries that overlap, such as the outer and the inner labels of a mixture of mixtures.
    D is the set of points x for which v·x ≥ v·(g·x) for all g, where v ascends: of the
    permutations of single coordinates that is the chamber of ascending ones.

    Args:
        matrices: orthogonal matrices (n, dim, dim), whose products are the group.

    Raises:
        ValueError: matrices that are not orthogonal, or that generate too many elements.
    """

    matrices: tuple[_Matrix, ...] = eqx.field(static=True, repr=False)
    dim: int = eqx.field(static=True)

    def __init__(self, matrices: Iterable[ArrayLike]):
        given = [np.asarray(matrix, np.float64) for matrix in matrices]
        if not given or any(each.shape != given[0].shape for each in given):
            raise ValueError("expected square matrices of one size, got none or several sizes")
        rows, *columns = given[0].shape
        if columns != [rows]:
            raise ValueError(f"expected square matrices, got shape {given[0].shape}")
        for each in given:
            if np.abs(each @ each.T - np.eye(rows)).max() > _ROUNDING:
                raise ValueError("expected orthogonal matrices, got one that is not")
        self.matrices = tuple(tuple(map(tuple, each.tolist())) for each in given)
        self.dim = rows
        _listed(self.matrices)

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(_listed(self.matrices).matrices)

    @property
    def elements(self) -> Element:
        """Positions in the list of all matrices, the identity first."""
        return np.arange(self.order, dtype=np.int32)[:, None]

    @property
    def generators(self) -> Element:
        """Positions of the matrices that were given."""
        return _listed(self.matrices).generators[:, None]

    def act(self, element: _Place, x: Point) -> Point:
        """One matrix times the point."""
        return jnp.asarray(_listed(self.matrices).matrices, x.dtype)[element[0]] @ x

    def compose(self, first: _Place, second: _Place) -> _Place:
        """Read from the table of products."""
        return jnp.asarray(_products(self.matrices))[first[0], second]

    def inverse(self, element: _Place) -> _Place:
        """Read from the table of products."""
        inverses = np.argmax(_products(self.matrices) == 0, axis=1).astype(np.int32)
        return jnp.asarray(inverses)[element]

    def folding_element(self, x: Point) -> _Place:
        """The element that moves the point furthest along v; the identity wherever that does."""
        listed = _listed(self.matrices)
        along = jnp.asarray(listed.along, x.dtype) @ x
        ahead = along > along[0] + 1e3 * jnp.finfo(x.dtype).eps * jnp.max(jnp.abs(along))
        return jnp.where(jnp.any(ahead), jnp.argmax(along), 0).astype(jnp.int32)[None]

    def describe(self, element: Element) -> str:
        """Return which coordinates it changes."""
        (place,) = np.asarray(element).tolist()
        matrix = _listed(self.matrices).matrices[place]
        changed = np.flatnonzero(np.abs(matrix - np.eye(self.dim)).max(axis=1) > _ROUNDING) + 1
        if not changed.size:
            return "identity"
        return f"element {place} of {self.order}, of coordinates {_in_words(changed)}"


class Listed(NamedTuple):
    """All elements of a generated group.

    Attributes:
        matrices: one per element, the identity first.
        generators: positions of the matrices that were given.
        along: v times every matrix.
    """

    matrices: Float[np.ndarray, "order dim dim"]
    generators: Int[np.ndarray, " n"]
    along: Float[np.ndarray, "order dim"]


@functools.lru_cache
def _listed(matrices: tuple[_Matrix, ...]) -> Listed:
    given = np.array(matrices)
    dim = given.shape[-1]
    most = min(LARGEST_GENERATED, MOST_ENTRIES // dim**2)
    found = [np.eye(dim)]
    place = {_key(found[0]): 0}
    for element in found:  # grows while it is gone through
        for generator in given:
            product = generator @ element
            if _key(product) not in place:
                place[_key(product)] = len(found)
                found.append(product)
        if len(found) > most:
            raise ValueError(
                f"the matrices generate more than {most} elements, perhaps infinitely many"
            )
    every = np.array(found)
    generators = np.array([place[_key(each)] for each in given], np.int32)
    return Listed(every, generators, _ascending(dim) @ every)


@functools.lru_cache
def _products(matrices: tuple[_Matrix, ...]) -> Int[np.ndarray, "order order"]:
    """Positions of all products, found by where they take a point that no two take to one place."""
    listed = _listed(matrices)
    points = listed.matrices @ np.random.default_rng(1).normal(size=listed.matrices.shape[-1])
    heights = listed.along @ points.T
    order = np.argsort(heights[0])
    between = (heights[0][order][1:] + heights[0][order][:-1]) / 2.0
    return order[np.searchsorted(between, heights)].astype(np.int32)


def _ascending(dim: int) -> Float[np.ndarray, " dim"]:
    """Return the vector v: ascending, and in no plane that a reflection leaves alone."""
    return 1.0 + np.arange(dim) + np.random.default_rng(0).uniform(0.0, 0.5, dim)


def _key(matrix: np.ndarray) -> bytes:
    return (np.round(matrix, 6) + 0.0).tobytes()


def _in_words(places: np.ndarray) -> str:
    words = [str(place) for place in places]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
