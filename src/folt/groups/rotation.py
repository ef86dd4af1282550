"""Rotations of the columns of a matrix into each other: a continuous group, with a quotient."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.groups.base import Element, Group
from folt.groups.permutation import require_count
from folt.types import Key, Point


class Rotation(Group):
    """O(k) acting from the right on a matrix of p rows and k columns, p ≥ k: g·Λ = Λgᵀ.

    A point is the matrix row by row. An element is an orthogonal matrix (k, k). No finite sum folds
    this group: a `Problem` with it is taken to the quotient, on which the matrix is lower
    trapezoidal with a positive diagonal in its pivot rows (`folt.coordinates.RotationChart`).
    Matrices that turn along are further rows of the same matrix.

    Args:
        rows: p, the rows of all matrices that turn together.
        columns: k, the columns that may be rotated into each other.
        special: rotations without reflections, SO(k).
        labels_first: whether the point holds the matrix column by column.
        pivots: k rows that are far from dependent; a `Problem` looks for them if None.
        scale: standard deviation of an isotropic normal prior of the entries, where there is one:
            the coordinates of the quotient are then standard normal under it.
    """

    rows: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    special: bool = eqx.field(static=True, default=False)
    labels_first: bool = eqx.field(static=True, default=False)
    pivots: tuple[int, ...] | None = eqx.field(static=True, default=None)
    scale: float | None = eqx.field(static=True, default=None)
    dim: int = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        require_count("rows", self.rows)
        require_count("columns", self.columns)
        if self.columns > self.rows:
            raise ValueError(
                f"expected at least as many rows as columns, got {self.rows} rows and "
                f"{self.columns} columns: with fewer rows, columns can be rotated to zero"
            )
        if self.scale is not None and not 0.0 < self.scale < math.inf:
            raise ValueError(f"expected scale > 0, got {self.scale}")
        pivots = self.pivots
        if pivots is not None and (
            len(pivots) != self.columns
            or len(set(pivots)) != self.columns
            or not all(0 <= row < self.rows for row in pivots)
        ):
            raise ValueError(
                f"expected pivots to be {self.columns} different rows from 0 to {self.rows - 1}, "
                f"got {pivots}"
            )
        self.dim = self.rows * self.columns

    @property
    def directions(self) -> int:
        """Dimension of the group, k(k - 1)/2: of the ring that is divided out."""
        return self.columns * (self.columns - 1) // 2

    @property
    def log_volume(self) -> float:
        """Log volume of the group, 2^k π^(k²/2) / Γ_k(k/2) for O(k) and half of it for SO(k)."""
        k = self.columns
        gammas = sum(math.lgamma(0.5 * (k - i)) for i in range(k))
        multivariate = 0.25 * k * (k - 1) * math.log(math.pi) + gammas
        whole = k * math.log(2.0) + 0.5 * k * k * math.log(math.pi) - multivariate
        return whole - (math.log(2.0) if self.special else 0.0)

    @property
    def name(self) -> str:
        """`O(3)` or `SO(3)`."""
        return f"{'S' * self.special}O({self.columns})"

    def _repr_html_(self) -> str:
        return f"<pre>{self!r}</pre>"

    @property
    def order(self) -> int:
        """A continuous group has none."""
        raise ValueError(f"{self.name} is continuous: it has no order, and folds by its quotient")

    @property
    def elements(self) -> Element:
        """A continuous group cannot be listed."""
        raise ValueError(f"{self.name} is continuous: its elements cannot be listed")

    @property
    def identity(self) -> Element:
        """The identity matrix."""
        return jnp.eye(self.columns)

    @property
    def generators(self) -> Element:
        """Rotations by 0.6 radians in neighbouring planes and, in O(k), one reflection.

        A density that these leave alone is left alone by the whole group: the angle is no rational
        part of a circle.
        """
        k, cosine, sine = self.columns, math.cos(0.6), math.sin(0.6)
        found = []
        for plane in range(k - 1):
            turn = np.eye(k)
            turn[plane : plane + 2, plane : plane + 2] = [[cosine, -sine], [sine, cosine]]
            found.append(turn)
        if not self.special:
            found.append(np.diag([*np.ones(k - 1), -1.0]))
        return np.stack(found) if found else np.eye(k)[None]

    def table(self, entries: np.ndarray) -> np.ndarray:
        """Anything with one entry for each of the matrix, as the matrix, on the host."""
        if self.labels_first:
            return entries.reshape(self.columns, self.rows).T
        return entries.reshape(self.rows, self.columns)

    def matrix(self, x: Point) -> Float[Array, "rows columns"]:
        """Return the matrix at a point."""
        if self.labels_first:
            return x.reshape(self.columns, self.rows).T
        return x.reshape(self.rows, self.columns)

    def point(self, matrix: Float[Array, "rows columns"]) -> Point:
        """Return the point of a matrix."""
        return (matrix.T if self.labels_first else matrix).reshape(-1)

    def act(self, element: Element, x: Point) -> Point:
        """Λgᵀ."""
        return self.point(self.matrix(x) @ element.T)

    def compose(self, first: Element, second: Element) -> Element:
        """Return the product of the matrices."""
        return first @ second

    def inverse(self, element: Element) -> Element:
        """Return the transpose."""
        return element.T

    def folding_element(self, x: Point) -> Element:
        """Return the rotation that makes the pivot rows lower triangular with a positive diagonal.

        In SO(k) the last entry of the diagonal keeps its sign.
        """
        q, r = jnp.linalg.qr(self.matrix(x)[np.array(self.pivot_rows)].T)
        signs = jnp.where(jnp.diagonal(r) < 0.0, -1.0, 1.0)
        if self.special:
            signs = signs.at[-1].multiply(jnp.prod(signs) * jnp.linalg.det(q))
        return (q * signs).T

    @property
    def pivot_rows(self) -> tuple[int, ...]:
        """The pivots, or the first rows."""
        return tuple(range(self.columns)) if self.pivots is None else self.pivots

    def random_element(self, key: Key) -> Element:
        """Return an element of the invariant law, by orthogonalising normal numbers."""
        q, r = jnp.linalg.qr(jax.random.normal(key, (self.columns, self.columns)))
        q = q * jnp.where(jnp.diagonal(r) < 0.0, -1.0, 1.0)
        if self.special:
            q = q.at[:, -1].multiply(jnp.linalg.det(q))
        return q

    def describe(self, element: Element) -> str:
        """Return the rotation by its angle in a plane, or as a reflection."""
        moved = np.flatnonzero(
            np.abs(np.asarray(element) - np.eye(self.columns)).max(axis=1) > 1e-9
        )
        if len(moved) == 0:
            return "identity"
        if len(moved) == 1:
            return f"flip the sign of column {moved[0] + 1}"
        if len(moved) == 2:
            return f"rotate columns {moved[0] + 1} and {moved[1] + 1} into each other"
        return "rotate the columns into each other"
