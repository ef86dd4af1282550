"""The guard of the tail safety: a wide multivariate t around the training draws."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np
from scipy.special import chdtri, gammaln

from folt.flows import StudentT
from folt.flows.elliptical import require_positive_definite

GUARD_DEGREES = 5.0


def guard_of(points: np.ndarray, weight: float) -> StudentT:
    """The guard for draws (n, dim) and a share λ of the proposal.

    Heavy enough to dominate any Gaussian tail, and so wide that λ·r stays below half a percent
    of the proposal on all but 3 % of a Gaussian of the same moments.

    Raises:
        ValueError: the covariance of the draws is degenerate.
    """
    mean = points.mean(axis=0)
    dim = mean.shape[0]
    covariance = np.cov(points.T).reshape(dim, dim)
    require_positive_definite(covariance)
    factor = np.linalg.inv(np.linalg.cholesky(covariance))
    factor /= guard_stretch(dim, weight)
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
