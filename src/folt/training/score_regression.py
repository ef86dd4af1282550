"""One Gaussian from draws and gradients: the first proposal that is tried.

The score of a Gaussian is linear, ∇log N(x; μ, P⁻¹) = -P(x - μ), so that regressing the gradients
of the target on the draws gives P and μ: d numbers per draw instead of one. For a Gaussian target
it is exact from any d + 1 points, whatever their law; draws may therefore be trimmed without bias,
and those whose labels are ambiguous left out.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float

from folt.problem.orbits import Components

Points = Float[np.ndarray, "n dim"]

TRIM = 6.0
"""Standard deviations of the squared distance beyond which a draw does not belong to the core: at
d = 80 a single chain of 51 in another mode lowered the acceptance from .25 to .09."""

TRIMMINGS = 8
"""Most rounds of trimming."""


def core_of(points: Points) -> Bool[np.ndarray, " n"]:
    """Whether each draw lies in the ellipsoid |u|² < d + 6·sqrt(2d) of the others that do.

    A Gaussian has practically all of its draws there; those of a minor mode lie outside.
    """
    count, dim = points.shape
    core = np.ones(count, bool)
    for _ in range(TRIMMINGS):
        inner = points[core]
        centred = points - inner.mean(axis=0)
        covariance = np.cov(inner.T).reshape(dim, dim)
        try:
            squares = np.sum(np.linalg.solve(np.linalg.cholesky(covariance), centred.T) ** 2, 0)
        except np.linalg.LinAlgError:
            return core
        found = squares < dim + TRIM * math.sqrt(2 * dim)
        if found.sum() <= 2 * dim or np.array_equal(found, core):
            return core
        core = found
    return core


def score_regression(points: Points, gradients: Points) -> Components | None:
    """The Gaussian whose score is nearest to the gradients at the points.

    P = -sym(Cov(s, x)·Cov(x)⁻¹) and μ = x̄ + P⁻¹s̄.

    Args:
        points: draws under one labelling.
        gradients: ∇log π there.

    Returns:
        One component; None where P is not positive definite, or there are too few points.
    """
    finite = np.isfinite(gradients).all(axis=1)
    points, gradients = points[finite], gradients[finite]
    count, dim = points.shape
    if count <= 2 * dim:
        return None
    mean, slope = points.mean(axis=0), gradients.mean(axis=0)
    centred = points - mean
    try:
        fitted = np.linalg.solve(centred.T @ centred, centred.T @ (gradients - slope))
        precision = -0.5 * (fitted + fitted.T)
        # A lower triangular root of the precision, from the far corner.
        factor = np.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1].T
        centre = mean + np.linalg.solve(precision, slope)
    except np.linalg.LinAlgError:
        return None
    return Components(np.zeros(1), centre[None], factor[None])
