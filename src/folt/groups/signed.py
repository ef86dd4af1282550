"""Signed permutations of columns: the symmetry of factors and of independent components."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.groups.base import BlockForm, Element, Group, require_enumerable, rows_of
from folt.groups.permutation import (
    Arrangement,
    adjacent_swaps,
    all_arrangements,
    arrangement_in_words,
    composed,
    identity_arrangement,
    inverted,
    random_arrangement,
    require_count,
    require_position,
    sorting_arrangement,
    swap_factors,
)
from folt.groups.reflection import (
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


class SignedArrangement(NamedTuple):
    """Column i of the result is signs[i] times column arrangement[i]."""

    arrangement: Arrangement
    signs: Signs


class SignedPermutation(Group):
    """All permutations and sign changes of m columns, order 2^m·m!.

    A point reshapes to (columns, size), one column of a loading matrix per row. Let the level of
    a column be the sum of its entries, or one of them. D: 0 ≤ level 1 ≤ ... ≤ level m, the
    chamber of the hyperoctahedral group.

    Args:
        columns: number of columns, m.
        size: entries per column.
        sort_by: the entry, counted from zero, that is the level of a column; None takes the sum
            of the entries, which does not rest on a single one being away from zero.
        unsigned: entries at the end of every column that move with it and keep their sign, such
            as the scale of a column of loadings.
    """

    columns: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    sort_by: int | None = eqx.field(static=True, default=None)
    unsigned: int = eqx.field(static=True, default=0)
    dim: int = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        require_count("columns", self.columns)
        require_count("size", self.size)
        require_position("unsigned", self.unsigned, self.size)
        if self.sort_by is not None:
            require_position("sort_by", self.sort_by, self.size - self.unsigned)
        self.dim = self.columns * self.size

    @property
    def order(self) -> int:
        """Number of elements, 2^m·m!."""
        return 2**self.columns * math.factorial(self.columns)

    @property
    def elements(self) -> Element:
        """Every arrangement with every sign pattern."""
        require_enumerable(self.order)
        arrangements, signs = all_arrangements(self.columns), all_signs(self.columns)
        return SignedArrangement(
            np.repeat(arrangements, len(signs), axis=0), np.tile(signs, (len(arrangements), 1))
        )

    @property
    def identity(self) -> Element:
        """Nothing moved, nothing flipped."""
        return SignedArrangement(identity_arrangement(self.columns), unflipped(self.columns))

    @property
    def generators(self) -> Element:
        """Exchanges of neighbouring columns, then single flips."""
        swaps = _without_flips(adjacent_swaps(self.columns))
        flips = _without_swaps(single_flips(self.columns))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), swaps, flips)

    @property
    def factors(self) -> tuple[Element, ...]:
        """First the factors that permute, then those that flip."""
        swaps = [_without_flips(stack) for stack in swap_factors(self.columns)]
        flips = [_without_swaps(stack) for stack in flip_factors(self.columns)]
        return (*swaps, *flips)

    @property
    def block_form(self) -> BlockForm | None:
        """Every column is a block, and may change its sign, if it may as a whole."""
        if self.unsigned:
            return None
        return BlockForm(rows_of(self.columns, self.size), signed=True)

    def act(self, element: SignedArrangement, x: Point) -> Point:
        """Return columns in their new order, then with their new signs."""
        moved = self._rows(x)[jnp.asarray(element.arrangement)]
        signs = jnp.asarray(element.signs, x.dtype)[:, None]
        flips = np.arange(self.size) < self.size - self.unsigned
        return jnp.where(flips, signs * moved, moved).reshape(-1)

    def compose(self, first: SignedArrangement, second: SignedArrangement) -> SignedArrangement:
        """The signs of `second` travel with their columns."""
        return SignedArrangement(
            composed(first.arrangement, second.arrangement),
            first.signs * jnp.asarray(second.signs)[jnp.asarray(first.arrangement)],
        )

    def inverse(self, element: SignedArrangement) -> SignedArrangement:
        """Columns go back and take their signs with them."""
        back = inverted(element.arrangement)
        return SignedArrangement(back, jnp.asarray(element.signs)[back])

    def folding_element(self, x: Point) -> SignedArrangement:
        """Make every level nonnegative, then sort the levels."""
        levels = self._levels(x)
        arrangement = sorting_arrangement(jnp.abs(levels))
        return SignedArrangement(arrangement, fixing_signs(levels)[arrangement])

    def random_element(self, key: Key) -> SignedArrangement:
        """Return a uniform arrangement with fair signs."""
        key_arrangement, key_signs = jax.random.split(key)
        return SignedArrangement(
            random_arrangement(key_arrangement, self.columns), random_signs(key_signs, self.columns)
        )

    def describe(self, element: SignedArrangement) -> str:
        """Return words such as "swap columns 1 and 2, then flip the sign of column 1"."""
        numbers = range(1, self.columns + 1)
        moved = arrangement_in_words(element.arrangement, "column")
        flipped = signs_in_words(element.signs, "column", numbers)
        return ", then ".join(w for w in (moved, flipped) if w != "identity") or "identity"

    def _rows(self, x: Point) -> Float[Array, "columns size"]:
        return x.reshape(self.columns, self.size)

    def _levels(self, x: Point) -> Float[Array, " columns"]:
        rows = self._rows(x)[:, : self.size - self.unsigned]
        return jnp.sum(rows, axis=1) if self.sort_by is None else rows[:, self.sort_by]


def _without_flips(arrangements: np.ndarray) -> SignedArrangement:
    return SignedArrangement(arrangements, np.ones_like(arrangements))


def _without_swaps(signs: np.ndarray) -> SignedArrangement:
    count, columns = signs.shape
    return SignedArrangement(np.tile(identity_arrangement(columns), (count, 1)), signs)
