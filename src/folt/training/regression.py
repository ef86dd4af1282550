"""Log-ratio regression: make h flat where target and proposal live.

Minimise the Huber-clipped variance of h over reference draws and fresh proposal draws together.
It needs values of log π only, one for each fresh draw, and is not limited by the number of reference
draws; the reference part keeps it from settling on one of several modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from folt._types import Density, Distribution, Key, Points, Scalars
from folt.flows import Mixture
from folt.fold import Folded
from folt.groups import Group
from folt.training import gauss_newton as newton
from folt.training.pool import Pool, concatenate, draw_folded, make_pool

Evaluate = Callable[[Points], Scalars]
Progress = Callable[[float, str], None]


class Setting(NamedTuple):
    """How the regression runs; the defaults were measured on the paper's targets."""

    rounds: int = 30
    fresh: int = 6144
    memory: int = 3
    kept_images: int = 2
    curvature_points: int = 8192
    inner_steps: int = 2
    width: float = 0.3
    damping: float = 0.1
    least_damping: float = 0.01
    tolerance: float = 1.15
    patience: int = 8
    good_enough: float = 1e-9


class Sample(NamedTuple):
    """Reference draws with their log target log π_F."""

    points: Points
    log_target: Scalars


class Arena(NamedTuple):
    """What stays fixed during training: symmetry, target, tail safety, the draws.

    `evaluate` gives log π_F in batches and counts; `target` is the same as a density, for
    objectives that differentiate it.
    """

    group: Group
    target: Density
    guard: Distribution | None
    guard_weight: float
    evaluate: Evaluate
    training: Sample
    selection: Sample

    def pool(self, mixture: Mixture, sample: Sample, kept: int) -> Pool:
        """Points resolved under a mixture."""
        guard = None if self.guard is None else Folded(self.guard, self.group)
        odds = self.guard_weight / (1.0 - self.guard_weight)
        return make_pool(Folded(mixture, self.group), guard, odds, *sample, kept)

    def fresh(self, key: Key, mixture: Mixture, count: int, kept: int) -> Pool:
        """Fresh proposal draws with their target values."""
        points = draw_folded(Folded(mixture, self.group), jax.random.split(key, count))
        return self.pool(mixture, Sample(points, self.evaluate(points)), kept)


def regress(
    key: Key,
    mixture: Mixture,
    arena: Arena,
    setting: Setting = Setting(),
    progress: Progress | None = None,
) -> tuple[Mixture, float]:
    """Polish a mixture by damped Gauss-Newton rounds; return the best and its held-out loss.

    A round draws fresh proposals, takes the curvature on part of the pool, makes a few steps with
    the gradient on all of it, and is judged on the selection draws and proposals that the *new*
    mixture draws: a component that leaked mass into nowhere is seen there and the round undone.
    """
    keys = iter(jax.random.split(key, setting.rounds + setting.memory + 1))
    kept = setting.kept_images
    recent = [arena.fresh(next(keys), mixture, setting.fresh, kept) for _ in range(setting.memory)]
    value = _judge(mixture, arena, recent[-1], setting)
    best, best_value, since_best, damping = mixture, value, 0, setting.damping
    for index in range(setting.rounds):
        reference = arena.pool(mixture, arena.training, kept)
        pool = _finite(concatenate([reference, *recent]))
        candidate, damping = _round(mixture, pool, damping, setting, index)
        fresh = arena.fresh(next(keys), candidate, setting.fresh, kept)
        new_value = _judge(candidate, arena, fresh, setting)
        recent = [*recent[1:], fresh]
        if new_value < setting.tolerance * value:
            mixture, value = candidate, new_value
            damping = max(damping / 3.0, setting.least_damping)
        else:
            damping *= 5.0
        since_best += 1
        if new_value < best_value:
            since_best = 0 if new_value < 0.97 * best_value else since_best
            best, best_value = candidate, new_value
        if progress is not None:
            progress((index + 1) / setting.rounds, f"held-out sd of h {np.sqrt(2 * best_value):.3f}")
        if best_value < setting.good_enough or since_best >= setting.patience:
            break
    return best, best_value


def _judge(mixture: Mixture, arena: Arena, fresh: Pool, setting: Setting) -> float:
    held_out = arena.pool(mixture, arena.selection, setting.kept_images)
    own = newton.loss(mixture, _finite(fresh), setting.width)
    return 0.5 * float(newton.loss(mixture, held_out, setting.width) + own)


def _round(
    mixture: Mixture, pool: Pool, damping: float, setting: Setting, index: int
) -> tuple[Mixture, float]:
    """A few damped steps with one curvature matrix."""
    rows = newton.whole_chunks(pool.images.shape[0], setting.curvature_points, index)
    shape = newton.curvature(mixture, Pool(*(leaf[rows] for leaf in pool)), setting.width)
    for _ in range(setting.inner_steps):
        value, slope = newton.gradient(mixture, pool, setting.width)
        right = np.asarray(slope, np.float64)
        for _ in range(6):
            candidate = newton.moved(mixture, jnp.asarray(shape.solve(right, damping)))
            if float(newton.loss(candidate, pool, setting.width)) < float(value):
                mixture = candidate
                break
            damping *= 4.0
    return mixture, damping


def _finite(pool: Pool) -> Pool:
    """The pool with points outside the support replaced by its first point inside.

    Replacing rather than dropping keeps the shape, so nothing compiles again.
    """
    inside = jnp.isfinite(pool.log_target)
    first = jnp.argmax(inside)
    rows = jnp.where(inside, jnp.arange(inside.shape[0]), first)
    return Pool(*(leaf[rows] for leaf in pool))
