"""The guard of the tail safety: a wide multivariate t around the training draws.

Around their images, where the proposal sums itself over the orbit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np
from scipy.special import chdtri, gammaln

from folt.flows import StudentT
from folt.flows.elliptical import require_positive_definite
from folt.groups import Group
from folt.problem.orbits import action_of

GUARD_DEGREES = 5.0


def guard_of(points: np.ndarray, weight: float) -> StudentT:
    """The guard for draws (n, dim) and a share λ of the proposal.

    Heavy enough to dominate any Gaussian tail, and so wide that λ·r stays below half a percent
    of the proposal on all but 3 % of a Gaussian of the same moments.

    Raises:
        ValueError: the covariance of the draws is degenerate.
    """
    dim = points.shape[1]
    covariance = np.cov(points.T).reshape(dim, dim)
    return _student(points.mean(axis=0), covariance, guard_stretch(dim, weight))


def invariant_guard(group: Group, points: np.ndarray) -> StudentT:
    """A multivariate t with the moments of all images of the draws: the same at every image."""
    action = action_of(group)
    mean = action.average_mean(points.mean(axis=0))
    centred = points - mean
    return _student(mean, action.average(centred.T @ centred / len(points)))


def _student(mean: np.ndarray, covariance: np.ndarray, stretch: float = 1.0) -> StudentT:
    require_positive_definite(covariance)
    factor = np.linalg.inv(np.linalg.cholesky(covariance)) / stretch
    return StudentT(jax.device_put(mean), jax.device_put(factor), GUARD_DEGREES)


def guard_stretch(dim: int, weight: float, share: float = 0.005, tail: float = 0.03) -> float:
    """The factor τ by which the guard is wider than the draws.

    The root of λ·t_ν(u/τ)/τ^dim = share·N(u) at the edge |u|² of all but `tail` of a Gaussian.
    """
    squared = float(chdtri(dim, tail))
    log_normal = -0.5 * squared - 0.5 * dim * math.log(2 * math.pi)
    half = 0.5 * (GUARD_DEGREES + dim)
    log_peak = float(gammaln(half) - gammaln(0.5 * GUARD_DEGREES))
    log_peak -= 0.5 * dim * math.log(GUARD_DEGREES * math.pi)

    def excess(log_stretch: float) -> float:
        radial = math.log1p(squared / math.exp(2 * log_stretch) / GUARD_DEGREES)
        log_student = log_peak - half * radial - dim * log_stretch
        return math.log(weight / share) + log_student - log_normal

    return math.exp(_root(excess, 0.0, 20.0)) if excess(0.0) > 0 else 1.0


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls from above zero to below crosses it, by halving.

    SciPy's root finders would do; importing them takes a third of a second.
    """
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
