"""The grammar of a prior, and what all location-scale families share.

The Gamma distribution and its quantile, which JAX does not have.
"""

from __future__ import annotations

import functools
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammainc, gammaincc, gammaln
from jaxtyping import Array, ArrayLike

from folt.coordinates.tails import (
    Leaf,
    Numbers,
    as_leaf,
    from_log_tails,
    log_tails,
    normal_log_density,
    parameter,
    require_positive_parameter,
)


class Prior(eqx.Module):
    """A continuous distribution on the line with its exact map to the standard normal."""

    @abstractmethod
    def log_prob(self, value: Numbers) -> Numbers:
        """Return the log density, -inf outside the support."""

    @abstractmethod
    def from_normal(self, x: Numbers) -> Numbers:
        """Return the value F⁻¹(Φ(x)) of the standard normal coordinate x."""

    @abstractmethod
    def to_normal(self, value: Numbers) -> Numbers:
        """Return the standard normal coordinate Φ⁻¹(F(value))."""


class LocationScale(Prior):
    """A prior of loc + scale·z, z from a standard shape.

    A shape supplies its log density and the two maps; their derivatives follow from
    φ(x) dx = p(z) dz, which stays finite where differentiating the formulas would multiply
    infinity by zero.
    """

    loc: Leaf = parameter()
    scale: Leaf = parameter()

    @staticmethod
    @abstractmethod
    def standard_log_density(z: Numbers) -> Numbers:
        """Return log p(z) of the standard shape."""

    @staticmethod
    @abstractmethod
    def standard_quantile(x: Numbers) -> Numbers:
        """Return the z with as much probability below it as a standard normal has below x."""

    @staticmethod
    @abstractmethod
    def standard_score(z: Numbers) -> Numbers:
        """Return the inverse of `standard_quantile`."""

    def __check_init__(self) -> None:
        require_positive_parameter(self, "scale", self.scale)

    def log_prob(self, value: Numbers) -> Numbers:
        """Return log p((value - loc)/scale) - log scale."""
        return self.standard_log_density((value - self.loc) / self.scale) - jnp.log(self.scale)

    def from_normal(self, x: Numbers) -> Numbers:
        """Loc + scale·F⁻¹(Φ(x)) of the standard shape."""
        return jnp.asarray(self.loc + self.scale * _quantile(type(self), jnp.asarray(x)))

    def to_normal(self, value: Numbers) -> Numbers:
        """Φ⁻¹(F((value - loc)/scale)) of the standard shape."""
        return _score(type(self), jnp.asarray((value - self.loc) / self.scale))


class HalfLine(LocationScale):
    """A location-scale prior on the values above `loc`, which is zero unless told otherwise."""

    def __init__(self, scale: ArrayLike, loc: ArrayLike = 0.0):
        self.loc, self.scale = as_leaf(loc), as_leaf(scale)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _quantile(shape: type[LocationScale], x: Numbers) -> Numbers:
    return shape.standard_quantile(x)


@_quantile.defjvp
def _quantile_jvp(
    shape: type[LocationScale], primals: tuple[Numbers], tangents: tuple[Numbers]
) -> tuple[Numbers, Numbers]:
    z = _quantile(shape, primals[0])
    log_slope = normal_log_density(primals[0]) - shape.standard_log_density(z)
    return z, tangents[0] * jnp.exp(log_slope)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _score(shape: type[LocationScale], z: Numbers) -> Numbers:
    return shape.standard_score(z)


@_score.defjvp
def _score_jvp(
    shape: type[LocationScale], primals: tuple[Numbers], tangents: tuple[Numbers]
) -> tuple[Numbers, Numbers]:
    x = _score(shape, primals[0])
    log_slope = shape.standard_log_density(primals[0]) - normal_log_density(x)
    return x, tangents[0] * jnp.exp(log_slope)


_NEWTON_STEPS = 7
"""Reach rounding error from the start below for shapes from 0.05 to 1000 and |x| ≤ 30."""

_LONGEST_STEP = 2.0
"""Bound on one Newton step of log v, for starts where the distribution function is flat."""


class Gamma(Prior):
    """The Gamma distribution, density v^(shape-1)·exp(-v)/Γ(shape) on v > 0.

    Its quantile is found by Newton's method on the logarithm of the smaller tail, as a function
    of log v. The density of log v is log-concave, hence so are both tails.
    """

    shape: Leaf = parameter()

    def __check_init__(self) -> None:
        require_positive_parameter(self, "shape", self.shape)

    def log_prob(self, value: Numbers) -> Numbers:
        """(shape - 1)·log v - v - log Γ(shape)."""
        inside = value > 0
        log_value = jnp.log(jnp.where(inside, value, 1.0))
        log_density = log_prob_of_log(self.shape, log_value) - log_value
        return jnp.where(inside, log_density, -jnp.inf)

    def log_from_normal(self, x: Numbers) -> Numbers:
        """Return the logarithm of F⁻¹(Φ(x)), also where the value itself underflows."""
        return _log_quantile(jnp.asarray(self.shape), jnp.asarray(x))

    def from_normal(self, x: Numbers) -> Numbers:
        """Return the value F⁻¹(Φ(x)), through logarithms."""
        return jnp.exp(self.log_from_normal(x))

    def to_normal(self, value: Numbers) -> Numbers:
        """Φ⁻¹(F(value)), from the incomplete Gamma functions."""
        shape = jnp.asarray(self.shape)
        return from_log_tails(*_log_gamma_tails(shape, jnp.log(jnp.asarray(value))))


def log_prob_of_log(shape: Leaf, log_value: Numbers) -> Numbers:
    """Return the log density of log v for v ~ Gamma(shape): shape·log v - v - log Γ(shape)."""
    shape = jnp.asarray(shape)
    return shape * log_value - jnp.exp(log_value) - gammaln(shape)


@jax.custom_jvp
def _log_quantile(shape: Numbers, x: Numbers) -> Numbers:
    shape, x = jnp.broadcast_arrays(shape, x)
    log_cdf, log_survival = log_tails(x)
    lower = x < 0
    wanted = jnp.where(lower, log_cdf, log_survival)

    def step(_: Array, log_value: Numbers) -> Numbers:
        tails = _log_gamma_tails(shape, log_value)
        log_tail = jnp.where(lower, *tails)
        slope = jnp.exp(log_prob_of_log(shape, log_value) - log_tail)
        change = (wanted - log_tail) / jnp.where(lower, slope, -slope)
        return log_value + jnp.clip(change, -_LONGEST_STEP, _LONGEST_STEP)

    return jax.lax.fori_loop(0, _NEWTON_STEPS, step, _start(shape, x, log_cdf))


@_log_quantile.defjvp
def _log_quantile_jvp(
    primals: tuple[Numbers, Numbers], tangents: tuple[Numbers, Numbers]
) -> tuple[Numbers, Numbers]:
    """From φ(x) dx = p(log v) dlog v. The shape is a constant of the prior."""
    shape, x = primals
    log_value = _log_quantile(shape, x)
    log_slope = normal_log_density(x) - log_prob_of_log(shape, log_value)
    return log_value, tangents[1] * jnp.exp(log_slope)


def _start(shape: Numbers, x: Numbers, log_cdf: Numbers) -> Numbers:
    """Wilson and Hilferty's cube, or the power law of small values where that is larger."""
    root = 1 - 1 / (9 * shape) + x / (3 * jnp.sqrt(shape))
    cube = jnp.log(shape) + 3 * jnp.log(jnp.maximum(root, 0.1))
    power_law = (log_cdf + gammaln(shape + 1)) / shape
    return jnp.where(root > 0.1, jnp.maximum(cube, power_law), power_law)


def _log_gamma_tails(shape: Numbers, log_value: Numbers) -> tuple[Numbers, Numbers]:
    """Log F and log (1 - F); the power law F ≈ v^shape/Γ(shape + 1) where F underflows."""
    value = jnp.exp(log_value)
    cdf, survival = gammainc(shape, value), gammaincc(shape, value)
    tiny = jnp.finfo(cdf.dtype).tiny
    power_law = shape * log_value - gammaln(shape + 1)
    log_cdf = jnp.where(cdf > tiny, jnp.log(jnp.maximum(cdf, tiny)), power_law)
    # Far above, (1 - F) ≈ p(v): only the start of a search gets there.
    tail_law = log_prob_of_log(shape, log_value) - log_value
    log_survival = jnp.where(survival > tiny, jnp.log(jnp.maximum(survival, tiny)), tail_law)
    return log_cdf, log_survival
