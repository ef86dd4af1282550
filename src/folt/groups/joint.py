"""One permutation that moves several pieces of a point at once.

A mixture with free weights has component blocks and a weight vector, a hidden Markov model a
transition matrix besides. Relabelling moves all of them together: not a product of groups.

Relabelling where only some labels are alike: permutations within classes of labels.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from folt.groups.base import BlockForm, Element, Group, require_enumerable, rows_of
from folt.groups.parts import Blocks, Fixed, Part
from folt.groups.permutation import (
    Arrangement,
    Relabelling,
    Stack,
    adjacent_swaps,
    arrangement_in_words,
    composed,
    identity_arrangement,
    inverted,
    require_count,
    require_position,
    swap_factors,
)
from folt.types import Point


class Joint(Relabelling):
    """All permutations of m labels, each acting on every part at once, order m!.

    The coordinates of the parts follow each other. D: the sort keys of the first part that has
    any ascend.

    Args:
        m: number of labels.
        parts: `Blocks`, `ZeroSum`, `Square`, `ZeroSumRows` and `Fixed`, in the order of their
            coordinates.
    """

    m: int = eqx.field(static=True)
    parts: tuple[Part, ...] = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __init__(self, m: int, parts: Iterable[Part]):
        require_count("m", m)
        if not isinstance(parts, Iterable):
            raise ValueError(f"parts must be a sequence of parts, got {type(parts).__name__}")
        self.m = m
        self.parts = tuple(parts)
        for part in self.parts:
            if not isinstance(part, Part):
                raise ValueError(
                    f"expected parts such as Blocks(2) or ZeroSum(), got {type(part).__name__}"
                )
        if not any(part.has_keys for part in self.parts):
            raise ValueError(
                "expected at least one part to sort by (Blocks, ZeroSum, Square or ZeroSumRows), "
                f"got {', '.join(map(repr, self.parts)) or 'no parts'}"
            )
        self.dim = sum(part.length(m) for part in self.parts)

    @property
    def labels(self) -> int:
        """Number of labels, m."""
        return self.m

    @property
    def block_form(self) -> BlockForm | None:
        """The blocks of all parts side by side; None if a part is not of blocks or fixed."""
        places: list[tuple[int, ...]] = [()] * self.m
        fixed: tuple[int, ...] = ()
        start = 0
        for part in self.parts:
            length = part.length(self.m)
            if isinstance(part, Blocks):
                rows = rows_of(self.m, part.size, start)
                places = [old + new for old, new in zip(places, rows, strict=True)]
            elif isinstance(part, Fixed):
                fixed += tuple(range(start, start + length))
            else:
                return None
            start += length
        return BlockForm(tuple(places), fixed)

    def act(self, element: Arrangement, x: Point) -> Point:
        """Return every part under the same new labels."""
        arrangement = jnp.asarray(element)
        pieces = zip(self.parts, self.pieces(x), strict=True)
        return jnp.concatenate([part.act(arrangement, piece) for part, piece in pieces])

    def sort_keys(self, x: Point) -> Float[Array, " m"]:
        """Return the keys of the first part that has any."""
        for part, piece in zip(self.parts, self.pieces(x), strict=True):
            if part.has_keys:
                return part.sort_keys(piece, self.m)
        raise AssertionError("the constructor admits no Joint without a part to sort by")

    def carried(self, x: Point) -> Float[Array, "m features"]:
        """Return what every part has of each label, side by side."""
        pieces = zip(self.parts, self.pieces(x), strict=True)
        return jnp.concatenate([part.carried(piece, self.m) for part, piece in pieces], axis=1)

    def pieces(self, x: Point) -> list[Array]:
        """Return the coordinates of each part."""
        ends = np.cumsum([part.length(self.m) for part in self.parts])[:-1].tolist()
        return jnp.split(x, ends)


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
        """Return every part under the same new labels."""
        return self.joint.act(element, x)

    def compose(self, first: Arrangement, second: Arrangement) -> Arrangement:
        """Return the arrangement that does `second`, then `first`."""
        return composed(first, second)

    def inverse(self, element: Arrangement) -> Arrangement:
        """Return the arrangement that undoes `element`."""
        return inverted(element)

    def folding_element(self, x: Point) -> Arrangement:
        """Return the arrangement that sorts the keys of every class, ties keeping their places."""
        keys: Float[Array, " m"] = self.joint.sort_keys(x)
        arrangement = jnp.asarray(self.identity)
        for labels in self.classes:
            places = np.array(labels, np.int32)
            order = jnp.argsort(keys[places], stable=True)
            arrangement = arrangement.at[places].set(jnp.asarray(places)[order])
        return arrangement

    def describe(self, element: Arrangement) -> str:
        """Return words such as "swap components 1 and 2", or the whole order."""
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
