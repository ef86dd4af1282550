"""The grammar of a prior, and what all location-scale families share."""

import functools
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from folt.coordinates.leaves import Leaf, Values, as_leaf, parameter, require_positive
from folt.coordinates.tails import normal_log_density


class Prior(eqx.Module):
    """A continuous distribution on the line with its exact map to the standard normal."""

    @abstractmethod
    def log_prob(self, value: Values) -> Values:
        """Log density, -inf outside the support."""

    @abstractmethod
    def from_normal(self, x: Values) -> Values:
        """The value F⁻¹(Φ(x)) of the standard normal coordinate x."""

    @abstractmethod
    def to_normal(self, value: Values) -> Values:
        """The standard normal coordinate Φ⁻¹(F(value))."""


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
    def standard_log_density(z: Values) -> Values:
        """Log p(z) of the standard shape."""

    @staticmethod
    @abstractmethod
    def standard_quantile(x: Values) -> Values:
        """The z with as much probability below it as a standard normal has below x."""

    @staticmethod
    @abstractmethod
    def standard_score(z: Values) -> Values:
        """The inverse of `standard_quantile`."""

    def __check_init__(self) -> None:
        require_positive(self, "scale", self.scale)

    def log_prob(self, value: Values) -> Values:
        """Log p((value - loc)/scale) - log scale."""
        return self.standard_log_density((value - self.loc) / self.scale) - jnp.log(self.scale)

    def from_normal(self, x: Values) -> Values:
        """Loc + scale·F⁻¹(Φ(x)) of the standard shape."""
        return jnp.asarray(self.loc + self.scale * _quantile(type(self), jnp.asarray(x)))

    def to_normal(self, value: Values) -> Values:
        """Φ⁻¹(F((value - loc)/scale)) of the standard shape."""
        return _score(type(self), jnp.asarray((value - self.loc) / self.scale))


class HalfLine(LocationScale):
    """A location-scale prior on the values above `loc`, which is zero unless told otherwise."""

    def __init__(self, scale: ArrayLike, loc: ArrayLike = 0.0):
        self.loc, self.scale = as_leaf(loc), as_leaf(scale)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _quantile(shape: type[LocationScale], x: Values) -> Values:
    return shape.standard_quantile(x)


@_quantile.defjvp
def _quantile_jvp(
    shape: type[LocationScale], primals: tuple[Values], tangents: tuple[Values]
) -> tuple[Values, Values]:
    z = _quantile(shape, primals[0])
    log_slope = normal_log_density(primals[0]) - shape.standard_log_density(z)
    return z, tangents[0] * jnp.exp(log_slope)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _score(shape: type[LocationScale], z: Values) -> Values:
    return shape.standard_score(z)


@_score.defjvp
def _score_jvp(
    shape: type[LocationScale], primals: tuple[Values], tangents: tuple[Values]
) -> tuple[Values, Values]:
    x = _score(shape, primals[0])
    log_slope = shape.standard_log_density(primals[0]) - normal_log_density(x)
    return x, tangents[0] * jnp.exp(log_slope)
