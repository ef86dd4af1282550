"""The default proposal: an orbit mixture by expectation-maximisation, polished by regression.

Sizes are tried from one component upwards and the first that is good enough on held-out draws is
kept, otherwise the best: one Gaussian is exact for Gaussian targets and costs a second. Where the
largest that Gauss-Newton affords is still rough, `widening` splits its components and goes on.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from folt.flows import Mixture
from folt.groups import Group
from folt.problem.batching import map_points
from folt.problem.fold import Folded
from folt.training.orbit_em import fit_orbit_mixture
from folt.training.regression import (
    FULL,
    SINGLE,
    Judgement,
    Setting,
    TrainingTask,
    regress,
    stage,
)
from folt.training.widening import WIDE, Wide, parameters_per_component, polish, widen
from folt.types import Distribution, Key, Point, Progress, host_generator

PARAMETERS = 1400
"""Parameters of the largest mixture with dense Gauss-Newton steps, so that they stay cheap."""

LABELLED_TERMS = 96_000
"""Images of draws that one component is fitted to: for a start, a part of the draws is enough."""


def largest_size(dim: int) -> int:
    """Components of the largest mixture in this dimension that Gauss-Newton affords, 2 to 48."""
    return max(2, min(48, PARAMETERS // parameters_per_component(dim)))


@dataclasses.dataclass(frozen=True)
class OrbitMixture:
    """Trainer: orbit EM from several labellings, log-ratio regression, then more components.

    Args:
        size: components of the mixture; if None, as many as the dimension allows at first, and
            more where h stays rough.
        labellings: starting labellings of the draws, the sorted one among them.
        degrees: degrees of freedom of the components; infinite for Gaussians.
        flat: judged spread of h at which no larger size is tried.
        single: how the regression of one component runs.
        full: how the regression of the larger sizes runs.
        wide: how a mixture that stays rough is widened.
    """

    size: int | None = None
    labellings: int = 3
    degrees: float = float("inf")
    flat: float = 0.015
    single: Setting = SINGLE
    full: Setting = FULL
    wide: Wide = WIDE

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: Mixture | None = None,
        progress: Progress | None = None,
    ) -> Mixture:
        """The fitted mixture.

        Args:
            key: randomness of starts and fresh draws.
            task: draws, target values, symmetry and safety.
            start: a mixture to polish instead of fitting one, such as an earlier fit's.
            progress: told the fraction done and a message.
        """
        label_key, *size_keys = _branches(key, 5)
        if start is not None:
            return self._polished(size_keys[0], start, task, progress)
        single, spread = self._best_labelling(label_key, task)
        task = task._replace(pilot=single)
        best, found = single, Judgement(math.inf, math.inf)
        if spread < promising_spread(task):
            best, found = regress(size_keys[0], single, task, self.single, progress)
        if found.spread < self.flat:
            return best
        mixture = self._first_mixture(size_keys[1], task, single)
        if self.size is not None:
            mixture, judged = regress(size_keys[3], mixture, task, self.full, progress)
            return mixture if judged.loss < found.loss else best
        # Given up early also where there is no room to widen: each round is dearest just there.
        trial = self.full._replace(hopeless=2 * self.wide.rough)
        tell = stage(progress, 0.0, 0.3)
        mixture, judged = regress(size_keys[3], mixture, task, trial, tell)
        if judged.loss < found.loss:
            best, found = mixture, judged
        if found.spread < self.wide.rough:
            return best
        return widen(size_keys[2], best, task, self.wide, stage(progress, 0.3, 1.0))

    def _polished(
        self, key: Key, start: Mixture, task: TrainingTask, progress: Progress | None
    ) -> Mixture:
        """An earlier mixture on new draws, by the steps that its size allows."""
        if start.components > largest_size(start.dim):
            return polish(key, start, task, self.wide, progress)
        return regress(key, start, task, self.full, progress)[0]

    def _first_mixture(self, key: Key, task: TrainingTask, single: Mixture) -> Mixture:
        """Expectation-maximisation on the draws as the single component labels them."""
        points = relabelled(single, task.group, task.training.points)
        size = min(self.size or largest_size(task.group.dim), points.shape[0] // 4)
        return fit_orbit_mixture(key, task.group, points, size, degrees=self.degrees, pilot=single)[
            0
        ]

    def _best_labelling(self, key: Key, task: TrainingTask) -> tuple[Mixture, float]:
        """One component from several labellings: the likeliest on held-out draws, and sd of h."""
        held_out, log_target = task.selection
        points = task.training.points
        points = points[:: max(1, points.shape[0] * task.group.order // LABELLED_TERMS)]
        fits = []
        for number, start_key in enumerate(_branches(key, self.labellings)):
            labelled = points if number == 0 else nearest_images(start_key, task.group, points)
            mixture, _ = fit_orbit_mixture(start_key, task.group, labelled, 1, degrees=self.degrees)
            folded = Folded(mixture, task.group)
            log_flow = map_points(Folded.log_prob, folded, held_out, terms=task.group.order)
            fits.append((log_flow.mean(), np.std(log_target - log_flow), mixture))
        _, spread, mixture = max(fits, key=lambda fit: fit[0])
        return mixture, float(spread)


def promising_spread(task: TrainingTask) -> float:
    """Standard deviation of h below which a single component may be the exact answer.

    One that is exact but for the noise of n training draws has sd(h) about sqrt(parameters/n).
    """
    dim = task.group.dim
    parameters = dim + dim * (dim + 1) // 2
    return 0.1 + 1.3 * math.sqrt(parameters / task.training.points.shape[0])


def _branches(key: Key, count: int) -> list[Key]:
    """Keys folded in one by one: compiled once, whatever their number."""
    return [jax.random.fold_in(key, number) for number in range(count)]


def relabelled(flow: Distribution, group: Group, points: np.ndarray) -> np.ndarray:
    """Every draw under the label that a proposal finds likeliest."""
    folded = Folded(flow, group)
    return map_points(Folded.most_likely_image, folded, points, terms=group.order)


def nearest_images(key: Key, group: Group, points: np.ndarray) -> np.ndarray:
    """Every draw under the label nearest to a randomly chosen image of a random draw."""
    generator = host_generator(key)
    pivot = points[generator.integers(points.shape[0])]
    chosen = group.element(int(generator.integers(group.order)))
    pivot = np.asarray(group.act(chosen, jnp.asarray(pivot)))
    return map_points(_nearest, (group, pivot), points, terms=group.order)


def _nearest(context: tuple[Group, Point], x: Point) -> Point:
    group, pivot = context
    images = group.orbit(x)
    return images[jnp.argmin(jnp.sum((images - pivot) ** 2, axis=-1))]
