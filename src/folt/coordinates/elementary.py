"""The grammar of a coordinate, and the three that need no prior."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from folt.coordinates.leaves import (
    Leaf,
    Values,
    from_nearest_end,
    parameter,
    require_interval,
)


class Coordinate(eqx.Module):
    """An increasing bijection from the real line to the values of one parameter.

    A density p of the parameter becomes p(push(x))·exp(log_slope(x)) in the coordinate.
    """

    @abstractmethod
    def push(self, x: Values) -> Values:
        """From the real coordinate to the user's value."""

    @abstractmethod
    def pull(self, value: Values) -> Values:
        """From the user's value to the real coordinate; not finite outside the support."""

    @abstractmethod
    def log_slope(self, x: Values) -> Values:
        """Log |d push/dx| at the coordinate x."""


class Identity(Coordinate):
    """A parameter that is real already: push(x) = x."""

    def push(self, x: Values) -> Values:
        """The value is the coordinate x itself."""
        return jnp.asarray(x)

    def pull(self, value: Values) -> Values:
        """The coordinate is the value itself."""
        return jnp.asarray(value)

    def log_slope(self, x: Values) -> Values:
        """Zero, because the slope is one everywhere."""
        return jnp.zeros_like(x)


class Log(Coordinate):
    """A positive parameter on the log scale: push(x) = exp(x)."""

    def push(self, x: Values) -> Values:
        """The value exp(x)."""
        return jnp.exp(x)

    def pull(self, value: Values) -> Values:
        """Natural logarithm of the value."""
        return jnp.log(value)

    def log_slope(self, x: Values) -> Values:
        """X itself, because exp is its own derivative."""
        return jnp.asarray(x)


class Logit(Coordinate):
    """A parameter between two bounds: push(x) = low + (high - low)/(1 + exp(-x))."""

    low: Leaf = parameter()
    high: Leaf = parameter()

    def __check_init__(self) -> None:
        require_interval(self, self.low, self.high)

    def push(self, x: Values) -> Values:
        """The value, measured from the nearer bound."""
        below = x < 0
        return from_nearest_end(self.low, self.high, jax.nn.sigmoid(jnp.where(below, x, -x)), below)

    def pull(self, value: Values) -> Values:
        """log(value - low) - log(high - value)."""
        return jnp.log(value - self.low) - jnp.log(self.high - value)

    def log_slope(self, x: Values) -> Values:
        """log(high - low) + log sigmoid(x) + log sigmoid(-x)."""
        return jnp.log(self.high - self.low) + jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)
