"""Mixtures of Gaussians or Student components: what orbit EM fits.

Tail safety: a small share of a wide distribution beside the fitted one.
"""

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
from jaxtyping import Array, Bool, Float

from folt.groups import Group
from folt.proposals.elliptical import log_abs_det, log_radial, require_degrees, standard_draw
from folt.types import Distribution, Key, OrbitSummed, Point, Scalar

_HARMLESS = 1e-9
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
        """Return the point in the coordinates of every component, u_k = factor_k (x - μ_k).

        One product with all factors stacked: mapped over points it is a single matrix product.
        The offsets factor_k μ_k do not depend on the point and are computed once for all.
        """
        factors = jnp.tril(self.factors)
        offsets = jnp.einsum("kij,kj->ki", factors, self.means)
        stacked = factors.reshape(self.components * self.dim, self.dim)
        return (stacked @ x).reshape(self.components, self.dim) - offsets

    def log_terms(self, x: Point) -> Float[Array, " components"]:
        """Return the terms log w_k + log p(x; μ_k, factor_k) for every component.

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
        """The same mixture, `direct` if monomials would cost over `_HARMLESS` in a log term."""
        weights = scipy.special.softmax(np.asarray(self.log_weights))
        centre = weights @ np.asarray(self.means)
        pulled = np.einsum(
            "kij,kj->ki", np.tril(np.asarray(self.factors)), np.asarray(self.means) - centre
        )
        loss = np.finfo(float).eps * float(np.max(np.sum(pulled**2, axis=-1)))
        return dataclasses.replace(self, direct=not loss <= _HARMLESS)

    def log_standard_terms(self, u: Float[Array, "components dim"]) -> Float[Array, " components"]:
        """`log_terms` of a point that is standardised already; the slow, direct way."""
        return self._log_from_squared(jnp.sum(u**2, axis=-1))

    def _log_from_squared(self, squared: Array) -> Array:
        radial = log_radial(squared, self.dim, self.degrees)
        return radial + log_abs_det(self.factors) + jax.nn.log_softmax(self.log_weights)

    def _coefficients(self, centre: Point) -> Float[Array, "components monomials"]:
        """Return rows c_k with c_k · monomials(x - centre) = |factor_k (x - μ_k)|²."""
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
        """Return the density log Σ_k w_k p_k."""
        return logsumexp(self.log_terms(x))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
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


class Safety(Distribution):
    """The mixture (1-λ)·main + λ·guard.

    Where the main part forgets a tail, the log ratio h = log π - log q stays below
    log π - log guard - log λ. The price is at most a share λ of the acceptance rate and of the
    spectral gap, since the density never falls below (1-λ)·main. Folding is linear, so the fold
    of a safety mixture is the safety mixture of the folds.

    Args:
        main: the fitted proposal.
        guard: a distribution with tails at least as heavy as the target's.
        weight: λ, strictly between 0 and 1.
    """

    main: Distribution
    guard: Distribution
    weight: float = eqx.field(static=True, default=0.02)

    def __check_init__(self) -> None:
        if self.main.dim != self.guard.dim:
            raise ValueError(
                f"main has dimension {self.main.dim}, the guard has dimension {self.guard.dim}"
            )
        if not 0 < self.weight < 1:
            raise ValueError(f"the weight must lie strictly between 0 and 1, got {self.weight}")

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.main.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the density log((1-λ)·main(x) + λ·guard(x))."""
        main = jnp.log1p(-self.weight) + self.main.log_prob(x)
        return jnp.logaddexp(main, jnp.log(self.weight) + self.guard.log_prob(x))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density under the whole mixture."""
        choice_key, main_key, guard_key = jax.random.split(key, 3)
        guarded = jax.random.bernoulli(choice_key, self.weight)
        x = jnp.where(guarded, self.guard.sample(guard_key), self.main.sample(main_key))
        return x, self.log_prob(x)


class OrbitSafety(Safety, OrbitSummed):
    """Tail safety of a proposal that sums itself over the orbit, with a guard that is invariant.

    r(g·x) = r(x) for all g, so that r_F = s·r without a sum. The guard is taken at its word: a
    multivariate t with group-averaged mean and covariance is invariant by construction.
    """

    main: OrbitSummed

    @property
    def summed_over(self) -> Group:
        """The group whose orbits are summed over."""
        return self.main.summed_over

    @property
    def orbit_cost(self) -> int:
        """That of the main part."""
        return self.main.orbit_cost

    def log_orbit_sum(self, z: Point) -> Scalar:
        """Return the log of (1-λ)·main_F(z) + λ·s·guard(z)."""
        return jnp.logaddexp(*self._parts(z))

    @property
    def whole(self) -> bool:
        """Whether that of the main part is."""
        return self.main.whole

    def propose(self, key: Key) -> tuple[Point, Bool[Array, ""]]:
        """A draw and whether it counts: the guard's always do, its sum being over all images."""
        choice_key, main_key, guard_key = jax.random.split(key, 3)
        guarded = jax.random.bernoulli(choice_key, self.weight)
        x, alive = self.main.propose(main_key)
        return jnp.where(guarded, self.guard.sample(guard_key), x), guarded | alive

    def draw_image(self, key: Key, z: Point) -> Point:
        """By the main part with its share of the sum, else uniformly."""
        choice_key, main_key, guard_key = jax.random.split(key, 3)
        main, guard = self._parts(z)
        guarded = jax.random.bernoulli(choice_key, jax.nn.sigmoid(guard - main))
        uniform = self.summed_over.random_image(guard_key, z)
        return jnp.where(guarded, uniform, self.main.draw_image(main_key, z))

    def likeliest_image(self, z: Point) -> Point:
        """That of the main part: the guard has no opinion."""
        return self.main.likeliest_image(z)

    def _parts(self, z: Point) -> tuple[Scalar, Scalar]:
        main = jnp.log1p(-self.weight) + self.main.log_orbit_sum(z)
        guard = jnp.log(self.weight) + self.guard.log_prob(z) + self.summed_over.log_order
        return main, guard
