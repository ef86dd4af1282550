"""What proposals are tried with in training, and what a trial tells.

A proposal is judged by the chain that it would make: by h at selection draws, which training does
not fit, and at fresh proposals of its own, where mass that leaked into nowhere is seen.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple

import jax
import numpy as np

from folt.chains import autocorrelation_time, chances_to_leave
from folt.flows import Mixture, SinhArcsinh
from folt.problem.orbits import Action, Components, ListedSum
from folt.problem.orbits.sums import Part, components_of
from folt.problem.orbits.warped import WarpedComponents
from folt.training.gauss_newton import Main, Pool, huber, resolve
from folt.training.task import Sample, TrainingTask
from folt.types import Distribution

WIDTH = 0.2
"""Where the Huber loss of the regression turns from square to linear."""

LEAST_CHANCE = 0.04
"""Chance to leave below which selection draws count alike: one of them would decide otherwise."""


class Judged(NamedTuple, Generic[Main]):
    """A proposal, what a chain with it would do, and the fresh proposals that told.

    Attributes:
        main: the proposal without its guard.
        accept: acceptance rate.
        time: autocorrelation time of the chain.
        spread: standard deviation of h over the selection draws.
        loss: Huber loss of h over selection draws and over fresh proposals, half each.
        fresh: proposals inside the support with their log π_F.
    """

    main: Main
    accept: float
    time: float
    spread: float
    loss: float
    fresh: Sample


class Bench:
    """What training works with: draws, the target, the group on the host, the guard.

    Args:
        generator: randomness of fresh proposals.
        task: draws, target values, symmetry and safety.
        action: the group on the host.
        fresh: fresh proposals of every trial.
    """

    def __init__(
        self, generator: np.random.Generator, task: TrainingTask, action: Action, fresh: int
    ) -> None:
        self.generator, self.task, self.action, self.fresh = generator, task, action, fresh
        self.guard: ListedSum | None = None
        if task.guard is not None:
            odds = math.log(task.guard_weight / (1.0 - task.guard_weight))
            parts = components_of(task.guard) or ()
            self.guard = ListedSum(tuple(part.scaled(odds) for part in parts), action)

    def sheltered(self, tails: Components, share: float) -> Bench:
        """The same bench with components that stay as they are, for a share of the mixture."""
        bench = Bench(self.generator, self.task, self.action, self.fresh)
        odds = math.log(share / (1.0 - share))
        frozen = tails.scaled(odds)
        # The odds of the guard are against the mixture as a whole.
        parts = () if self.guard is None else self.guard.parts
        whole = -math.log1p(-share)
        raised = (part.scaled(whole) for part in parts)
        bench.guard = ListedSum((frozen, *raised), self.action)
        return bench

    def ratios(self, main: Part, sample: Sample) -> np.ndarray:
        """The log ratio h at points whose log π_F is known."""
        return sample.log_target - self._whole(main).log_sum(sample.points)

    def judge(self, main: Main) -> Judged[Main]:
        """Judge a proposal by what a chain with it would do."""
        proposal = self._whole(main)
        points = proposal.sample(self.generator, self.fresh)
        log_target = self.task.evaluate(points)
        inside = np.isfinite(log_target)
        own = np.where(inside, log_target - proposal.log_sum(points), -np.inf)
        reference = self.ratios(main, self.task.selection)
        chances = chances_to_leave(own, reference)
        losses = [huber(h, WIDTH).value for h in (reference, own[inside]) if h.size]
        return Judged(
            main,
            float(chances.mean()),
            autocorrelation_time(np.maximum(chances, LEAST_CHANCE)),
            float(np.std(reference)),
            float(np.mean(losses)) if inside.any() else math.inf,
            Sample(points[inside], log_target[inside]),
        )

    def pool(self, main: Part, recent: list[Sample]) -> Pool:
        """Training draws, points visited before and recent proposals, resolved under a mixture."""
        visited = () if self.task.visited is None else (self.task.visited,)
        return self.resolved(main, [self.task.training, *visited, *recent])

    def resolved(self, main: Part, samples: list[Sample]) -> Pool:
        """Points with the images that matter under a mixture."""
        return resolve(
            ListedSum((main,), self.action),
            self.guard,
            np.concatenate([sample.points for sample in samples]),
            np.concatenate([sample.log_target for sample in samples]),
        )

    def _whole(self, main: Part) -> ListedSum:
        """The proposal with its guard, up to the share of the main part."""
        guard = () if self.guard is None else self.guard.parts
        return ListedSum((main, *guard), self.action)


def as_mixture(main: Components) -> Mixture:
    """The distribution that a fit keeps."""
    weights, means, factors = map(jax.device_put, (main.log_weights, main.means, main.factors))
    return Mixture(weights, means, factors, main.degrees).settled()


def as_distribution(main: Part) -> Distribution:
    """The distribution that a fit keeps, of components behind margins or not."""
    if isinstance(main, WarpedComponents):
        return SinhArcsinh(as_mixture(main.base), *map(jax.device_put, main.margins))
    return as_mixture(main)
