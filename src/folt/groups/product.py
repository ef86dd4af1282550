"""Direct products: several symmetries, each on its own coordinates."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

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
        """Each group on its own coordinates."""
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
        """An independent uniform element of every group."""
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
