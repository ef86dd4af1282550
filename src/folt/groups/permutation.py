"""Permutations of equal blocks: the label switching of mixtures."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from folt.groups.arguments import require_position, require_positive
from folt.groups.arrangements import Arrangement
from folt.groups.block_form import BlockForm, rows_of
from folt.groups.relabelling import Relabelling
from folt.types import Point


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
