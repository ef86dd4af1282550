"""Log-ratio regression: make h flat where target and proposal live.

Minimise the Huber-clipped variance of h over reference draws and fresh proposal draws together.
It needs values of log π only, one for each fresh draw, and is not limited by the number of
reference draws; the reference part keeps it from settling on one of several modes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from folt.flows import Mixture
from folt.groups import Group
from folt.problem.fold import Folded
from folt.problem.orbits import Components
from folt.training import gauss_newton as newton
from folt.training.guard import invariant_guard
from folt.training.pool import Pool, Resolver, concatenate, draw_folded
from folt.types import Density, Distribution, Key, Progress

Evaluate = Callable[[np.ndarray], np.ndarray]


class Setting(NamedTuple):
    """How the regression runs; the defaults were measured on the paper's targets.

    Attributes:
        rounds: most rounds.
        fresh: fresh proposal draws per round.
        memory: rounds whose fresh draws stay in the pool.
        linearised: points of the pool that a Gauss-Newton step is computed from.
        kept_images: orbit terms that are trained, the others being frozen.
        width: where the Huber loss turns from square to linear.
        damping: first damping μ.
        least_damping: smallest μ; more than the pool asks for, because the pool is a sample.
        tolerance: a round is undone if the judged loss grows by more than this factor.
        patience: rounds without a gain of 3 % after which training stops.
        flat: judged spread of h at which training stops.
        hopeless: judged spread of h above which training stops after `TRIAL` rounds.
    """

    rounds: int = 45
    fresh: int = 8192
    memory: int = 2
    linearised: int = 12288
    kept_images: int = 2
    width: float = 0.2
    damping: float = 0.1
    least_damping: float = 0.1
    tolerance: float = 1.15
    patience: int = 8
    flat: float = 0.02
    hopeless: float = math.inf


TRIAL = 8
"""Rounds after which it shows whether more components are needed."""

CORE_WIDTH = 4.34
"""Width of the central 97 % of a standard normal."""

FULL = Setting()
SINGLE = Setting(rounds=12, fresh=2048, memory=1, least_damping=1e-6, patience=3, flat=1e-4)


class Sample(NamedTuple):
    """Reference draws with their log target log π_F."""

    points: np.ndarray
    log_target: np.ndarray


class TrainingTask(NamedTuple):
    """What stays fixed during training: symmetry, target, tail safety, the draws.

    `evaluate` gives log π_F in batches and counts; `target` is the same as a density, for
    objectives that differentiate it. A `pilot` says which images matter in a large group; `visited`
    are points that the reference run has valued on its way, whatever their law; `modes` are
    components at the modes that it found.
    """

    group: Group
    target: Density
    guard: Distribution | None
    guard_weight: float
    evaluate: Evaluate
    training: Sample
    selection: Sample
    pilot: Distribution | None = None
    visited: Sample | None = None
    modes: Components | None = None

    def invariantly_guarded(self) -> TrainingTask:
        """The same task for a proposal that sums itself over the orbit."""
        if self.guard is None:
            return self
        return self._replace(guard=invariant_guard(self.group, self.training.points))

    def resolver(self, flow: Distribution, kept: int) -> Resolver:
        """Resolves orbits under a proposal."""
        guard = None if self.guard is None else Folded(self.guard, self.group)
        odds = self.guard_weight / (1.0 - self.guard_weight)
        return Resolver(Folded(flow, self.group), guard, odds, self.pilot, kept)

    def fresh(self, key: Key, flow: Distribution, setting: Setting) -> Pool:
        """Fresh proposal draws inside the support, with their target values."""
        points = draw_folded(key, Folded(flow, self.group), setting.fresh)
        log_target = self.evaluate(points)
        return self.resolver(flow, setting.kept_images).pool(points, log_target).inside()


class Judgement(NamedTuple):
    """How a proposal does on draws it was not fitted to.

    Attributes:
        loss: Huber loss over selection draws and over the proposal's own fresh draws, half each.
        spread: standard deviation of h that its central 97 % on selection draws would have if h
            were normal: what the certificate will see, outliers aside.
    """

    loss: float
    spread: float


def regress(
    key: Key,
    mixture: Mixture,
    task: TrainingTask,
    setting: Setting = FULL,
    progress: Progress | None = None,
) -> tuple[Mixture, Judgement]:
    """Polish a mixture by damped Gauss-Newton rounds; return the best and its judgement.

    A round makes one step on reference draws and recent proposal draws, and is judged on the
    selection draws and on proposals that the *new* mixture draws: a component that leaked mass
    into nowhere is seen there, and the round undone.
    """
    count = setting.rounds + setting.memory
    keys = (jax.random.fold_in(key, number) for number in range(count))
    recent = [task.fresh(next(keys), mixture, setting) for _ in range(setting.memory)]
    best, best_found = mixture, judge(mixture, task, recent[-1], setting)
    value = mark = best_found.loss
    stale, damping = 0, setting.damping
    for number in range(setting.rounds):
        training = task.resolver(mixture, setting.kept_images).pool(*task.training)
        pool = concatenate([training, *recent])
        candidate, damping = _step(mixture, pool, damping, setting, number)
        fresh = task.fresh(next(keys), candidate, setting)
        recent = [*recent[1:], fresh]
        found = judge(candidate, task, fresh, setting)
        if found.loss < setting.tolerance * value:
            mixture, value = candidate, found.loss
            damping = max(damping / 3.0, setting.least_damping)
        else:
            damping *= 5.0
        if found.loss < best_found.loss:
            best, best_found = candidate, found
        mark, stale = (best_found.loss, 0) if best_found.loss < 0.97 * mark else (mark, stale + 1)
        if progress is not None:
            message = f"held-out spread of h {best_found.spread:.4f}"
            progress((number + 1) / setting.rounds, message)
        if best_found.spread < setting.flat or stale >= setting.patience:
            break
        if number + 1 == TRIAL and best_found.spread > setting.hopeless:
            break
    return best, best_found


def stage(progress: Progress | None, first: float, last: float) -> Progress:
    """Progress within one stage, told as progress of the whole."""

    def tell(fraction: float, message: str) -> None:
        if progress is not None:
            progress(first + (last - first) * fraction, message)

    return tell


def judge(flow: Distribution, task: TrainingTask, fresh: Pool, setting: Setting) -> Judgement:
    """A proposal on selection draws and on fresh draws of its own."""
    held_out = task.resolver(flow, setting.kept_images).pool(*task.selection)
    residuals = held_out.residuals(flow)
    low, high = np.quantile(residuals, [0.015, 0.985])
    own = newton.loss(flow, fresh, setting.width)
    loss = 0.5 * (newton.huber(residuals, setting.width).value + own)
    return Judgement(loss, float(high - low) / CORE_WIDTH)


def _step(
    mixture: Mixture, pool: Pool, damping: float, setting: Setting, number: int
) -> tuple[Mixture, float]:
    """One damped step that lowers the loss on the pool; more damping until it does."""
    part = pool.some(setting.linearised, number)
    model = newton.linearise(mixture, part, setting.width)
    value = newton.loss(mixture, pool, setting.width)
    for _ in range(6):
        candidate = newton.moved(mixture, jnp.asarray(model.step(damping)))
        if newton.loss(candidate, pool, setting.width) < value:
            return candidate, damping
        damping *= 4.0
    return mixture, damping
