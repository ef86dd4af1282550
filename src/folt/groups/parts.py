"""What one permutation of m labels can move: the parts of a joint action.

Actions in the zero-sum basis are written as x plus a difference that vanishes when nothing
moves, so that the identity is exact in floating point and folding twice changes nothing.

Coordinates for vectors that sum to zero, such as centred scores.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from folt.groups.permutation import Arrangement, require_count, require_position


@functools.lru_cache
def zero_sum_basis(m: int) -> Float[np.ndarray, "m m-1"]:
    """Orthonormal basis B of the vectors of length m that sum to zero (Helmert).

    Column j is (1, ..., 1, -j, 0, ..., 0)/sqrt(j(j+1)) with j ones: the mean of the first j
    entries against the next. BᵀB = I and BBᵀ = I - 11ᵀ/m, so that w = B·c has coordinates
    c = Bᵀ·w, lengths agree, and a permutation P of w is the rotation BᵀPB of c.
    """
    require_count("m", m)
    basis = np.zeros((m, m - 1))
    for j in range(1, m):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    basis.setflags(write=False)
    return basis


_Piece = Float[Array, " length"]


class Part(ABC):
    """A piece of a point and how a permutation of m labels moves it."""

    has_keys: bool = True

    @abstractmethod
    def length(self, m: int) -> int:
        """Return the number of coordinates."""

    @abstractmethod
    def act(self, arrangement: Arrangement, piece: _Piece) -> _Piece:
        """Return the piece under new labels."""

    def sort_keys(self, piece: _Piece, m: int) -> Float[Array, " m"]:
        """Return one number per label by which labels may be sorted, where `has_keys`."""
        raise ValueError(f"{type(self).__name__} has no sort key")

    def carried(self, piece: _Piece, m: int) -> Float[Array, "m features"]:
        """Return numbers that move with each label: the sort keys, if there are any."""
        return self.sort_keys(piece, m)[:, None] if self.has_keys else jnp.zeros((m, 0))


@dataclasses.dataclass(frozen=True)
class Blocks(Part):
    """One block of parameters per label, laid out as (m, size).

    Args:
        size: coordinates per block.
        sort_by: the coordinate within a block, counted from zero, that is the sort key.
    """

    size: int
    sort_by: int = 0

    def __post_init__(self) -> None:
        require_count("size", self.size)
        require_position("sort_by", self.sort_by, self.size)

    def length(self, m: int) -> int:
        """Number of coordinates, m·size."""
        return m * self.size

    def act(self, arrangement: Arrangement, piece: _Piece) -> _Piece:
        """Return the blocks in their new order."""
        return piece.reshape(-1, self.size)[arrangement].reshape(-1)

    def sort_keys(self, piece: _Piece, m: int) -> Float[Array, " m"]:
        """Coordinate `sort_by` of every block."""
        return piece.reshape(m, self.size)[:, self.sort_by]

    def carried(self, piece: _Piece, m: int) -> Float[Array, "m features"]:
        """Return the blocks."""
        return piece.reshape(m, self.size)


@dataclasses.dataclass(frozen=True)
class _Among(Part):
    """Labels among entries of which some carry none.

    Args:
        others: places of the entries without a label, counted from zero: the weight of a spike
            at zero beside those of exchangeable components.
    """

    others: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        places = tuple(sorted(set(self.others)))
        if len(places) < len(self.others) or any(place < 0 for place in places):
            raise ValueError(f"expected distinct places from 0 on as others, got {self.others}")
        object.__setattr__(self, "others", places)

    def entries(self, m: int) -> int:
        """Return the number of entries, those without a label included.

        Raises:
            ValueError: a place without a label that is no entry.
        """
        count = m + len(self.others)
        if self.others and self.others[-1] >= count:
            raise ValueError(f"expected others among {count} entries, got {self.others}")
        return count

    def places(self, m: int) -> Int[np.ndarray, " m"]:
        """Return the entry of every label."""
        return np.setdiff1d(np.arange(self.entries(m)), np.array(self.others, int))

    def moved(self, arrangement: Arrangement) -> Int[Any, " entries"]:
        """Return the arrangement of all entries: those without a label stay."""
        if not self.others:
            return arrangement
        places = self.places(len(arrangement))
        every = jnp.arange(self.entries(len(arrangement)))
        return every.at[places].set(jnp.asarray(places)[arrangement])


@dataclasses.dataclass(frozen=True)
class ZeroSum(_Among):
    """A vector w = B·c of length m that sums to zero, in m - 1 orthonormal coordinates c.

    The centred scores of mixture weights. A permutation P acts as the rotation BᵀPB.

    Args:
        others: places of further entries, which carry no label.
    """

    def length(self, m: int) -> int:
        """Return one coordinate fewer than entries, m - 1 where all carry labels."""
        return self.entries(m) - 1

    def act(self, arrangement: Arrangement, piece: _Piece) -> _Piece:
        """Return the coordinates of the permuted vector."""
        moved = self.moved(arrangement)
        basis = jnp.asarray(zero_sum_basis(len(moved)), piece.dtype)
        vector = basis @ piece
        return piece + (vector[moved] - vector) @ basis

    def sort_keys(self, piece: _Piece, m: int) -> Float[Array, " m"]:
        """Return the entries that carry labels."""
        vector = jnp.asarray(zero_sum_basis(self.entries(m)), piece.dtype) @ piece
        return vector[self.places(m)]


@dataclasses.dataclass(frozen=True)
class Square(_Among):
    """An m x m matrix whose rows and columns both carry the labels, P A Pᵀ.

    Args:
        others: places of further rows and columns, which carry no label.
    """

    def length(self, m: int) -> int:
        """Return the number of coordinates, m² where all rows carry labels."""
        return self.entries(m) ** 2

    def act(self, arrangement: Arrangement, piece: _Piece) -> _Piece:
        """Return the matrix with rows and columns in their new order."""
        moved = self.moved(arrangement)
        return _both_sides(piece.reshape(len(moved), -1), moved).reshape(-1)

    def sort_keys(self, piece: _Piece, m: int) -> Float[Array, " m"]:
        """Return the diagonal."""
        rows = self.entries(m)
        return jnp.diagonal(piece.reshape(rows, rows))[self.places(m)]


@dataclasses.dataclass(frozen=True)
class ZeroSumRows(_Among):
    """An m x m matrix A = C·Bᵀ whose rows sum to zero, in m(m - 1) orthonormal coordinates C.

    The row-wise centred scores of a transition matrix. A permutation acts on A from both
    sides: the rows of C are permuted and its columns rotated, C ↦ P C BᵀPᵀB.

    Args:
        others: places of further states, which carry no label.
    """

    def length(self, m: int) -> int:
        """Return the number of coordinates, m(m - 1) where all states carry labels."""
        return self.entries(m) * (self.entries(m) - 1)

    def act(self, arrangement: Arrangement, piece: _Piece) -> _Piece:
        """Return the coordinates of the matrix permuted on both sides."""
        moved = self.moved(arrangement)
        matrix = self.matrix(piece, len(moved))
        change = _both_sides(matrix, moved) - matrix
        return piece + (change @ jnp.asarray(zero_sum_basis(len(moved)), piece.dtype)).reshape(-1)

    def sort_keys(self, piece: _Piece, m: int) -> Float[Array, " m"]:
        """Return the diagonal of the matrix."""
        return jnp.diagonal(self.matrix(piece, self.entries(m)))[self.places(m)]

    def matrix(self, piece: _Piece, rows: int) -> Float[Array, "rows rows"]:
        """Return the matrix A = C·Bᵀ."""
        return piece.reshape(rows, rows - 1) @ jnp.asarray(zero_sum_basis(rows), piece.dtype).T


@dataclasses.dataclass(frozen=True)
class Fixed(Part):
    """Parameters that carry no label and stay where they are.

    Args:
        size: number of coordinates.
    """

    size: int
    has_keys = False

    def __post_init__(self) -> None:
        require_count("size", self.size)

    def length(self, m: int) -> int:
        """The number of coordinates, whatever m is."""
        return self.size

    def act(self, arrangement: Arrangement, piece: _Piece) -> _Piece:
        """Return the piece itself."""
        return piece


def _both_sides(matrix: Float[Array, "m m"], arrangement: Arrangement) -> Float[Array, "m m"]:
    return matrix[arrangement][:, arrangement]
