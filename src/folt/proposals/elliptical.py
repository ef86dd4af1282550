"""What Gaussian and Student components share: a radial law and the root of a precision.

Both are densities of u = factor @ (x - mean) with a lower triangular factor: the Gaussian is
the limit of infinite degrees of freedom, so one formula with a static switch serves both.

The multivariate Gaussian, written through the root of its precision.

The multivariate Student distribution: a Gaussian with honest tails.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, Float

from folt.types import Distribution, Key, Point, Scalar

DEGENERATE = 1e-13
"""Smallest eigenvalue of a correlation matrix that still counts as positive."""


def log_radial(
    squared: Float[Array, "*n"], dim: int, degrees: float = math.inf
) -> Float[Array, "*n"]:
    """Return the log density of a standard Gaussian or Student vector from its squared length |u|².

    -½|u|² - (dim/2) log 2π, or for ν degrees of freedom
    log Γ((ν+dim)/2) - log Γ(ν/2) - (dim/2) log νπ - ((ν+dim)/2) log(1 + |u|²/ν).
    """
    if math.isinf(degrees):
        return -0.5 * squared - 0.5 * dim * math.log(2 * math.pi)
    half = 0.5 * (degrees + dim)
    constant = math.lgamma(half) - math.lgamma(0.5 * degrees)
    constant -= 0.5 * dim * math.log(degrees * math.pi)
    return constant - half * jnp.log1p(squared / degrees)


def standard_draw(key: Key, dim: int, degrees: float, dtype: jnp.dtype) -> Point:
    """Return one standard Gaussian vector, or a Student vector: Gaussian / sqrt(χ²_ν / ν)."""
    if math.isinf(degrees):
        return jax.random.normal(key, (dim,), dtype)
    normal_key, radius_key = jax.random.split(key)
    chi_squared = _chi_squared(radius_key, degrees, dtype)
    return jax.random.normal(normal_key, (dim,), dtype) / jnp.sqrt(chi_squared / degrees)


def _chi_squared(key: Key, degrees: float, dtype: jnp.dtype) -> Array:
    """χ²_ν: a sum of ν squares where ν is a small whole number, which compiles much faster."""
    if degrees == int(degrees) and degrees <= 16:
        return jnp.sum(jax.random.normal(key, (int(degrees),), dtype) ** 2)
    return 2 * jax.random.gamma(key, 0.5 * degrees, (), dtype)


def log_abs_det(factor: Float[Array, "... dim dim"]) -> Array:
    """Return the log of |det factor| of a triangular matrix."""
    return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor, axis1=-2, axis2=-1))), axis=-1)


def precision_root(covariance: Float[ArrayLike, "dim dim"]) -> Float[Array, "dim dim"]:
    """Return the lower triangular factor with factor @ covariance @ factor.T = I.

    Raises:
        ValueError: the matrix is not positive definite; the message names the constant
            coordinate or the degenerate direction.
    """
    matrix = np.asarray(covariance, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"expected a square covariance matrix, got shape {matrix.shape}")
    require_positive_definite(matrix)
    root = jnp.linalg.cholesky(jnp.asarray(matrix, float))
    return solve_triangular(root, jnp.eye(matrix.shape[0], dtype=root.dtype), lower=True)


def require_positive_definite(matrix: np.ndarray) -> None:
    """Refuse a matrix that is not positive definite, judged on the correlation scale.

    Units then do not matter.
    """
    if not np.all(np.isfinite(matrix)):
        raise ValueError("the covariance has entries that are not finite")
    variances = np.diagonal(matrix)
    if np.any(variances <= 0):
        index = int(np.argmin(variances))
        raise ValueError(
            f"expected a positive definite covariance, but coordinate {index} is constant "
            f"(variance {variances[index]:.3g})"
        )
    deviations = np.sqrt(variances)
    values, vectors = np.linalg.eigh(matrix / np.outer(deviations, deviations))
    if values[0] <= DEGENERATE:
        direction = vectors[:, 0] / deviations
        direction /= np.linalg.norm(direction)
        terms = [f"{value:+.3g}·x{i}" for i, value in enumerate(direction) if abs(value) > 1e-3]
        raise ValueError(
            "expected a positive definite covariance, but the direction "
            f"{' '.join(terms)} does not vary (eigenvalue {values[0]:.3g} of the correlation)"
        )


def require_degrees(degrees: float) -> None:
    """Refuse degrees of freedom that are not positive."""
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be positive, got {degrees}")


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
        """Return the Gaussian with this mean and this covariance.

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
        """Return one draw and its log density."""
        u = jax.random.normal(key, (self.dim,), self.mean.dtype)
        return self.push(u), log_radial(jnp.sum(u**2), self.dim) + log_abs_det(self.factor)


def standard_normal(dim: int, scale: float = 1.0) -> Gaussian:
    """N(0, scale² I) on R^dim."""
    if dim < 1 or not scale > 0:
        raise ValueError(f"expected dim >= 1 and scale > 0, got dim={dim}, scale={scale}")
    # Made on the host: JAX would compile programs for it.
    return Gaussian(*jax.device_put((np.zeros(dim), np.eye(dim) / scale)))


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
        """Return the radial log density of u plus log |det factor|."""
        squared = jnp.sum(self.pull(x) ** 2)
        return log_radial(squared, self.dim, self.degrees) + log_abs_det(self.factor)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        u = standard_draw(key, self.dim, self.degrees, self.mean.dtype)
        log_density = log_radial(jnp.sum(u**2), self.dim, self.degrees)
        return self.push(u), log_density + log_abs_det(self.factor)
