"""Log-ratio regression of a class chain: Adam in the coordinates in which classes are standard.

A step moves the mean of a class in units of its own spread and multiplies its factor from the left,
so that one learning rate suits narrow and wide classes. The objective is that of
`folt.training.regression`, on reference draws and fresh proposals together.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array

from folt.flows import ClassChain, OrbitSafety
from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.training.chain_em import BLOCK
from folt.training.descent import cosine_rates
from folt.training.regression import TrainingTask
from folt.types import Key, Progress, host_generator


@dataclasses.dataclass(frozen=True)
class ChainDescent:
    """How the regression of a class chain runs.

    Attributes:
        steps: steps of Adam.
        batch: points per step, half of them fresh.
        rate: learning rate at the start.
        width: |h - centre| beyond which a point pulls no harder.
        refresh: steps between draws of fresh proposals.
    """

    steps: int = 600
    batch: int = 256
    rate: float = 0.02
    width: float = 3.0
    refresh: int = 25


class Batch(NamedTuple):
    """Points with their log target and the log of the guard's share λ·r_F."""

    points: Any
    log_target: Any
    log_guard: Any

    def rows(self, chosen: Any) -> Batch:
        """Some of the points."""
        return Batch(*(leaf[chosen] for leaf in self))


class Nudge(NamedTuple):
    """A small change of a chain, in the coordinates of its classes."""

    log_weights: Array
    log_transitions: Array
    means: Array
    factors: Array
    fixed_means: Array
    fixed_factors: Array

    @classmethod
    def none(cls, chain: ClassChain) -> Nudge:
        """The change that changes nothing."""
        return cls(*(jnp.zeros_like(getattr(chain, name)) for name in cls._fields))

    def apply(self, chain: ClassChain) -> ClassChain:
        """The changed chain."""
        return ClassChain(
            chain.group,
            chain.log_weights + self.log_weights,
            chain.log_transitions + self.log_transitions,
            *_moved(chain.means, chain.factors, self.means, self.factors),
            *_moved(chain.fixed_means, chain.fixed_factors, self.fixed_means, self.fixed_factors),
        )


def _moved(means: Array, factors: Array, by: Array, turn: Array) -> tuple[Array, Array]:
    factors = jnp.tril(factors)
    step = solve_triangular(factors, by[..., None], lower=True)[..., 0]
    diagonal = jnp.exp(jnp.diagonal(turn, axis1=-2, axis2=-1))
    left = jnp.tril(turn, -1) + diagonal[..., None] * jnp.eye(turn.shape[-1])
    return means + step, left @ factors


_ADAM = optax.scale_by_adam(b1=0.9, b2=0.99)


@eqx.filter_jit
def _step(
    chain: ClassChain, state: Any, batch: Batch, log_main: float, tuning: Any
) -> tuple[ClassChain, Any, Array]:
    """One step of Adam on the Huber loss of h about a centre; also h at the batch."""
    rate, centre, width = tuning
    none = Nudge.none(chain)

    def loss(nudge: Nudge, part: Batch) -> tuple[Array, Array]:
        log_sums = nudge.apply(chain).log_orbit_sums(part.points)
        h = part.log_target - jnp.logaddexp(log_main + log_sums, part.log_guard)
        return jnp.mean(optax.losses.huber_loss(h - centre, delta=width)), h

    def add(total: Nudge, part: Batch) -> tuple[Nudge, Array]:
        gradient, h = jax.grad(loss, has_aux=True)(none, part)
        return jax.tree.map(jnp.add, total, gradient), h

    parts = jax.tree.map(lambda leaf: leaf.reshape(-1, BLOCK, *leaf.shape[1:]), batch)
    gradient, h = jax.lax.scan(add, none, parts)
    gradient = jax.tree.map(lambda leaf: leaf / parts.points.shape[0], gradient)
    direction, state = _ADAM.update(gradient, state)
    step = jax.tree.map(lambda leaf: -rate * leaf, direction)
    return step.apply(chain), state, h.ravel()


def descend_chain(
    key: Key,
    chain: ClassChain,
    task: TrainingTask,
    how: ChainDescent,
    progress: Progress | None = None,
) -> ClassChain:
    """The chain after the regression."""
    generator = host_generator(key)
    reference = _batch(task, task.training.points, task.training.log_target)
    log_main = math.log1p(-task.guard_weight) if task.guard is not None else 0.0
    rates = cosine_rates(0, how.steps, how.steps, how.rate) + 1e-5
    half = how.batch // 2
    state = _ADAM.init(Nudge.none(chain))
    centre: float | None = None
    for number in range(how.steps):
        turn = number % how.refresh
        if turn == 0:
            fresh = fresh_batch(jax.random.fold_in(key, number), chain, task, how.refresh * half)
            if progress is not None:
                progress(number / how.steps, f"regression of {chain.classes} classes")
        old = generator.choice(len(reference.points), half)
        new = (turn * half + np.arange(half)) % len(fresh.points)
        batch = Batch(*map(np.concatenate, zip(reference.rows(old), fresh.rows(new), strict=True)))
        if centre is None:
            centre = float(np.median(_ratios(chain, task, reference.rows(old))))
        tuning = np.array([rates[number], centre, how.width])
        chain, state, h = _step(chain, state, batch, log_main, tuning)
        near = np.clip(np.asarray(h), centre - how.width, centre + how.width)
        centre = 0.9 * centre + 0.1 * float(near.mean())
    return chain


def fresh_batch(key: Key, chain: ClassChain, task: TrainingTask, count: int) -> Batch:
    """Fresh proposals inside the support of the target."""
    points = map_keys(_draw, safe(chain, task), key, count)
    log_target = task.evaluate(points)
    inside = np.isfinite(log_target)
    return _batch(task, points[inside], log_target[inside])


def safe(chain: ClassChain, task: TrainingTask) -> ClassChain | OrbitSafety:
    """The chain with its tail safety."""
    if task.guard is None:
        return chain
    return OrbitSafety(chain, task.guard, task.guard_weight)


def expected_acceptance(
    key: Key, chain: ClassChain, task: TrainingTask, count: int = 2_048
) -> float:
    """E min(1, exp(h' - h)) with h at selection draws and h' at fresh proposals."""
    selected = _batch(task, *(leaf[:count] for leaf in task.selection))
    states = _ratios(chain, task, selected)
    proposals = _ratios(chain, task, fresh_batch(key, chain, task, len(states)))
    return float(np.exp(np.minimum(0.0, proposals[:, None] - states)).mean())


def _ratios(chain: ClassChain, task: TrainingTask, batch: Batch) -> np.ndarray:
    folded = Folded(safe(chain, task), chain.group)
    return batch.log_target - map_points(Folded.log_prob, folded, batch.points, terms=folded.terms)


def _batch(task: TrainingTask, points: np.ndarray, log_target: np.ndarray) -> Batch:
    if task.guard is None:
        return Batch(points, log_target, np.full(len(points), -np.inf))
    plain = map_points(_log_prob, task.guard, points)
    return Batch(points, log_target, plain + math.log(task.guard_weight) + task.group.log_order)


def _draw(flow: Any, key: Key) -> Array:
    return flow.sample(key)


def _log_prob(flow: Any, point: Array) -> Array:
    return flow.log_prob(point)
