"""Coordinates of the quotient of matrices by rotations from the right.

A matrix Λ (p, k) of full rank is LR in just one way, R in O(k) and L lower trapezoidal with a
positive diagonal in k pivot rows, and dΛ = Π_i l_ii^(k-i) dL dR. A density that rotations leave
alone has the integral Vol(O(k)) ∫ π(L) Π l_ii^(k-i) dL.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.coordinates.location_scale import Gamma
from folt.coordinates.tails import normal_log_density
from folt.groups import Rotation
from folt.types import Point, Scalar

Left = Float[Array, " left"]
"""Coordinates that are left when rotations are divided out."""


class RotationChart(eqx.Module):
    """From coordinates of the quotient to the lower-trapezoidal representative.

    The coordinates are the entries of L on and below the diagonal of the pivot rows, and all
    entries of the other rows. Diagonal entries are logarithms; or, under an isotropic normal prior
    of the matrix, scores of Bartlett's law l_ii ~ scale·χ_(k-i+1), which with the other entries in
    units of the scale makes the prior of the quotient standard normal.

    Args:
        group: the rotations, with their pivot rows.
    """

    group: Rotation

    @property
    def dim(self) -> int:
        """Number of coordinates, pk - k(k - 1)/2."""
        return self.group.dim - self.group.directions

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of every coordinate: the triangle first, then the other rows."""
        k, pivots = self.group.columns, np.array(self.group.pivot_rows)
        low, across = np.tril_indices(k)
        others = np.setdiff1d(np.arange(self.group.rows), pivots)
        rows = np.concatenate([pivots[low], np.repeat(others, k)])
        return rows, np.concatenate([across, np.tile(np.arange(k), len(others))])

    @property
    def diagonal(self) -> np.ndarray:
        """Which coordinates are the diagonal."""
        low, across = np.tril_indices(self.group.columns)
        return np.flatnonzero(low == across)

    @property
    def _chi(self) -> Gamma:
        degrees = self.group.columns - np.arange(self.group.columns)
        return Gamma(jnp.asarray(0.5 * degrees))

    def push(self, z: Left) -> Point:
        """Return the point of the representative L."""
        entries, place = z, self.diagonal
        if self.group.scale is not None:
            root = math.sqrt(2.0) * jnp.exp(0.5 * self._chi.log_from_normal(z[place]))
            entries = self.group.scale * z.at[place].set(self._last(z, root))
        else:
            entries = z.at[place].set(self._last(z, jnp.exp(z[place])))
        matrix = jnp.zeros((self.group.rows, self.group.columns), z.dtype)
        return self.group.point(matrix.at[self.places].set(entries))

    def _last(self, z: Array, diagonal: Array) -> Array:
        """The diagonal; in SO(k) its last entry is any real number, its own coordinate."""
        if not self.group.special:
            return diagonal
        return diagonal.at[-1].set(z[self.diagonal[-1]])

    def pull(self, x: Point) -> Left:
        """Return the coordinates of the orbit of a point."""
        matrix = self.group.matrix(self.group.fold(x))
        place = self.diagonal
        if self.group.scale is None:
            entries = matrix[self.places]
            return entries.at[place].set(self._last(entries, jnp.log(entries[place])))
        entries = matrix[self.places] / self.group.scale
        scores = self._chi.to_normal(0.5 * entries[place] ** 2)
        return entries.at[place].set(self._last(entries, scores))

    def log_slope(self, z: Left) -> Scalar:
        """What is added to the log density of the matrix: its integral over an orbit included."""
        group = self.group
        if group.scale is not None:
            # Bartlett's law is the quotient of the normal law: their ratio is volume and slope.
            matrix = self.push(z) / group.scale
            normal = jnp.sum(normal_log_density(matrix)) - group.dim * math.log(group.scale)
            return jnp.sum(normal_log_density(z)) - normal
        powers = group.columns - np.arange(group.columns)
        if group.special:
            powers = np.where(np.arange(group.columns) == group.columns - 1, 0, powers)
        return group.log_volume + jnp.sum(jnp.asarray(powers) * z[self.diagonal])
