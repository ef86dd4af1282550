"""The default reference run: particles and chains in lock step, the small steps on the host.

Only the density is compiled, once for values and once for gradients; a black box is called as it is
and, where it has no gradient, random-walk steps take the place of paths. Every step hands over all
its points at once.

Which reference run a problem gets.
"""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from folt.batching import calls_lapack
from folt.certificate.cautions import Caution, Reference, health
from folt.certificate.exploration import RATIO, ExplorationFacts
from folt.problem import GRADIENTS_PER_BLOCK, Problem
from folt.proposals.action import Action, action_of
from folt.reference.exploration import (
    ExplorationPlan,
    Explored,
    Explorer,
    SubsetExplorer,
    has_subset,
)
from folt.reference.exploration.chamber import chamber_of, covariance_within, ridged
from folt.reference.exploration.descents import ROUNDS
from folt.reference.exploration.explorer import SOLID
from folt.reference.exploration.modes import PerMode
from folt.reference.host_moves import JumpKernel, UnionJump
from folt.reference.host_tempering import mover_for
from folt.reference.landscape import Landscape, Matrix
from folt.reference.moving import Hamiltonian, InChamber, Moving, RandomWalkers
from folt.reference.start import fault_cautions, starting_distribution
from folt.reference.supplied import Exact, Given, for_picture, part_of
from folt.types import HostPoints, Key, Progress, ReferenceSampler, host_generator, in_float64

EXPLORATION_SHARE = 0.5
"""Share of the progress bar that the exploration takes."""

LEAST_LEAP = 0.02
"""Share of the jumps to modes that all modes have together, however light they are."""

LEAST_STARTED = 0.003
"""Mass of a mode that the particles lost above which chains are started there."""

_COMPARED = 2_048
"""Reference draws that are compared with the tempered particles, about."""

_CENTRES = 512
"""Most particles, about, from which jumps are proposed."""

_AGREED = 1.03
"""R-hat at which chains of some tens of draws agree: refreshment does the rest."""

_ENOUGH = 2_000
"""Effective draws that chains must be worth."""

DOUBTED, LESSENS = 1.1, 0.8
"""R-hat above which a fit would be in doubt, and what must be left of its excess over one when
chains have run twice as long: chains that are stuck are not waited for."""

Raw = Float[np.ndarray, "chain draw dim"]
RawValues = Float[np.ndarray, "chain draw"]


@dataclasses.dataclass(frozen=True)
class HostChains:
    """Tempered particles, then chains started from them, with jumps between modes.

    From the prior, or without one from a broad t found by a search that knows no scale. Particles,
    moved by random walks in few dimensions and along the gradient in many, put chains into separate
    modes in proportion to their mass; paths along the gradient (random walks without one) refine
    every mode under one labelling, with a metric that is made anew after the first half of the
    warm-up, and jumps to particles and modes correct the weights of the modes. A mode without a
    particle stays unseen, and R-hat cannot tell: a mode of weight ω needs several times 1/ω
    particles.

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
        warmup: iterations that tune metric and step size of the paths; thrown away.
        acceptance: acceptance probability that it is tuned to.
        thin: random-walk steps between two recorded draws, where there is no gradient.
        jump_every: recorded draws per jump.
        path_every: recorded draws per path, where there is a gradient and jumps do the rest.
        bandwidth: width of the jumps' kernels, as a multiple of the root of the particles'
            covariance.
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
    jump_every: int = 1
    path_every: int = 1
    bandwidth: float = 0.5
    searchers: int = 512
    search_steps: tuple[int, int] = (150, 25)
    known: HostPoints | None = None

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
            plan = ExplorationPlan(self.particles, self.share, moves, self.descents, self.known)
            divided = self.descents and problem.differentiable and has_subset(problem)
            search = SubsetExplorer if divided else Explorer
            explorer = search(keys[1], landscape, start, action, plan)
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
            lost = np.flatnonzero([mode.short for mode in found.facts.modes])
            done = lost.size == 0 and not found.noisy
            if done or not explorer.landscape.problem.differentiable:
                return found
        explored = explorer.again(explored, lost, part_of(progress, 0.0, EXPLORATION_SHARE))
        return self._followed(key, explorer, explored, part_of(progress, EXPLORATION_SHARE, 1.0))

    def _followed(self, key: Key, explorer: Explorer, explored: Explored, tell: Progress) -> _Found:
        """Return chains from what was explored, and what both say of the modes."""
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
        """Return what the chains recorded, run longer where they do not agree yet."""
        generator, action = host_generator(key), action_of(landscape.problem.group)
        moving = self._begun(generator, landscape, explored, action)
        moving.warm_up(generator, self.warmup, part_of(tell, 0.0, 0.2))
        every, before = 1, math.inf
        record = _Record.of(action, *self._recorded(generator, moving, part_of(tell, 0.2, 0.5)))
        while every < self.longest and record.should_grow(every, before):
            before, part = record.rhat, part_of(tell, 1.0 - 0.5 / every, 1.0 - 0.25 / every)
            more, more_values = self._recorded(generator, moving, part, every)
            raw = np.concatenate([record.raw, more], axis=1)[:, 1::2]
            values = np.concatenate([record.values, more_values], axis=1)[:, 1::2]
            record, every = _Record.of(action, raw, values), 2 * every
        return record

    def _begun(
        self,
        generator: np.random.Generator,
        landscape: Landscape,
        explored: Explored,
        action: Action,
    ) -> Moving:
        """Return chains at particles, those of a soft chamber where there are modes to tell it."""
        walk, modes = explored.ladder.walk, explored.modes
        chosen = np.resize(generator.permutation(len(walk.points)), self.chains)
        centres = walk.points[:: max(1, len(walk.points) // _CENTRES)]
        starts = _with_lost_modes(generator, walk.points[chosen], explored)
        if modes is None:
            covariance = action.covariance(walk.points)
            kernel = JumpKernel.around(centres, covariance, self.bandwidth)
            return self._moving(landscape, kernel, starts, covariance)
        weights = np.maximum(_masses(explored), LEAST_LEAP / modes.count)
        if not action.listed:
            centres, around = modes.gathered(action, centres)
            covariance = ridged(around.T @ around / len(around))
            kernel = JumpKernel.around(centres, covariance, self.bandwidth)
            jump = UnionJump(kernel, modes.components(weights))
            return self._moving(landscape, jump, modes.gathered(action, starts)[0], covariance)
        chamber = chamber_of(landscape, action, walk.points, modes)
        covariance = covariance_within(chamber.aligned(walk.points), modes, chamber)
        kernel = JumpKernel.around(chamber.aligned(centres), covariance, self.bandwidth)
        jump = UnionJump(kernel, chamber.components(modes, weights))
        starts = chamber.aligned(starts)
        if not landscape.problem.differentiable:
            return RandomWalkers(chamber, jump, starts, covariance, self.thin)
        return InChamber(chamber, jump, starts, covariance, self.acceptance, modes)

    def _moving(
        self,
        landscape: Landscape,
        jump: JumpKernel | UnionJump,
        starts: HostPoints,
        covariance: Matrix,
    ) -> Moving:
        """Return chains under any labels, on paths where there is a gradient."""
        if landscape.problem.differentiable:
            return Hamiltonian(landscape, jump, starts, covariance, self.acceptance)
        return RandomWalkers(landscape, jump, starts, covariance, self.thin)

    def _recorded(
        self,
        generator: np.random.Generator,
        moving: Moving,
        tell: Progress,
        every: int = 1,
    ) -> tuple[Raw, RawValues]:
        """Return draws (chain, draw, dim) at every so many iterations, and log π_F at them."""
        record = np.empty((self.draws, *moving.states.points.shape))
        values = np.empty((self.draws, self.chains))
        for number in range(self.draws):
            for _ in range(every):
                if number % self.path_every == 0:
                    moving.move(generator)
                if number % self.jump_every == self.jump_every - 1:
                    moving.jump(generator)
                if self.path_every == 1:
                    moving.catch_up()
            record[number], values[number] = moving.states.points, moving.log_target
            tell((number + 1) / self.draws, "chains")
        return record.swapaxes(0, 1), values.T


def _masses(explored: Explored) -> PerMode:
    """Return shares of the modes among themselves."""
    assert explored.masses is not None
    return explored.masses.shares


def _with_lost_modes(
    generator: np.random.Generator, starts: HostPoints, explored: Explored
) -> HostPoints:
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
    """Return the share of the reference draws within the reach of each mode."""
    if explored.modes is None:
        return np.empty(0)
    points = draws.reshape(-1, draws.shape[-1])
    some = points[:: max(1, len(points) // _COMPARED)]
    return explored.modes.within(action, some).mean(axis=0)


class _Found(NamedTuple):
    """An exploration, the chains that followed it, and what both say of the modes."""

    explored: Explored
    record: _Record
    facts: ExplorationFacts

    @property
    def noisy(self) -> bool:
        """Whether chains disagree that began at the descendants of hardly any particles."""
        few = self.explored.ladder.effective_ancestors < SOLID
        return few and self.explored.modes is not None and self.record.rhat > _AGREED


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
        """Return whether chains of so many iterations per draw are to run twice as long.

        Once where they do not agree or are worth too little; further while they would leave the fit
        in doubt, and the last doubling has lessened that.
        """
        if every == 1:
            return self.rhat > _AGREED or self.health[1] < _ENOUGH
        return self.rhat > DOUBTED and self.rhat - 1.0 < LESSENS * (before - 1.0)


def _prepared(other: ThreadPoolExecutor, problem: Problem) -> Future[None]:
    """Return the gradient compiled beside the values; before them where two programs cannot run."""
    ready = other.submit(_compile_gradient, problem)
    if calls_lapack(problem):
        ready.result()
    return ready


@in_float64
def _compile_gradient(problem: Problem) -> None:
    problem.gradients(np.zeros((GRADIENTS_PER_BLOCK, problem.dim)))


Sampler = ReferenceSampler
"""The contract by its shorter name."""


def reference_for(problem: Problem, given: object = None) -> Sampler:
    """Return the reference sampler for a problem.

    Args:
        problem: the problem.
        given: draws in any form that `Given` takes, a sampler object, or None for the problem's
            exact sampler, or else tempered particles with chains started from them.
    """
    if given is None:
        return HostChains() if problem.sampler is None else Exact()
    if callable(given):
        return given
    return Given(given)
