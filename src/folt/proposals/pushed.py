"""An affine map around another distribution, and the whitening that commutes with a group.

Skewness and tails of every coordinate, around another distribution.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.groups.base import Group
from folt.proposals.elliptical import require_positive_definite
from folt.types import Distribution, Key, Point, Points, Scalar


class Pushed(Distribution):
    """A distribution pushed through x = mean + root @ u.

    Mean and root are estimates made before training, not parameters: gradients do not reach
    them, so that a root which commutes with a group goes on doing so.
    """

    base: Distribution
    mean: Float[Array, " dim"]
    root: Float[Array, "dim dim"]

    def __check_init__(self) -> None:
        dim = self.base.dim
        if self.mean.shape != (dim,) or self.root.shape != (dim, dim):
            raise ValueError(
                f"expected a mean of shape {(dim,)} and a root of shape {(dim, dim)}, "
                f"got {self.mean.shape} and {self.root.shape}"
            )

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.base.dim

    def push(self, u: Point) -> Point:
        """From the base's space to the data: x = mean + root @ u."""
        mean, root = jax.lax.stop_gradient((self.mean, self.root))
        return mean + root @ u

    def pull(self, x: Point) -> Point:
        """From the data to the base's space: u = root⁻¹ (x - mean)."""
        mean, root = jax.lax.stop_gradient((self.mean, self.root))
        # The inverse does not depend on x: over many points it is computed once.
        return jnp.linalg.inv(root) @ (x - mean)

    def log_prob(self, x: Point) -> Scalar:
        """Log density of the base at pull(x), minus log |det root|."""
        return self.base.log_prob(self.pull(x)) - self._log_det()

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        u, log_prob = self.base.sample_and_log_prob(key)
        return self.push(u), log_prob - self._log_det()

    def _log_det(self) -> Scalar:
        return jnp.linalg.slogdet(jax.lax.stop_gradient(self.root))[1]


def whitening(group: Group, draws: Points) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """Return the mean and symmetric root of the covariance over the orbits of the draws.

    The moments are those of all images g·z of all draws,
    mean = (1/s) Σ_g g·z̄ and covariance = (1/s) Σ_g g·E[z zᵀ]·gᵀ - mean meanᵀ,
    so they are the same for every choice of labels. The covariance commutes with the action, and
    so does its *symmetric* square root, u ↦ mean + root @ u; a Cholesky root does not.

    Raises:
        ValueError: some direction does not vary over the orbits.
    """
    draws = jnp.asarray(draws, float)
    if draws.ndim != 2 or draws.shape[1] != group.dim:
        raise ValueError(f"expected draws of shape (n, {group.dim}), got {draws.shape}")
    mean = group.average_mean(jnp.mean(draws, axis=0))
    # Centring first keeps digits; the mean is fixed by every g, so the average may come after.
    centred = draws - mean
    covariance = group.average(centred.T @ centred / draws.shape[0])
    return mean, symmetric_root(covariance)


def symmetric_root(matrix: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    """Return the symmetric positive square root of a symmetric positive definite matrix.

    Raises:
        ValueError: the matrix is not positive definite, with the direction named.
    """
    require_positive_definite(np.asarray(matrix))
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.sqrt(values)) @ vectors.T


class SinhArcsinh(Distribution):
    """A distribution pushed through x_i = c_i + s_i·sinh((arcsinh y_i + e_i)/t_i).

    Where a posterior has many dimensions, one Gaussian with such margins accepts what would take a
    mixture of many: e bends a margin to one side, t < 1 makes its tails heavier (Jones and Pewsey,
    2009). The identity is c = 0, s = t = 1, e = 0.

    Args:
        base: the distribution of y.
        centre: c.
        log_scale: log s.
        skew: e.
        log_tail: log t.
    """

    base: Distribution
    centre: Float[Array, " dim"]
    log_scale: Float[Array, " dim"]
    skew: Float[Array, " dim"]
    log_tail: Float[Array, " dim"]

    def __check_init__(self) -> None:
        for name in ("centre", "log_scale", "skew", "log_tail"):
            if getattr(self, name).shape != (self.base.dim,):
                raise ValueError(
                    f"expected {name} of shape {(self.base.dim,)}, got {getattr(self, name).shape}"
                )

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.base.dim

    def push(self, y: Point) -> Point:
        """From the base's space to the data."""
        bent = (jnp.arcsinh(y) + self.skew) / jnp.exp(self.log_tail)
        return self.centre + jnp.exp(self.log_scale) * jnp.sinh(bent)

    def pull(self, x: Point) -> Point:
        """From the data to the base's space: y = sinh(t·arcsinh((x - c)/s) - e)."""
        return jnp.sinh(self._bent(x))

    def log_det(self, x: Point) -> Scalar:
        """Return the log of Π dy_i/dx_i at x."""
        standard = (x - self.centre) / jnp.exp(self.log_scale)
        bent = jnp.abs(self._bent(x))
        log_cosh = bent + jnp.log1p(jnp.exp(-2 * bent)) - jnp.log(2.0)
        slopes = self.log_tail - self.log_scale + log_cosh - jnp.log(jnp.hypot(1.0, standard))
        return jnp.sum(slopes)

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density of the base at pull(x), plus log_det(x)."""
        return self.base.log_prob(self.pull(x)) + self.log_det(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        x = self.push(self.base.sample(key))
        return x, self.log_prob(x)

    def _bent(self, x: Point) -> Point:
        standard = (x - self.centre) / jnp.exp(self.log_scale)
        return jnp.exp(self.log_tail) * jnp.arcsinh(standard) - self.skew
