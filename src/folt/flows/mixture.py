"""Mixtures of Gaussians or Student components: what orbit EM fits."""

from __future__ import annotations

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.flows.elliptical import log_abs_det, log_radial, require_degrees, standard_draw
from folt.types import Distribution, Key, Point, Scalar

HARMLESS = 1e-9
"""Rounding of a log density that no certificate can notice."""


class Mixture(Distribution):
    """Σ_k w_k p(x; μ_k, factor_k), Gaussian or, for finite degrees, Student.

    The log weights are normalised when they are used, so they may be trained freely; entries of
    the factors above the diagonal are ignored.

    Args:
        log_weights: (K,), up to a common constant.
        means: (K, dim).
        factors: (K, dim, dim), lower triangular roots of the precisions: factor @ (x - mean) is
            standard under its component.
        degrees: degrees of freedom ν of every component; infinite is Gaussian.
        direct: standardise every point instead of using monomials: slower, and accurate for
            components that are narrow beside their separation (`settled` decides).
    """

    log_weights: Float[Array, " components"]
    means: Float[Array, "components dim"]
    factors: Float[Array, "components dim dim"]
    degrees: float = eqx.field(static=True, default=math.inf)
    direct: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        components, dim = self.means.shape
        if self.log_weights.shape != (components,) or self.factors.shape != (components, dim, dim):
            raise ValueError(
                "expected log_weights (K,), means (K, dim) and factors (K, dim, dim), got "
                f"{self.log_weights.shape}, {self.means.shape} and {self.factors.shape}"
            )
        require_degrees(self.degrees)

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.means.shape[-1]

    @property
    def components(self) -> int:
        """Number of components, K."""
        return self.means.shape[0]

    def standardise(self, x: Point) -> Float[Array, "components dim"]:
        """The point in the coordinates of every component, u_k = factor_k (x - μ_k).

        One product with all factors stacked: mapped over points it is a single matrix product.
        The offsets factor_k μ_k do not depend on the point and are computed once for all.
        """
        factors = jnp.tril(self.factors)
        offsets = jnp.einsum("kij,kj->ki", factors, self.means)
        stacked = factors.reshape(self.components * self.dim, self.dim)
        return (stacked @ x).reshape(self.components, self.dim) - offsets

    def log_terms(self, x: Point) -> Float[Array, " components"]:
        """The terms log w_k + log p(x; μ_k, factor_k) for every component.

        |factor_k (x - μ_k)|² is a quadratic in x, so over many points it is one product of the
        monomials of x with K columns of coefficients: no (points, K, dim) array is ever made. The
        origin is moved to the mixture's mean; the cancellation costs (separation/width)² roundings,
        which is why narrow components standardise (`direct`). In high dimension a few components
        standardise faster than there are monomials.
        """
        if self.direct or (self.dim + 1) * (self.dim + 2) // 2 > self.components * self.dim:
            return self.log_standard_terms(self.standardise(x))
        centre = jax.nn.softmax(self.log_weights) @ self.means
        squared = self._coefficients(centre) @ _monomials(x - centre)
        return self._log_from_squared(squared)

    def settled(self) -> Mixture:
        """The same mixture, `direct` if monomials would cost more than `HARMLESS` in a log term."""
        weights = scipy.special.softmax(np.asarray(self.log_weights))
        centre = weights @ np.asarray(self.means)
        pulled = np.einsum(
            "kij,kj->ki", np.tril(np.asarray(self.factors)), np.asarray(self.means) - centre
        )
        loss = np.finfo(float).eps * float(np.max(np.sum(pulled**2, axis=-1)))
        return dataclasses.replace(self, direct=not loss <= HARMLESS)

    def log_standard_terms(self, u: Float[Array, "components dim"]) -> Float[Array, " components"]:
        """`log_terms` of a point that is standardised already; the slow, direct way."""
        return self._log_from_squared(jnp.sum(u**2, axis=-1))

    def _log_from_squared(self, squared: Array) -> Array:
        radial = log_radial(squared, self.dim, self.degrees)
        return radial + log_abs_det(self.factors) + jax.nn.log_softmax(self.log_weights)

    def _coefficients(self, centre: Point) -> Float[Array, "components monomials"]:
        """Rows c_k with c_k · monomials(x - centre) = |factor_k (x - μ_k)|²."""
        factors = jnp.tril(self.factors)
        precisions = jnp.einsum("kji,kjl->kil", factors, factors)
        offsets = self.means - centre
        pulled = jnp.einsum("kij,kj->ki", precisions, offsets)
        rows, columns = np.triu_indices(self.dim)
        double = np.where(rows == columns, 1.0, 2.0)
        return jnp.concatenate(
            [
                precisions[:, rows, columns] * double,
                -2.0 * pulled,
                jnp.sum(pulled * offsets, axis=-1, keepdims=True),
            ],
            axis=-1,
        )

    def log_prob(self, x: Point) -> Scalar:
        """The density log Σ_k w_k p_k."""
        return logsumexp(self.log_terms(x))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""
        label_key, noise_key = jax.random.split(key)
        label = jax.random.categorical(label_key, self.log_weights)
        u = standard_draw(noise_key, self.dim, self.degrees, self.means.dtype)
        # All K inverses, not the chosen one: they do not depend on the key, so that a batch of
        # draws shares them instead of solving one triangular system per draw.
        identity = jnp.broadcast_to(jnp.eye(self.dim, dtype=u.dtype), self.factors.shape)
        roots = solve_triangular(self.factors, identity, lower=True)
        x = self.means[label] + roots[label] @ u
        return x, self.log_prob(x)


def _monomials(x: Point) -> Float[Array, " monomials"]:
    """x_i x_j for i ≤ j, then x_i, then 1."""
    rows, columns = np.triu_indices(x.shape[0])
    return jnp.concatenate([x[rows] * x[columns], x, jnp.ones(1, x.dtype)])
