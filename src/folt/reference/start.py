"""Where a reference run begins: the prior, or a broad distribution found without one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.flows import StudentT
from folt.flows.elliptical import require_positive_definite
from folt.groups import Group
from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.reference.cautions import Caution, Concern
from folt.types import Density, Distribution, Key, Point, Points, Scalar, Scalars

SMALLEST_RADIUS = 1e-2
LARGEST_RADIUS = 1e3
"""Distances from the origin between which the search begins, evenly in the logarithm."""

DEGREES = 5.0
"""Degrees of freedom of the broad start."""

INFLATION = 2.0
"""Standard deviations of the broad start, as a multiple of those of the search."""


class Found(NamedTuple):
    """Where the search ended, the log density there, and what it cost in values."""

    points: Float[np.ndarray, "n dim"]
    values: Float[np.ndarray, " n"]
    cost: int


def starts_from_prior(key: Key, prior: Distribution, count: int) -> Points:
    """Independent draws of the prior."""
    return map_keys(_sample, prior, key, count)


def _sample(distribution: Distribution, key: Key) -> Point:
    return distribution.sample(key)


def starting_values(target: Density, points: Points | np.ndarray) -> Scalars:
    """Log density at the starting points, -inf where it is not a number.

    Raises:
        ValueError: no starting point has a finite log density.
    """
    return jnp.asarray(usable_start(map_points(_log_prob, target, points), points))


def usable_start(values: Scalars | np.ndarray, points: Points | np.ndarray) -> np.ndarray:
    """Starting values, NaN and +inf as -inf: far from the mass a density may be anything.

    A standard deviation of exp(-1000) is zero, and what comes of it is no fault of the model's.
    Whether the density is a number where it matters is asked later, around the draws
    (`require_numbers_around`).

    Raises:
        ValueError: no starting point has a finite log density; with the first fault, if any.
    """
    host = np.asarray(values)
    fault = np.isnan(host) | (host == np.inf)
    usable = np.where(fault, -np.inf, host)
    if np.any(np.isfinite(usable)):
        return usable
    bad = np.flatnonzero(fault)
    first = f", or {host[bad[0]]} as at the point {np.asarray(points[bad[0]])}" if bad.size else ""
    raise ValueError(
        f"expected a finite log density at some starting point, got -inf at all {host.size}"
        f"{first}: give a prior= that reaches the support of the density"
    )


def _log_prob(density: Density, point: Point) -> Scalar:
    return density.log_prob(point)


def fault_cautions(faults: int, evaluations: int) -> tuple[Caution, ...]:
    """The caution about values that were NaN or +inf on the way, if there were any."""
    if not faults:
        return ()
    return (Caution.of(Concern.NOT_A_NUMBER, faults=faults, evaluations=evaluations),)


def search(key: Key, target: Density, walkers: int = 256) -> Found:
    """Find where the mass is without knowing scale or location.

    Walkers begin at radii spread evenly in the logarithm and take Metropolis steps, each with a
    step length of its own that grows on acceptance and shrinks on rejection, so distances of
    .01 and of 1000 are covered alike. Only ends whose log density comes near the best are
    returned.
    """
    radius_key, direction_key, walk_key = jax.random.split(key, 3)
    dim = target.dim
    logs = jax.random.uniform(
        radius_key, (walkers,), float, math.log(SMALLEST_RADIUS), math.log(LARGEST_RADIUS)
    )
    directions = jax.random.normal(direction_key, (walkers, dim))
    directions /= jnp.linalg.norm(directions, axis=1, keepdims=True)
    radii = jnp.exp(logs)
    points = radii[:, None] * directions
    values = starting_values(target, points)
    steps = 250 + 50 * dim
    points, values = _search(walk_key, target, points, values, jnp.log(0.3 * radii), steps)
    # On the host: how many ends are near differs from one data set to the next, and a JAX array
    # of every new length would be a compilation of its own.
    near = near_the_best(np.asarray(values), dim)
    ends, heights = (np.asarray(leaf)[near] for leaf in (points, values))
    return Found(ends, heights, walkers * (steps + 1))


def near_the_best(values: np.ndarray, dim: int) -> np.ndarray:
    """Which ends of a search are worth keeping."""
    return values > float(np.max(values)) - 30.0 - 5.0 * dim


@eqx.filter_jit
def _search(
    key: Key, target: Density, points: Points, values: Scalars, log_steps: Scalars, steps: int
) -> tuple[Points, Scalars]:
    def step(
        state: tuple[Points, Scalars, Scalars], step_key: Key
    ) -> tuple[tuple[Points, Scalars, Scalars], None]:
        points, values, log_steps = state
        move_key, accept_key = jax.random.split(step_key)
        noise = jax.random.normal(move_key, points.shape, points.dtype)
        proposal = points + jnp.exp(log_steps)[:, None] * noise
        value = jax.vmap(target.log_prob)(proposal)
        value = jnp.where(jnp.isnan(value) | (value == jnp.inf), -jnp.inf, value)
        threshold = jnp.log(jax.random.uniform(accept_key, values.shape, values.dtype))
        # A walker at -inf accepts anything finite: its way to the support is a search.
        accept = (value > -jnp.inf) & (threshold < value - values)
        log_steps = log_steps + jnp.where(accept, 0.4, -0.12)
        points = jnp.where(accept[:, None], proposal, points)
        return (points, jnp.where(accept, value, values), log_steps), None

    keys = jax.random.split(key, steps)
    return jax.lax.scan(step, (points, values, log_steps), keys)[0][:2]


def broad_start(key: Key, target: Folded) -> tuple[StudentT, int]:
    """A multivariate t that covers what the search found under every label.

    Its covariance is four times that of random images of the ends of the search, averaged over
    the group; its tails are heavier than a Gaussian's.

    Returns:
        The distribution and the values it cost.
    """
    search_key, image_key = jax.random.split(key)
    found = search(search_key, target)
    return start_around(image_key, target.group, found.points), found.cost


def start_around(key: Key, group: Group, points: Float[np.ndarray, "n dim"]) -> StudentT:
    """The multivariate t over random images of the points."""
    images = map_points(_image, (group, key), (np.arange(points.shape[0]), points))
    return broad(images.mean(axis=0), np.asarray(_averaged(group, covariance_of(images))))


def covariance_of(points: Float[np.ndarray, "n dim"]) -> Float[np.ndarray, "dim dim"]:
    """Mean of the products of centred coordinates."""
    centred = points - points.mean(axis=0)
    return centred.T @ centred / len(points)


def broad(mean: Float[np.ndarray, " dim"], covariance: Float[np.ndarray, "dim dim"]) -> StudentT:
    """A t that is wider than these moments, a trace of ridge added."""
    variances = np.diagonal(covariance)
    ridge = 1e-6 * variances + 1e-12 * variances.max() + 1e-300
    widened = INFLATION**2 * (covariance + np.diag(ridge))
    require_positive_definite(widened)
    root = np.linalg.inv(np.linalg.cholesky(widened * (DEGREES - 2) / DEGREES))
    return StudentT(jax.device_put(mean), jax.device_put(root), DEGREES)


def _image(context: tuple[Group, Key], numbered: tuple[Array, Point]) -> Point:
    group, key = context
    number, point = numbered
    return group.random_image(jax.random.fold_in(key, number), point)


@eqx.filter_jit
def _averaged(group: Group, matrix: Any) -> Float[Array, "dim dim"]:
    return group.average(matrix)
