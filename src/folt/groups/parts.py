"""What one permutation of m labels can move: the parts of a joint action.

Actions in the zero-sum basis are written as x plus a difference that vanishes when nothing
moves, so that the identity is exact in floating point and folding twice changes nothing.

Coordinates for vectors that sum to zero, such as centred scores.
"""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.groups.arrangements import Arrangement, require_position, require_positive


@functools.lru_cache
def zero_sum_basis(m: int) -> Float[np.ndarray, "m m-1"]:
    """Orthonormal basis B of the vectors of length m that sum to zero (Helmert).

    Column j is (1, ..., 1, -j, 0, ..., 0)/sqrt(j(j+1)) with j ones: the mean of the first j
    entries against the next. BᵀB = I and BBᵀ = I - 11ᵀ/m, so that w = B·c has coordinates
    c = Bᵀ·w, lengths agree, and a permutation P of w is the rotation BᵀPB of c.
    """
    require_positive("m", m)
    basis = np.zeros((m, m - 1))
    for j in range(1, m):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    basis.setflags(write=False)
    return basis


Piece = Float[Array, " length"]


class Part(ABC):
    """A piece of a point and how a permutation of m labels moves it."""

    has_keys: bool = True

    @abstractmethod
    def length(self, m: int) -> int:
        """Number of coordinates."""

    @abstractmethod
    def act(self, arrangement: Arrangement, piece: Piece) -> Piece:
        """The piece under new labels."""

    def sort_keys(self, piece: Piece, m: int) -> Float[Array, " m"]:
        """One number per label by which labels may be sorted, where `has_keys`."""
        raise ValueError(f"{type(self).__name__} has no sort key")

    def carried(self, piece: Piece, m: int) -> Float[Array, "m features"]:
        """Numbers that move with each label: the sort keys, if there are any."""
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
        require_positive("size", self.size)
        require_position("sort_by", self.sort_by, self.size)

    def length(self, m: int) -> int:
        """Number of coordinates, m·size."""
        return m * self.size

    def act(self, arrangement: Arrangement, piece: Piece) -> Piece:
        """The blocks in their new order."""
        return piece.reshape(-1, self.size)[arrangement].reshape(-1)

    def sort_keys(self, piece: Piece, m: int) -> Float[Array, " m"]:
        """Coordinate `sort_by` of every block."""
        return piece.reshape(m, self.size)[:, self.sort_by]

    def carried(self, piece: Piece, m: int) -> Float[Array, "m features"]:
        """The blocks."""
        return piece.reshape(m, self.size)


@dataclasses.dataclass(frozen=True)
class ZeroSum(Part):
    """A vector w = B·c of length m that sums to zero, in m - 1 orthonormal coordinates c.

    The centred scores of mixture weights. A permutation P acts as the rotation BᵀPB.
    """

    def length(self, m: int) -> int:
        """One coordinate fewer than labels, m - 1."""
        return m - 1

    def act(self, arrangement: Arrangement, piece: Piece) -> Piece:
        """The coordinates of the permuted vector."""
        basis = jnp.asarray(zero_sum_basis(len(arrangement)), piece.dtype)
        vector = basis @ piece
        return piece + (vector[arrangement] - vector) @ basis

    def sort_keys(self, piece: Piece, m: int) -> Float[Array, " m"]:
        """The vector itself."""
        return jnp.asarray(zero_sum_basis(m), piece.dtype) @ piece


@dataclasses.dataclass(frozen=True)
class Square(Part):
    """An m x m matrix whose rows and columns both carry the labels, P A Pᵀ."""

    def length(self, m: int) -> int:
        """Number of coordinates, m²."""
        return m * m

    def act(self, arrangement: Arrangement, piece: Piece) -> Piece:
        """The matrix with rows and columns in their new order."""
        return _both_sides(piece.reshape(len(arrangement), -1), arrangement).reshape(-1)

    def sort_keys(self, piece: Piece, m: int) -> Float[Array, " m"]:
        """The diagonal."""
        return jnp.diagonal(piece.reshape(m, m))


@dataclasses.dataclass(frozen=True)
class ZeroSumRows(Part):
    """An m x m matrix A = C·Bᵀ whose rows sum to zero, in m(m - 1) orthonormal coordinates C.

    The row-wise centred scores of a transition matrix. A permutation acts on A from both
    sides: the rows of C are permuted and its columns rotated, C ↦ P C BᵀPᵀB.
    """

    def length(self, m: int) -> int:
        """Number of coordinates, m(m - 1)."""
        return m * (m - 1)

    def act(self, arrangement: Arrangement, piece: Piece) -> Piece:
        """The coordinates of the matrix permuted on both sides."""
        m = len(arrangement)
        matrix = self.matrix(piece, m)
        moved = _both_sides(matrix, arrangement) - matrix
        return piece + (moved @ jnp.asarray(zero_sum_basis(m), piece.dtype)).reshape(-1)

    def sort_keys(self, piece: Piece, m: int) -> Float[Array, " m"]:
        """The diagonal of the matrix."""
        return jnp.diagonal(self.matrix(piece, m))

    def matrix(self, piece: Piece, m: int) -> Float[Array, "m m"]:
        """The matrix A = C·Bᵀ."""
        return piece.reshape(m, m - 1) @ jnp.asarray(zero_sum_basis(m), piece.dtype).T


@dataclasses.dataclass(frozen=True)
class Fixed(Part):
    """Parameters that carry no label and stay where they are.

    Args:
        size: number of coordinates.
    """

    size: int
    has_keys = False

    def __post_init__(self) -> None:
        require_positive("size", self.size)

    def length(self, m: int) -> int:
        """The number of coordinates, whatever m is."""
        return self.size

    def act(self, arrangement: Arrangement, piece: Piece) -> Piece:
        """The piece itself."""
        return piece


def _both_sides(matrix: Float[Array, "m m"], arrangement: Arrangement) -> Float[Array, "m m"]:
    return matrix[arrangement][:, arrangement]
