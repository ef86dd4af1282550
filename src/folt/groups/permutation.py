"""Permutations of equal blocks: the label switching of mixtures.

Groups of all permutations of m labels, whatever the labels stand for.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from folt.groups.arrangements import (
    Arrangement,
    adjacent_swaps,
    all_arrangements,
    arrangement_in_words,
    composed,
    identity_arrangement,
    inverted,
    random_arrangement,
    require_position,
    require_positive,
    sorting_arrangement,
    swap_factors,
)
from folt.groups.base import BlockForm, Element, Group, require_enumerable, rows_of
from folt.types import Key, Point


class Relabelling(Group):
    """The symmetric group on m labels, order m!, with the domain of ascending sort keys.

    An element is an arrangement: label i of g·x is label g[i] of x. A kind of relabelling adds
    how an arrangement acts on points and which m numbers are sorted.
    """

    @property
    @abstractmethod
    def labels(self) -> int:
        """Number of labels, m."""

    @abstractmethod
    def sort_keys(self, x: Point) -> Float[Array, " m"]:
        """One number per label; they ascend in the fundamental domain."""

    def carried(self, x: Point) -> Float[Array, "m features"]:
        """Numbers that a label carries with it: row i of those of g·x is row g[i] of those of x.

        They tell likely labellings from unlikely ones without going through all of them. The
        sort keys, unless a kind of relabelling knows more.
        """
        return self.sort_keys(x)[:, None]

    @property
    def order(self) -> int:
        """Number of elements, m!."""
        return math.factorial(self.labels)

    @property
    def elements(self) -> Element:
        """All arrangements (m!, m) in lexicographic order."""
        require_enumerable(self.order)
        return all_arrangements(self.labels)

    @property
    def identity(self) -> Element:
        """The arrangement that moves nothing."""
        return identity_arrangement(self.labels)

    @property
    def generators(self) -> Element:
        """The m - 1 exchanges of neighbouring labels."""
        return adjacent_swaps(self.labels)

    @property
    def factors(self) -> tuple[Element, ...]:
        """Exchanges with the last of the first k labels, k = 2, ..., m."""
        return swap_factors(self.labels)

    def compose(self, first: Arrangement, second: Arrangement) -> Arrangement:
        """The arrangement that does `second`, then `first`."""
        return composed(first, second)

    def inverse(self, element: Arrangement) -> Arrangement:
        """The arrangement that undoes `element`."""
        return inverted(element)

    def folding_element(self, x: Point) -> Arrangement:
        """The arrangement that sorts the keys, ties keeping their places."""
        return sorting_arrangement(self.sort_keys(x))

    def random_element(self, key: Key) -> Arrangement:
        """A uniform arrangement."""
        return random_arrangement(key, self.labels)

    def describe(self, element: Arrangement) -> str:
        """Words such as "swap components 1 and 2", or the whole order."""
        return arrangement_in_words(element, "component")


class Permutation(Relabelling):
    """All permutations of m blocks of p coordinates, order m!.

    A point reshapes to (blocks, size). D: coordinate `sort_by` ascends from block to block.

    Args:
        blocks: number of blocks, m.
        size: coordinates per block, p.
        sort_by: the coordinate within a block, counted from zero, that orders the blocks.
    """

    blocks: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    sort_by: int = eqx.field(static=True, default=0)
    dim: int = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        require_positive("blocks", self.blocks)
        require_positive("size", self.size)
        require_position("sort_by", self.sort_by, self.size)
        self.dim = self.blocks * self.size

    @property
    def labels(self) -> int:
        """Number of blocks, m."""
        return self.blocks

    @property
    def block_form(self) -> BlockForm:
        """Every row of (blocks, size) is a block."""
        return BlockForm(rows_of(self.blocks, self.size))

    def act(self, element: Arrangement, x: Point) -> Point:
        """The blocks in their new order."""
        return self._rows(x)[jnp.asarray(element)].reshape(-1)

    def sort_keys(self, x: Point) -> Float[Array, " m"]:
        """Coordinate `sort_by` of every block."""
        return self._rows(x)[:, self.sort_by]

    def carried(self, x: Point) -> Float[Array, "m features"]:
        """The blocks."""
        return self._rows(x)

    def _rows(self, x: Point) -> Float[Array, "m p"]:
        return x.reshape(self.blocks, self.size)
