"""Stochastic gradient descent for any flow: compiled blocks of Adam steps over given batches.

Batches are chosen on the host, so the size of a pool never causes a compilation; the objective is
a module handed in whole. Steps may run in single precision on a twin of the flow: they only steer,
every judgement is made on the flow itself in double precision.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.types import Distribution, Scalar

Objective = Callable[[Any, Any], Scalar]
"""From a flow and a batch to the loss."""


@functools.cache
def _optimiser() -> Any:
    """Optax's, imported late because the import takes half a second."""
    import optax

    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(b2=0.99))


class Trainee(eqx.Module):
    """A flow in training.

    Args:
        parameters: the flow with None in the place of all that is not trained.
        rest: the flow with None in the place of all that is.
        state: what the optimiser remembers.
    """

    parameters: Any
    rest: Any
    state: Any

    @property
    def flow(self) -> Distribution:
        """The flow with its present parameters."""
        return eqx.combine(self.parameters, self.rest)


def trainee(flow: Distribution, trained: Callable[[Any], Any] = lambda flow: flow) -> Trainee:
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
    objective: Objective, trainee: Trainee, batches: Any, rates: Float[Array, " steps"]
) -> tuple[Trainee, Float[Array, " steps"]]:
    """One Adam step per batch: the trainee after them, and the losses on the way.

    Args:
        objective: loss of a flow on a batch.
        trainee: the flow and the optimiser's memory.
        batches: a pytree of arrays whose leading axis runs over the steps.
        rates: learning rate of every step.
    """

    def loss(parameters: Any, batch: Any) -> Scalar:
        return objective(eqx.combine(parameters, trainee.rest), batch)

    def step(carry: tuple[Any, Any], part: Any) -> tuple[tuple[Any, Any], Scalar]:
        parameters, state = carry
        batch, rate = part
        value, gradient = jax.value_and_grad(loss)(parameters, batch)
        direction, state = _optimiser().update(gradient, state)
        parameters = jax.tree.map(lambda p, d: p - rate.astype(p.dtype) * d, parameters, direction)
        return (parameters, state), value

    start = (trainee.parameters, trainee.state)
    (parameters, state), losses = jax.lax.scan(step, start, (batches, rates))
    return Trainee(parameters, trainee.rest, state), losses


def single_precision(tree: Any) -> Any:
    """A copy whose floating point arrays are in single precision."""

    def cast(leaf: Any) -> Any:
        return jnp.asarray(leaf, jnp.float32) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(cast, tree)


def rows_of_batches(
    generator: np.random.Generator, count: int, steps: int, batch: int
) -> np.ndarray:
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


def carried(values: Any, twin: Any) -> Any:
    """The twin with the floating point arrays of `values`, in the twin's precision.

    Both have the same arrays in the same order; what is static may differ.
    """
    arrays = jax.tree.leaves(eqx.filter(values, eqx.is_inexact_array))
    places, rest = eqx.partition(twin, eqx.is_inexact_array)
    old, structure = jax.tree.flatten(places)
    new = [jnp.asarray(value, place.dtype) for value, place in zip(arrays, old, strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, new), rest)
