"""One permutation that moves several pieces of a point at once.

A mixture with free weights has component blocks and a weight vector, a hidden Markov model a
transition matrix besides. Relabelling moves all of them together: not a product of groups.
"""

from __future__ import annotations

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.groups.arguments import require_positive
from folt.groups.arrangements import Arrangement
from folt.groups.block_form import BlockForm, rows_of
from folt.groups.parts import Blocks, Fixed, Part
from folt.groups.relabelling import Relabelling
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
        require_positive("m", m)
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
        """Every part under the same new labels."""
        arrangement = jnp.asarray(element)
        pieces = zip(self.parts, self.pieces(x), strict=True)
        return jnp.concatenate([part.act(arrangement, piece) for part, piece in pieces])

    def sort_keys(self, x: Point) -> Float[Array, " m"]:
        """The keys of the first part that has any."""
        for part, piece in zip(self.parts, self.pieces(x), strict=True):
            if part.has_keys:
                return part.sort_keys(piece, self.m)
        raise AssertionError("the constructor admits no Joint without a part to sort by")

    def carried(self, x: Point) -> Float[Array, "m features"]:
        """What every part has of each label, side by side."""
        pieces = zip(self.parts, self.pieces(x), strict=True)
        return jnp.concatenate([part.carried(piece, self.m) for part, piece in pieces], axis=1)

    def pieces(self, x: Point) -> list[Array]:
        """The coordinates of each part."""
        ends = np.cumsum([part.length(self.m) for part in self.parts])[:-1].tolist()
        return jnp.split(x, ends)
