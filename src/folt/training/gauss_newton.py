"""Gauss-Newton steps on the log ratio h = log π_F - log q_F of a mixture of Gaussians.

The Huber-clipped variance of h over a pool of points is minimised. A component moves in its own
coordinates, mean by factor⁻¹a and factor by (I + T)·factor with T lower triangular, so that a step
depends neither on the scale nor on the orientation of the problem, and the derivatives at zero are
products of the standardised points u = factor·(x - mean):
  ∂log N/∂a = u,   ∂log N/∂T_ij = -u_i u_j (i > j),   ∂log N/∂t_i = 1 - u_i².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.linalg
from jaxtyping import Float

from folt.proposals.components import Components, log_sum_exp
from folt.proposals.sums import ListedSum, OrbitPart
from folt.training.orbit_em import images_at
from folt.types import HostPoints

KEPT = 2
"""Images of a point whose terms are trained; the others are frozen."""

TRIES = 5
"""Dampings that are tried for one step."""

_FLOOR = 0.1
"""Share of the mean curvature that every direction is damped by at least."""

Main = TypeVar("Main", bound=OrbitPart)
Slopes = Callable[[Main, np.ndarray, np.ndarray], np.ndarray]

POINTS_AT_ONCE = 2_048
"""Points whose derivatives are in memory at once."""


MOST_PARAMETERS = 1_500
"""Parameters above which no dense step is made: its cost is the square of their number times the
points, 300 CPU seconds for a factor model in 80 dimensions."""


class Loss(NamedTuple):
    """Huber loss of residuals about their own centre: half the variance where |h - c| is small."""

    value: float
    centred: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]


def huber(residuals: np.ndarray, width: float) -> Loss:
    """Return the mean Huber loss; infinite if a residual is not a number."""
    size = np.abs(residuals - np.median(residuals))
    weights = width / np.maximum(size, width)
    weights /= weights.sum()
    centred = residuals - weights @ residuals
    value = huber_mean(centred, width)
    return Loss(value if math.isfinite(value) else math.inf, centred, weights)


def huber_mean(residuals: np.ndarray, width: float) -> float:
    """Return the mean Huber loss of residuals as they are."""
    size = np.abs(residuals)
    inner = np.minimum(size, width)  # squares of huge residuals would overflow
    return float(np.mean(inner * (size - 0.5 * inner)))


class Quadratic(NamedTuple):
    """The Gauss-Newton model of the loss around a proposal.

    Attributes:
        value: loss where the model was made.
        curvature: JᵀWJ, J the derivatives of log q_F in the local coordinates.
        slope: JᵀWh, the direction of descent.
        damping: diagonal D that damps the step; its floor holds back components that few points
            see.
    """

    value: float
    curvature: np.ndarray
    slope: np.ndarray
    damping: np.ndarray

    def step(self, damping: float) -> np.ndarray:
        """Return the damped step (JᵀWJ + μD)⁻¹ JᵀWh."""
        matrix = self.curvature.astype(float)
        matrix[np.diag_indices_from(matrix)] += damping * self.damping
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        return scipy.linalg.cho_solve(factor, self.slope)


def parameters_per_component(dim: int) -> int:
    """Return a weight, a mean and a triangular factor."""
    return 1 + dim + dim * (dim + 1) // 2


class Pool(NamedTuple):
    """Regression points with their orbits resolved under one proposal.

    Attributes:
        images: the likeliest images of every point.
        log_rest: log of what the other images and the guard add to the orbit sum, over the share
            of the main part.
        log_target: log π_F.
    """

    images: Float[np.ndarray, "n kept dim"]
    log_rest: Float[np.ndarray, " n"]
    log_target: Float[np.ndarray, " n"]

    def log_proposal(self, main: OrbitPart) -> Float[np.ndarray, " n"]:
        """Log q_F, up to the share of the main part, with only the kept terms computed anew."""
        n, kept, dim = self.images.shape
        terms = main.log_terms(self.images.reshape(-1, dim)).reshape(n, kept * main.count)
        return np.logaddexp(log_sum_exp(terms), self.log_rest)

    def loss(self, main: OrbitPart, width: float) -> float:
        """Huber-clipped half variance of h."""
        return huber(self.log_target - self.log_proposal(main), width).value


def resolve(
    main: ListedSum, guard: ListedSum | None, points: HostPoints, log_target: np.ndarray
) -> Pool:
    """Return a pool of these points under a proposal.

    Args:
        main: the mixture that is trained.
        guard: the tail safety, weighted relative to the main part.
        points: where.
        log_target: log π_F there.
    """
    order = main.action.group.order
    kept = min(KEPT, order)
    shares = main.responsibilities(points)
    places = np.argpartition(shares, order - kept, axis=1)[:, order - kept :]
    rest = 1.0 - np.take_along_axis(shares, places, axis=1).sum(axis=1)
    with np.errstate(divide="ignore"):
        # Below rounding the rest is as good as nothing.
        log_rest = np.log(np.where(rest > 1e-14, rest, 0.0)) + main.log_sum(points)
    if guard is not None:
        log_rest = np.logaddexp(log_rest, guard.log_sum(points))
    return Pool(images_at(main.action, points, places), log_rest, log_target)


def slopes_of_mixture(
    main: Components, images: Float[np.ndarray, "n kept dim"], log_flow: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n parameters"]:
    """Derivatives of log q_F at some points in weights, means and factors."""
    n, kept, dim = images.shape
    count, flat = main.count, images.reshape(-1, dim)
    terms = main.log_terms(flat).reshape(n, kept, count)
    share = np.exp(terms - log_flow[:, None, None]).astype(np.float32)
    offsets = np.einsum("kij,kj->ki", main.factors, main.means)
    u = (flat @ main.factors.reshape(count * dim, dim).T).reshape(n, kept, count, dim) - offsets
    u = u.astype(np.float32)
    rows, columns = np.tril_indices(dim, -1)
    weighted = share[..., None] * u
    if math.isfinite(main.degrees):
        weighted *= main.pulls(terms).astype(np.float32)[..., None]
    total = share.sum(axis=1)
    weights = np.exp(main.log_weights).astype(np.float32)
    return np.concatenate(
        [
            total - weights * total.sum(axis=1, keepdims=True),
            weighted.sum(axis=1).reshape(n, -1),
            -(weighted[..., rows] * u[..., columns]).sum(axis=1).reshape(n, -1),
            (total[..., None] - (weighted * u).sum(axis=1)).reshape(n, -1),
        ],
        axis=1,
    )


def linearise(
    main: Main,
    pool: Pool,
    width: float,
    slopes: Slopes[Main] = slopes_of_mixture,  # type: ignore[assignment]
) -> Quadratic:
    """Return the Gauss-Newton model of the loss over a pool; derivatives in single precision."""
    log_flow = pool.log_proposal(main)
    current = huber(pool.log_target - log_flow, width)
    mean = descent = curvature = np.zeros(())
    for start in range(0, len(log_flow), POINTS_AT_ONCE):
        part = slice(start, start + POINTS_AT_ONCE)
        weights = current.weights[part]
        rows = slopes(main, pool.images[part], log_flow[part])
        mean = mean + weights @ rows
        descent = descent + (weights * current.centred[part]) @ rows
        rows *= np.sqrt(weights).astype(np.float32)[:, None]
        curvature = curvature + rows.T @ rows
    curvature = curvature - np.outer(mean, mean)
    diagonal = np.diag(curvature)
    damping = diagonal + _FLOOR * diagonal.mean()
    return Quadratic(current.value, curvature, descent, damping)


def _moved(main: Components, step: Float[np.ndarray, " parameters"]) -> Components:
    """The components after a step; steps are clipped so that no component jumps."""
    count, dim = main.means.shape
    rows, columns = np.tril_indices(dim, -1)
    cuts = np.cumsum([count, count * dim, count * rows.size])
    weights, means, lower, diagonal = np.split(step, cuts)
    transform = np.zeros((count, dim, dim))
    places = np.arange(dim)
    transform[:, places, places] = np.exp(np.clip(diagonal.reshape(count, dim), -0.5, 0.5))
    transform[:, rows, columns] = np.clip(lower.reshape(count, -1), -1.0, 1.0)
    shift = np.linalg.solve(main.factors, np.clip(means.reshape(count, dim), -1.5, 1.5)[..., None])
    log_weights = main.log_weights + np.clip(weights, -1.0, 1.0)
    return Components(
        log_weights - np.logaddexp.reduce(log_weights),
        main.means + shift[..., 0],
        transform @ main.factors,
        main.degrees,
    )


def stepped(
    main: Main,
    pool: Pool,
    damping: float,
    width: float,
    slopes: Slopes[Main] = slopes_of_mixture,  # type: ignore[assignment]
    moved: Callable[[Main, np.ndarray], Main] = _moved,  # type: ignore[assignment]
) -> tuple[Main, float]:
    """Return one damped step that lowers the loss on the pool; more damping until it does.

    Args:
        main: the proposal before the step.
        pool: points with their log target.
        damping: where to begin.
        width: where the Huber loss turns from square to linear.
        slopes: derivatives of log q_F at some points in the parameters of the proposal.
        moved: the proposal after a step in these.
    """
    model = linearise(main, pool, width, slopes)
    for _ in range(TRIES):
        candidate = moved(main, model.step(damping))
        if pool.loss(candidate, width) < model.value:
            return candidate, damping
        damping *= 4.0
    return main, damping
