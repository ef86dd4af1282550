"""The paper's trainer: likelihood of the plain flow with annealed penalties on h.

With h = log π_F - log q at the folded training draws (q the flow's plain density, not its orbit
sum), a step descends

    -mean log q + r·(0.1·[softmax h - softmin h] + 0.05·mean |∇h|),

where softmax and softmin have temperature 0.1 and r ramps from 0 to 1. What the paper calls an
epoch is one minibatch step. The architecture follows from the dimension, and draws are whitened.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from folt.batching import map_points
from folt.paper.flow import SpectralCoupling, certified, paper_architecture, refreshed_couplings
from folt.proposals import Pushed, whitening
from folt.store.packages import require
from folt.training.effort import Effort
from folt.training.task import TrainingTask
from folt.types import (
    Density,
    Distribution,
    Key,
    Point,
    Points,
    Progress,
    Scalar,
    Scalars,
    in_float64,
)

if TYPE_CHECKING:
    import optax
    from jax.typing import DTypeLike


_Flow = TypeVar("_Flow", bound=Distribution)
Carry = tuple[PyTree, PyTree]
"""Parameters, and what the optimiser remembers."""

LEARNING_RATE = 1e-3
CLIP_NORM = 5.0
BATCH = 512
TEMPERATURE = 0.1
OSCILLATION_WEIGHT = 0.1
GRADIENT_WEIGHT = 0.05
GRADIENT_POINTS = 64
_BLOCK = 100
"""Steps in one compiled scan; progress is reported between blocks."""

RELEASED_RAMP = (0.3, 1.0)
"""The penalties grow over the later part of training, as the released code does."""
PRINTED_RAMP = (0.0, 0.3)
"""The penalties grow over the first 30 % of training, as the paper's text says."""


class ValuedDraws(NamedTuple):
    """What does not change during training: draws, and the target's values and slopes there."""

    draws: Points
    log_target: Scalars
    gradient: Points


class TrainingSchedule(NamedTuple):
    """Where a training run stands: its length and the steps between which the penalties grow."""

    steps: Array
    ramp_start: Array
    ramp_end: Array

    def ramp(self, step: Array) -> Scalar:
        """Return the factor r of the penalties, 0 before the ramp and 1 after it."""
        length = jnp.maximum(self.ramp_end - self.ramp_start, 1.0)
        return jnp.clip((step - self.ramp_start) / length, 0.0, 1.0)

    def learning_rate(self, step: Array) -> Scalar:
        """Cosine decay from the initial learning rate to zero."""
        phase = jnp.clip(step / self.steps, 0.0, 1.0)
        return LEARNING_RATE * 0.5 * (1.0 + jnp.cos(math.pi * phase))


@in_float64
def fit_paper_flow(
    key: Key,
    flow: _Flow,
    draws: Points,
    log_target: Density,
    steps: int,
    progress: Callable[[int, float], None] | None = None,
    *,
    ramp: tuple[float, float] = RELEASED_RAMP,
) -> _Flow:
    """Train a flow by the paper's objective, in float32, and certify it in float64.

    The target's values and gradients at the training draws never change, so they are computed
    once, in float64, before training; a step does not evaluate the target.

    Args:
        key: for the minibatches.
        flow: where training starts; spectral couplings inside it are kept normalised.
        draws: folded training draws, (n, dim).
        log_target: the folded target; its `log_prob` must be differentiable.
        steps: number of minibatch steps.
        progress: called as progress(steps done, mean loss of the last block).
        ramp: fractions of training between which the penalties grow, `RELEASED_RAMP` or
            `PRINTED_RAMP`.

    Returns:
        The trained flow in float64, with its Lipschitz bounds exact.

    Raises:
        ValueError: the target is not finite, or has no finite gradient, at a training draw.
        FloatingPointError: the loss stopped being finite.
    """
    if steps < 1 or not 0 <= ramp[0] <= ramp[1]:
        raise ValueError(f"expected steps >= 1 and 0 <= ramp[0] <= ramp[1], got {steps}, {ramp}")
    valued = _valued(flow, draws, log_target)
    schedule = TrainingSchedule(*(jnp.float32(value * steps) for value in (1.0, *ramp)))
    flow = _cast(flow, jnp.float32)
    state = _optimiser().init(eqx.filter(flow, eqx.is_inexact_array))
    for start in range(0, steps, _BLOCK):
        flow, state, loss = _block(key, flow, state, valued, schedule, jnp.int32(start))
        done = min(start + _BLOCK, steps)
        if not math.isfinite(float(loss)):
            raise FloatingPointError(f"the training loss is not finite after {done} steps")
        if progress is not None:
            progress(done, float(loss))
    return certified(_cast(flow, jnp.float64))


def objective(
    flow: Distribution, batch: ValuedDraws, ramp: Scalar, gradient_points: int = GRADIENT_POINTS
) -> Scalar:
    """Return the loss on one minibatch, with the penalties multiplied by `ramp`."""
    log_flow = jax.vmap(flow.log_prob)(batch.draws)
    h = batch.log_target - log_flow
    few = ValuedDraws(*(leaf[:gradient_points] for leaf in batch))
    slope = few.gradient - jax.vmap(jax.grad(flow.log_prob))(few.draws)
    penalty = OSCILLATION_WEIGHT * soft_oscillation(h) + GRADIENT_WEIGHT * _mean_length(slope)
    return -jnp.mean(log_flow) + ramp * penalty


def soft_oscillation(h: Scalars, temperature: float = TEMPERATURE) -> Scalar:
    """Return a smooth max h - min h, τ·log Σ exp(h/τ) + τ·log Σ exp(-h/τ)."""
    return temperature * (logsumexp(h / temperature) + logsumexp(-h / temperature))


def _mean_length(vectors: Points) -> Scalar:
    # The small constant keeps the derivative finite where a vector vanishes.
    return jnp.mean(jnp.sqrt(jnp.sum(vectors**2, axis=-1) + 1e-12))


@functools.cache
def _optimiser() -> optax.GradientTransformation:
    """Optax's, imported late because the import takes half a second."""
    require("the paper's trainer", "optax")
    import optax

    return optax.chain(optax.clip_by_global_norm(CLIP_NORM), optax.scale_by_adam())


@eqx.filter_jit
def _block(
    key: Key,
    flow: _Flow,
    state: PyTree,
    valued: ValuedDraws,
    schedule: TrainingSchedule,
    start: Array,
) -> tuple[_Flow, PyTree, Scalar]:
    """Up to `_BLOCK` training steps; those beyond the end of training leave all as it is."""
    parameters, rest = eqx.partition(flow, eqx.is_inexact_array)

    def loss(parameters: PyTree, batch: ValuedDraws, ramp: Scalar) -> Scalar:
        return objective(eqx.combine(parameters, rest), batch, ramp)

    def train(carry: Carry, step: Array) -> tuple[Carry, Scalar]:
        parameters, state = carry
        batch = _minibatch(jax.random.fold_in(key, step), valued)
        value, gradient = jax.value_and_grad(loss)(parameters, batch, schedule.ramp(step))
        direction, state = _optimiser().update(gradient, state)
        rate = schedule.learning_rate(step)
        parameters = jax.tree.map(lambda p, d: p - rate * d, parameters, direction)
        moved = refreshed_couplings(eqx.combine(parameters, rest))
        return (eqx.filter(moved, eqx.is_inexact_array), state), value

    def skip(carry: Carry, _: Array) -> tuple[Carry, Scalar]:
        return carry, jnp.float32(0.0)

    def step(carry: Carry, number: Array) -> tuple[Carry, Scalar]:
        return jax.lax.cond(number < schedule.steps, train, skip, carry, number)

    numbers = start + jnp.arange(_BLOCK, dtype=jnp.int32)
    (parameters, state), losses = jax.lax.scan(step, (parameters, state), numbers)
    done = jnp.minimum(schedule.steps - start, _BLOCK)
    return eqx.combine(parameters, rest), state, jnp.sum(losses) / done


def _minibatch(key: Key, valued: ValuedDraws) -> ValuedDraws:
    """Return a batch drawn with replacement."""
    rows = jax.random.randint(key, (BATCH,), 0, valued.draws.shape[0], jnp.int32)
    return ValuedDraws(*(leaf[rows] for leaf in valued))


def _valued(flow: Distribution, draws: Points, log_target: Density) -> ValuedDraws:
    """Return values and gradients of the target at the draws, centred and cast for training."""
    draws = jnp.asarray(draws, jnp.float64)
    if draws.ndim != 2 or draws.shape[1] != flow.dim or log_target.dim != flow.dim:
        raise ValueError(
            f"expected draws of shape (n, {flow.dim}) and a target of dimension {flow.dim}, "
            f"got {draws.shape} and {log_target.dim}"
        )
    values, gradient = map_points(_value_and_gradient, log_target, draws)
    fine = np.isfinite(np.asarray(values)) & np.all(np.isfinite(np.asarray(gradient)), axis=1)
    if not np.all(fine):
        worst = int(np.argmin(fine))
        raise ValueError(
            f"the target or its gradient is not finite at {int(np.sum(~fine))} of {len(fine)} "
            f"training draws, first at draw {worst}: {np.asarray(draws[worst])}"
        )
    # h matters up to a constant: without it float32 keeps the digits that vary.
    centred = values - jnp.mean(values)
    return ValuedDraws(*(leaf.astype(jnp.float32) for leaf in (draws, centred, gradient)))


def _value_and_gradient(target: Density, x: Point) -> tuple[Scalar, Float[Array, " dim"]]:
    return jax.value_and_grad(target.log_prob)(x)


def _cast(tree: _Flow, dtype: DTypeLike) -> _Flow:
    return jax.tree.map(
        lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, tree
    )


@dataclasses.dataclass(frozen=True)
class PaperFlow:
    """Trainer: a spectrally normalised RealNVP by the paper's annealed objective.

    Args:
        layers: coupling layers; the paper's table by dimension if None.
        width: hidden width; likewise.
        steps: minibatch steps; likewise.
    """

    layers: int | None = None
    width: int | None = None
    steps: int | None = None

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: Distribution | None = None,
        progress: Progress | None = None,
    ) -> Distribution:
        """The trained flow; `start` replaces the fresh one."""
        table = paper_architecture(task.group.dim)
        layers, width, steps = (
            given if given is not None else printed
            for given, printed in zip((self.layers, self.width, self.steps), table, strict=True)
        )
        flow_key, fit_key = jax.random.split(key)
        points = jnp.asarray(task.training.points)
        if start is None:
            base = SpectralCoupling(task.group.dim, layers, width, flow_key)
            start = Pushed(base, *whitening(task.group, points))

        def tell(done: int, loss: float) -> None:
            if progress is not None and math.isfinite(loss):
                progress(done / steps, f"step {done} of {steps}, loss {loss:.3f}")

        return fit_paper_flow(fit_key, start, points, task.target, steps, tell)


def protocol() -> tuple[Effort, PaperFlow]:
    """Return the paper's own protocol: what it costs, and its trainer; it has no tail safety."""
    effort = dataclasses.replace(Effort.thorough(), training_draws=50_000, burn_in=1_000)
    return dataclasses.replace(effort, certification_draws=20_000, safety_weight=0.0), PaperFlow()
