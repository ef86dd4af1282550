"""Permutations of equal blocks: the label switching of mixtures.

Groups of all permutations of m labels, whatever the labels stand for.

The symmetric group on m labels, as arrays.

An arrangement is an integer array a of length m: place i of the result takes what stood at
place a[i]. Every group that permutes something is written with these.

What the constructors of groups accept, and what they say otherwise.

Limits that are known before anything is imported or computed.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from abc import abstractmethod
from typing import SupportsIndex

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from folt.groups.base import BlockForm, Element, Group, require_enumerable, rows_of
from folt.types import Key, Point

MOST_LABELS = 14
"""Most exchangeable labels that a sum over all their orders takes: it goes through 2^m sets."""

MOST_LIKELY_LABELS = 20
"""Most exchangeable labels at all: beyond those above, the likeliest orders alone are summed."""


def require_labels(word: str, count: int) -> None:
    """Refuse more exchangeable labels than any proposal can be summed over.

    Args:
        word: what the labels are called.
        count: how many there are.

    Raises:
        ValueError: with the largest number.
    """
    if count > MOST_LIKELY_LABELS:
        raise ValueError(f"expected at most {MOST_LIKELY_LABELS} {word}, got {count}")


def whole(name: str, value: SupportsIndex) -> int:
    """Return the value as an int, or a ValueError that names the argument."""
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(
            f"{name} must be a whole number, got {value!r} ({type(value).__name__})"
        ) from None


def require_count(name: str, value: SupportsIndex) -> None:
    """Raise unless the value is a whole number of at least one."""
    if whole(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def require_position(name: str, value: SupportsIndex, length: int) -> None:
    """Raise unless the value counts a place, from zero, in something of the given length."""
    if not 0 <= whole(name, value) < length:
        raise ValueError(f"{name} must be one of 0 to {length - 1}, got {value}")


Arrangement = Int[Array | np.ndarray, " m"]
Stack = Int[np.ndarray, "n m"]


@functools.lru_cache
def all_arrangements(m: int) -> Stack:
    """Return all m! arrangements in lexicographic order, the identity first."""
    return _frozen(np.array(list(itertools.permutations(range(m)))), m)


@functools.lru_cache
def adjacent_swaps(m: int) -> Stack:
    """The m - 1 exchanges of neighbours: together they generate every arrangement."""
    return _frozen([_exchanged(m, place, place + 1) for place in range(m - 1)], m)


@functools.lru_cache
def swap_factors(m: int) -> tuple[Stack, ...]:
    """Stacks T_k = {e, (1 k), ..., (k-1 k)}, k = 2, ..., m.

    An arrangement of the first k labels is, in just one way, an arrangement of the first k - 1
    followed by an exchange of the last with one of them or with itself. So every arrangement is
    t_m···t_2 in just one way.
    """
    stacks = [
        _frozen([_exchanged(m, place, last) for place in range(last, -1, -1)], m)
        for last in range(1, m)
    ]
    return tuple(stacks) or (all_arrangements(m),)


def identity_arrangement(m: int) -> Int[np.ndarray, " m"]:
    """Return the arrangement that moves nothing."""
    return np.arange(m, dtype=np.int32)


def sorting_arrangement(keys: Array) -> Arrangement:
    """Return the arrangement that sorts the keys upwards; ties keep their places."""
    return jnp.argsort(keys, stable=True).astype(jnp.int32)


def inverted(arrangement: Arrangement) -> Arrangement:
    """Return the arrangement that undoes the given one."""
    return jnp.argsort(arrangement).astype(jnp.int32)


def composed(first: Arrangement, second: Arrangement) -> Arrangement:
    """Return the arrangement that does `second`, then `first`."""
    return jnp.asarray(second)[jnp.asarray(first)]


def random_arrangement(key: Key, m: int) -> Arrangement:
    """Return one of the m! arrangements, uniformly, without listing them."""
    return jax.random.permutation(key, m).astype(jnp.int32)


def arrangement_in_words(arrangement: ArrayLike, noun: str) -> str:
    """Return an arrangement in words, counting from one.

    "identity", "swap components 1 and 2" or "component order 2 3 1": the last names, place by
    place, the label that is moved there.
    """
    places = np.asarray(arrangement)
    moved = np.flatnonzero(places != np.arange(len(places)))
    if len(moved) == 0:
        return "identity"
    if len(moved) == 2:
        return f"swap {noun}s {moved[0] + 1} and {moved[1] + 1}"
    return f"{noun} order " + " ".join(str(place + 1) for place in places)


def _exchanged(m: int, first: int, second: int) -> Int[np.ndarray, " m"]:
    places = identity_arrangement(m)
    places[[first, second]] = places[[second, first]]
    return places


def _frozen(rows: ArrayLike, m: int) -> Stack:
    stack = np.asarray(rows, dtype=np.int32).reshape(-1, m)
    stack.setflags(write=False)
    return stack


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
        """Return the arrangement that does `second`, then `first`."""
        return composed(first, second)

    def inverse(self, element: Arrangement) -> Arrangement:
        """Return the arrangement that undoes `element`."""
        return inverted(element)

    def folding_element(self, x: Point) -> Arrangement:
        """Return the arrangement that sorts the keys, ties keeping their places."""
        return sorting_arrangement(self.sort_keys(x))

    def random_element(self, key: Key) -> Arrangement:
        """Return a uniform arrangement."""
        return random_arrangement(key, self.labels)

    def describe(self, element: Arrangement) -> str:
        """Return words such as "swap components 1 and 2", or the whole order."""
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
        require_count("blocks", self.blocks)
        require_count("size", self.size)
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
        """Return the blocks in their new order."""
        return self._rows(x)[jnp.asarray(element)].reshape(-1)

    def sort_keys(self, x: Point) -> Float[Array, " m"]:
        """Coordinate `sort_by` of every block."""
        return self._rows(x)[:, self.sort_by]

    def carried(self, x: Point) -> Float[Array, "m features"]:
        """Return the blocks."""
        return self._rows(x)

    def _rows(self, x: Point) -> Float[Array, "m p"]:
        return x.reshape(self.blocks, self.size)
