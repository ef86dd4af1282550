"""Sign flips of single coordinates."""

from __future__ import annotations

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp

from folt.groups.arguments import require_position, require_positive, whole
from folt.groups.base import Element, Group, require_enumerable
from folt.groups.signs import (
    Signs,
    all_signs,
    fixing_signs,
    flip_factors,
    random_signs,
    signs_in_words,
    single_flips,
    unflipped,
)
from folt.types import Key, Point


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
        require_positive("dim", dim)
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
        """The signs that make the chosen coordinates nonnegative."""
        return fixing_signs(x[jnp.array(self.axes, int)])

    def random_element(self, key: Key) -> Signs:
        """A fair coin per axis."""
        return random_signs(key, len(self.axes))

    def describe(self, element: Signs) -> str:
        """Words such as "flip the sign of coordinate 3"."""
        return signs_in_words(element, "coordinate", [axis + 1 for axis in self.axes])
