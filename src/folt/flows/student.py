"""The multivariate Student distribution: a Gaussian with honest tails."""

from __future__ import annotations

import math

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, Float

from folt.flows.elliptical import (
    log_abs_det,
    log_radial,
    precision_root,
    require_degrees,
    standard_draw,
)
from folt.types import Distribution, Key, Point, Scalar


class StudentT(Distribution):
    """Multivariate t with ν degrees of freedom and u = factor @ (x - mean) standard.

    p(x) ∝ (1 + |u|²/ν)^(-(ν+dim)/2). The factor is lower triangular as in `Gaussian`; entries
    above the diagonal are ignored.
    """

    mean: Float[Array, " dim"]
    factor: Float[Array, "dim dim"]
    degrees: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.mean.ndim != 1 or self.factor.shape != (*self.mean.shape, *self.mean.shape):
            raise ValueError(
                f"expected a mean of shape (dim,) and a factor of shape (dim, dim), "
                f"got {self.mean.shape} and {self.factor.shape}"
            )
        require_degrees(self.degrees)

    @classmethod
    def from_moments(
        cls,
        mean: Float[ArrayLike, " dim"],
        covariance: Float[ArrayLike, "dim dim"],
        degrees: float,
    ) -> StudentT:
        """The t with this mean and covariance; its scale matrix is covariance · (ν-2)/ν.

        Raises:
            ValueError: degrees ≤ 2 have no covariance, or the covariance is not positive definite.
        """
        if not degrees > 2:
            raise ValueError(f"a Student covariance needs degrees > 2, got {degrees}")
        stretch = 1.0 if math.isinf(degrees) else math.sqrt(degrees / (degrees - 2))
        return cls(jnp.asarray(mean, float), stretch * precision_root(covariance), degrees)

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.mean.shape[-1]

    def pull(self, x: Point) -> Point:
        """Standardise: u = factor @ (x - mean)."""
        return jnp.tril(self.factor) @ (x - self.mean)

    def push(self, u: Point) -> Point:
        """From a standard vector to the data: x = mean + factor⁻¹ u."""
        return self.mean + solve_triangular(self.factor, u, lower=True)

    def log_prob(self, x: Point) -> Scalar:
        """The radial log density of u plus log |det factor|."""
        squared = jnp.sum(self.pull(x) ** 2)
        return log_radial(squared, self.dim, self.degrees) + log_abs_det(self.factor)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""
        u = standard_draw(key, self.dim, self.degrees, self.mean.dtype)
        log_density = log_radial(jnp.sum(u**2), self.dim, self.degrees)
        return self.push(u), log_density + log_abs_det(self.factor)
