"""Priors made of independent pieces, in the coordinates of a model."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.coordinates.location_scale import Gamma, log_prob_of_log
from folt.coordinates.tails import Leaf, as_leaf, normal_log_density
from folt.types import Distribution, Key, Point, Scalar


@runtime_checkable
class _Piece(Protocol):
    """Consecutive coordinates with a prior of their own; `LogRatios` is one."""

    @property
    def length(self) -> int:
        """Number of coordinates."""

    def log_prior(self, x: Point) -> Scalar:
        """Return the log density of the coordinates under the prior."""

    def sample_prior(self, key: Key) -> Float[Array, " length"]:
        """Return one draw of the prior."""


class StandardNormal(eqx.Module):
    """Coordinates whose prior is N(0, I), as prior-normal coordinates have."""

    length: int = eqx.field(static=True)

    def log_prior(self, x: Float[Array, " length"]) -> Scalar:
        """Return the log density log N(x; 0, I)."""
        return jnp.sum(normal_log_density(x))

    def sample_prior(self, key: Key) -> Float[Array, " length"]:
        """Return a standard normal vector."""
        return jax.random.normal(key, (self.length,))


class LogGammas(eqx.Module):
    """Gamma(a) variables g through x = √a·(log g - log a), close to N(0, 1) for large a.

    The exact prior-normal coordinate needs a Gamma quantile at every evaluation; the logarithm is
    almost as normal and costs nothing.
    """

    shape: Leaf = eqx.field(converter=as_leaf)

    @property
    def length(self) -> int:
        """One coordinate per variable."""
        return int(np.shape(self.shape)[0])

    def push_log(self, x: Float[Array, " length"]) -> Float[Array, " length"]:
        """Return log g = log a + x/√a."""
        return jnp.log(self.shape) + x / jnp.sqrt(self.shape)

    def pull_log(self, log_g: Float[Array, " length"]) -> Float[Array, " length"]:
        """Return the coordinates √a·(log g - log a)."""
        return jnp.sqrt(self.shape) * (log_g - jnp.log(self.shape))

    def log_prior(self, x: Float[Array, " length"]) -> Scalar:
        """Return the sum of a·log g - g - log Γ(a) - ½ log a."""
        return jnp.sum(log_prob_of_log(self.shape, self.push_log(x)) - 0.5 * jnp.log(self.shape))

    def sample_prior(self, key: Key) -> Float[Array, " length"]:
        """Through the Gamma quantile of a standard normal vector."""
        shape = jnp.asarray(self.shape)
        drawn = Gamma(shape).log_from_normal(jax.random.normal(key, shape.shape, shape.dtype))
        return self.pull_log(drawn)


class Independent(Distribution):
    """The product of the priors of consecutive pieces."""

    parts: tuple[_Piece, ...]

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return sum(part.length for part in self.parts)

    def pieces(self, x: Point) -> list[Array]:
        """Return the coordinates of each piece."""
        ends = np.cumsum([part.length for part in self.parts])[:-1].tolist()
        return jnp.split(x, ends)

    def log_prob(self, x: Point) -> Scalar:
        """Return the sum of the log priors."""
        logs = [part.log_prior(own) for part, own in zip(self.parts, self.pieces(x), strict=True)]
        return jnp.sum(jnp.stack(logs))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        keys = jax.random.split(key, len(self.parts))
        drawn = [part.sample_prior(own) for part, own in zip(self.parts, keys, strict=True)]
        x = jnp.concatenate(drawn)
        return x, self.log_prob(x)


def log_sum_components(terms: Float[Array, "m n"]) -> Float[Array, " n"]:
    """Return log Σ_k exp(terms_kn), the log likelihood of every observation of a mixture.

    Components run along the first axis, so that memory is contiguous along the observations.
    """
    largest = jax.lax.stop_gradient(jnp.max(terms, axis=0))
    return jnp.log(jnp.sum(jnp.exp(terms - largest), axis=0)) + largest


LOG_TWO_PI = math.log(2 * math.pi)
