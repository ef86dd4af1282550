"""Tempered particles on the host, every step for all points at once.

Random walks need values only and search well in few dimensions. In many they barely move between
two temperatures, the particles fall behind their target, and resampling then prefers whatever mode
fell behind least: with twenty dimensions all of them were found in one of e^-110. Paths along the
gradient keep up.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from folt.chains import accepted
from folt.problem import Problem
from folt.proposals.action import Action
from folt.reference.host_moves import (
    LONGEST_LADDER,
    HamiltonianPaths,
    next_temperature,
    systematic_resample,
)
from folt.reference.landscape import Matrix, require_resolution
from folt.reference.random_walk import ACCEPTANCE, SPREAD, first_scale
from folt.types import HostPoints, HostValues, Key, Progress, host_generator

PATHS_FROM = 20
"""Dimensions from which on particles follow paths: in fewer, random walks cost less."""

_FIRST_STEP, _PATH_LENGTH, _LONGEST_PATH = 0.3, 1.0, 16
"""First step size of the paths, their mean length, and their largest mean number of steps."""

PATH_ACCEPTANCE, PATH_RATE = 0.65, 1.0
"""What the step size is tuned to, and how fast: every temperature asks for another."""


RUNG_PARTICLES = 64
"""Particles of every rung that are kept as starts of descents."""


class Walk(NamedTuple):
    """Walkers of a random walk: where they are, log π_F there, log of the start, log scale."""

    points: HostPoints
    log_target: HostValues
    log_start: HostValues
    log_scale: float

    def at(self, rows: np.ndarray) -> Walk:
        """Return the walkers in these rows."""
        return self._replace(
            points=self.points[rows],
            log_target=self.log_target[rows],
            log_start=self.log_start[rows],
        )


class Ladder(NamedTuple):
    """Particles that have climbed from the start to π_F.

    Attributes:
        walk: the particles.
        log_evidence: a rough estimate of log Z.
        rungs: some particles of every temperature, (rung, some, dim).
        origins: the particle of the start that each descends from.
    """

    walk: Walk
    log_evidence: float
    rungs: Float[np.ndarray, "rung some dim"]
    origins: Int[np.ndarray, " n"]

    @property
    def ancestors(self) -> int:
        """Particles of the start that have descendants at the end."""
        return len(np.unique(self.origins))

    @property
    def effective_ancestors(self) -> float:
        """N²/Σnₒ² for families of nₒ particles: how many of equal size would vary as much.

        A share q of independent families, each wholly inside or outside, has variance q(1 - q) over
        this number; families whose particles have mixed vary less.
        """
        sizes = np.unique(self.origins, return_counts=True)[1].astype(float)
        return float(sizes.sum() ** 2 / np.sum(sizes**2))

    def families(self, within: Bool[np.ndarray, "n sets"]) -> Int[np.ndarray, " sets"]:
        """Return how many ancestors have descendants in each set of particles."""
        return np.array([len(np.unique(self.origins[inside])) for inside in within.T], int)


class Start(Protocol):
    """A normalised distribution from which a ladder may begin."""

    def sample(self, key: Key, count: int) -> HostPoints:
        """So many independent draws."""
        ...

    def log_probs(self, points: HostPoints) -> HostValues:
        """Return its log density at every point."""
        ...

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return its log density and the gradient of that at every point."""
        ...


class Climbed(Protocol):
    """What a ladder climbs to: log π_F, or its part under one labelling."""

    def first(self, points: HostPoints) -> HostValues:
        """Return values where a run begins; one of them at least is finite."""
        ...

    def __call__(self, points: HostPoints, keep: np.ndarray | None = None) -> HostValues:
        """Return the log density at every point; which of them may be learnt from later."""
        ...

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log density and its gradient at every point."""
        ...


class Rung(NamedTuple):
    """A step of the ladder, start^(1-λ)·π^λ.

    Attributes:
        landscape: log π_F.
        start: where the ladder begins.
        temperature: λ.
        covariance: equivariant covariance Σ̄ of the particles there.
    """

    landscape: Climbed
    start: Start
    temperature: float
    covariance: Matrix

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return its log density and the gradient of that; none where either end vanishes."""
        log_target, slope = self.landscape.with_gradients(points)
        if self.temperature >= 1.0:
            return log_target, slope
        log_start, start_slope = self.start.with_gradients(points)
        values = along(log_start, log_target, self.temperature)
        with np.errstate(invalid="ignore", over="ignore"):
            slopes = start_slope + self.temperature * (slope - start_slope)
        usable = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
        return np.where(usable, values, -np.inf), np.where(usable[:, None], slopes, 0.0)

    def learnt_from(self, points: HostPoints) -> np.ndarray | None:
        """Return which points may be learnt from later: all at the end of the ladder."""
        return np.arange(len(points)) if self.temperature >= 1.0 else None


class ParticleMover(Protocol):
    """How particles move at one temperature."""

    def first_scale(self, dim: int) -> float:
        """Return the scale that tuning begins with."""
        ...

    def log_start(self, start: Start, points: HostPoints) -> HostValues:
        """Return the log density of the start, by the program that the moves need anyway."""
        ...

    def __call__(self, generator: np.random.Generator, walk: Walk, rung: Rung) -> Walk:
        """Return the particles after all their moves, with the scale that was tuned on the way."""
        ...


@dataclasses.dataclass(frozen=True)
class RandomWalks:
    """So many random-walk steps per temperature."""

    moves: int

    def first_scale(self, dim: int) -> float:
        """Return the length of a step that suits a Gaussian of this dimension."""
        return first_scale(dim)

    def log_start(self, start: Start, points: HostPoints) -> HostValues:
        """Return values alone."""
        return start.log_probs(points)

    def __call__(self, generator: np.random.Generator, walk: Walk, rung: Rung) -> Walk:
        """Steps one after the other; those at the end of the ladder may be learnt from."""
        root, rate = np.linalg.cholesky(rung.covariance), self.moves**-0.5
        keep, (landscape, start, temperature, _) = rung.learnt_from(walk.points), rung
        for _ in range(self.moves):
            walk = random_walk_step(
                generator, landscape, walk, root, temperature, start, rate, keep
            )
        return walk


@dataclasses.dataclass(frozen=True)
class TemperedPaths:
    """So many Hamiltonian paths per temperature."""

    paths: int

    def first_scale(self, dim: int) -> float:
        """Return the step size of the first path."""
        return _FIRST_STEP

    def log_start(self, start: Start, points: HostPoints) -> HostValues:
        """Return values with gradients, which are dropped."""
        return start.with_gradients(points)[0]

    def __call__(self, generator: np.random.Generator, walk: Walk, rung: Rung) -> Walk:
        """Paths one after the other; their ends may be learnt from."""
        paths = HamiltonianPaths(rung, rung.covariance, _PATH_LENGTH, _LONGEST_PATH)
        states, log_scale = paths.at(walk.points), walk.log_scale
        for _ in range(self.paths):
            states, acceptance = paths.move(generator, states, math.exp(log_scale))
            log_scale += PATH_RATE * (acceptance - PATH_ACCEPTANCE)
        points = states.points
        log_target = rung.landscape(points, rung.learnt_from(points))
        return Walk(points, log_target, self.log_start(rung.start, points), log_scale)


def mover_for(problem: Problem, moves: int, paths: int) -> ParticleMover:
    """Paths where there is a gradient and they pay, else random walks."""
    if paths and problem.dim >= PATHS_FROM and problem.differentiable:
        return TemperedPaths(paths)
    return RandomWalks(moves)


def temper(
    key: Key,
    landscape: Climbed,
    start: Start,
    action: Action,
    particles: int,
    mover: ParticleMover,
    share: float,
    progress: Progress | None,
) -> Ladder:
    """Particles of π_F and a rough estimate of log Z, along start^(1-λ)·π^λ.

    Args:
        key: randomness.
        landscape: log π_F, which integrates to the order of the group times Z.
        start: a normalised distribution that covers the target.
        action: the group, for the equivariant covariance of the steps.
        particles: how many.
        mover: what they do at every temperature.
        share: effective share of particles kept by each increment of λ.
        progress: told λ after every step.

    Raises:
        ValueError: the log density is too large for its differences to show.
        RuntimeError: the target is not reached after `LONGEST_LADDER` temperatures.
    """
    generator = host_generator(key)
    points = start.sample(key, particles)
    scale = math.log(mover.first_scale(points.shape[1]))
    log_target = landscape.first(points)
    require_resolution(log_target)
    walk = Walk(points, log_target, mover.log_start(start, points), scale)
    temperature, log_evidence = 0.0, -math.log(action.group.order)
    origins, rungs = np.arange(particles), []
    some = generator.permutation(particles)[:RUNG_PARTICLES]
    for number in range(LONGEST_LADDER):
        temperature, log_weights = next_temperature(
            temperature, walk.log_target - walk.log_start, share
        )
        log_evidence += float(np.logaddexp.reduce(log_weights)) - math.log(particles)
        survivors = systematic_resample(generator.uniform(), log_weights)
        walk, origins = walk.at(survivors), origins[survivors]
        covariance = action.covariance(walk.points)
        walk = mover(generator, walk, Rung(landscape, start, temperature, covariance))
        if progress is not None:
            progress(temperature, f"tempering, step {number + 1}")
        rungs.append(walk.points[some])
        if temperature >= 1.0:
            return Ladder(walk, log_evidence, np.stack(rungs), origins)
    raise RuntimeError(
        f"tempering reached only λ = {temperature:.3g} after {LONGEST_LADDER} temperatures: "
        "the start is too far from the density"
    )


def random_walk_step(
    generator: np.random.Generator,
    landscape: Climbed,
    walk: Walk,
    root: Matrix,
    temperature: float,
    start: Start | None,
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


def along(log_start: HostValues, log_target: HostValues, temperature: float) -> HostValues:
    """(1-λ)·log start + λ·log π, -inf where either vanishes."""
    if temperature == 1.0:
        return log_target
    alive = (log_start > -np.inf) & (log_target > -np.inf)
    safe_start, safe_target = np.where(alive, log_start, 0.0), np.where(alive, log_target, 0.0)
    return np.where(alive, safe_start + temperature * (safe_target - safe_start), -np.inf)
