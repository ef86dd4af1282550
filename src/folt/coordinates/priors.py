"""Priors that are known exactly: density, distribution function and its inverse.

Each one maps to and from the standard normal through the smaller tail, so that both directions
hold their precision as far out as the value itself can be represented.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import erf

from folt.coordinates.location_scale import HalfLine, LocationScale, Prior
from folt.coordinates.tails import (
    Leaf,
    Numbers,
    from_log_tails,
    from_nearest_end,
    log_smaller_tail,
    log_tails,
    normal_log_density,
    parameter,
    quantile_of_log,
    require_interval,
    require_positive_parameter,
    smaller_tail,
)

LOG_TWO = math.log(2.0)
_LOG_PI = math.log(math.pi)


class Normal(LocationScale):
    """The normal distribution N(loc, scale²)."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return the standard normal log density, log φ(z)."""
        return normal_log_density(z)

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """Return the coordinate x itself, which is standard normal already."""
        return x

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """Return the value z itself, which is standard normal already."""
        return z


class LogNormal(Prior):
    """The exponential of N(loc, scale²)."""

    loc: Leaf = parameter()
    scale: Leaf = parameter()

    def __check_init__(self) -> None:
        require_positive_parameter(self, "scale", self.scale)

    def log_prob(self, value: Numbers) -> Numbers:
        """Return log φ((log v - loc)/scale) - log scale - log v."""
        inside = value > 0
        log_value = jnp.log(jnp.where(inside, value, 1.0))
        standardised = (log_value - self.loc) / self.scale
        log_density = normal_log_density(standardised) - jnp.log(self.scale) - log_value
        return jnp.where(inside, log_density, -jnp.inf)

    def from_normal(self, x: Numbers) -> Numbers:
        """Return the value exp(loc + scale·x)."""
        return jnp.exp(self.loc + self.scale * x)

    def to_normal(self, value: Numbers) -> Numbers:
        """Return the coordinate (log v - loc)/scale."""
        return (jnp.log(value) - self.loc) / self.scale


class Uniform(Prior):
    """The uniform distribution between two bounds; its normal coordinate is the probit."""

    low: Leaf = parameter()
    high: Leaf = parameter()

    def __check_init__(self) -> None:
        require_interval(self, self.low, self.high)

    def log_prob(self, value: Numbers) -> Numbers:
        """-log(high - low) inside, the bounds included."""
        inside = (value >= self.low) & (value <= self.high)
        return jnp.where(inside, -jnp.log(self.high - self.low), -jnp.inf)

    def from_normal(self, x: Numbers) -> Numbers:
        """Low + (high - low)·Φ(x), measured from the nearer bound."""
        return from_nearest_end(self.low, self.high, smaller_tail(x), x < 0)

    def to_normal(self, value: Numbers) -> Numbers:
        """Φ⁻¹ of the fraction, read from the nearer bound."""
        width = self.high - self.low
        return from_log_tails(
            jnp.log((value - self.low) / width), jnp.log((self.high - value) / width)
        )


class HalfNormal(HalfLine):
    """The absolute value of N(0, scale²), starting at `loc`."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return log 2 + log φ(z), z ≥ 0."""
        return jnp.where(z >= 0, LOG_TWO + normal_log_density(z), -jnp.inf)

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """√2·erf⁻¹(Φ(x)) below the median, -Φ⁻¹(Φ(-x)/2) above."""
        below = math.sqrt(2) * jax.lax.erf_inv(smaller_tail(x))
        return jnp.where(x < 0, below, -quantile_of_log(log_smaller_tail(x) - LOG_TWO))

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From F(z) = erf(z/√2) and 1 - F(z) = 2Φ(-z)."""
        return from_log_tails(jnp.log(erf(z / math.sqrt(2))), LOG_TWO + log_smaller_tail(z))


class Exponential(HalfLine):
    """The exponential distribution with mean `scale`, starting at `loc`."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return the log density -z of values z ≥ 0."""
        return jnp.where(z >= 0, -z, -jnp.inf)

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """Return the value -log Φ(-x)."""
        return -log_tails(x)[1]

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From F(z) = 1 - exp(-z)."""
        return from_log_tails(jnp.log(-jnp.expm1(-z)), -z)


class Laplace(LocationScale):
    """The double exponential distribution, density exp(-|v - loc|/scale)/(2·scale)."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return the log density -|z| - log 2."""
        return -jnp.abs(z) - LOG_TWO

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """± log 2Φ(-|x|), the sign being that of x."""
        exponent = LOG_TWO + log_smaller_tail(x)
        return jnp.where(x < 0, exponent, -exponent)

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From the smaller tail exp(-|z|)/2."""
        x = quantile_of_log(-jnp.abs(z) - LOG_TWO)
        return jnp.where(z < 0, x, -x)


class Logistic(LocationScale):
    """The logistic distribution, F(z) = 1/(1 + exp(-z))."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return log F(z) + log F(-z)."""
        return jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """Return log Φ(x) - log Φ(-x)."""
        log_cdf, log_survival = log_tails(x)
        return log_cdf - log_survival

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From log F(z) and log F(-z)."""
        return from_log_tails(jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z))


class Cauchy(LocationScale):
    """The Cauchy distribution, density 1/(π(1 + z²))."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """-log π - log(1 + z²), without forming z²."""
        return -_LOG_PI - 2 * jnp.log(jnp.hypot(1.0, z))

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """± cot(π Φ(-|x|)), the sign being that of x."""
        size = 1 / jnp.tan(math.pi * smaller_tail(x))
        return jnp.where(x < 0, -size, size)

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From the smaller tail arctan(1/|z|)/π."""
        x = quantile_of_log(jnp.log(jnp.arctan2(1.0, jnp.abs(z)) / math.pi))
        return jnp.where(z < 0, x, -x)


class HalfCauchy(HalfLine):
    """The absolute value of a Cauchy variable centred at zero, starting at `loc`."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return log 2 - log π - log(1 + z²), z ≥ 0."""
        return jnp.where(z >= 0, LOG_TWO + Cauchy.standard_log_density(z), -jnp.inf)

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """tan(½π Φ(x)) below the median, cot(½π Φ(-x)) above."""
        tangent = jnp.tan(0.5 * math.pi * smaller_tail(x))
        return jnp.where(x < 0, tangent, 1 / tangent)

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From F(z) = (2/π) arctan(z) and 1 - F(z) = (2/π) arctan(1/z)."""
        log_factor = LOG_TWO - _LOG_PI
        return from_log_tails(
            log_factor + jnp.log(jnp.arctan2(z, 1.0)), log_factor + jnp.log(jnp.arctan2(1.0, z))
        )


class Gumbel(LocationScale):
    """The Gumbel distribution of maxima, F(z) = exp(-exp(-z))."""

    @staticmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return the log density -z - exp(-z)."""
        return -z - jnp.exp(-z)

    @staticmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """Return the value -log(-log Φ(x))."""
        return -jnp.log(-log_tails(x)[0])

    @staticmethod
    def standard_score(z: Numbers) -> Numbers:
        """From log F(z) = -exp(-z)."""
        log_cdf = -jnp.exp(-z)
        return from_log_tails(log_cdf, jnp.log(-jnp.expm1(log_cdf)))
