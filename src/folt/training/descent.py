"""Stochastic gradient descent on the log ratio: compiled blocks of Adam steps over given batches.

Batches are chosen on the host, so the size of a pool never causes a compilation; the objective is
a module handed in whole. Steps may run in single precision on a twin of the flow: they only steer,
every judgement is made on the flow itself in double precision.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree

from folt.training.pool import Pool
from folt.types import Distribution, Scalar, Scalars

if TYPE_CHECKING:
    import optax

Flow = TypeVar("Flow", bound=Distribution)
Batch = TypeVar("Batch")
Tree = TypeVar("Tree")


class ClippedVariance(eqx.Module):
    """Huber-clipped half variance of h = log π_F - log q_F over a batch of resolved points.

    Args:
        width: where the loss turns from square to linear.
    """

    width: float

    def __call__(self, flow: Distribution, batch: Pool) -> Scalar:
        """The loss about the batch's own centre, which needs no derivative: it is the minimum."""
        images, log_rest, log_target = (jnp.asarray(leaf) for leaf in batch)
        log_terms = jax.vmap(jax.vmap(flow.log_prob))(images)
        h = log_target - jnp.logaddexp(logsumexp(log_terms, axis=1), log_rest)
        size = jnp.abs(h - jax.lax.stop_gradient(self.centre(h)))
        linear = self.width * (size - 0.5 * self.width)
        return jnp.mean(jnp.where(size < self.width, 0.5 * size**2, linear))

    def centre(self, h: Scalars) -> Scalar:
        """The mean, weighted so that points beyond the width pull no harder than at it."""
        weights = self.width / jnp.maximum(jnp.abs(h - jnp.median(h)), self.width)
        return weights @ h / jnp.sum(weights)


@functools.cache
def _optimiser() -> optax.GradientTransformation:
    """Optax's Adam, imported late because the import takes half a second."""
    import optax

    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(b2=0.99))


class Trainee(eqx.Module, Generic[Flow]):
    """A flow in training.

    Args:
        parameters: the flow with None in the place of all that is not trained.
        rest: the flow with None in the place of all that is.
        state: what the optimiser remembers.
    """

    parameters: PyTree
    rest: PyTree
    state: PyTree

    @property
    def flow(self) -> Flow:
        """The flow with its present parameters."""
        return eqx.combine(self.parameters, self.rest)


def trainee(flow: Flow, trained: Callable[[Flow], object]) -> Trainee[Flow]:
    """A flow ready for training.

    Args:
        flow: where training starts.
        trained: the part of the flow whose floating point arrays are parameters.
    """
    nothing = jax.tree.map(lambda _: False, flow)
    chosen = jax.tree.map(eqx.is_inexact_array, trained(flow))
    parameters, rest = eqx.partition(flow, eqx.tree_at(trained, nothing, chosen))
    return Trainee(parameters, rest, _optimiser().init(parameters))


@eqx.filter_jit
def descend(
    objective: Callable[[Flow, Batch], Scalar],
    trainee: Trainee[Flow],
    batches: Batch,
    rates: Float[Array, " steps"],
) -> tuple[Trainee[Flow], Float[Array, " steps"]]:
    """One Adam step per batch: the trainee after them, and the losses on the way.

    Args:
        objective: loss of a flow on a batch.
        trainee: the flow and the optimiser's memory.
        batches: a pytree of arrays whose leading axis runs over the steps.
        rates: learning rate of every step.
    """

    def loss(parameters: PyTree, batch: Batch) -> Scalar:
        return objective(eqx.combine(parameters, trainee.rest), batch)

    def step(
        carry: tuple[PyTree, PyTree], part: tuple[Batch, Scalar]
    ) -> tuple[tuple[PyTree, PyTree], Scalar]:
        parameters, state = carry
        batch, rate = part
        value, gradient = jax.value_and_grad(loss)(parameters, batch)
        direction, state = _optimiser().update(gradient, state)
        parameters = jax.tree.map(lambda p, d: p - rate.astype(p.dtype) * d, parameters, direction)
        return (parameters, state), value

    start = (trainee.parameters, trainee.state)
    (parameters, state), losses = jax.lax.scan(step, start, (batches, rates))
    return Trainee(parameters, trainee.rest, state), losses


def single_precision(tree: Tree) -> Tree:
    """A copy whose floating point arrays are in single precision."""
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), arrays)
    return eqx.combine(single, rest)


def rows_of_batches(
    generator: np.random.Generator, count: int, steps: int, batch: int
) -> Int[np.ndarray, "steps batch"]:
    """Indices (steps, batch) that go through the points in random order before repeating any."""
    passes = -(-steps * batch // count)
    order = np.concatenate([generator.permutation(count) for _ in range(passes)])
    return order[: steps * batch].reshape(steps, batch)


def cosine_rates(first: int, steps: int, total: int, peak: float) -> np.ndarray:
    """Learning rates of `steps` steps from number `first` on: a short ramp, then cosine to zero."""
    number = np.arange(first, first + steps) + 1.0
    ramp = np.minimum(number / min(20.0, total), 1.0)
    decay = 0.5 * (1.0 + np.cos(math.pi * np.minimum(number / (total + 1.0), 1.0)))
    return peak * ramp * decay
