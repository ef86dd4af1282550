"""What a model says of its observations, as functions of a point and the data."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, PyTree

from folt.types import Key, Point

NAME = "y"
"""What the observations of every ready model are called."""

Constrain = Callable[[Point], dict[str, Array]]


class Pointwise(eqx.Module):
    """`{"y": log likelihood of every observation}`, as `arviz.loo` needs it."""

    constrain: Constrain
    terms: Callable[[dict[str, Array], PyTree], Array] = eqx.field(static=True)

    def __call__(self, x: Point, data: PyTree) -> dict[str, Array]:
        """The terms log p(y_n | x), one per observation."""
        return {NAME: self.terms(self.constrain(x), data)}


class LogTerms(eqx.Module):
    """Log w_k + log p(y_n | k) by observation and component, for memberships."""

    constrain: Constrain
    terms: Callable[[dict[str, Array], PyTree], Array] = eqx.field(static=True)

    def __call__(self, x: Point, data: PyTree) -> Array:
        """The terms (observation, component) at one point."""
        return self.terms(self.constrain(x), data).T


class Predictive(eqx.Module):
    """`{"y": new observations}`: a posterior predictive draw if the point is a draw."""

    constrain: Constrain
    predict: Callable[[Key, dict[str, Array], PyTree], Array] = eqx.field(static=True)

    def __call__(self, key: Key, x: Point, data: PyTree) -> dict[str, Array]:
        """As many observations as there are data."""
        return {NAME: self.predict(key, self.constrain(x), data)}
