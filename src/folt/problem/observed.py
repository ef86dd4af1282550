"""What a model says of its observations, as functions of a point and the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.types import Key, Point

_NAME = "y"
"""What the observations of every ready model are called."""

Constrain = Callable[[Point], dict[str, Array]]


@runtime_checkable
class Observing(Protocol):
    """A log density that tells what was observed from what is otherwise given."""

    def observations(self, data: PyTree) -> dict[str, Array]:
        """Return the observed values by name."""


class Pointwise(eqx.Module):
    """`{"y": log likelihood of every observation}`, as `arviz.loo` needs it."""

    constrain: Constrain
    terms: Callable[[dict[str, Array], PyTree], Array] = eqx.field(static=True)

    def __call__(self, x: Point, data: PyTree) -> dict[str, Array]:
        """Return the terms log p(y_n | x), one per observation."""
        return {_NAME: self.terms(self.constrain(x), data)}


class Paths(eqx.Module):
    """The most probable sequence of hidden states, and how probable a given sequence is.

    Attributes:
        best: from parameters and data to the states (time,) of largest probability.
        log_prob: from parameters, states and data to log P(states | data, parameters).
    """

    best: Callable[[dict[str, Array], PyTree], Array] = eqx.field(static=True)
    log_prob: Callable[[dict[str, Array], Array, PyTree], Array] = eqx.field(static=True)


class LogTerms(eqx.Module):
    """Log w_k + log p(y_n | k) by observation and component, for memberships.

    Attributes:
        constrain: from a point to the parameters.
        terms: from parameters and data to the terms, (component, observation).
        paths: where the components are states that follow each other.
    """

    constrain: Constrain
    terms: Callable[[dict[str, Array], PyTree], Array] = eqx.field(static=True)
    paths: Paths | None = None

    def __call__(self, x: Point, data: PyTree) -> Array:
        """Return the terms (observation, component) at one point."""
        return self.terms(self.constrain(x), data).T


class Forecast(eqx.Module):
    """What a model predicts for new conditions, at one draw of its parameters.

    Attributes:
        rows: what the rows of the prediction are called.
        checked: from what a user asks for, None for nothing, and the data to an array with one
            row per prediction; it refuses what does not fit the data with a `ValueError`.
        values: from key, parameters, checked rows and data to the predicted values, (row,) or
            (row, column).
        last: what the last column is called, where it is none of the model's labels.
        origin: what was taken from every observation before it became data.
    """

    rows: str = eqx.field(static=True)
    checked: Callable[[Any, np.ndarray], np.ndarray] = eqx.field(static=True)
    values: Callable[[Key, dict[str, Array], Array, PyTree], Array] = eqx.field(static=True)
    last: str = eqx.field(static=True, default="")
    origin: Float[np.ndarray, "*variables"] | float = 0.0


class Predictive(eqx.Module):
    """`{"y": new observations}`: a posterior predictive draw if the point is a draw.

    Attributes:
        constrain: from a point to the parameters.
        predict: from key, parameters and data to as many new observations.
        forecast: what the model predicts for new conditions.
    """

    constrain: Constrain
    predict: Callable[[Key, dict[str, Array], PyTree], Array] = eqx.field(static=True)
    forecast: Forecast | None = None

    def __call__(self, key: Key, x: Point, data: PyTree) -> dict[str, Array]:
        """As many observations as there are data."""
        return {_NAME: self.predict(key, self.constrain(x), data)}
