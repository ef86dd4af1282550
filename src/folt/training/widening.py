"""Mixtures larger than Gauss-Newton affords: components split, then moved by Adam.

A dense Gauss-Newton step costs the square of the number of parameters. Where the mixture that it
ends with is still rough, every component is split in two, again and again, and the log ratio is
flattened further by stochastic steps, whose cost grows with the number of parameters only. Each
component moves in its own coordinates, as in `gauss_newton.moved`: one learning rate then fits
narrow and wide components alike. On a modal spectrum half the steps led to a flatter h that way.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.flows import Mixture
from folt.groups import Group
from folt.training.descent import (
    ClippedVariance,
    cosine_rates,
    descend,
    rows_of_batches,
    single_precision,
    trainee,
)
from folt.training.gauss_newton import moved, parameters_per_component
from folt.training.pool import Pool, concatenate
from folt.training.regression import FULL, Judgement, Setting, TrainingTask, judge
from folt.types import Distribution, Key, Point, Progress, Scalar, host_generator

TERMS = 11_000
"""Images times components of the largest mixture: what every evaluation of q_F costs.

A certificate needs some hundred thousand evaluations: with 720 images and 16 components a fit of
the galaxies took 494 s, with 8 components 171 s."""

PARAMETERS = 16_384
"""Parameters of the largest mixture."""

FRESH_IMAGES = 1 << 22
"""Most images of fresh draws that are looked at in one round."""


class Wide(NamedTuple):
    """How a mixture is widened; measured on the galaxies and on a modal spectrum.

    Attributes:
        rough: judged spread of h above which a mixture is widened.
        components: most components.
        rounds: blocks of steps, each on fresh proposals.
        steps: Adam steps per round.
        batch: points per step.
        rate: peak learning rate, in units of a component's own spread.
        fresh: fresh proposal draws per round.
        memory: rounds whose fresh draws stay in the pool.
        kept_images: orbit terms that are trained, the others being frozen.
    """

    rough: float = 0.05
    components: int = 192
    rounds: int = 20
    steps: int = 200
    batch: int = 1024
    rate: float = 0.01
    fresh: int = 16_384
    memory: int = 4
    kept_images: int = 2

    def setting(self, spread: float, order: int) -> Setting:
        """How a state of this spread is judged: what lies beyond the spread counts linearly.

        The images of the fresh draws are looked at one by one, so a very large group gets fewer.
        """
        width = min(max(spread, 0.1), 0.5)
        fresh = min(self.fresh, FRESH_IMAGES // order)
        return FULL._replace(fresh=fresh, kept_images=self.kept_images, width=width)


WIDE = Wide()


class Displaced(Distribution):
    """A mixture after a step in the coordinates of its components.

    Args:
        anchor: the mixture before the step.
        step: as `gauss_newton.moved` takes it; what is trained.
    """

    anchor: Mixture
    step: Float[Array, " parameters"]

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.anchor.dim

    @property
    def mixture(self) -> Mixture:
        """The mixture to which the step leads."""
        return moved(self.anchor, self.step)

    def log_prob(self, x: Point) -> Scalar:
        """Log density of the mixture after the step, which many points share."""
        return self.mixture.log_prob(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""
        return self.mixture.sample_and_log_prob(key)


def widen(
    key: Key,
    mixture: Mixture,
    task: TrainingTask,
    wide: Wide = WIDE,
    progress: Progress | None = None,
) -> Mixture:
    """The mixture split as often as there is room for, and polished; itself if that is never."""
    room = most_components(task.group, wide)
    if 2 * mixture.components > room:
        return mixture
    split_key, polish_key = (jax.random.fold_in(key, number) for number in range(2))
    wider = mixture
    while 2 * wider.components <= room:
        split_key = jax.random.fold_in(split_key, wider.components)
        wider = doubled(split_key, wider)
    return polish(polish_key, wider, task, wide, progress, fallback=mixture)


def most_components(group: Group, wide: Wide = WIDE) -> int:
    """Components that a mixture over this group may have."""
    return min(
        wide.components, TERMS // group.order, PARAMETERS // parameters_per_component(group.dim)
    )


def polish(
    key: Key,
    mixture: Mixture,
    task: TrainingTask,
    wide: Wide = WIDE,
    progress: Progress | None = None,
    fallback: Mixture | None = None,
) -> Mixture:
    """Flatten h by Adam, round after round; the best state on held-out and on fresh draws.

    Args:
        key: randomness of fresh draws and batches.
        mixture: where to start.
        task: draws, target values, symmetry and safety.
        wide: how the rounds run.
        progress: told the fraction done and a message.
        fallback: what is returned if nothing is judged better; the start if None.
    """
    keys = [jax.random.fold_in(key, number) for number in range(wide.rounds + 1)]
    best = mixture if fallback is None else fallback
    setting, best_found = _first_judgement(keys[-1], best, task, wide)
    recent = [task.fresh(keys[-1], mixture, setting)]
    objective, state = ClippedVariance(setting.width), None
    for number in range(wide.rounds):
        training = task.resolver(mixture, setting.kept_images).pool(*task.training)
        pool = concatenate([training, *recent]).single()
        mixture, state = _block(keys[number], mixture, pool, objective, state, wide, number)
        fresh = task.fresh(keys[number], mixture, setting)
        found = judge(mixture, task, fresh, setting) if fresh.log_target.size else _NOTHING
        recent = [*recent, fresh][-wide.memory :]
        if found.loss < best_found.loss:
            best, best_found = mixture, found
        if not math.isfinite(found.loss):
            mixture, state = best, None
        if progress is not None:
            message = f"{mixture.components} components, spread of h {best_found.spread:.4f}"
            progress((number + 1) / wide.rounds, message)
    return best


_NOTHING = Judgement(math.inf, math.inf)


def _first_judgement(
    key: Key, mixture: Mixture, task: TrainingTask, wide: Wide
) -> tuple[Setting, Judgement]:
    """The setting that suits a mixture's spread, and its judgement under that setting."""
    order = task.group.order
    setting = wide.setting(0.0, order)
    fresh = task.fresh(key, mixture, setting)
    setting = wide.setting(judge(mixture, task, fresh, setting).spread, order)
    return setting, judge(mixture, task, fresh, setting)


def _block(
    key: Key,
    mixture: Mixture,
    pool: Pool,
    objective: ClippedVariance,
    state: PyTree | None,
    wide: Wide,
    number: int,
) -> tuple[Mixture, PyTree]:
    """The mixture after round `number`, and what the optimiser remembers."""
    rows = rows_of_batches(host_generator(key), pool.log_target.size, wide.steps, wide.batch)
    batches = Pool(*(leaf[rows] for leaf in pool))
    count = mixture.components * parameters_per_component(mixture.dim)
    with jax.enable_x64(False):
        twin = Displaced(single_precision(mixture), jnp.zeros(count, jnp.float32))
    learner = trainee(twin, _step)
    if state is not None:
        learner = eqx.tree_at(lambda own: own.state, learner, state)
    total = wide.rounds * wide.steps
    rates = cosine_rates(number * wide.steps, wide.steps, total, wide.rate)
    learner, _ = descend(objective, learner, batches, jnp.asarray(rates, jnp.float32))
    return moved(mixture, jnp.asarray(_step(learner.flow), float)), learner.state


def _step(displaced: Displaced) -> PyTree:
    """The part that is trained."""
    return displaced.step


def doubled(key: Key, mixture: Mixture, offset: float = 0.6) -> Mixture:
    """Every component split in two along a random direction, its first two moments kept.

    The halves sit at ±offset along a unit vector d of the component's own coordinates, with
    covariance I - offset²·ddᵀ there.
    """
    count, dim = mixture.means.shape
    directions = host_generator(key).normal(size=(count, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    roots = np.linalg.inv(np.asarray(mixture.factors))
    pushed = np.einsum("kij,kj->ki", roots, directions)
    shifts = offset * pushed
    covariances = roots @ roots.transpose(0, 2, 1)
    covariances -= offset**2 * pushed[:, :, None] * pushed[:, None, :]
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    log_weights, means = np.asarray(mixture.log_weights), np.asarray(mixture.means)
    return Mixture(
        jnp.asarray(np.tile(log_weights - math.log(2), 2)),
        jnp.asarray(np.concatenate([means + shifts, means - shifts])),
        jnp.asarray(np.tile(factors, (2, 1, 1))),
        mixture.degrees,
    )
