"""The grammar of a coordinate, and those that need no prior.

The coordinate in which a known prior is standard normal.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from folt.coordinates.location_scale import Prior
from folt.coordinates.tails import (
    COUNT,
    Leaf,
    Numbers,
    from_nearest_end,
    log_count,
    log_volume,
    normal_log_density,
    parameter,
    require_interval,
    score_of_log,
    shift,
)


class Coordinate(eqx.Module):
    """An increasing bijection from the real line to the values of one parameter.

    A density p of the parameter becomes p(push(x))·exp(log_slope(x)) in the coordinate.
    """

    @abstractmethod
    def push(self, x: Numbers) -> Numbers:
        """From the real coordinate to the user's value."""

    @abstractmethod
    def pull(self, value: Numbers) -> Numbers:
        """From the user's value to the real coordinate; not finite outside the support."""

    @abstractmethod
    def log_slope(self, x: Numbers) -> Numbers:
        """Return log |d push/dx| at the coordinate x."""


class Identity(Coordinate):
    """A parameter that is real already: push(x) = x."""

    def push(self, x: Numbers) -> Numbers:
        """The value is the coordinate x itself."""
        return jnp.asarray(x)

    def pull(self, value: Numbers) -> Numbers:
        """The coordinate is the value itself."""
        return jnp.asarray(value)

    def log_slope(self, x: Numbers) -> Numbers:
        """Zero, because the slope is one everywhere."""
        return jnp.zeros_like(x)


class Log(Coordinate):
    """A positive parameter on the log scale: push(x) = exp(x)."""

    def push(self, x: Numbers) -> Numbers:
        """Return the value exp(x)."""
        return jnp.exp(x)

    def pull(self, value: Numbers) -> Numbers:
        """Return natural logarithm of the value."""
        return jnp.log(value)

    def log_slope(self, x: Numbers) -> Numbers:
        """X itself, because exp is its own derivative."""
        return jnp.asarray(x)


class Logit(Coordinate):
    """A parameter between two bounds: push(x) = low + (high - low)/(1 + exp(-x))."""

    low: Leaf = parameter()
    high: Leaf = parameter()

    def __check_init__(self) -> None:
        require_interval(self, self.low, self.high)

    def push(self, x: Numbers) -> Numbers:
        """Return the value, measured from the nearer bound."""
        below = x < 0
        return from_nearest_end(self.low, self.high, jax.nn.sigmoid(jnp.where(below, x, -x)), below)

    def pull(self, value: Numbers) -> Numbers:
        """log(value - low) - log(high - value)."""
        return jnp.log(value - self.low) - jnp.log(self.high - value)

    def log_slope(self, x: Numbers) -> Numbers:
        """log(high - low) + log sigmoid(x) + log sigmoid(-x)."""
        return jnp.log(self.high - self.low) + jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)


class IntervalScores(Coordinate):
    """A parameter between two bounds by the scores of its distances from both.

    The distances are shares of the whole, as a probability and its complement are: the posterior of
    a probability is then nearly normal also where it was hardly ever, or nearly always, one of the
    two, and its tails are normal ones where those of a logit are exponential.
    """

    low: Leaf = parameter()
    high: Leaf = parameter()

    def __check_init__(self) -> None:
        require_interval(self, self.low, self.high)

    def push(self, x: Numbers) -> Numbers:
        """Return the value, measured from the nearer bound."""
        scores = _opposite(x)
        logs = jax.nn.log_softmax(log_count(scores + shift(scores)))
        below = x < 0
        nearer = jnp.exp(jnp.where(below, logs[..., 0], logs[..., 1]))
        return from_nearest_end(self.low, self.high, nearer, below)

    def pull(self, value: Numbers) -> Numbers:
        """Return the difference of the two scores over √2."""
        distances = jnp.stack([value - self.low, self.high - value], axis=-1)
        return self.pull_logs(jnp.log(distances) - jnp.log(self.high - self.low)[..., None])

    def pull_logs(self, shares: Float[Array, "*shape 2"]) -> Numbers:
        """Return the same from the logarithms of the distances as shares of the whole."""
        scores = score_of_log(math.log(COUNT) + shares)
        return (scores[..., 0] - scores[..., 1]) / math.sqrt(2.0)

    def log_slope(self, x: Numbers) -> Numbers:
        """log(high - low) plus the log volume change of two shares."""
        return jnp.log(self.high - self.low) + log_volume(_opposite(x))


def _opposite(x: Numbers) -> Numbers:
    """Return two scores that sum to zero, at distance x from it."""
    return jnp.stack([x, -x], axis=-1) / math.sqrt(2.0)


class PriorNormal(Coordinate):
    """The coordinate x = Φ⁻¹(F(v)) of a parameter v with prior distribution function F.

    The prior density becomes exactly N(0, 1), and independent, identically distributed blocks
    stay exchangeable.
    """

    prior: Prior

    def __check_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise ValueError(
                f"PriorNormal needs a prior whose distribution function and inverse are known, "
                f"such as folt.coordinates.Normal(0, 1), got {type(self.prior).__name__}; "
                f"without one, use Log() for a positive or Logit(low, high) for a bounded parameter"
            )

    def push(self, x: Numbers) -> Numbers:
        """Return the value F⁻¹(Φ(x))."""
        return self.prior.from_normal(x)

    def pull(self, value: Numbers) -> Numbers:
        """Return the coordinate Φ⁻¹(F(value))."""
        return self.prior.to_normal(value)

    def log_slope(self, x: Numbers) -> Numbers:
        """Return log φ(x) - log p(push(x)), because the prior p turns into φ."""
        return normal_log_density(x) - self.prior.log_prob(self.push(x))
