"""An affine map around another distribution, and the whitening that commutes with a group."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.flows.elliptical import require_positive_definite
from folt.groups.base import Group
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
        """One draw and its log density."""
        u, log_prob = self.base.sample_and_log_prob(key)
        return self.push(u), log_prob - self._log_det()

    def _log_det(self) -> Scalar:
        return jnp.linalg.slogdet(jax.lax.stop_gradient(self.root))[1]


def whitening(group: Group, draws: Points) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """Mean and symmetric root of the covariance over the orbits of the draws.

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
    """The symmetric positive square root of a symmetric positive definite matrix.

    Raises:
        ValueError: the matrix is not positive definite, with the direction named.
    """
    require_positive_definite(np.asarray(matrix))
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.sqrt(values)) @ vectors.T
