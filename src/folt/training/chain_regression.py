"""Log-ratio regression of a class chain: Adam in the coordinates in which classes are standard.

A step moves the mean of a class in units of its own spread and multiplies its factor from the left,
so that one learning rate suits narrow and wide classes. The objective is that of
`folt.training.refinement`, on reference draws and fresh proposals together; its gradient needs
nothing but moments under the labels and classes of the chain.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from folt.chains import autocorrelation_time, chances_to_leave
from folt.proposals import ClassChain
from folt.proposals.chain_sum import ChainSum
from folt.proposals.class_chain import FLOOR
from folt.proposals.sums import HostDistribution
from folt.training.chain_em import Moments, pulled_moments
from folt.training.refinement import Adam, cosine_rates, gaussian_slopes, moved_gaussians
from folt.training.task import TrainingTask
from folt.types import Key, Progress, host_generator

LARGEST_WEIGHT = 20.0
"""Importance weights of proposals that are chosen again are cut at so many times their mean."""


@dataclasses.dataclass(frozen=True)
class ChainDescent:
    """How the regression of a class chain runs.

    Attributes:
        steps: steps of Adam.
        batch: points per step, half of them fresh proposals, a quarter reference draws.
        rate: learning rate at the start.
        width: |h - centre| beyond which a point pulls no harder.
        refresh: steps between draws of fresh proposals.
    """

    steps: int = 400
    batch: int = 256
    rate: float = 0.05
    width: float = 3.0
    refresh: int = 25


class Batch(NamedTuple):
    """Points with their log target and the log of the guard's share λ·r_F."""

    points: Any
    log_target: Any
    log_guard: Any

    def rows(self, chosen: Any) -> Batch:
        """Return some of the points."""
        return Batch(*(leaf[chosen] for leaf in self))


def slopes_of(chain: ClassChain, moments: Moments) -> list[np.ndarray]:
    """The gradient of Σ weight·log q_F in the coordinates in which `nudged` moves a chain."""
    weights = np.exp(_log_softmax(chain.log_weights))
    plain = np.exp(_log_softmax(chain.log_transitions))
    own = (1.0 - FLOOR) * plain
    expected = moments.steps * own / (own + FLOOR / chain.classes)
    return [
        moments.first - weights * moments.first.sum(),
        expected - plain * expected.sum(axis=-1, keepdims=True),
        *gaussian_slopes(chain.means, chain.factors, moments.mass, moments.sums, moments.squares),
        *gaussian_slopes(
            chain.fixed_means,
            chain.fixed_factors,
            moments.first,
            moments.fixed_sums,
            moments.fixed_squares,
        ),
    ]


def nudged(chain: ClassChain, step: list[np.ndarray]) -> ClassChain:
    """The chain after a step: weights and transitions in logs, classes in their own units."""
    weights, transitions, mean, turn, fixed_mean, fixed_turn = step
    return ClassChain(
        chain.group,
        chain.log_weights + weights,
        chain.log_transitions + transitions,
        *moved_gaussians(chain.means, chain.factors, mean, turn),
        *moved_gaussians(chain.fixed_means, chain.fixed_factors, fixed_mean, fixed_turn),
    )


def descend_chain(
    key: Key,
    chain: ClassChain,
    task: TrainingTask,
    how: ChainDescent,
    progress: Progress | None = None,
) -> ClassChain:
    """Return the chain after the regression."""
    generator = host_generator(key)
    reference = _batch(task, task.training.points, task.training.log_target)
    log_main = math.log1p(-task.guard_weight) if task.guard is not None else 0.0
    rates = cosine_rates(0, how.steps, how.steps, how.rate) + 1e-5
    adam = Adam()
    centre: float | None = None
    for number in range(how.steps):
        turn = number % how.refresh
        if turn == 0:
            some = jax.random.fold_in(key, number)
            pools = _pools(some, generator, chain, task, how, reference)
            if progress is not None:
                progress(number / how.steps, f"regression of {chain.classes} classes")
        parts = [_turn(pool, turn, how.refresh) for pool in pools]
        batch = Batch(*map(np.concatenate, zip(*parts, strict=True)))
        if centre is None:
            centre = float(np.median(_ratios(chain, task, batch)))
        weight = np.full(len(batch.points), 1.0 / len(batch.points))
        aims = np.stack([weight, batch.log_target, batch.log_guard], axis=1)
        setting = np.array([log_main, centre, how.width])
        moments, log_sums = pulled_moments(chain, batch.points, aims, setting)
        rate = float(rates[number])
        chain = nudged(chain, [rate * part for part in adam(slopes_of(chain, moments))])
        h = batch.log_target - np.logaddexp(log_main + log_sums, batch.log_guard)
        near = np.clip(h, centre - how.width, centre + how.width)
        centre = 0.9 * centre + 0.1 * float(near.mean())
    return chain


def _pools(
    key: Key,
    generator: np.random.Generator,
    chain: ClassChain,
    task: TrainingTask,
    how: ChainDescent,
    reference: Batch,
) -> tuple[Batch, Batch, Batch]:
    """Return points for the steps until the next refresh: proposals, and two kinds of target draws.

    Reference draws know modes that the proposal misses, but are so few that a large chain learns
    them by heart. Proposals chosen again by their importance weights are new every time.
    """
    quarter = how.refresh * how.batch // 4
    fresh = fresh_batch(key, chain, task, 2 * quarter)
    h = _ratios(chain, task, fresh)
    weights = np.exp(np.minimum(h - h.max(), 0.0))
    weights = np.minimum(weights, LARGEST_WEIGHT * weights.mean())
    again = generator.choice(len(h), quarter, p=weights / weights.sum())
    return (
        fresh,
        fresh.rows(again),
        reference.rows(generator.choice(len(reference.points), quarter)),
    )


def _turn(pool: Batch, turn: int, turns: int) -> Batch:
    """Return the points of a pool whose turn it is."""
    return pool.rows(np.arange(turn, len(pool.points), turns))


def fresh_batch(key: Key, chain: ClassChain, task: TrainingTask, count: int) -> Batch:
    """Return fresh proposals inside the support of the target."""
    points = summed(chain, task).draw(key, count)
    log_target = task.evaluate(points)
    inside = np.isfinite(log_target)
    return _batch(task, points[inside], log_target[inside])


def summed(chain: ClassChain, task: TrainingTask) -> ChainSum:
    """Return the chain with its tail safety, summed over all labellings."""
    return ChainSum(chain, task.guard, task.guard_weight)


class Trial(NamedTuple):
    """What a chain of proposals would do: acceptance rate and autocorrelation time."""

    accept: float
    time: float


def trial(key: Key, chain: ClassChain, task: TrainingTask, count: int = 2_048) -> Trial:
    """From h at selection draws and at fresh proposals."""
    selected = _batch(task, *(leaf[:count] for leaf in task.selection))
    states = _ratios(chain, task, selected)
    proposals = _ratios(chain, task, fresh_batch(key, chain, task, len(states)))
    chances = chances_to_leave(proposals, states)
    return Trial(float(chances.mean()), autocorrelation_time(chances))


def _ratios(chain: ClassChain, task: TrainingTask, batch: Batch) -> np.ndarray:
    return batch.log_target - summed(chain, task).log_sum(batch.points)


def _batch(task: TrainingTask, points: np.ndarray, log_target: np.ndarray) -> Batch:
    if task.guard is None:
        return Batch(points, log_target, np.full(len(points), -np.inf))
    plain = HostDistribution(task.guard).log_probs(points)
    return Batch(points, log_target, plain + math.log(task.guard_weight) + task.group.log_order)


def _log_softmax(logs: Any) -> np.ndarray:
    logs = np.asarray(logs)
    return logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True)
