"""A flow on top of a mixture: spline couplings that start at the identity and flatten h further.

Stages: an orbit mixture (or a given start) as base; where it is still rough, the symmetrised
likelihood; then log-ratio regression by Adam. Every stage is judged on held-out draws together
with fresh proposals, and the best state is returned, the base itself if nothing beat it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from folt.flows import Pushed, whitening
from folt.groups import Trivial
from folt.problem.batching import map_points
from folt.problem.fold import Folded
from folt.training.descent import (
    Objective,
    Trainee,
    carried,
    cosine_rates,
    descend,
    rows_of_batches,
    single_precision,
    trainee,
)
from folt.training.orbit_mixture import OrbitMixture, relabelled
from folt.training.pool import Pool, concatenate
from folt.training.regression import Arena, Setting, judge, stage
from folt.training.symmetrised import ClippedVariance, SampledOrbit
from folt.types import Distribution, Key, Progress, host_generator

REGRESSION = Setting(rounds=15, kept_images=1)
"""One image per point: orbits are resolved anew in every round, and a step costs a third less."""

MIXTURE = OrbitMixture()


class Pace(NamedTuple):
    """How fast gradient descent goes.

    Attributes:
        steps: Adam steps in one compiled block; held-out draws are looked at between blocks.
        batch: points per step.
        rate: peak learning rate.
    """

    steps: int = 120
    batch: int = 1024
    rate: float = 1e-3


PACE = Pace()


class Judged(NamedTuple):
    """A proposal, how it does on held-out draws, and the fresh draws that helped to judge it."""

    flow: Distribution
    loss: float
    spread: float
    fresh: Pool


@dataclasses.dataclass(frozen=True)
class OrbitFlow:
    """Trainer: spline couplings on an orbit mixture, by likelihood and log-ratio regression.

    Args:
        base: trainer of the base distribution.
        layers: coupling layers.
        width: hidden width of the conditioners.
        knots: inner knots of every spline.
        rough: held-out spread of h above which the likelihood is maximised first: where h is
            far from flat, its clipped variance says little about the way down.
        likelihood_rounds: most blocks of the symmetrised likelihood.
        likelihood_patience: blocks without a gain in held-out likelihood after which it stops.
        regression: how the regression runs; one round is one block.
        pace: block length, batch size and learning rate.
    """

    base: Any = MIXTURE
    layers: int = 4
    width: int = 32
    knots: int = 6
    rough: float = 0.3
    likelihood_rounds: int = 8
    likelihood_patience: int = 2
    regression: Setting = REGRESSION
    pace: Pace = PACE

    def __call__(
        self,
        key: Key,
        arena: Arena,
        start: Distribution | None = None,
        progress: Progress | None = None,
    ) -> Distribution:
        """The best proposal found, never one judged worse than its base.

        Args:
            key: randomness of the base, the weights, the batches and the fresh draws.
            arena: draws, target values, symmetry and safety.
            start: a proposal to put the couplings on instead of fitting a base.
            progress: told the fraction done and a message.
        """
        base_key, flow_key, likelihood_key, regression_key = (
            jax.random.fold_in(key, number) for number in range(4)
        )
        if start is None:
            start = self.base(base_key, arena, None, _part(progress, "base", 0.0, 0.3))
        best = judged(jax.random.fold_in(base_key, 0), start, arena, self.regression)
        if start.dim < 2 or best.spread < self.regression.flat:
            return start
        flow, twin = self.couplings(flow_key, start, arena)
        if best.spread > self.rough:
            tell = _part(progress, "likelihood", 0.3, 0.45)
            likelier = self.likelihood(likelihood_key, flow, twin, arena, tell)
            new = judged(flow_key, likelier[0], arena, self.regression)
            if new.loss < best.loss:
                best, (flow, twin) = new, likelier
        tell = _part(progress, "regression", 0.45, 1.0)
        return self.regress(regression_key, flow, twin, best, arena, tell).flow

    def couplings(
        self, key: Key, start: Distribution, arena: Arena
    ) -> tuple[Distribution, Trainee]:
        """Couplings at the identity on `start`, in double and, to be trained, in single precision.

        Splines act on a fixed interval, so the coordinates are whitened around them; by the draws
        under the labels that `start` finds likeliest, since that is where it puts its mass.
        """
        points = relabelled(start, arena.group, arena.training.points)
        mean, root = whitening(Trivial(start.dim), jnp.asarray(points))
        inverse = np.linalg.inv(np.asarray(root))
        base = Pushed(start, jnp.asarray(-inverse @ np.asarray(mean)), jnp.asarray(inverse))

        from folt.flows.spline import spline_coupling  # flowjax takes half a second

        def built() -> Distribution:
            return spline_coupling(
                key, base, layers=self.layers, width=self.width, knots=self.knots
            )

        flow = Pushed(built(), mean, root)
        # Built once more, not cast: flowjax keeps constants in the precision of the moment.
        with jax.enable_x64(False):
            single = Pushed(built(), mean, root)
        return flow, trainee(single_precision(single), _couplings)

    def likelihood(
        self, key: Key, flow: Distribution, twin: Trainee, arena: Arena, tell: Progress
    ) -> tuple[Distribution, Trainee]:
        """Ascend the symmetrised likelihood until held-out draws gain no more; the best state."""
        points = arena.training.points.astype(np.float32)
        objective = SampledOrbit(arena.group)
        best, stale = (_held_out(flow, arena), flow, twin), 0
        for number in range(self.likelihood_rounds):
            block_key = jax.random.fold_in(key, number)
            rows = self._rows(block_key, points.shape[0])
            batches = (jax.random.split(block_key, self.pace.steps), points[rows])
            twin = self._block(objective, twin, batches, number, self.likelihood_rounds)
            flow = _updated(flow, twin)
            value = _held_out(flow, arena)
            stale = 0 if value > best[0] else stale + 1
            if value > best[0]:
                best = (value, flow, twin)
            tell((number + 1) / self.likelihood_rounds, f"held-out log likelihood {best[0]:.4f}")
            if stale >= self.likelihood_patience:
                break
        return best[1], best[2]

    def regress(
        self,
        key: Key,
        flow: Distribution,
        twin: Trainee,
        best: Judged,
        arena: Arena,
        tell: Progress,
    ) -> Judged:
        """Flatten h by Adam on reference draws and recent proposals; the best state by judgement.

        `best` is the judgement of the flow that training starts from, under whatever name: a
        flow whose couplings are the identity is its base.

        A round resolves the orbits of the pool under the present flow, takes a block of steps, and
        is judged on the selection draws and on draws of the flow it led to. A round after which
        the loss has doubled is undone, and the rate halved.
        """
        setting = self.regression
        objective = ClippedVariance(setting.width)
        recent, safe, stale, mark, factor = [best.fresh], (flow, twin), 0, best.loss, 1.0
        for number in range(setting.rounds):
            round_key = jax.random.fold_in(key, number)
            training = arena.resolver(flow, setting.kept_images).pool(*arena.training)
            pool = concatenate([training, *recent]).single()
            rows = self._rows(round_key, pool.log_target.size)
            batches = Pool(*(leaf[rows] for leaf in pool))
            twin = self._block(objective, twin, batches, number, setting.rounds, factor)
            flow = _updated(flow, twin)
            new = judged(round_key, flow, arena, setting)
            if new.loss < 2.0 * best.loss:
                recent = [*recent, new.fresh][-setting.memory :]
            else:
                (flow, twin), factor = safe, 0.5 * factor
            if new.loss < best.loss:
                best, safe = new, (flow, twin)
            mark, stale = (best.loss, 0) if best.loss < 0.97 * mark else (mark, stale + 1)
            tell((number + 1) / setting.rounds, f"held-out spread of h {best.spread:.4f}")
            if best.spread < setting.flat or stale >= setting.patience:
                break
        return best

    def _rows(self, key: Key, count: int) -> np.ndarray:
        return rows_of_batches(host_generator(key), count, self.pace.steps, self.pace.batch)

    def _block(
        self,
        objective: Objective,
        twin: Trainee,
        batches: Any,
        number: int,
        rounds: int,
        factor: float = 1.0,
    ) -> Trainee:
        """The twin after block `number` of `rounds`."""
        steps = self.pace.steps
        rates = cosine_rates(number * steps, steps, rounds * steps, factor * self.pace.rate)
        return descend(objective, twin, batches, jnp.asarray(rates, jnp.float32))[0]


def judged(key: Key, flow: Distribution, arena: Arena, setting: Setting) -> Judged:
    """A proposal with its loss over selection draws and over fresh draws of its own."""
    fresh = arena.fresh(key, flow, setting)
    if fresh.log_target.size == 0:
        return Judged(flow, math.inf, math.inf, fresh)
    found = judge(flow, arena, fresh, setting)
    return Judged(flow, found.loss, found.spread, fresh)


def _couplings(flow: Any) -> Any:
    """The part of the flow that is trained."""
    return flow.base.bijection


def _updated(flow: Distribution, twin: Trainee) -> Distribution:
    """The flow with its twin's couplings; base and whitening keep all their digits."""
    new = carried(_couplings(twin.flow), _couplings(flow))
    return eqx.tree_at(_couplings, flow, new)


def _held_out(flow: Distribution, arena: Arena) -> float:
    """Mean log q_F over the selection draws; a fault counts as minus infinity."""
    folded = Folded(flow, arena.group)
    points, order = arena.selection.points, arena.group.order
    value = float(np.mean(map_points(Folded.log_prob, folded, points, terms=order)))
    return value if math.isfinite(value) else -math.inf


def _part(progress: Progress | None, name: str, first: float, last: float) -> Progress:
    """Progress within one stage, told as progress of the whole."""
    whole = stage(progress, first, last)

    def tell(fraction: float, message: str) -> None:
        whole(fraction, f"{name}: {message}")

    return tell
