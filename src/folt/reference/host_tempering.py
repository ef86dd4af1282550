"""Tempered particles on the host: values only, every step for all points at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from folt.chains.independence import accepted
from folt.problem import Points, Values
from folt.problem.orbits import Action, HostDistribution
from folt.reference.landscape import Landscape, Matrix
from folt.reference.random_walk import ACCEPTANCE, SPREAD, first_scale
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
    accept = accepted(generator, old, new)
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
