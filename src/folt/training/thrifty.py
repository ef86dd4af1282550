"""The default trainer: a mixture that is trained only while that pays.

A step of the chain costs microseconds and a round of training a fraction of a second, so training
stops where a little more acceptance would cost more than a few more steps per draw. What it spends
is counted, never timed: the same seed gives the same proposal.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import numpy as np

from folt.chains import autocorrelation_time, chances_to_leave
from folt.flows import Mixture
from folt.problem.orbits import Action, Components, ListedSum, action_of
from folt.problem.orbits.sums import MOST_TERMS, components_of
from folt.training.gauss_newton import parameters_per_component
from folt.training.host_em import candidate_images, fit_components
from folt.training.host_newton import HostPool, resolve, stepped
from folt.training.orbit_mixture import OrbitMixture, promising_spread
from folt.training.regression import Sample, TrainingTask
from folt.types import Distribution, Key, Progress, Trainer, host_generator

WIDTH = 0.2
"""Where the Huber loss of the regression turns from square to linear."""

PARAMETERS = 560
"""Parameters of a mixture whose Gauss-Newton steps are cheap."""

DRAWS_PER_COMPONENT = 64
"""Training draws that each component must have."""

LARGEST = 12
"""Most components."""

LEAST_DAMPING, EXACT_DAMPING = 0.1, 1e-6
"""Smallest damping of the steps, of a mixture and of a component that may be exact."""

WORTHWHILE, EXACT_WORTHWHILE = 0.02, 0.002
"""Gain in autocorrelation time that a round must bring, likewise."""

WIDER, WIDER_SHARE = 2.5, 0.05
"""Factor on the covariances of the tails' components, and their share of the mixture."""

LEAST_CHANCE = 0.04
"""Chance to leave below which selection draws count alike: one of them would decide otherwise."""

LEAST_MODE = 0.003
"""Share of the mass that a mode must have for a component of its own."""

LABELLED_TERMS = 48_000
"""Draws times images from which the first labelling is found."""


class Judged(NamedTuple):
    """A mixture, what a chain with it would do, and the proposals that told.

    Attributes:
        main: the mixture without its guard.
        accept: acceptance rate.
        time: autocorrelation time of the chain.
        spread: standard deviation of h over the selection draws.
        fresh: proposals inside the support with their log π_F.
    """

    main: Components
    accept: float
    time: float
    spread: float
    fresh: Sample


@dataclasses.dataclass(frozen=True)
class ThriftyMixture:
    """Trainer: one orbit component, a mixture if that accepts too little, rounds while they pay.

    Args:
        size: components of the mixture; as many as the dimension affords if None.
        labellings: starting labellings of the draws, the sorted one among them.
        goal: acceptance at which training stops.
        rounds: most Gauss-Newton rounds per size.
        patience: rounds without a gain in autocorrelation time after which they stop.
        fresh: fresh proposals per round.
        iterations: most steps of expectation and maximisation.
        beyond: the trainer of what takes the mixture's place where one component accepts too
            little; it gets the key as it is, since nothing of that component is kept.
    """

    size: int | None = None
    labellings: int = 3
    goal: float = 0.93
    rounds: int = 8
    patience: int = 2
    fresh: int = 4096
    iterations: int = 25
    beyond: Trainer | None = None

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: Distribution | None = None,
        progress: Progress | None = None,
    ) -> Distribution:
        """The mixture that training ended with.

        Args:
            key: randomness of starts and fresh draws.
            task: draws, target values, symmetry and safety.
            start: a mixture to polish instead of fitting one, such as an earlier fit's.
            progress: told the fraction done and a message.
        """
        action = action_of(task.group)
        size = self.size or affordable(task.group.dim)
        if not action.listed or action.group.order * (2 * size + 1) > MOST_TERMS:
            earlier_mixture = start if isinstance(start, Mixture) else None
            return OrbitMixture()(key, task, earlier_mixture, progress)
        bench = _Bench(host_generator(key), task, action, self.fresh)
        earlier = None if start is None else components_of(start)
        if earlier is not None and len(earlier) == 1 and math.isinf(earlier[0].degrees):
            best = self._rounds(bench, bench.judge(earlier[0]), self.goal, progress)
            if self.beyond is None or best.accept >= self.goal:
                return as_mixture(best.main)
        elif self.beyond is not None and start is not None:
            return self.beyond(key, task, start, progress)
        single = self._labelled(bench)
        best = bench.judge(single)
        if best.spread < promising_spread(task):
            best = self._exact_rounds(bench, best)
        if best.accept >= self.goal:
            return as_mixture(best.main)
        if self.beyond is not None:
            return self.beyond(key, task, None, progress)
        first = self._mixture(bench, single, size)
        tails = first.wider(WIDER)
        sheltered = bench.sheltered(tails, WIDER_SHARE)
        mixture = self._rounds(sheltered, sheltered.judge(first), self.goal, progress)
        if mixture.time > best.time:
            return as_mixture(best.main)
        return as_mixture(mixture.main.joined(tails, WIDER_SHARE))

    def _labelled(self, bench: _Bench) -> Components:
        """One component from several labellings: the likeliest on the selection draws."""
        points = bench.task.training.points
        order = bench.action.group.order
        points = points[:: max(1, len(points) * order // LABELLED_TERMS)]
        images = bench.action.images(points)
        found = []
        for number in range(self.labellings if order > 1 else 1):
            labelled = points if number == 0 else _nearest(bench.generator, images)
            single = fit_components(bench.generator, images, labelled, 1, 30)
            likelihood = ListedSum((single,), bench.action).log_sum(bench.task.selection.points)
            found.append((float(likelihood.mean()), single))
        return max(found, key=lambda pair: pair[0])[1]

    def _mixture(self, bench: _Bench, single: Components, size: int) -> Components:
        """Expectation-maximisation on the draws as the single component labels them."""
        points = bench.task.training.points
        shares = ListedSum((single,), bench.action).responsibilities(points)
        labelled = bench.action.move(shares.argmax(axis=1), points)
        images = candidate_images(bench.action, points, single)
        modes = _labelled_modes(bench, single)
        wanted = size if modes is None else max(size, modes.count)
        count = max(2, min(wanted, len(points) // DRAWS_PER_COMPONENT))
        return fit_components(
            bench.generator, images, labelled, count, self.iterations, modes=modes
        )

    def _exact_rounds(self, bench: _Bench, best: Judged) -> Judged:
        """Rounds of one component that may be the exact answer, while h becomes much flatter."""
        current, damping, stale = best.main, EXACT_DAMPING, 0
        recent = [best.fresh]
        for _ in range(self.rounds):
            if stale >= self.patience:
                break
            current, damping = stepped(current, bench.pool(current, recent), damping, WIDTH)
            damping = max(damping / 3.0, EXACT_DAMPING)
            found = bench.judge(current)
            recent = [recent[-1], found.fresh]
            stale = 0 if found.time < best.time - EXACT_WORTHWHILE else stale + 1
            best = found if found.time < best.time else best
        return best

    def _rounds(
        self, bench: _Bench, best: Judged, goal: float, progress: Progress | None
    ) -> Judged:
        """Gauss-Newton rounds until the goal, or until they stop to pay."""
        current, damping, stale = best.main, LEAST_DAMPING, 0
        recent = [best.fresh]
        for number in range(self.rounds):
            if best.accept >= goal or stale >= self.patience:
                break
            pool = bench.pool(current, recent)
            candidate, damping = stepped(current, pool, damping, WIDTH)
            found = bench.judge(candidate)
            recent = [recent[-1], found.fresh]
            if found.accept > best.accept - 0.02:
                current, damping = candidate, max(damping / 3.0, LEAST_DAMPING)
            else:
                damping *= 5.0
            stale = 0 if found.time < best.time - WORTHWHILE else stale + 1
            best = found if found.time < best.time else best
            if progress is not None:
                message = f"{best.main.count} components, acceptance {best.accept:.3f}"
                progress((number + 1) / self.rounds, message)
        return best


class _Bench:
    """What training works with: draws, the target, the group on the host, the guard."""

    def __init__(
        self, generator: np.random.Generator, task: TrainingTask, action: Action, fresh: int
    ) -> None:
        self.generator, self.task, self.action, self.fresh = generator, task, action, fresh
        self.guard: ListedSum | None = None
        if task.guard is not None:
            odds = math.log(task.guard_weight / (1.0 - task.guard_weight))
            parts = components_of(task.guard) or ()
            weighted = (
                dataclasses.replace(part, log_weights=part.log_weights + odds) for part in parts
            )
            self.guard = ListedSum(tuple(weighted), action)

    def sheltered(self, tails: Components, share: float) -> _Bench:
        """The same bench with components that stay as they are, for a share of the mixture."""
        bench = _Bench(self.generator, self.task, self.action, self.fresh)
        odds = math.log(share / (1.0 - share))
        frozen = dataclasses.replace(tails, log_weights=tails.log_weights + odds)
        # The odds of the guard are against the mixture as a whole.
        parts = () if self.guard is None else self.guard.parts
        whole = -math.log1p(-share)
        raised = (dataclasses.replace(part, log_weights=part.log_weights + whole) for part in parts)
        bench.guard = ListedSum((frozen, *raised), self.action)
        return bench

    def judge(self, main: Components) -> Judged:
        """A mixture by what a chain with it would do."""
        guard = () if self.guard is None else self.guard.parts
        proposal = ListedSum((main, *guard), self.action)
        points = proposal.sample(self.generator, self.fresh)
        log_target = self.task.evaluate(points)
        own = log_target - proposal.log_sum(points)
        selected = self.task.selection
        reference = selected.log_target - proposal.log_sum(selected.points)
        chances = chances_to_leave(own, reference)
        inside = np.isfinite(log_target)
        return Judged(
            main,
            float(chances.mean()),
            autocorrelation_time(np.maximum(chances, LEAST_CHANCE)),
            float(np.std(reference)),
            Sample(points[inside], log_target[inside]),
        )

    def pool(self, main: Components, recent: list[Sample]) -> HostPool:
        """Training draws, points visited before and recent proposals, resolved under a mixture."""
        visited = () if self.task.visited is None else (self.task.visited,)
        parts = [self.task.training, *visited, *recent]
        return resolve(
            ListedSum((main,), self.action),
            self.guard,
            np.concatenate([part.points for part in parts]),
            np.concatenate([part.log_target for part in parts]),
        )


def _labelled_modes(bench: _Bench, single: Components) -> Components | None:
    """Known modes of some weight, each at the image that the single component finds likeliest."""
    modes = bench.task.modes
    if modes is None or modes.count < 2:
        return None
    logs = modes.log_weights - np.logaddexp.reduce(modes.log_weights)
    most = len(bench.task.training.points) // DRAWS_PER_COMPONENT
    chosen = np.argsort(-logs, kind="stable")[:most]
    chosen = chosen[logs[chosen] > math.log(LEAST_MODE)]
    means = modes.means[chosen]
    places = ListedSum((single,), bench.action).responsibilities(means).argmax(axis=1)
    factors = modes.factors[chosen] @ bench.action.matrices[places].transpose(0, 2, 1)
    precisions = np.swapaxes(factors, 1, 2) @ factors
    # Lower triangular roots of the same precisions, from the far corner.
    roots = np.linalg.cholesky(precisions[:, ::-1, ::-1])[:, ::-1, ::-1].transpose(0, 2, 1)
    return Components(logs[chosen], bench.action.move(places, means), roots)


def affordable(dim: int) -> int:
    """Components of a mixture in this dimension whose Gauss-Newton steps are cheap, 2 to 12."""
    return max(2, min(LARGEST, PARAMETERS // parameters_per_component(dim)))


def as_mixture(main: Components) -> Mixture:
    """The distribution that a fit keeps."""
    weights, means, factors = map(jax.device_put, (main.log_weights, main.means, main.factors))
    return Mixture(weights, means, factors, main.degrees).settled()


def _nearest(generator: np.random.Generator, images: np.ndarray) -> np.ndarray:
    """Every draw under the label nearest to a randomly chosen image of a random draw."""
    count, order, _ = images.shape
    pivot = images[generator.integers(count), generator.integers(order)]
    places = np.sum((images - pivot) ** 2, axis=-1).argmin(axis=1)
    return images[np.arange(count), places]
