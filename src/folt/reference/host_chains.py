"""The default reference run: particles and chains in lock step, the small steps on the host.

Only the density is compiled, once for values and once for gradients; a black box is called as it is
and, where it has no gradient, random-walk steps take the place of paths. Every step hands over all
its points at once.
"""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from folt.problem import GRADIENTS_PER_BLOCK, Points, Problem
from folt.problem.batching import calls_lapack
from folt.problem.orbits import Action, ListedSum, action_of
from folt.reference.cautions import Caution
from folt.reference.exploration import ExplorationFacts, Explored, Explorer, Plan
from folt.reference.exploration.descents import ROUNDS
from folt.reference.exploration.facts import RATIO
from folt.reference.exploration.masses import summable
from folt.reference.exploration.modes import PerMode
from folt.reference.host_moves import LeapKernel, Paths, States, StepSize, UnionLeap
from folt.reference.host_tempering import Walk, mover_for, random_walk_step
from folt.reference.landscape import Landscape, Matrix
from folt.reference.result import Reference, health
from folt.reference.start import fault_cautions, starting_distribution
from folt.reference.supplied import for_picture, part_of
from folt.types import Key, Progress, host_generator, in_float64

EXPLORATION_SHARE = 0.5
"""Share of the progress bar that the exploration takes."""

LEAST_LEAP = 0.02
"""Share of the leaps to modes that all modes have together, however light they are."""

LEAST_STARTED = 0.003
"""Mass of a mode that the particles lost above which chains are started there."""

COMPARED = 2_048
"""Reference draws that are compared with the tempered particles, about."""

FIRST_STEP = 0.5
"""First step size of the paths, in whitened units."""

CENTRES = 512
"""Most particles, about, from which leaps are proposed."""

AGREED = 1.03
"""R-hat at which chains of some tens of draws agree: refreshment does the rest."""

ENOUGH = 2_000
"""Effective draws that chains must be worth."""

DOUBTED, LESSENS = 1.1, 0.8
"""R-hat above which a fit would be in doubt, and what must be left of its excess over one when
chains have run twice as long: chains that are stuck are not waited for."""

Raw = Float[np.ndarray, "chain draw dim"]
RawValues = Float[np.ndarray, "chain draw"]


@dataclasses.dataclass(frozen=True)
class HostChains:
    """Tempered particles, then chains started from them, with leaps between modes.

    From the prior, or without one from a broad t found by a search that knows no scale. Particles,
    moved by random walks in few dimensions and along the gradient in many, put chains into separate
    modes in proportion to their mass; paths along the gradient (random walks without one)
    refine every mode with the equivariant metric Σ̄ of the particles, and leaps from particle to
    particle correct the weights of the modes. A mode without a particle stays unseen, and R-hat
    cannot tell: a mode of weight ω needs several times 1/ω particles.

    Args:
        particles: particles of the tempering.
        moves: random-walk steps per temperature.
        paths: paths per temperature that take their place in many dimensions, where there is a
            gradient; none for random walks everywhere.
        share: effective share of particles kept per temperature.
        descents: gradients of each of the slots in which descents look for modes; none for
            tempering alone.
        chains: chains started from resampled particles.
        draws: recorded draws per chain.
        longest: most iterations per recorded draw: chains that do not agree yet, or are worth too
            little, run twice as long and record every other draw; again while a doubt lessens.
        warmup: iterations that tune the step size of the paths; thrown away.
        acceptance: acceptance probability that it is tuned to.
        thin: random-walk steps between two recorded draws, where there is no gradient.
        leap_every: recorded draws per leap.
        bandwidth: width of the leaps' kernels, as a multiple of the root of Σ̄.
        searchers: walkers of the search.
        search_steps: their steps, and how many more per dimension.
        known: points from which descents begin as well, such as the modes of an earlier fit.
    """

    particles: int = 1_024
    moves: int = 10
    paths: int = 2
    share: float = 0.8
    descents: int = ROUNDS
    chains: int = 128
    draws: int = 80
    longest: int = 8
    warmup: int = 20
    acceptance: float = 0.8
    thin: int = 8
    leap_every: int = 1
    bandwidth: float = 0.5
    searchers: int = 512
    search_steps: tuple[int, int] = (150, 25)
    known: Points | None = None

    @in_float64
    def __call__(self, key: Key, problem: Problem, progress: Progress | None = None) -> Reference:
        """Search, temper, descend, move and fold."""
        landscape, action = Landscape(problem), action_of(problem.group)
        keys = [jax.random.fold_in(key, number) for number in range(3)]
        with ThreadPoolExecutor(1) as other:
            # Values and gradients are two programs, compiled side by side.
            landscape.ready = None if problem.black_box else _prepared(other, problem)
            first, more = self.search_steps
            steps = first + more * problem.dim
            start = starting_distribution(keys[0], landscape, self.searchers, steps)
            moves = mover_for(problem, self.moves, self.paths)
            rounds = self.descents if problem.differentiable else 0
            plan = Plan(self.particles, self.share, moves, rounds, self.known)
            explorer = Explorer(keys[1], landscape, start, action, plan)
            found = self._found(keys[2], explorer, progress)
        explored, record = found.explored, found.record
        rhat, ess, cautions = record.health
        cautions += explored.cautions + fault_cautions(landscape.faults, landscape.values)
        return Reference(
            draws=record.draws,
            rhat=rhat,
            ess=ess,
            exact=False,
            evaluations=landscape.evaluations,
            cautions=cautions,
            raw=for_picture(record.raw),
            log_evidence=explored.ladder.log_evidence,
            log_target=record.values,
            visited=landscape.worth_learning(),
            explored=explored,
            exploration=found.facts,
            exploring=explorer.seconds,
        )

    def _found(self, key: Key, explorer: Explorer, progress: Progress | None) -> _Found:
        """Modes and chains among them; again, from what is known, where the searches disagree."""
        explored = explorer.first(part_of(progress, 0.0, EXPLORATION_SHARE))
        lost = explored.lost
        if lost.size == 0:
            tell = part_of(progress, EXPLORATION_SHARE, 1.0)
            found = self._followed(key, explorer, explored, tell)
            lost = np.flatnonzero([not mode.agreed for mode in found.facts.modes])
            if lost.size == 0:
                return found
        explored = explorer.again(explored, lost, part_of(progress, 0.0, EXPLORATION_SHARE))
        return self._followed(key, explorer, explored, part_of(progress, EXPLORATION_SHARE, 1.0))

    def _followed(self, key: Key, explorer: Explorer, explored: Explored, tell: Progress) -> _Found:
        """Chains from what was explored, and what both say of the modes."""
        record = self._chains(key, explorer.landscape, explored, tell)
        shares = _shares(explored, explorer.action, record.draws)
        return _Found(explored, record, explored.facts(shares))

    def _chains(
        self,
        key: Key,
        landscape: Landscape,
        explored: Explored,
        tell: Progress,
    ) -> _Record:
        """What the chains recorded, run longer where they do not agree yet."""
        generator, action = host_generator(key), action_of(landscape.problem.group)
        walk = explored.ladder.walk
        covariance = action.covariance(walk.points)
        leap = _leaps(explored, action, covariance, self.bandwidth)
        chosen = np.resize(generator.permutation(len(walk.points)), self.chains)
        sloped = landscape.problem.differentiable
        if sloped:
            starts = _with_lost_modes(generator, walk.points[chosen], explored)
            mover: _Mover = _Hamiltonian(landscape, starts, covariance, self.acceptance)
        else:
            mover = _Walkers(landscape, walk.at(chosen), covariance, self.thin)
        for number in range(self.warmup if sloped else 0):
            _iterate(generator, mover, leap, tuning=True)
            tell(0.2 * (number + 1) / self.warmup, "warm-up")
        every, before = 1, math.inf
        record = _Record.of(
            action, *self._recorded(generator, mover, leap, part_of(tell, 0.2, 0.5))
        )
        while every < self.longest and record.should_grow(every, before):
            before, part = record.rhat, part_of(tell, 1.0 - 0.5 / every, 1.0 - 0.25 / every)
            more, more_values = self._recorded(generator, mover, leap, part, every)
            raw = np.concatenate([record.raw, more], axis=1)[:, 1::2]
            values = np.concatenate([record.values, more_values], axis=1)[:, 1::2]
            record, every = _Record.of(action, raw, values), 2 * every
        return record

    def _recorded(
        self,
        generator: np.random.Generator,
        mover: _Mover,
        leap: LeapKernel | UnionLeap,
        tell: Progress,
        every: int = 1,
    ) -> tuple[Raw, RawValues]:
        """Draws (chain, draw, dim) at every so many iterations, and log π_F at them."""
        record = np.empty((self.draws, *mover.states.points.shape))
        values = np.empty((self.draws, self.chains))
        for number in range(self.draws):
            for _ in range(every):
                leaps = number % self.leap_every == self.leap_every - 1
                _iterate(generator, mover, leap if leaps else None, tuning=False)
            record[number], values[number] = mover.states.points, mover.states.values
            tell((number + 1) / self.draws, "chains")
        return record.swapaxes(0, 1), values.T


def _leaps(
    explored: Explored, action: Action, covariance: Matrix, bandwidth: float
) -> LeapKernel | UnionLeap:
    """Leaps from the particles, and where modes are known and can be summed from these as well."""
    points = explored.ladder.walk.points
    kernel = LeapKernel.around(points[:: max(1, len(points) // CENTRES)], covariance, bandwidth)
    modes, masses = explored.modes, explored.masses
    if modes is None or masses is None or not summable(action, modes.count):
        return kernel
    weights = np.maximum(masses.shares, LEAST_LEAP / modes.count)
    return UnionLeap(kernel, ListedSum((modes.components(weights),), action))


def _with_lost_modes(generator: np.random.Generator, starts: Points, explored: Explored) -> Points:
    """Starts of chains, of which modes that the particles have lost get their share."""
    starts, masses = starts.copy(), explored.masses
    if masses is None or len(masses.points) == 0:
        return starts
    mass, places = explored.absolute, generator.permutation(len(starts))
    lost = np.flatnonzero((mass > LEAST_STARTED) & (explored.tempered < mass / RATIO))
    for mode in lost:
        count = min(max(1, round(len(starts) * float(mass[mode]))), places.size)
        starts[places[:count]] = masses.around(generator, int(mode), count)
        places = places[count:]
    return starts


def _shares(explored: Explored, action: Action, draws: Raw) -> PerMode:
    """Share of the reference draws within the reach of each mode."""
    if explored.modes is None:
        return np.empty(0)
    points = draws.reshape(-1, draws.shape[-1])
    return explored.modes.shares(action, points[:: max(1, len(points) // COMPARED)])


def _iterate(
    generator: np.random.Generator, mover: _Mover, leap: LeapKernel | UnionLeap | None, tuning: bool
) -> None:
    """One move of every chain, then one leap, where one is due."""
    states = mover.states = mover.move(generator, tuning)
    if leap is None:
        return
    proposed = mover.at(leap.sample(generator, len(states.values)))
    mover.states, _ = leap.move(generator, states, proposed)


class _Found(NamedTuple):
    """An exploration, the chains that followed it, and what both say of the modes."""

    explored: Explored
    record: _Record
    facts: ExplorationFacts


class _Record(NamedTuple):
    """Chains as they were recorded: unfolded and folded draws, log π_F at them, their health."""

    raw: Raw
    draws: Raw
    values: RawValues
    health: tuple[float, float, tuple[Caution, ...]]

    @classmethod
    def of(cls, action: Action, raw: Raw, values: RawValues) -> _Record:
        draws = action.fold(raw.reshape(-1, raw.shape[-1])).reshape(raw.shape)
        return cls(raw, draws, values, health(draws))

    @property
    def rhat(self) -> float:
        """R-hat of the folded draws."""
        return self.health[0]

    def should_grow(self, every: int, before: float) -> bool:
        """Whether chains of so many iterations per draw are to run twice as long.

        Once where they do not agree or are worth too little; further while they would leave the fit
        in doubt, and the last doubling has lessened that.
        """
        if every == 1:
            return self.rhat > AGREED or self.health[1] < ENOUGH
        return self.rhat > DOUBTED and self.rhat - 1.0 < LESSENS * (before - 1.0)


class _Mover:
    """Chains that know how to move and how to be put somewhere else."""

    states: States

    def move(self, generator: np.random.Generator, tuning: bool) -> States:
        raise NotImplementedError

    def at(self, points: Points) -> States:
        raise NotImplementedError


class _Hamiltonian(_Mover):
    """Paths whose step size is tuned during the warm-up."""

    def __init__(
        self, landscape: Landscape, points: Points, covariance: Matrix, acceptance: float
    ) -> None:
        self.paths = Paths(landscape, covariance)
        self.states = self.paths.at(points)
        self.size = StepSize(FIRST_STEP, acceptance)

    def move(self, generator: np.random.Generator, tuning: bool) -> States:
        """One path of every chain."""
        log_step = self.size.log_current if tuning else self.size.log_average
        states, acceptance = self.paths.move(generator, self.states, math.exp(log_step))
        if tuning:
            self.size.update(acceptance)
        return states

    def at(self, points: Points) -> States:
        """States with gradients."""
        return self.paths.at(points)


class _Walkers(_Mover):
    """Random-walk steps with the scale that tempering tuned."""

    def __init__(self, landscape: Landscape, walk: Walk, covariance: Matrix, thin: int) -> None:
        self.landscape, self.thin, self.log_scale = landscape, thin, walk.log_scale
        self.root = np.linalg.cholesky(covariance)
        self.states = States(walk.points, walk.log_target, np.zeros_like(walk.points))

    def move(self, generator: np.random.Generator, tuning: bool) -> States:
        """Some steps of every chain."""
        points, values, gradients = self.states
        walk = Walk(points, values, values, self.log_scale)
        for _ in range(self.thin):
            walk = random_walk_step(generator, self.landscape, walk, self.root, 1.0, None, 0.0)
        return States(walk.points, walk.log_target, gradients)

    def at(self, points: Points) -> States:
        """States without gradients."""
        return States(points, self.landscape(points), np.zeros_like(points))


def _prepared(other: ThreadPoolExecutor, problem: Problem) -> Future[None]:
    """The gradient compiled beside the values; before them where two programs cannot run."""
    ready = other.submit(_compile_gradient, problem)
    if calls_lapack(problem):
        ready.result()
    return ready


@in_float64
def _compile_gradient(problem: Problem) -> None:
    problem.gradients(np.zeros((GRADIENTS_PER_BLOCK, problem.dim)))
