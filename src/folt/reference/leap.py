"""Leaps: global moves among separate modes, proposed from the particles of tempering.

A local chain keeps the mode it starts in, so the weights of separate modes would stay those of a
few hundred particles. An independence proposal centred on the particles corrects them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Bool, Float

from folt.chains.independence import accepts
from folt.flows.elliptical import log_radial
from folt.types import Density, Distribution, Key, Point, Points, Scalar

DEGREES = 4.0
"""Degrees of freedom of the kernels: tails heavier than any posterior the particles come from."""


class PathState(NamedTuple):
    """Chains of a Hamiltonian sampler: position, log density there, and its gradient."""

    position: Array
    logdensity: Array
    logdensity_grad: Array


class Leap(Distribution):
    """Independence Metropolis from q(x) = (1/M) Σ_j t₄(x; x_j, b²·Σ).

    Accepted with probability min(1, π(x')q(x)/(π(x)q(x'))). The centres are particles of the
    target, so q has every mode they found, in proportion; the acceptance corrects the rest.

    Args:
        origin: mean of the centres.
        whitened: inverse·(x_j - origin).
        lengths: squared lengths of the whitened centres.
        root: lower triangular root of b²·Σ.
        inverse: its inverse.
    """

    origin: Float[Array, " dim"]
    whitened: Float[Array, "centres dim"]
    lengths: Float[Array, " centres"]
    root: Float[Array, "dim dim"]
    inverse: Float[Array, "dim dim"]

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.root.shape[0]

    @classmethod
    def around(
        cls,
        points: Points | np.ndarray,
        covariance: Float[Array, "dim dim"] | np.ndarray,
        bandwidth: float,
    ) -> Leap:
        """Kernels of scale matrix bandwidth²·Σ around the points."""
        root = bandwidth * np.linalg.cholesky(np.asarray(covariance))
        inverse = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]), lower=True)
        origin = np.mean(np.asarray(points), axis=0)
        whitened = (np.asarray(points) - origin) @ inverse.T
        parts = (origin, whitened, np.sum(whitened**2, axis=1), root, inverse)
        return cls(*(jnp.asarray(part) for part in parts))

    def log_prob(self, x: Point) -> Scalar:
        """The log density of the leaps, log q(x)."""
        u = self.inverse @ (x - self.origin)
        squared = self.lengths - 2 * self.whitened @ u + u @ u
        spread = 1 + jnp.maximum(squared, 0.0) / DEGREES
        nearest = jnp.min(spread)
        # Powers of a ratio in (0, 1]: neither exponentials per centre nor underflow of the sum.
        kernels = _power(nearest / spread, self.dim + int(DEGREES))
        count = self.whitened.shape[0]
        peak = log_radial(DEGREES * (nearest - 1), self.dim, DEGREES)
        log_det = jnp.sum(jnp.log(jnp.diagonal(self.inverse)))
        return peak + jnp.log(jnp.sum(kernels)) - math.log(count) + log_det

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """A particle chosen at random, and a step away from it."""
        x = self.points(key, 1)[0]
        return x, self.log_prob(x)

    def points(self, key: Key, count: int) -> Points:
        """Independent draws, all from one stream: a stream per draw takes longer to compile."""
        uniform_key, normal_key = jax.random.split(key)
        dtype = self.root.dtype
        uniforms = jax.random.uniform(uniform_key, (3, count), dtype, jnp.finfo(dtype).tiny)
        centres = self.whitened.shape[0]
        index = jnp.minimum((uniforms[0] * centres).astype(jnp.int32), centres - 1)
        # χ² with four degrees of freedom is -2·log of a product of two uniforms: a gamma draw
        # would take seconds to compile.
        logs = jnp.log(uniforms[1]) + jnp.log(uniforms[2])
        stretch = jnp.sqrt(DEGREES / (-2 * logs))
        step = jax.random.normal(normal_key, (count, self.dim), dtype) * stretch[:, None]
        return self.origin + (self.whitened[index] + step) @ self.root.T

    def move(
        self, key: Key, states: PathState, target: Density
    ) -> tuple[PathState, Bool[Array, " chain"]]:
        """One independence move of every chain; the gradient follows the accepted point."""
        draw_key, accept_key = jax.random.split(key)
        count = states.logdensity.shape[0]
        points = self.points(draw_key, count)
        log_q = jax.vmap(self.log_prob)(points)
        value, gradient = jax.vmap(jax.value_and_grad(target.log_prob))(points)
        here = states.logdensity - jax.vmap(self.log_prob)(states.position)
        usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient), axis=1)
        there = jnp.where(usable, value, -jnp.inf) - log_q
        log_uniforms = jnp.log(jax.random.uniform(accept_key, (count,), log_q.dtype))
        accept = accepts(log_uniforms, here, there)
        proposed = PathState(points, value, gradient)
        return choose(accept, proposed, states), accept


def _power(base: Array, halves: int) -> Array:
    """base^(halves/2) by multiplications and at most one root."""
    whole, odd = divmod(halves, 2)
    power = jax.lax.integer_pow(base, whole)
    return power * jnp.sqrt(base) if odd else power


def choose(accept: Bool[Array, " chain"], new: PathState, old: PathState) -> PathState:
    """The new state where accepted, the old one elsewhere."""

    def leaf(fresh: Array, stale: Array) -> Array:
        return jnp.where(accept.reshape(-1, *[1] * (fresh.ndim - 1)), fresh, stale)

    return jax.tree.map(leaf, new, old)
