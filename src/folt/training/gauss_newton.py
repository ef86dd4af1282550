"""Gauss-Newton steps on the log-ratio residuals of a mixture.

The residuals are h(z) = log π_F(z) - log q_F(z) over a pool; their (Huber-clipped) variance is
minimised. A component k is moved in its own coordinates, mean by factor⁻¹a and factor by
(I + T)·factor with T lower triangular, so a step does not depend on the scale or orientation of the problem, and
the derivatives at zero are plain products of the standardised residuals u = factor·(x - mean):
  ∂log N/∂a = u,   ∂log N/∂T_ij = -u_i u_j (i > j),   ∂log N/∂t_i = 1 - u_i²,
with u_i u_j and u shrunk by (ν + dim)/(ν + |u|²) where the components are Student-t.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt._types import Scalar, Scalars
from folt.flows import Mixture
from folt.training.pool import Pool

CHUNK = 1024


class Move(NamedTuple):
    """A step of every component in its own coordinates, zero for "stay"."""

    weights: Float[Array, " k"]
    means: Float[Array, "k dim"]
    lower: Float[Array, "k offdiagonal"]
    diagonal: Float[Array, "k dim"]


def zero_move(mixture: Mixture) -> Move:
    """The step that changes nothing."""
    k, dim = mixture.means.shape
    z = jnp.zeros
    return Move(z(k), z((k, dim)), z((k, dim * (dim - 1) // 2)), z((k, dim)))


def move(mixture: Mixture, step: Move) -> Mixture:
    """The mixture after a step; steps are clipped so that no component leaps."""
    dim = mixture.dim
    rows, columns = np.tril_indices(dim, -1)
    scale = jax.vmap(jnp.diag)(jnp.exp(jnp.clip(step.diagonal, -0.5, 0.5)))
    transform = scale.at[:, rows, columns].set(jnp.clip(step.lower, -1.0, 1.0))
    shift = jax.vmap(lambda f, a: jax.scipy.linalg.solve_triangular(f, a, lower=True))(
        mixture.factors, jnp.clip(step.means, -1.5, 1.5)
    )
    log_weights = jax.nn.log_softmax(mixture.log_weights + jnp.clip(step.weights, -1.0, 1.0))
    return eqx.tree_at(
        lambda m: (m.log_weights, m.means, m.factors),
        mixture,
        (log_weights, mixture.means + shift, transform @ mixture.factors),
    )


def huber(residuals: Scalars, width: Scalar | float) -> Scalar:
    """Mean Huber loss of residuals about their own (reweighted) centre."""
    size = jnp.abs(residuals - jnp.median(residuals))
    weights = jnp.where(size < width, 1.0, width / jnp.maximum(size, 1e-300))
    centre = jax.lax.stop_gradient(jnp.sum(weights * residuals) / jnp.sum(weights))
    size = jnp.abs(residuals - centre)
    return jnp.mean(jnp.where(size < width, 0.5 * size**2, width * (size - 0.5 * width)))


@eqx.filter_jit
def loss(mixture: Mixture, pool: Pool, width: float) -> Scalar:
    """Huber-clipped half variance of h over a pool; infinite where it is not a number."""
    value = huber(pool.log_target - pool.log_proposal(mixture), width)
    return jnp.where(jnp.isfinite(value), value, jnp.inf)


@eqx.filter_jit
def gradient(mixture: Mixture, pool: Pool, width: float) -> tuple[Scalar, Array]:
    """Loss, and its negative gradient in the local coordinates of every component."""

    def local(step: Move) -> Scalar:
        return huber(pool.log_target - pool.log_proposal(move(mixture, step)), width)

    value, slope = jax.value_and_grad(local)(zero_move(mixture))
    return value, -_flat(slope)


def _flat(step: Move) -> Array:
    return jnp.concatenate([leaf.reshape(-1) for leaf in step])


def _unflat(flat: Array, mixture: Mixture) -> Move:
    shapes = [leaf.shape for leaf in zero_move(mixture)]
    cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return Move(*(part.reshape(s) for part, s in zip(jnp.split(flat, cuts), shapes, strict=True)))


@eqx.filter_jit
def moved(mixture: Mixture, flat: Array) -> Mixture:
    """`move` by a flat vector."""
    return move(mixture, _unflat(flat, mixture))


@eqx.filter_jit
def jacobian(mixture: Mixture, pool: Pool, width: float) -> Float[Array, "n parameters"]:
    """Rows of d log q_F / d step, centred and scaled by the roots of the Huber weights.

    Single precision: the curvature matrix steers the step, the residuals decide it.
    """
    n = pool.images.shape[0]
    pieces = Pool(*(leaf.reshape(-1, min(CHUNK, n), *leaf.shape[1:]) for leaf in pool))
    log_q, rows = jax.lax.map(lambda piece: _jacobian_chunk(mixture, piece), pieces)
    residuals = pool.log_target - log_q.reshape(-1)
    rows = rows.reshape(n, -1)
    size = jnp.abs(residuals - jnp.median(residuals))
    weights = jnp.where(size < width, 1.0, width / jnp.maximum(size, 1e-300))
    weights = (weights / jnp.sum(weights)).astype(jnp.float32)
    return (rows - weights @ rows) * jnp.sqrt(weights)[:, None]


def whole_chunks(count: int, most: int, seed: int) -> np.ndarray:
    """Random rows of a pool of `count`, at most `most`, as many as fill whole chunks."""
    number = min(count, most)
    number = number if number < CHUNK else number - number % CHUNK
    return np.random.default_rng(seed).permutation(count)[:number]


def _jacobian_chunk(mixture: Mixture, pool: Pool) -> tuple[Scalars, Array]:
    n, kept, dim = pool.images.shape
    lower_rows, lower_columns = np.tril_indices(dim, -1)
    u = jax.vmap(jax.vmap(mixture.standardise))(pool.images)
    log_terms = jax.vmap(jax.vmap(mixture.log_standard_terms))(u)
    log_q = jnp.logaddexp(logsumexp(log_terms, axis=(1, 2)), pool.log_rest)
    share = jnp.exp(log_terms - log_q[:, None, None]).astype(jnp.float32)
    u = u.astype(jnp.float32)
    total = share.sum(axis=1)
    weighted = (share * _tail(u, mixture.degrees))[..., None] * u
    weights = jax.nn.softmax(mixture.log_weights).astype(jnp.float32)
    weight_rows = total - weights * total.sum(axis=1, keepdims=True)
    products = [weighted[:, t][:, :, lower_rows] * u[:, t][:, :, lower_columns] for t in range(kept)]
    lower = jnp.sum(jnp.stack(products), axis=0) if kept > 1 else products[0]
    diagonal = total[..., None] - jnp.sum(weighted * u, axis=1)
    blocks = (weight_rows, weighted.sum(axis=1), -lower, diagonal)
    return log_q, jnp.concatenate([block.reshape(n, -1) for block in blocks], axis=1)


def _tail(u: Array, degrees: float) -> Array | float:
    """The factor (ν + dim)/(ν + |u|²) by which Student tails soften a pull; 1 for Gaussians."""
    if math.isinf(degrees):
        return 1.0
    return (degrees + u.shape[-1]) / (degrees + jnp.sum(u**2, axis=-1))


class Curvature(NamedTuple):
    """The Gauss-Newton matrix JᵀWJ and the diagonal that damps it."""

    matrix: np.ndarray
    damping: np.ndarray

    def solve(self, right: np.ndarray, damping: float) -> np.ndarray:
        """The damped step (JᵀWJ + μD)⁻¹ right."""
        matrix = self.matrix + np.diag(damping * self.damping)
        return scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, check_finite=False), right)


def curvature(mixture: Mixture, pool: Pool, width: float, floor: float = 0.1) -> Curvature:
    """Gauss-Newton matrix over a pool; `floor` damps components that few points see."""
    rows = np.asarray(jacobian(mixture, pool, width))
    matrix = (rows.T @ rows).astype(np.float64)
    diagonal = np.diag(matrix)
    return Curvature(matrix, diagonal + floor * diagonal.mean())
