"""Search and tempered particles on the host: values only, every step for all points at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np

from folt.problem import Points, Values
from folt.problem.orbits import Action, HostDistribution, action_of
from folt.reference.landscape import Landscape, Matrix
from folt.reference.random_walk import ACCEPTANCE, SPREAD, first_scale
from folt.reference.start import (
    LARGEST_RADIUS,
    SMALLEST_RADIUS,
    broad,
    covariance_of,
    near_the_best,
    start_around,
)
from folt.reference.tempering import LONGEST_LADDER, next_temperature, systematic_resample
from folt.types import Key, Progress, host_generator


class Walk(NamedTuple):
    """Walkers of a random walk: where they are, log π_F there, log of the start, log scale."""

    points: Points
    log_target: Values
    log_start: Values
    log_scale: float

    def at(self, rows: np.ndarray) -> Walk:
        """The walkers in these rows."""
        return self._replace(
            points=self.points[rows],
            log_target=self.log_target[rows],
            log_start=self.log_start[rows],
        )


def search(key: Key, landscape: Landscape, walkers: int, steps: int) -> Points:
    """Where the mass is, without knowing its scale: ends of walkers with steps of their own.

    They begin at radii spread evenly in the logarithm and lengthen their steps on acceptance.
    Only ends whose log density comes near the best are returned.
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
        accept = (value > -np.inf) & accepted(generator, value, values)
        log_steps += np.where(accept, 0.4, -0.12)
        points = np.where(accept[:, None], proposal, points)
        values = np.where(accept, value, values)
    return points[near_the_best(values, dim)]


def found_start(key: Key, landscape: Landscape, walkers: int, steps: int) -> HostDistribution:
    """A broad t around the ends of a search, under every label."""
    ends = search(key, landscape, walkers, steps)
    action = action_of(landscape.problem.group)
    if not action.listed:
        return HostDistribution(start_around(key, action.group, ends))
    chosen = host_generator(jax.random.fold_in(key, 1)).integers(action.group.order, size=len(ends))
    images = action.move(chosen, ends)
    return HostDistribution(broad(images.mean(axis=0), action.average(covariance_of(images))))


def temper(
    key: Key,
    landscape: Landscape,
    start: HostDistribution,
    action: Action,
    particles: int,
    moves: int,
    share: float,
    progress: Progress | None,
) -> tuple[Walk, float]:
    """Particles of π_F and a rough estimate of log Z, along start^(1-λ)·π^λ.

    Args:
        key: randomness.
        landscape: log π_F.
        start: a normalised distribution that covers the target.
        action: the group, for the equivariant covariance of the steps.
        particles: how many.
        moves: random-walk steps per temperature.
        share: effective share of particles kept by each increment of λ.
        progress: told λ after every step.

    Raises:
        RuntimeError: the target is not reached after `LONGEST_LADDER` temperatures.
    """
    generator = host_generator(key)
    points = start.sample(key, particles)
    scale = math.log(first_scale(points.shape[1]))
    walk = Walk(points, landscape.first(points), start.log_probs(points), scale)
    # π_F integrates to s·Z over all of R^dim.
    temperature, log_evidence = 0.0, -math.log(landscape.problem.group.order)
    every = np.arange(particles)
    for number in range(LONGEST_LADDER):
        temperature, log_weights = next_temperature(
            temperature, walk.log_target - walk.log_start, share
        )
        log_evidence += float(np.logaddexp.reduce(log_weights)) - math.log(particles)
        walk = walk.at(systematic_resample(generator.uniform(), log_weights))
        root = np.linalg.cholesky(action.covariance(walk.points))
        keep = every if temperature >= 1.0 else None
        for _ in range(moves):
            walk = random_walk_step(
                generator, landscape, walk, root, temperature, start, moves**-0.5, keep
            )
        if progress is not None:
            progress(temperature, f"tempering, step {number + 1}")
        if temperature >= 1.0:
            return walk, log_evidence
    raise RuntimeError(
        f"tempering reached only λ = {temperature:.3g} after {LONGEST_LADDER} temperatures: "
        "the start is too far from the density"
    )


def random_walk_step(
    generator: np.random.Generator,
    landscape: Landscape,
    walk: Walk,
    root: Matrix,
    temperature: float,
    start: HostDistribution | None,
    rate: float,
    keep: np.ndarray | None = None,
) -> Walk:
    """One Metropolis step of every walker at a temperature; rate 0 leaves the scale alone.

    The length of a step is log-normal, so that narrow and wide modes are both served.
    """
    count, dim = walk.points.shape
    noise = generator.normal(size=(count, dim + 1))
    length = np.exp(walk.log_scale + SPREAD * noise[:, dim:])
    proposal = walk.points + length * (noise[:, :dim] @ root.T)
    log_target = landscape(proposal, keep)
    log_start = walk.log_start if start is None else start.log_probs(proposal)
    new = along(log_start, log_target, temperature)
    old = along(walk.log_start, walk.log_target, temperature)
    accept = accepted(generator, new, old)
    pooled = float(np.mean(np.exp(np.minimum(new - old, 0.0))))
    return Walk(
        np.where(accept[:, None], proposal, walk.points),
        np.where(accept, log_target, walk.log_target),
        np.where(accept, log_start, walk.log_start),
        walk.log_scale + rate * (pooled - ACCEPTANCE),
    )


def along(log_start: Values, log_target: Values, temperature: float) -> Values:
    """(1-λ)·log start + λ·log π, -inf where either vanishes."""
    if temperature == 1.0:
        return log_target
    alive = (log_start > -np.inf) & (log_target > -np.inf)
    safe_start, safe_target = np.where(alive, log_start, 0.0), np.where(alive, log_target, 0.0)
    return np.where(alive, safe_start + temperature * (safe_target - safe_start), -np.inf)


def accepted(generator: np.random.Generator, new: Values, old: Values) -> np.ndarray:
    """Metropolis: whether a uniform falls below exp(new - old)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(generator.uniform(size=new.shape)) < new - old
