"""Sign flips of single coordinates.

The trivial group: no symmetry at all.

Sign patterns: arrays of +1 and -1, the group Z2^k.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import ArrayLike

from folt.groups.base import Element, Group, require_enumerable
from folt.groups.permutation import require_count, require_position, whole
from folt.types import Key, Point

Signs = Int[Array | np.ndarray, " k"]
_Stack = Int[np.ndarray, "n k"]


@functools.lru_cache
def all_signs(k: int) -> _Stack:
    """Return all 2^k patterns, the one without a flip first."""
    return _frozen(list(itertools.product((1, -1), repeat=k)), k)


@functools.lru_cache
def single_flips(k: int) -> _Stack:
    """Return the k patterns that flip one sign."""
    return _frozen(1 - 2 * np.eye(k), k)


@functools.lru_cache
def flip_factors(k: int) -> tuple[_Stack, ...]:
    """One stack per sign: leave it or flip it."""
    kept = unflipped(k)
    return tuple(_frozen([kept, flip], k) for flip in single_flips(k)) or (all_signs(k),)


def unflipped(k: int) -> Int[np.ndarray, " k"]:
    """Return the pattern without a flip."""
    return np.ones(k, dtype=np.int32)


def fixing_signs(values: Array) -> Signs:
    """Return the pattern that makes every value nonnegative."""
    return jnp.where(values < 0, -1, 1).astype(jnp.int32)


def random_signs(key: Key, k: int) -> Signs:
    """Return one of the 2^k patterns, uniformly."""
    return jax.random.rademacher(key, (k,), dtype=jnp.int32)


def signs_in_words(signs: ArrayLike, noun: str, numbers: Sequence[int]) -> str:
    """A pattern in words: "identity", "flip the sign of column 2"."""
    pairs = zip(numbers, np.asarray(signs), strict=True)
    flipped = [str(number) for number, sign in pairs if sign < 0]
    if not flipped:
        return "identity"
    if len(flipped) == 1:
        return f"flip the sign of {noun} {flipped[0]}"
    return f"flip the signs of {noun}s {', '.join(flipped[:-1])} and {flipped[-1]}"


def _frozen(rows: ArrayLike, k: int) -> _Stack:
    stack = np.asarray(rows, dtype=np.int32).reshape(-1, k) if k else np.ones((1, 0), np.int32)
    stack.setflags(write=False)
    return stack


class Trivial(Group):
    """The group {e} on R^dim; folding with it leaves everything as it was.

    Args:
        dim: dimension of the space.
    """

    dim: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require_count("dim", self.dim)

    @property
    def order(self) -> int:
        """One."""
        return 1

    @property
    def elements(self) -> Element:
        """The identity alone; it has no entries."""
        return np.zeros((1, 0), np.int32)

    @property
    def identity(self) -> Element:
        """The only element."""
        return np.zeros(0, np.int32)

    def act(self, element: Element, x: Point) -> Point:
        """Return the point itself."""
        return x

    def compose(self, first: Element, second: Element) -> Element:
        """Return the identity."""
        return second

    def inverse(self, element: Element) -> Element:
        """Return the identity."""
        return element

    def folding_element(self, x: Point) -> Element:
        """The identity: D is all of R^dim."""
        return self.identity

    def describe(self, element: Element) -> str:
        """Always "identity"."""
        return "identity"


class Reflection(Group):
    """Independent sign flips of k chosen coordinates, Z2^k, order 2^k.

    D: the chosen coordinates are nonnegative. An element is the pattern of k signs.

    Args:
        dim: dimension of the space.
        axes: the coordinates that may be flipped, counted from zero.
    """

    dim: int = eqx.field(static=True)
    axes: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int, axes: Iterable[int]):
        require_count("dim", dim)
        if not isinstance(axes, Iterable):
            raise ValueError(f"axes must be a sequence such as (0,), got {axes!r}")
        chosen = [whole("each axis", axis) for axis in axes]
        for axis in chosen:
            require_position("each axis", axis, dim)
        if len(set(chosen)) != len(chosen):
            raise ValueError(f"axes must be distinct, got {tuple(chosen)}")
        self.dim = dim
        # Sorted, so that the same group written in another order is an equal object.
        self.axes = tuple(sorted(chosen))

    @property
    def order(self) -> int:
        """Number of sign patterns, 2^k."""
        return 2 ** len(self.axes)

    @property
    def elements(self) -> Element:
        """All sign patterns (2^k, k)."""
        require_enumerable(self.order)
        return all_signs(len(self.axes))

    @property
    def identity(self) -> Element:
        """No flip."""
        return unflipped(len(self.axes))

    @property
    def generators(self) -> Element:
        """The k single flips."""
        return single_flips(len(self.axes))

    @property
    def factors(self) -> tuple[Element, ...]:
        """Axis by axis: leave it or flip it."""
        return flip_factors(len(self.axes))

    def act(self, element: Signs, x: Point) -> Point:
        """Multiply the chosen coordinates by their signs."""
        return x.at[jnp.array(self.axes, int)].multiply(jnp.asarray(element, x.dtype))

    def compose(self, first: Signs, second: Signs) -> Signs:
        """Signs multiply."""
        return jnp.asarray(first) * second

    def inverse(self, element: Signs) -> Signs:
        """Every flip undoes itself."""
        return element

    def folding_element(self, x: Point) -> Signs:
        """Return the signs that make the chosen coordinates nonnegative."""
        return fixing_signs(x[jnp.array(self.axes, int)])

    def random_element(self, key: Key) -> Signs:
        """Return a fair coin per axis."""
        return random_signs(key, len(self.axes))

    def describe(self, element: Signs) -> str:
        """Return words such as "flip the sign of coordinate 3"."""
        return signs_in_words(element, "coordinate", [axis + 1 for axis in self.axes])
