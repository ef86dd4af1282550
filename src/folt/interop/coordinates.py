"""Coordinates that front-ends need besides those of `folt.coordinates`."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from folt.coordinates import (
    AugmentedShares,
    CentredScores,
    Coordinate,
    Identity,
    IntervalScores,
    Logit,
    Prior,
    PriorNormal,
)
from folt.coordinates.tails import Leaf, parameter
from folt.groups import zero_sum_basis
from folt.types import Key, Scalar

LARGEST_EXPONENT = 700.0
"""Beyond it exp leaves double precision; a density there is nothing but rounding."""

Bounds = tuple[np.ndarray | None, np.ndarray | None]


class Bounded(Coordinate):
    """A parameter on one side of a bound: push(x) = bound + exp(x), or bound - exp(x)."""

    bound: Leaf = parameter()
    above: bool = eqx.field(static=True, default=True)

    def push(self, x: Array) -> Array:
        """Return the bound plus or minus exp(x)."""
        distance = jnp.exp(jnp.clip(x, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        return jnp.asarray(self.bound + distance if self.above else self.bound - distance)

    def pull(self, value: Array) -> Array:
        """Return the logarithm of the distance from the bound."""
        return jnp.log(value - self.bound if self.above else self.bound - value)

    def log_slope(self, x: Array) -> Array:
        """Return the coordinate x itself, because exp is its own derivative."""
        return jnp.asarray(x)


class Beta(NamedTuple):
    """A Beta prior, by its two shapes: it can be drawn from, its quantiles are not known."""

    first: np.ndarray
    second: np.ndarray


class BetaScores(IntervalScores):
    """A probability by its scores, with its Beta prior to draw from."""

    first: Leaf = parameter()
    second: Leaf = parameter()
    flat: bool = eqx.field(static=True, default=False)

    def sample(self, key: Key) -> Array:
        """Return coordinates drawn from the prior, by the logarithms of two Gamma variables."""
        shapes = jnp.stack([jnp.asarray(self.first), jnp.asarray(self.second)], axis=-1)
        if self.flat:  # exponential variables compile at once, Gamma ones do not
            logs = jnp.log(jax.random.exponential(key, shapes.shape, shapes.dtype))
        else:
            logs = jax.random.loggamma(key, shapes, dtype=shapes.dtype)
        return self.pull_logs(jax.nn.log_softmax(logs))


class SimplexRows(eqx.Module):
    """Probabilities along the last axis as centred scores, (..., V) in (..., V - 1).

    Args:
        length: number of probabilities, V.
        concentration: of an independent Dirichlet prior (..., V), if that is what they have.
    """

    length: int = eqx.field(static=True)
    concentration: Leaf | None
    flat: bool = eqx.field(static=True)

    def __init__(self, length: int, concentration: np.ndarray | None = None):
        self.length = length
        self.concentration = concentration
        self.flat = concentration is not None and bool(np.all(concentration == 1.0))

    @property
    def scores(self) -> CentredScores:
        """The coordinates of one simplex."""
        return CentredScores.symmetric(self.length)

    def push(self, x: Array) -> Array:
        """Return probabilities, never exactly zero, where some densities would not be numbers."""
        flat = jax.vmap(self.scores.push)(x.reshape(-1, self.length - 1))
        values = flat.reshape(*x.shape[:-1], self.length)
        return jnp.maximum(values, jnp.finfo(values.dtype).tiny)

    def pull(self, value: Array) -> Array:
        """Return the scores of every row of probabilities."""
        flat = jax.vmap(self.scores.pull)(value.reshape(-1, self.length))
        return flat.reshape(*value.shape[:-1], self.length - 1)

    def sample(self, key: Key) -> Array:
        """Return scores drawn from the Dirichlet prior, one row per simplex."""
        rows = jnp.asarray(self.concentration).reshape(-1, self.length)
        if self.flat:  # exponential variables compile at once, Gamma ones do not
            return jax.vmap(self.scores.pull)(jax.random.exponential(key, rows.shape, rows.dtype))
        keys = jax.random.split(key, rows.shape[0])
        return jax.vmap(lambda own, row: CentredScores(row).sample_prior(own))(keys, rows)

    def log_slope(self, x: Array) -> Array:
        """Return the log volume change of every row, one number each."""
        return jax.vmap(self.scores.log_slope)(x.reshape(-1, self.length - 1))


class ZeroSumVectors(eqx.Module):
    """Vectors along the last axis that sum to zero, (..., V) in (..., V - 1), without stretching.

    Args:
        length: number of entries, V.
    """

    length: int = eqx.field(static=True)

    def push(self, x: Array) -> Array:
        """Return the vectors B·x, which sum to zero."""
        return x @ jnp.asarray(zero_sum_basis(self.length), x.dtype).T

    def pull(self, value: Array) -> Array:
        """Return their coordinates in the orthonormal basis B."""
        return value @ jnp.asarray(zero_sum_basis(self.length), value.dtype)

    def log_slope(self, x: Array) -> Array:
        """Return zero, because B preserves lengths."""
        return jnp.zeros(x.shape[:-1], x.dtype)


def plain_coordinate(shape: tuple[int, ...], low: Leaf | None, high: Leaf | None) -> Coordinate:
    """Return an elementary coordinate between two bounds, either of which may be absent."""
    if low is not None and high is not None:
        return Logit(np.broadcast_to(low, shape), np.broadcast_to(high, shape))
    if low is not None:
        return Bounded(np.broadcast_to(low, shape), True)
    if high is not None:
        return Bounded(np.broadcast_to(high, shape), False)
    return Identity()


def known_coordinate(
    shape: tuple[int, ...], bounds: Bounds, prior: Prior | Beta | None
) -> Coordinate:
    """Return the coordinate that a posterior is nearest to normal in, as far as its prior is known.

    Prior-normal where an independent prior's quantiles are known, scores between two bounds, and
    the plain one otherwise.

    Args:
        shape: shape of the site.
        bounds: lower and upper bound, where there are any.
        prior: independent prior whose quantiles are known, or a Beta, if there is one.
    """
    low, high = bounds
    if isinstance(prior, Beta):
        flat = bool(np.all(prior.first == 1.0) and np.all(prior.second == 1.0))
        return BetaScores(np.zeros(shape), np.ones(shape), *prior, flat)
    if prior is not None:
        return PriorNormal(prior)
    if low is not None and high is not None:
        return IntervalScores(np.broadcast_to(low, shape), np.broadcast_to(high, shape))
    return plain_coordinate(shape, low, high)


class FreeTotal(eqx.Module):
    """Probabilities w as normal scores of T·w, with T ~ Gamma(mα + N) independent of all else.

    Whatever the density of w is, p(w) exp(log_slope) is a density of the m coordinates under which
    w keeps it: T integrates to one. So the evidence stays what it was for any N and any prior. With
    N observations of a mixture and a Dirichlet(α) prior the posterior, given which component every
    observation came from, is a product over the components, which is what a class chain proposes.

    Args:
        weights: the same probabilities without a total, which know their prior.
        observations: N.
    """

    weights: SimplexRows
    shares: AugmentedShares

    def __init__(self, weights: SimplexRows, observations: int):
        self.weights = weights
        # In normal scores of exponential variables, whatever α is: only the total knows it.
        alpha = 1.0 if weights.concentration is None else float(np.mean(weights.concentration))
        more = round(weights.length * (alpha - 1.0))
        self.shares = AugmentedShares(weights.length, max(observations + more, 0))

    @property
    def concentration(self) -> Leaf | None:
        """That of the Dirichlet prior, where it is known."""
        return self.weights.concentration

    def push(self, x: Float[Array, " m"]) -> Float[Array, " m"]:
        """Return the probabilities, never exactly zero."""
        values = self.shares.push(x)
        return jnp.maximum(values, jnp.finfo(values.dtype).tiny)

    def pull(self, value: Float[Array, " m"], key: Key | None = None) -> Float[Array, " m"]:
        """Return the coordinates of w times a total, which is drawn with the key, or its mean."""
        return self.shares.pull(value, key)

    def sample(self, key: Key) -> Float[Array, " m"]:
        """Return coordinates of a draw of the Dirichlet prior and of the total."""
        own, total = jax.random.split(key)
        return self.pull(self.weights.push(self.weights.sample(own).reshape(-1)), total)

    def log_slope(self, x: Float[Array, " m"]) -> Scalar:
        """Return the log density of T plus log |d(w_1, ..., w_{m-1}, T)/dx|."""
        return self.shares.log_prior(x) - gammaln(float(self.shares.m))
