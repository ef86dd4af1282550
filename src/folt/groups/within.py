"""Relabelling where only some labels are alike: permutations within classes of labels."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from folt.groups.arguments import require_position
from folt.groups.arrangements import (
    Arrangement,
    Stack,
    adjacent_swaps,
    arrangement_in_words,
    composed,
    identity_arrangement,
    inverted,
    swap_factors,
)
from folt.groups.base import Element, Group, require_enumerable
from folt.groups.joint import Joint
from folt.types import Point

Classes = tuple[tuple[int, ...], ...]


class Within(Group):
    """The permutations of a joint action that keep every label in its class.

    Order Π |class|!; labels outside the classes stay where they are. D: the sort keys ascend
    within every class.

    Args:
        joint: the action of all permutations of m labels.
        classes: disjoint sets of labels that may be permuted among themselves.
    """

    joint: Joint = eqx.field(static=True)
    classes: Classes = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, joint: Joint, classes: Iterable[Iterable[int]]):
        if not isinstance(joint, Joint):
            raise ValueError(f"expected a Joint, got {type(joint).__name__}")
        self.joint = joint
        self.classes = tuple(sorted(tuple(sorted(labels)) for labels in classes))
        self.dim = joint.dim
        members = [label for labels in self.classes for label in labels]
        for label in members:
            require_position("each label", label, joint.m)
        if len(set(members)) != len(members):
            raise ValueError(f"expected disjoint classes of labels, got {self.classes}")

    @property
    def order(self) -> int:
        """Number of elements, the product of the factorials of the class sizes."""
        return math.prod(math.factorial(len(labels)) for labels in self.classes)

    @property
    def elements(self) -> Element:
        """All arrangements within the classes, the identity first."""
        require_enumerable(self.order)
        return _arrangements(self.joint.m, self.classes)

    @property
    def identity(self) -> Element:
        """The arrangement that moves nothing."""
        return identity_arrangement(self.joint.m)

    @property
    def generators(self) -> Element:
        """Exchanges of neighbours within a class."""
        m = self.joint.m
        stacks = [_embedded(m, labels, adjacent_swaps(len(labels))) for labels in self.classes]
        return np.concatenate([np.zeros((0, m), np.int32), *stacks])

    @property
    def factors(self) -> tuple[Element, ...]:
        """The factors of every class."""
        m = self.joint.m
        stacks = tuple(
            _embedded(m, labels, stack)
            for labels in self.classes
            for stack in swap_factors(len(labels))
        )
        return stacks or (self.elements,)

    def act(self, element: Arrangement, x: Point) -> Point:
        """Every part under the same new labels."""
        return self.joint.act(element, x)

    def compose(self, first: Arrangement, second: Arrangement) -> Arrangement:
        """The arrangement that does `second`, then `first`."""
        return composed(first, second)

    def inverse(self, element: Arrangement) -> Arrangement:
        """The arrangement that undoes `element`."""
        return inverted(element)

    def folding_element(self, x: Point) -> Arrangement:
        """The arrangement that sorts the keys of every class, ties keeping their places."""
        keys: Float[Array, " m"] = self.joint.sort_keys(x)
        arrangement = jnp.asarray(self.identity)
        for labels in self.classes:
            places = np.array(labels, np.int32)
            order = jnp.argsort(keys[places], stable=True)
            arrangement = arrangement.at[places].set(jnp.asarray(places)[order])
        return arrangement

    def describe(self, element: Arrangement) -> str:
        """Words such as "swap components 1 and 2", or the whole order."""
        return arrangement_in_words(element, "component")


@functools.lru_cache
def _arrangements(m: int, classes: Classes) -> Stack:
    rows = []
    for orders in itertools.product(*(itertools.permutations(labels) for labels in classes)):
        row = identity_arrangement(m)
        for labels, order in zip(classes, orders, strict=True):
            row[list(labels)] = order
        rows.append(row)
    stack = np.array(rows, np.int32)
    stack.setflags(write=False)
    return stack


def _embedded(m: int, labels: tuple[int, ...], stack: Int[np.ndarray, "n places"]) -> Stack:
    """Arrangements of the places of one class as arrangements of all m labels."""
    rows = np.tile(identity_arrangement(m), (len(stack), 1))
    rows[:, list(labels)] = np.array(labels, np.int32)[stack]
    return rows
