"""Expectation-maximisation of an orbit mixture on the host.

The model is z ~ Σ_g Σ_k w_k N(g·z; μ_k, Σ_k): responsibilities run over components and images, the
maximisation is closed form. The images of a large group that a pilot finds unlikely are left out.

One Gaussian from draws and gradients: the first proposal that is tried.

The score of a Gaussian is linear, ∇log N(x; μ, P⁻¹) = -P(x - μ), so that regressing the gradients
of the target on the draws gives P and μ: d numbers per draw instead of one. For a Gaussian target
it is exact from any d + 1 points, whatever their law; draws may therefore be trimmed without bias,
and those whose labels are ambiguous left out.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Bool, Float

from folt.proposals.action import Action
from folt.proposals.components import Components, log_sum_exp
from folt.proposals.sums import ListedSum
from folt.types import HostPoints

_CHUNK_TERMS = 1 << 20
"""Images times components that are in memory at once."""

LEAST_WEIGHT = 0.01
"""Smallest weight with which a component at a mode begins."""

NEGLIGIBLE = 1e-9
"""Share of a component below which an image adds nothing to its moments: in many dimensions that is
all images but one."""

_CANDIDATES = 16
"""Images that are looked at where a pilot says which."""


def candidate_images(
    action: Action, points: HostPoints, pilot: Components | None
) -> Float[np.ndarray, "n images dim"]:
    """All images of every point, or of a large group those that the pilot finds likeliest."""
    order = action.group.order
    if pilot is None or order <= _CANDIDATES:
        return action.images(points)
    shares = ListedSum((pilot,), action).responsibilities(points)
    best = np.argpartition(shares, order - _CANDIDATES, axis=1)[:, -_CANDIDATES:]
    return images_at(action, points, best)


def images_at(
    action: Action, points: HostPoints, places: np.ndarray
) -> Float[np.ndarray, "n images dim"]:
    """Return the images of every point at its own places of the list."""
    columns = [action.move(places[:, number], points) for number in range(places.shape[1])]
    return np.stack(columns, axis=1)


def fit_components(
    generator: np.random.Generator,
    images: Float[np.ndarray, "n images dim"],
    points: HostPoints,
    count: int,
    iterations: int,
    tolerance: float = 1e-3,
    modes: Components | None = None,
) -> Components:
    """Return components fitted to the images of draws.

    Args:
        generator: chooses the draws at which the components start.
        images: candidate images of every draw.
        points: the draws under one labelling; the components start there.
        count: number of components.
        iterations: most steps of expectation and maximisation.
        tolerance: gain in mean log likelihood below which they stop.
        modes: components at known modes under the same labelling, from which the first ones start
            with covariances of their own; at most `count`.
    """
    dim = points.shape[1]
    share = 1.0 if count == 1 else 0.5
    spread = share * np.cov(points.T).reshape(dim, dim)
    spreads = np.repeat(spread[None], count, axis=0)
    if count == 1:
        means = points.mean(axis=0, keepdims=True)
    else:
        means = points[generator.choice(len(points), count, replace=False)]
    root = np.linalg.inv(np.linalg.cholesky(spread))
    found = Components(
        np.full(count, -math.log(count)), means, np.repeat(root[None], count, axis=0)
    )
    if modes is not None:
        found, spreads = _from_modes(found, spreads, modes)
    return _iterated(found, images, spreads, iterations, tolerance)


def with_tails(
    gaussians: Components,
    images: Float[np.ndarray, "n images dim"],
    degrees: float,
    iterations: int,
    tolerance: float = 1e-3,
) -> Components:
    """Return Student components fitted to the images of draws, from where Gaussians are."""
    found = as_student(gaussians, degrees)
    spreads = np.linalg.inv(np.swapaxes(found.factors, 1, 2) @ found.factors)
    return _iterated(found, images, spreads, iterations, tolerance)


def as_student(gaussians: Components, degrees: float) -> Components:
    """Return Student components with the means and covariances of Gaussians."""
    factors = gaussians.factors * math.sqrt(degrees / (degrees - 2.0))
    return dataclasses.replace(gaussians, factors=factors, degrees=degrees)


def _iterated(
    found: Components,
    images: Float[np.ndarray, "n images dim"],
    spreads: Float[np.ndarray, "components dim dim"],
    iterations: int,
    tolerance: float,
) -> Components:
    last = -math.inf
    for _ in range(iterations):
        found, likelihood = _step(found, images, spreads)
        if likelihood - last < tolerance:
            break
        last = likelihood
    return found


def _from_modes(
    found: Components, spreads: Float[np.ndarray, "components dim dim"], modes: Components
) -> tuple[Components, Float[np.ndarray, "components dim dim"]]:
    """Return the first components moved to the modes, with the covariances of these."""
    count = modes.count
    means, factors, spreads = found.means.copy(), found.factors.copy(), spreads.copy()
    means[:count], factors[:count] = modes.means, modes.factors
    spreads[:count] = np.linalg.inv(np.swapaxes(modes.factors, 1, 2) @ modes.factors)
    weights = np.full(found.count, 1.0 / found.count)
    own = np.exp(modes.log_weights - np.logaddexp.reduce(modes.log_weights))
    weights[:count] = np.maximum(own * count / found.count, LEAST_WEIGHT)
    return Components(np.log(weights / weights.sum()), means, factors), spreads


def _step(
    components: Components, images: np.ndarray, spreads: Float[np.ndarray, "components dim dim"]
) -> tuple[Components, float]:
    """Return one expectation and maximisation, and the mean log likelihood before it.

    Covariances are shrunk towards their spread by an inverse Wishart prior worth dim + 2 draws,
    which keeps components that few draws see from collapsing.
    """
    n, candidates, dim = images.shape
    count = components.count
    rows, columns = np.triu_indices(dim)
    mass, first = np.full(count, 1e-10), np.zeros((count, dim))
    pulled, second, total = mass.copy(), np.zeros((count, rows.size)), 0.0
    length = max(1, _CHUNK_TERMS // (candidates * max(count, rows.size)))
    for start in range(0, n, length):
        flat = images[start : start + length].reshape(-1, dim)
        terms = components.log_terms(flat).reshape(-1, candidates * count)
        logs = log_sum_exp(terms.copy())
        total += float(logs.sum())
        shares = np.exp(terms - logs[:, None]).reshape(-1, count)
        mass += shares.sum(axis=0)
        seen = shares.max(axis=1) > NEGLIGIBLE
        flat, shares = flat[seen], shares[seen]
        if math.isfinite(components.degrees):
            shares = shares * components.pulls(terms.reshape(-1, count)[seen])
        pulled += shares.sum(axis=0)
        first += shares.T @ flat
        second += shares.T @ (flat[:, rows] * flat[:, columns])
    means = first / pulled[:, None]
    scatter = np.empty((count, dim, dim))
    scatter[:, rows, columns] = scatter[:, columns, rows] = second
    scatter -= pulled[:, None, None] * means[:, :, None] * means[:, None, :]
    prior = 0.0 if count == 1 else dim + 2.0
    covariances = (scatter + prior * spreads) / (mass + prior)[:, None, None] + 1e-9 * spreads
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    log_weights = np.log(mass / mass.sum())
    return Components(log_weights, means, factors, components.degrees), total / n


TRIM = 6.0
"""Standard deviations of the squared distance beyond which a draw does not belong to the core: at
d = 80 a single chain of 51 in another mode lowered the acceptance from .25 to .09."""

TRIMMINGS = 8
"""Most rounds of trimming."""


def core_of(points: HostPoints) -> Bool[np.ndarray, " n"]:
    """Return whether each draw lies in the ellipsoid |u|² < d + 6·sqrt(2d) of the others that do.

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


def score_regression(points: HostPoints, gradients: HostPoints) -> Components | None:
    """Return the Gaussian whose score is nearest to the gradients at the points.

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
