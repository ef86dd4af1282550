"""Tempered particles, then Hamiltonian chains started from them, whole loops compiled."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.problem import Problem
from folt.problem.batching import calls_lapack
from folt.problem.fold import Folded
from folt.problem.orbits import action_of
from folt.reference.hamiltonian import compile_ahead, run_chains
from folt.reference.host_tempering import mover_for, temper
from folt.reference.landscape import Landscape
from folt.reference.leap import Leap
from folt.reference.result import Reference, folded, health
from folt.reference.start import fault_cautions, starting_distribution
from folt.reference.supplied import for_picture, part_of
from folt.reference.trajectories import JitteredHmc, Trajectory
from folt.types import Key, Points, Progress, host_generator, in_float64

TEMPERING_SHARE = 0.4
"""Share of the progress bar that tempering takes."""


@dataclasses.dataclass(frozen=True)
class TemperedChains:
    """Adaptive tempered Monte Carlo from the prior, then gradient chains from its particles.

    Without a prior the start is a broad t found by a scale-free search. Particles put chains into
    separate modes in proportion to their mass; the chains then refine every mode with the
    equivariant metric Σ̄ of the particles, and leaps from particle to particle correct the weights
    of the modes. A mode without a particle stays unseen, and R-hat cannot tell: a mode of weight
    ω needs several times 1/ω particles.

    Paths take one number of leapfrog steps for all chains (`JitteredHmc`) rather than one per chain
    (`Nuts`): fewer effective draws per gradient, more per second.

    Args:
        particles: particles of the tempering.
        moves: random-walk steps per temperature.
        paths: paths per temperature that take their place in many dimensions; none for random
            walks everywhere.
        share: effective share of particles kept per temperature.
        chains: chains started from resampled particles.
        draws: recorded draws per chain.
        warmup: iterations that tune the pooled step size.
        acceptance: acceptance probability the step size is tuned to.
        trajectory: how paths choose their length: `JitteredHmc()` or `Nuts()`.
        bandwidth: width of the global leaps, as a multiple of Σ̄'s root; None for no leaps.
    """

    particles: int = 1_000
    moves: int = 20
    paths: int = 3
    share: float = 0.6
    chains: int = 100
    draws: int = 250
    warmup: int = 50
    acceptance: float = 0.8
    trajectory: Trajectory = dataclasses.field(default_factory=JitteredHmc)
    bandwidth: float | None = 0.5

    @in_float64
    def __call__(self, key: Key, problem: Problem, progress: Progress | None = None) -> Reference:
        """Temper, start chains from the particles, and fold what they recorded."""
        search_key, temper_key, choose_key, chain_key = jax.random.split(key, 4)
        target = problem.folded()
        landscape, action = Landscape(problem), action_of(problem.group)
        with ThreadPoolExecutor(1) as other:
            # Tempering needs values and the chains gradients: two programs, compiled at once.
            ready = other.submit(self._prepare, target)
            if calls_lapack(problem):
                ready.result()  # two such programs cannot run at once
            start = starting_distribution(search_key, landscape, 256, 250 + 50 * problem.dim)
            tell = part_of(progress, 0.0, TEMPERING_SHARE)
            mover = mover_for(problem, self.moves, self.paths)
            ladder = temper(
                temper_key, landscape, start, action, self.particles, mover, self.share, tell
            )
            ready.result()
        walk = ladder.walk
        points = jnp.asarray(walk.points)
        covariance = jnp.asarray(action.covariance(walk.points))
        leap = self._leap(points, covariance)
        chosen = np.resize(host_generator(choose_key).permutation(self.particles), self.chains)
        run = run_chains(
            chain_key,
            target,
            points[chosen],
            covariance,
            self.trajectory,
            leap,
            self.warmup,
            self.draws,
            self.acceptance,
            part_of(progress, TEMPERING_SHARE, 1.0),
        )
        draws = folded(problem.group, run.draws)
        rhat, ess, cautions = health(draws)
        terms = 1 if problem.invariant else problem.group.order
        return Reference(
            draws=draws,
            rhat=rhat,
            ess=ess,
            exact=False,
            evaluations={
                "value": landscape.values,
                "gradient": landscape.gradients + run.gradients * terms,
            },
            cautions=cautions + fault_cautions(landscape.faults, landscape.values),
            raw=for_picture(run.draws),
            log_evidence=ladder.log_evidence,
        )

    def _leap(self, points: Points, covariance: Float[Array, "dim dim"]) -> Leap | None:
        if self.bandwidth is None:
            return None
        return Leap.around(points, covariance, self.bandwidth)

    @in_float64
    def _prepare(self, target: Folded) -> None:
        """Compile the chains while tempering runs."""
        points = jnp.zeros((self.particles, target.dim))
        leap = self._leap(points, jnp.eye(target.dim))
        starts = points[np.resize(np.arange(self.particles), self.chains)]
        compile_ahead(target, starts, self.trajectory, leap, self.acceptance)
