"""Actions that permute whole blocks of coordinates: what an orbit sum over subsets rests on."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


@dataclasses.dataclass(frozen=True)
class BlockForm:
    """Which coordinates form the block of every label, and which carry no label.

    Attributes:
        places: one tuple of coordinates per label, all of one length p.
        fixed: coordinates that no element moves.
        signed: whether every block may change its sign besides.
    """

    places: tuple[tuple[int, ...], ...]
    fixed: tuple[int, ...] = ()
    signed: bool = False

    @property
    def labels(self) -> int:
        """Number of labels, m."""
        return len(self.places)

    @property
    def size(self) -> int:
        """Coordinates per block, p."""
        return len(self.places[0])

    @property
    def dim(self) -> int:
        """Coordinates in all."""
        return self.labels * self.size + len(self.fixed)

    @property
    def order(self) -> Int[np.ndarray, " dim"]:
        """The coordinates block by block, the fixed ones last."""
        return np.array([*(at for block in self.places for at in block), *self.fixed], int)

    def split(self, x: Any) -> tuple[Float[Any, "... m p"], Float[Any, "... f"]]:
        """The blocks of points and their fixed coordinates."""
        blocks = x[..., np.array(self.places, int)]
        return blocks, x[..., np.array(self.fixed, int)]

    def join(self, blocks: Any, fixed: Any) -> Float[Array, "... dim"]:
        """The points with these blocks and fixed coordinates."""
        flat = blocks.reshape(*blocks.shape[:-2], self.labels * self.size)
        return jnp.concatenate([flat, fixed], axis=-1)[..., np.argsort(self.order)]

    def shifted(self, start: int) -> BlockForm:
        """The same form of coordinates that begin at `start`."""
        places = tuple(tuple(at + start for at in block) for block in self.places)
        return dataclasses.replace(
            self, places=places, fixed=tuple(at + start for at in self.fixed)
        )


def rows_of(labels: int, size: int, start: int = 0) -> tuple[tuple[int, ...], ...]:
    """The coordinates of each row of a (labels, size) array laid out from `start` on."""
    places = start + np.arange(labels * size).reshape(labels, size)
    return tuple(map(tuple, places.tolist()))
