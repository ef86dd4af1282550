"""Gauss-Newton steps on the log-ratio residuals of a mixture.

The residuals are h(z) = log π_F(z) - log q_F(z) over a pool; their (Huber-clipped) variance is
minimised. A component k is moved in its own coordinates, mean by factor⁻¹a and factor by
(I + T)·factor with T lower triangular, so a step does not depend on the scale or orientation of
the problem, and the derivatives at zero are plain products of the standardised residuals
u = factor·(x - mean):
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

from folt.flows import Mixture
from folt.problem.batching import map_points
from folt.training.pool import Pool
from folt.types import Distribution, Scalar


class Loss(NamedTuple):
    """Huber loss of residuals about their own centre: half the variance where |h - c| is small."""

    value: float
    centred: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]


def huber(residuals: np.ndarray, width: float) -> Loss:
    """Mean Huber loss; infinite if a residual is not a number."""
    size = np.abs(residuals - np.median(residuals))
    weights = width / np.maximum(size, width)
    weights /= weights.sum()
    centred = residuals - weights @ residuals
    size = np.abs(centred)
    inner = np.minimum(size, width)  # squares of huge residuals would overflow
    value = np.mean(inner * (size - 0.5 * inner))
    return Loss(float(value) if np.isfinite(value) else math.inf, centred, weights)


def loss(flow: Distribution, pool: Pool, width: float) -> float:
    """Huber-clipped half variance of h over a pool."""
    return huber(pool.residuals(flow), width).value


class Quadratic(NamedTuple):
    """The Gauss-Newton model of the loss around a mixture.

    Attributes:
        value: loss where the model was made.
        curvature: JᵀWJ, J the derivatives of log q_F in the local coordinates.
        slope: JᵀWh, the direction of descent.
        damping: diagonal D that damps the step; its floor holds back components that few
            points see.
    """

    value: float
    curvature: np.ndarray
    slope: np.ndarray
    damping: np.ndarray

    def step(self, damping: float) -> np.ndarray:
        """The damped step (JᵀWJ + μD)⁻¹ JᵀWh."""
        matrix = self.curvature.copy()
        matrix[np.diag_indices_from(matrix)] += damping * self.damping
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        return scipy.linalg.cho_solve(factor, self.slope)


def linearise(mixture: Mixture, pool: Pool, width: float, floor: float = 0.1) -> Quadratic:
    """The Gauss-Newton model over a pool.

    Derivatives are in single precision: they steer the step, the residuals decide it.
    """
    log_flow, rows = map_points(_row, mixture, (pool.images, pool.log_rest))
    current = huber(pool.log_target - log_flow, width)
    weights = current.weights.astype(np.float32)
    rows -= weights @ rows
    rows *= np.sqrt(weights)[:, None]
    slope = rows.T @ (np.sqrt(current.weights) * current.centred).astype(np.float32)
    curvature = (rows.T @ rows).astype(np.float64)
    diagonal = np.diag(curvature)
    damping = diagonal + floor * diagonal.mean()
    return Quadratic(current.value, curvature, slope.astype(np.float64), damping)


def _row(
    mixture: Mixture, point: tuple[Array, Array]
) -> tuple[Scalar, Float[Array, " parameters"]]:
    """Log q_F at one point and its derivatives, in the order of `moved`."""
    images, log_rest = point
    u = jax.vmap(mixture.standardise)(images)
    log_terms = jax.vmap(mixture.log_standard_terms)(u)
    log_flow = jnp.logaddexp(logsumexp(log_terms), log_rest)
    share = jnp.exp(log_terms - log_flow).astype(jnp.float32)
    u = u.astype(jnp.float32)
    weighted = (share * _tail(u, mixture.degrees))[..., None] * u
    rows, columns = np.tril_indices(mixture.dim, -1)
    total = share.sum(axis=0)
    weights = jax.nn.softmax(mixture.log_weights).astype(jnp.float32)
    blocks = (
        total - weights * total.sum(),
        weighted.sum(axis=0),
        -jnp.sum(weighted[..., rows] * u[..., columns], axis=0),
        total[:, None] - jnp.sum(weighted * u, axis=0),
    )
    return log_flow, jnp.concatenate([block.reshape(-1) for block in blocks])


def _tail(u: Array, degrees: float) -> Array | float:
    """The factor (ν + dim)/(ν + |u|²) by which Student tails soften a pull; 1 for Gaussians."""
    if math.isinf(degrees):
        return 1.0
    return (degrees + u.shape[-1]) / (degrees + jnp.sum(u**2, axis=-1))


@eqx.filter_jit
def moved(mixture: Mixture, step: Float[Array, " parameters"]) -> Mixture:
    """The mixture after a step; steps are clipped so that no component leaps."""
    k, dim = mixture.means.shape
    rows, columns = np.tril_indices(dim, -1)
    cuts = np.cumsum([k, k * dim, k * rows.size])
    weights, means, lower, diagonal = jnp.split(jnp.asarray(step), cuts)
    scale = jax.vmap(jnp.diag)(jnp.exp(jnp.clip(diagonal.reshape(k, dim), -0.5, 0.5)))
    transform = scale.at[:, rows, columns].set(jnp.clip(lower.reshape(k, -1), -1.0, 1.0))
    shift = jax.scipy.linalg.solve_triangular(
        mixture.factors, jnp.clip(means.reshape(k, dim), -1.5, 1.5)[..., None], lower=True
    )[..., 0]
    log_weights = jax.nn.log_softmax(mixture.log_weights + jnp.clip(weights, -1.0, 1.0))
    return eqx.tree_at(
        lambda m: (m.log_weights, m.means, m.factors),
        mixture,
        (log_weights, mixture.means + shift, transform @ mixture.factors),
    )


def parameters_per_component(dim: int) -> int:
    """A weight, a mean and a triangular factor."""
    return 1 + dim + dim * (dim + 1) // 2
