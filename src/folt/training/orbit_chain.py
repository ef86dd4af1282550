"""The proposal for large groups: a class chain, fitted by orbit EM and polished by regression.

One class first: its likeliest labelling of the draws takes the place of the sort key, which may not
tell components apart. Then more classes while held-out draws become likelier, and rounds of
regression while the chain of draws becomes shorter by them. What is spent is counted, never timed.

What a group too large to be summed over element by element asks of the proposal.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from folt.groups import Group
from folt.problem import Problem
from folt.proposals import ClassChain
from folt.proposals.class_chain import block_form_of
from folt.proposals.host_chain import HostChain
from folt.training.chain_em import chain_about, fit_chain, starting_chain
from folt.training.chain_regression import ChainDescent, Trial, descend_chain, trial
from folt.training.effort import Effort
from folt.training.orbit_mixture import OrbitMixture
from folt.training.task import TrainingTask, stage
from folt.training.truncated import likely_orbits, sums_in_part
from folt.types import Distribution, Key, OrbitSummed, Progress, host_generator

_STEPS = 1 << 15
"""Sets of blocks times classes that a chain may go through for one point."""

_FEWEST, _MOST = 4, 48
"""Classes of the largest chain, whatever the number of labels."""

SINGLE_STEPS = 150
"""Steps of the regression of one class."""


def largest_chain(labels: int) -> int:
    """Return classes of the largest chain that is tried for this many labels."""
    return max(_FEWEST, min(_MOST, _STEPS >> labels))


@dataclasses.dataclass(frozen=True)
class OrbitChain:
    """Trainer: orbit EM from one class to many, then log-ratio regression.

    Args:
        classes: classes of the chain; None doubles them while that pays, up to what the number of
            labels allows.
        good: expected acceptance of one class at which no more are tried.
        goal: acceptance at which the regression stops.
        gain: held-out nats per draw that twice the classes must bring.
        worthwhile: share of the autocorrelation time that a round of regression must save.
        rounds: most rounds of regression.
        pivots: single draws whose labels one class starts from, besides the sorted ones.
        small: draws of every step of EM with one class.
        batches: draws of every step of EM with more.
        descent: how a round of regression runs.
    """

    classes: int | None = None
    good: float = 0.85
    goal: float = 0.93
    gain: float = 0.01
    worthwhile: float = 0.1
    rounds: int = 3
    pivots: int = 2
    small: tuple[int, ...] = (1_000,) * 6 + (4_000,) * 2
    batches: tuple[int, ...] = (1_000,) * 14 + (2_000,) * 4
    descent: ChainDescent = dataclasses.field(default_factory=ChainDescent)

    def __post_init__(self) -> None:
        if self.classes is not None and self.classes < 1:
            raise ValueError(f"expected at least one class, got {self.classes}")

    @classmethod
    def at(cls, effort: Effort) -> OrbitChain:
        """The trainer that an effort affords: its rounds, and half the steps for a single one."""
        if effort.rounds is None:
            return cls(rounds=8, worthwhile=0.02)
        if effort.rounds > 1:
            return cls(rounds=min(effort.rounds, 3))
        return cls(rounds=effort.rounds, descent=ChainDescent(steps=200))

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: Distribution | None = None,
        progress: Progress | None = None,
    ) -> ClassChain:
        """Return the fitted chain.

        Args:
            key: randomness of starts, batches and fresh draws.
            task: draws, target values, symmetry and safety.
            start: a chain to polish instead of fitting one, such as an earlier fit's; anything else
                is left aside.
            progress: told the fraction done and a message.
        """
        task = task.invariantly_guarded()
        if isinstance(start, ClassChain):
            return self._polished(key, _on_host(start), task, progress)
        generator = host_generator(key)
        single, found = self._single(key, generator, task)
        if self.classes == 1 or found.accept >= self.good:
            return self._polished(key, single, task, progress, found)
        grown = self._grown(generator, single, task, stage(progress, 0.0, 0.2))
        return self._polished(key, grown, task, stage(progress, 0.2, 1.0))

    def _single(
        self, key: Key, generator: np.random.Generator, task: TrainingTask
    ) -> tuple[ClassChain, Trial]:
        """One class from the sorted labels; if that does not do, from those about single draws."""
        group, points = task.group, task.training.points
        start = starting_chain(generator, group, points, 1)
        best = fit_chain(generator, group, points, start, self.small)[0]
        found = trial(key, best, task)
        if found.accept >= self.good:
            return best, found
        fitted = [best]
        for row in generator.choice(len(points), self.pivots):
            about = chain_about(group, points, points[row])
            fitted.append(fit_chain(generator, group, points, about, self.small)[0])
        best = max(fitted, key=lambda chain: _held_out(chain, task))
        return best, trial(key, best, task)

    def _grown(
        self,
        generator: np.random.Generator,
        single: ClassChain,
        task: TrainingTask,
        progress: Progress,
    ) -> ClassChain:
        """More classes by EM, twice as many each time, while held-out draws become likelier."""
        points = _relabelled(single, task.training.points)
        best, value = single, _held_out(single, task)
        sizes = self._sizes(task.group)
        for number, size in enumerate(sizes):
            progress(number / len(sizes), f"{size} classes")
            start = starting_chain(generator, task.group, points, size)
            chain, _ = fit_chain(generator, task.group, points, start, self.batches)
            judged = _held_out(chain, task)
            if judged < value + self.gain:
                break
            best, value = chain, judged
        return best

    def _sizes(self, group: Group) -> tuple[int, ...]:
        if self.classes is not None:
            return (self.classes,)
        most = largest_chain(block_form_of(group).labels)
        halved = [most]
        while halved[-1] >= 2 * _FEWEST and len(halved) < 3:
            halved.append(halved[-1] // 2)
        return tuple(halved[::-1])

    def _polished(
        self,
        key: Key,
        chain: ClassChain,
        task: TrainingTask,
        progress: Progress | None,
        found: Trial | None = None,
    ) -> ClassChain:
        """The chain after rounds of regression; a round that makes it worse is forgotten."""
        judge = jax.random.fold_in(key, 2)
        best = found or trial(judge, chain, task)
        how, rounds = self.descent, self.rounds
        if chain.classes == 1:
            how, rounds = dataclasses.replace(how, steps=min(how.steps, SINGLE_STEPS)), 1
        for number in range(rounds):
            tell = stage(progress, number / rounds, (number + 1) / rounds)
            moved = descend_chain(jax.random.fold_in(key, 3 + number), chain, task, how, tell)
            after, before = trial(judge, moved, task), best
            if after.time < best.time:
                chain, best = moved, after
            if best.accept >= self.goal or after.time > (1 - self.worthwhile) * before.time:
                break
        return _on_device(chain)


def _relabelled(chain: ClassChain, points: np.ndarray) -> np.ndarray:
    """Return draws under the labelling that a chain finds likeliest."""
    return HostChain(chain).labellings(points)


def _held_out(chain: ClassChain, task: TrainingTask, count: int = 1_000) -> float:
    """Return the mean log q_F at draws that the chain was not fitted to."""
    return float(HostChain(chain).log_sums(task.selection.points[:count]).mean())


def _on_host(chain: ClassChain) -> ClassChain:
    return jax.tree.map(lambda leaf: np.asarray(leaf, float), chain)


def _on_device(chain: ClassChain) -> ClassChain:
    return jax.tree.map(jnp.asarray, chain)


CHAINED_FROM = 4
"""Labels from which on a class chain takes the place of a mixture over all labellings: that accepts
too little from four components of the galaxies on (tests/validate/test_galaxies.py)."""

SUMMED_ONE_BY_ONE = 100
"""Largest group of block form whose elements are gone through one by one: for one component, and
where training may take its time for a mixture, which then makes h flatter than a class chain."""


def proposal_maker(problem: Problem, given: Any, default: Any, effort: Effort | None = None) -> Any:
    """Return the trainer, or the distribution as it is, that proposes for a problem.

    Args:
        problem: the target with its group.
        given: what the caller asked for; None to choose.
        default: the trainer for groups that are summed over element by element.
        effort: what a class chain may cost; the default effort if None.

    Returns:
        `given` or `default`; a class chain where the group is large and of block form, after one
        component of `default` where it can still be summed over element by element.

    Raises:
        ValueError: at once, where the group is too large for what is asked.
    """
    group = problem.group
    effort = Effort.default() if effort is None else effort
    chain = OrbitChain.at(effort)
    if sums_in_part(group, given):
        _require_invariant(problem)
        return likely_orbits(group, given)
    if isinstance(given, (OrbitChain, OrbitSummed)):
        block_form_of(group)
        _require_invariant(problem)
        return given
    if not group.listable:
        _require_invariant(problem)
        block_form_of(group)
        if given is not None:
            raise ValueError(
                f"{type(given).__name__} sums over the {group.order} elements of the group one by "
                "one, which are too many: leave the flow to folt, or give folt.training.OrbitChain"
            )
        return chain
    if given is not None:
        return given
    form = group.block_form if problem.invariant else None
    if form is None:
        return default
    if effort.rounds is None:
        return chain if group.order > SUMMED_ONE_BY_ONE else default
    if form.labels < CHAINED_FROM:
        return default
    if isinstance(default, OrbitMixture) and group.order <= SUMMED_ONE_BY_ONE:
        return dataclasses.replace(default, beyond=chain)
    return chain


def _require_invariant(problem: Problem) -> None:
    if not problem.invariant:
        raise ValueError(
            f"a broken symmetry needs the target at all {problem.group.order} images of every "
            "point, which are too many: declare the symmetry that holds, or a smaller group"
        )
