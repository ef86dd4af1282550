"""Where a reference run begins: the prior, or a broad distribution found without one."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from folt.batching import map_points
from folt.certificate.cautions import Caution, Concern
from folt.chains import accepted
from folt.groups import Group
from folt.proposals import StudentT
from folt.proposals.action import action_of
from folt.proposals.elliptical import require_positive_definite
from folt.proposals.sums import HostDistribution
from folt.reference.landscape import Landscape, Matrix, require_resolution
from folt.types import HostPoints, HostValues, Key, Point, host_generator

SMALLEST_RADIUS = 1e-2
LARGEST_RADIUS = 1e3
"""Distances from the origin between which the search begins, evenly in the logarithm."""

_DEGREES = 5.0
"""Degrees of freedom of the broad start."""

_INFLATION = 2.0
"""Standard deviations of the broad start, as a multiple of those of the search."""


def search(
    key: Key, landscape: Landscape, walkers: int, steps: int
) -> tuple[HostPoints, HostValues]:
    """Where the mass is, within wide limits of its scale: ends of walkers with steps of their own.

    They begin at radii spread evenly in the logarithm and lengthen their steps on acceptance, so
    that distances of .01 and of 1000 are covered alike. A walker has one step for all coordinates:
    scales that differ by more than 1e6 are found with luck only (`Concern.SCALES_APART`). Ends
    whose log density comes near the best are returned, with that log density.

    Raises:
        ValueError: the log density is finite at no start, or too large for its differences to show.
    """
    generator = host_generator(key)
    dim = landscape.problem.dim
    logs = generator.uniform(math.log(SMALLEST_RADIUS), math.log(LARGEST_RADIUS), walkers)
    points = generator.normal(size=(walkers, dim))
    points *= (np.exp(logs) / np.linalg.norm(points, axis=1))[:, None]
    values, log_steps = landscape.first(points), logs + math.log(0.3)
    for _ in range(steps):
        proposal = points + np.exp(log_steps)[:, None] * generator.normal(size=points.shape)
        value = landscape(proposal)
        # A walker at -inf accepts anything finite: its way to the support is a search.
        accept = accepted(generator, values, value)
        log_steps += np.where(accept, 0.4, -0.12)
        points = np.where(accept[:, None], proposal, points)
        values = np.where(accept, value, values)
    require_resolution(values)
    near = near_the_best(values, dim)
    return points[near], values[near]


def near_the_best(values: HostValues, dim: int) -> Bool[np.ndarray, " n"]:
    """Return which ends of a search are worth keeping."""
    # Where the difference is below the rounding of large values, the best itself is still kept.
    return values >= float(np.max(values)) - 30.0 - 5.0 * dim


def starting_distribution(
    key: Key, landscape: Landscape, walkers: int, steps: int
) -> HostDistribution:
    """The problem's own start, else the prior; without one, a broad t around the ends of a search.

    The t stands under every label. It has twice the standard deviations of the ends, and heavier
    tails than a Gaussian.
    """
    known = landscape.problem.start or landscape.problem.prior
    if known is not None:
        return HostDistribution(known)
    ends, _ = search(key, landscape, walkers, steps)
    action = action_of(landscape.problem.group)
    if not action.listed:
        return HostDistribution(start_around(key, action.group, ends))
    chosen = host_generator(jax.random.fold_in(key, 1)).integers(action.group.order, size=len(ends))
    images = action.move(chosen, ends)
    return HostDistribution(broad(images.mean(axis=0), action.average(covariance_of(images))))


def start_around(key: Key, group: Group, points: HostPoints) -> StudentT:
    """A broad t over random images of the points, for groups that are too large to be listed."""
    images = map_points(_image, (group, key), (np.arange(points.shape[0]), points))
    return broad(
        images.mean(axis=0), np.asarray(_averaged(group, jax.device_put(covariance_of(images))))
    )


def covariance_of(points: HostPoints) -> Matrix:
    """Return the mean of the products of centred coordinates."""
    centred = points - points.mean(axis=0)
    return centred.T @ centred / len(points)


def broad(mean: Float[np.ndarray, " dim"], covariance: Matrix) -> StudentT:
    """Return a t that is wider than these moments, a trace of ridge added."""
    variances = np.diagonal(covariance)
    ridge = 1e-6 * variances + 1e-12 * variances.max() + 1e-300
    widened = _INFLATION**2 * (covariance + np.diag(ridge))
    require_positive_definite(widened)
    root = np.linalg.inv(np.linalg.cholesky(widened * (_DEGREES - 2) / _DEGREES))
    return StudentT(jax.device_put(mean), jax.device_put(root), _DEGREES)


def _image(context: tuple[Group, Key], numbered: tuple[Array, Point]) -> Point:
    group, key = context
    number, point = numbered
    return group.random_image(jax.random.fold_in(key, number), point)


@eqx.filter_jit
def _averaged(group: Group, matrix: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    return group.average(matrix)


def fault_cautions(faults: int, evaluations: int) -> tuple[Caution, ...]:
    """Return the caution about values that were NaN or +inf on the way, if there were any."""
    if not faults:
        return ()
    return (Caution.of(Concern.NOT_A_NUMBER, faults=faults, evaluations=evaluations),)
