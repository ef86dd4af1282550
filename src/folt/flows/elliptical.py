"""What Gaussian and Student components share: a radial law and the root of a precision.

Both are densities of u = factor @ (x - mean) with a lower triangular factor: the Gaussian is
the limit of infinite degrees of freedom, so one formula with a static switch serves both.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, Float

from folt.types import Key, Point

DEGENERATE = 1e-13
"""Smallest eigenvalue of a correlation matrix that still counts as positive."""


def log_radial(
    squared: Float[Array, "*n"], dim: int, degrees: float = math.inf
) -> Float[Array, "*n"]:
    """Log density of a standard Gaussian or Student vector from its squared length |u|².

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
    """One standard Gaussian vector, or a Student vector: Gaussian / sqrt(χ²_ν / ν)."""
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
    """Log of |det factor| of a triangular matrix."""
    return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor, axis1=-2, axis2=-1))), axis=-1)


def precision_root(covariance: Float[ArrayLike, "dim dim"]) -> Float[Array, "dim dim"]:
    """The lower triangular factor with factor @ covariance @ factor.T = I.

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
