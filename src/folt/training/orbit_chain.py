"""The proposal for large groups: a class chain, fitted by orbit EM and polished by regression.

One class first: its likeliest labelling of the draws takes the place of the sort key, which may not
tell components apart. Then more classes while held-out draws become likelier.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from folt.flows import ClassChain
from folt.flows.class_chain import block_form_of
from folt.groups import Group
from folt.problem.batching import map_points
from folt.problem.fold import Folded
from folt.training.chain_em import chain_about, fit_chain, starting_chain
from folt.training.chain_regression import ChainDescent, descend_chain, expected_acceptance
from folt.training.regression import TrainingTask, stage
from folt.types import Key, Progress, host_generator

STEPS = 1 << 15
"""Sets of blocks times classes that a chain may go through for one point."""

FEWEST, MOST = 4, 48
"""Classes of the largest chain, whatever the number of labels."""


def largest_chain(labels: int) -> int:
    """Classes of the largest chain that is tried for this many labels."""
    return max(FEWEST, min(MOST, STEPS >> labels))


@dataclasses.dataclass(frozen=True)
class OrbitChain:
    """Trainer: orbit EM from one class to many, then log-ratio regression.

    Args:
        classes: classes of the chain; None tries sizes up to what the number of labels allows.
        good: expected acceptance of one class at which no more are tried.
        gain: held-out nats per draw that a larger chain must bring.
        pivots: single draws whose labels one class starts from, besides the sorted ones.
        small: draws of every step of EM with one class.
        batches: draws of every step of EM with more.
        descent: how the regression runs.
    """

    classes: int | None = None
    good: float = 0.85
    gain: float = 0.05
    pivots: int = 2
    small: tuple[int, ...] = (1_000,) * 6 + (4_000,) * 2
    batches: tuple[int, ...] = (1_000,) * 14 + (2_000,) * 4
    descent: ChainDescent = dataclasses.field(default_factory=ChainDescent)

    def __post_init__(self) -> None:
        if self.classes is not None and self.classes < 1:
            raise ValueError(f"expected at least one class, got {self.classes}")

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: ClassChain | None = None,
        progress: Progress | None = None,
    ) -> ClassChain:
        """The fitted chain.

        Args:
            key: randomness of starts, batches and fresh draws.
            task: draws, target values, symmetry and safety; its guard must be invariant.
            start: a chain to polish instead of fitting one, such as an earlier fit's.
            progress: told the fraction done and a message.
        """
        if start is not None:
            return self._polished(key, start, task, progress)
        generator = host_generator(key)
        single = self._single(generator, task)
        if self.classes == 1 or expected_acceptance(key, single, task) >= self.good:
            return self._polished(key, single, task, progress, single_class=True)
        points = relabelled(single, task.training.points)
        best, value = single, _held_out(single, task)
        for size in self._sizes(task.group):
            start = starting_chain(generator, task.group, points, size)
            chain, _ = fit_chain(generator, task.group, points, start, self.batches)
            judged = _held_out(chain, task)
            if judged < value + self.gain:
                break
            best, value = chain, judged
        return self._polished(key, best, task, stage(progress, 0.2, 1.0))

    def _single(self, generator: np.random.Generator, task: TrainingTask) -> ClassChain:
        """One class from the sorted labels and from those about single draws: the likeliest."""
        group, points = task.group, task.training.points
        starts = [starting_chain(generator, group, points, 1)]
        for row in generator.choice(len(points), self.pivots):
            starts.append(chain_about(group, points, points[row]))
        fitted = [fit_chain(generator, group, points, each, self.small)[0] for each in starts]
        return max(fitted, key=lambda chain: _held_out(chain, task))

    def _sizes(self, group: Group) -> tuple[int, ...]:
        if self.classes is not None:
            return (self.classes,)
        return (largest_chain(block_form_of(group).labels),)

    def _polished(
        self,
        key: Key,
        chain: ClassChain,
        task: TrainingTask,
        progress: Progress | None,
        single_class: bool = False,
    ) -> ClassChain:
        """The chain after the regression, or as it was if that accepts more."""
        how = self.descent
        if single_class:
            how = dataclasses.replace(how, steps=min(how.steps, 150))
        moved = descend_chain(jax.random.fold_in(key, 1), chain, task, how, progress)
        judge = jax.random.fold_in(key, 2)
        accepted = [expected_acceptance(judge, each, task) for each in (chain, moved)]
        return moved if accepted[1] > accepted[0] else chain


def relabelled(chain: ClassChain, points: np.ndarray) -> np.ndarray:
    """Draws under the labelling that a chain finds likeliest."""
    folded = Folded(chain, chain.group)
    return map_points(Folded.most_likely_image, folded, points, terms=folded.terms)


def _held_out(chain: ClassChain, task: TrainingTask, count: int = 1_000) -> float:
    """Mean log q_F at draws that the chain was not fitted to."""
    folded = Folded(chain, chain.group)
    points = task.selection.points[:count]
    return float(map_points(Folded.log_prob, folded, points, terms=folded.terms).mean())
