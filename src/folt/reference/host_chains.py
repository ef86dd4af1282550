"""The reference run of a black box: particles and chains in lock step, values on the host.

The same plan as for a density in JAX (search or prior, tempered particles, chains started from
them, leaps between modes), with random-walk steps in place of gradients and NumPy in place of
compiled loops. Every step hands the box all its points at once.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt._types import Distribution, Key, Scalars, host_generator, in_float64
from folt._types import Points as JaxPoints
from folt.batching import map_points
from folt.problem import Points, Problem, Values
from folt.reference.leap import Leap
from folt.reference.random_walk import ACCEPTANCE, SPREAD, first_scale
from folt.reference.result import Reference, folded, health
from folt.reference.start import (
    LARGEST_RADIUS,
    SMALLEST_RADIUS,
    fault_cautions,
    near_the_best,
    start_around,
    starts_from_prior,
    usable_start,
)
from folt.reference.supplied import Progress, for_picture
from folt.reference.tempering import LONGEST_LADDER, metric, next_temperature, systematic_resample

SEARCHERS = 256
TEMPERING_SHARE = 0.4
"""Share of the progress bar that search and tempering take."""


class Box:
    """Log π_F of a problem on the host; counts points and faults, which become -inf."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.points = 0
        self.faults = 0

    def __call__(self, points: Points) -> Values:
        """Log π_F at every point."""
        self.points += points.shape[0]
        values = self.problem.log_folds(points)
        fault = np.isnan(values) | np.isposinf(values)
        self.faults += int(fault.sum())
        return np.where(fault, -np.inf, values)

    def first(self, points: Points) -> Values:
        """Values where a run begins; one of them at least is finite."""
        self.points += points.shape[0]
        values = self.problem.log_folds(points)
        self.faults += int(np.sum(np.isnan(values) | (values == np.inf)))
        return usable_start(values, points)


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


@dataclasses.dataclass(frozen=True)
class HostChains:
    """Tempered particles, then random-walk chains with leaps: values only, all on the host.

    Args:
        particles: particles of the tempering.
        moves: random-walk steps per temperature.
        share: effective share of particles kept per temperature.
        chains: chains started from resampled particles.
        draws: recorded draws per chain.
        thin: random-walk steps between two recorded draws; each draw ends with a leap.
        bandwidth: width of the leaps' kernels, as a multiple of the root of Σ̄.
    """

    particles: int = 1_000
    moves: int = 10
    share: float = 0.6
    chains: int = 100
    draws: int = 250
    thin: int = 8
    bandwidth: float = 0.5

    @in_float64
    def __call__(self, key: Key, problem: Problem, progress: Progress | None = None) -> Reference:
        """Search, temper, walk and fold."""
        box = Box(problem)
        keys = [jax.random.fold_in(key, number) for number in range(5)]
        start = problem.prior
        if start is None:
            start = self._search(keys[0], box)
        walk, log_evidence = self._temper(keys[1], keys[2], box, start, progress)
        covariance = np.asarray(metric(problem.group, walk.points))
        raw = self._chains(keys[3], keys[4], box, walk, covariance, progress)
        draws = folded(problem.group, raw)
        rhat, ess, cautions = health(draws)
        terms = 1 if problem.invariant else problem.group.order
        return Reference(
            draws=draws,
            rhat=rhat,
            ess=ess,
            exact=False,
            evaluations={"value": box.points * terms, "gradient": 0},
            cautions=cautions + fault_cautions(box.faults, box.points),
            raw=for_picture(raw),
            log_evidence=log_evidence,
        )

    def _search(self, key: Key, box: Box) -> Distribution:
        """A broad t around what walkers with step lengths of their own have found.

        They begin at radii spread evenly in the logarithm and lengthen their steps on
        acceptance, so that the scale of the density need not be known.
        """
        generator = host_generator(key)
        dim = box.problem.dim
        logs = generator.uniform(math.log(SMALLEST_RADIUS), math.log(LARGEST_RADIUS), SEARCHERS)
        points = generator.normal(size=(SEARCHERS, dim))
        points *= (np.exp(logs) / np.linalg.norm(points, axis=1))[:, None]
        values, log_steps = box.first(points), logs + math.log(0.3)
        for _ in range(250 + 50 * dim):
            proposal = points + np.exp(log_steps)[:, None] * generator.normal(size=points.shape)
            value = box(proposal)
            # A walker at -inf accepts anything finite: its way to the support is a search.
            accept = (value > -np.inf) & _accepted(generator, value, values)
            log_steps += np.where(accept, 0.4, -0.12)
            points = np.where(accept[:, None], proposal, points)
            values = np.where(accept, value, values)
        ends = points[near_the_best(values, dim)]
        return start_around(jax.random.fold_in(key, 1), box.problem.group, ends)

    def _temper(
        self, start_key: Key, key: Key, box: Box, start: Distribution, progress: Progress | None
    ) -> tuple[Walk, float]:
        """Particles of π_F and the rough estimate of log Z, along start^(1-λ)·π^λ."""
        generator = host_generator(key)
        points = np.asarray(starts_from_prior(start_key, start, self.particles))
        walk = Walk(
            points, box.first(points), _log_starts(start, points), math.log(first_scale(start.dim))
        )
        temperature, log_evidence = 0.0, -math.log(box.problem.group.order)
        for number in range(LONGEST_LADDER):
            temperature, log_weights = next_temperature(
                temperature, walk.log_target - walk.log_start, self.share
            )
            log_evidence += float(np.logaddexp.reduce(log_weights)) - math.log(self.particles)
            chosen = systematic_resample(generator.uniform(), log_weights)
            walk = walk.at(chosen)
            root = np.linalg.cholesky(np.asarray(metric(box.problem.group, walk.points)))
            for _ in range(self.moves):
                walk = _step(generator, box, walk, root, temperature, start, self.moves**-0.5)
            if progress is not None:
                progress(TEMPERING_SHARE * temperature, f"tempering, step {number + 1}")
            if temperature >= 1.0:
                return walk, log_evidence
        raise RuntimeError(
            f"tempering reached only λ = {temperature:.3g} after {LONGEST_LADDER} temperatures: "
            "the start is too far from the density"
        )

    def _chains(
        self,
        leap_key: Key,
        key: Key,
        box: Box,
        walk: Walk,
        covariance: Float[np.ndarray, "dim dim"],
        progress: Progress | None,
    ) -> Float[np.ndarray, "chain draw dim"]:
        """Fixed random-walk steps and one leap per draw.

        A leap does not depend on the state, so all of them are proposed, and valued by the box,
        before the chains run.
        """
        generator = host_generator(key)
        leap = Leap.around(walk.points, covariance, self.bandwidth)
        root = np.linalg.cholesky(covariance)
        chosen = np.resize(generator.permutation(self.particles), self.chains)
        walk = walk.at(chosen)
        places = np.asarray(_leap_points(leap, leap_key, self.chains * self.draws))
        shape = (self.draws, self.chains)
        log_places = box(places).reshape(shape)
        log_ratios = log_places - map_points(Leap.log_prob, leap, places).reshape(shape)
        places = places.reshape(*shape, -1)
        record = np.empty((self.draws, *walk.points.shape))
        for number in range(self.draws):
            for _ in range(self.thin):
                walk = _step(generator, box, walk, root, 1.0, None, 0.0)
            here = walk.log_target - np.asarray(_log_leaps(leap, walk.points))
            accept = _accepted(generator, log_ratios[number], here)
            walk = walk._replace(
                points=np.where(accept[:, None], places[number], walk.points),
                log_target=np.where(accept, log_places[number], walk.log_target),
            )
            record[number] = walk.points
            if progress is not None:
                done = (number + 1) / self.draws
                progress(TEMPERING_SHARE + (1 - TEMPERING_SHARE) * done, "random walk")
        return record.swapaxes(0, 1)


def _step(
    generator: np.random.Generator,
    box: Box,
    walk: Walk,
    root: Float[np.ndarray, "dim dim"],
    temperature: float,
    start: Distribution | None,
    rate: float,
) -> Walk:
    """One Metropolis step of every walker at a temperature; rate 0 leaves the scale alone."""
    count, dim = walk.points.shape
    noise = generator.normal(size=(count, dim + 1))
    length = np.exp(walk.log_scale + SPREAD * noise[:, dim:])
    proposal = walk.points + length * (noise[:, :dim] @ root.T)
    log_target = box(proposal)
    log_start = walk.log_start if start is None else _log_starts(start, proposal)
    new = _along(log_start, log_target, temperature)
    old = _along(walk.log_start, walk.log_target, temperature)
    accept = _accepted(generator, new, old)
    pooled = float(np.mean(np.exp(np.minimum(new - old, 0.0))))
    return Walk(
        np.where(accept[:, None], proposal, walk.points),
        np.where(accept, log_target, walk.log_target),
        np.where(accept, log_start, walk.log_start),
        walk.log_scale + rate * (pooled - ACCEPTANCE),
    )


def _along(log_start: Values, log_target: Values, temperature: float) -> Values:
    """(1-λ)·log start + λ·log π, -inf where either vanishes."""
    if temperature == 1.0:
        return log_target
    alive = (log_start > -np.inf) & (log_target > -np.inf)
    safe_start, safe_target = np.where(alive, log_start, 0.0), np.where(alive, log_target, 0.0)
    return np.where(alive, safe_start + temperature * (safe_target - safe_start), -np.inf)


def _accepted(generator: np.random.Generator, new: Values, old: Values) -> np.ndarray:
    """Metropolis: whether a uniform falls below exp(new - old)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(generator.uniform(size=new.shape)) < new - old


def _log_starts(start: Distribution, points: Points) -> Values:
    return map_points(_log_prob, start, points)


def _log_prob(start: Distribution, point: Array) -> Array:
    return start.log_prob(point)


@eqx.filter_jit
def _log_leaps(leap: Leap, points: JaxPoints | Points) -> Scalars:
    return jax.vmap(leap.log_prob)(jnp.asarray(points))


@eqx.filter_jit
def _leap_points(leap: Leap, key: Key, count: int) -> JaxPoints:
    return leap.points(key, count)
