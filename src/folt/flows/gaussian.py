"""The multivariate Gaussian, written through the root of its precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, Float

from folt.flows.elliptical import log_abs_det, log_radial, precision_root
from folt.types import Distribution, Key, Point, Scalar


class Gaussian(Distribution):
    """N(mean, Σ) with u = factor @ (x - mean) ~ N(0, I).

    The factor is lower triangular with Σ⁻¹ = factorᵀ factor, so the density is one product and
    only drawing solves a triangular system. Entries above the diagonal are ignored.
    """

    mean: Float[Array, " dim"]
    factor: Float[Array, "dim dim"]

    def __check_init__(self) -> None:
        if self.mean.ndim != 1 or self.factor.shape != (*self.mean.shape, *self.mean.shape):
            raise ValueError(
                f"expected a mean of shape (dim,) and a factor of shape (dim, dim), "
                f"got {self.mean.shape} and {self.factor.shape}"
            )

    @classmethod
    def from_moments(
        cls, mean: Float[ArrayLike, " dim"], covariance: Float[ArrayLike, "dim dim"]
    ) -> Gaussian:
        """The Gaussian with this mean and this covariance.

        Raises:
            ValueError: the covariance is not positive definite, with the direction named.
        """
        return cls(jnp.asarray(mean, float), precision_root(covariance))

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
        """-½|u|² - (dim/2) log 2π + log |det factor|."""
        u = self.pull(x)
        return log_radial(jnp.sum(u**2), self.dim) + log_abs_det(self.factor)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""
        u = jax.random.normal(key, (self.dim,), self.mean.dtype)
        return self.push(u), log_radial(jnp.sum(u**2), self.dim) + log_abs_det(self.factor)


def standard_normal(dim: int, scale: float = 1.0) -> Gaussian:
    """N(0, scale² I) on R^dim."""
    if dim < 1 or not scale > 0:
        raise ValueError(f"expected dim >= 1 and scale > 0, got dim={dim}, scale={scale}")
    return Gaussian(jnp.zeros(dim), jnp.eye(dim) / scale)
