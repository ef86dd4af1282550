"""Distributions of an observation within one component of a mixture, or in one hidden state.

A family knows its log density, how to draw, and the priors of its parameters. All that a mixture
says of its observations follows from that: log likelihoods, memberships, predictions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float, PyTree

from folt.coordinates import Normal
from folt.models.independent import LOG_TWO_PI, log_sum_components
from folt.models.observations import finite, positive, spread_of
from folt.types import Key

Values = dict[str, Array]
"""Parameters by name; without `weight` all components have the same one."""


class MixtureLikelihood(eqx.Module):
    """What a mixture says of its observations, as functions of its parameters by name."""

    @staticmethod
    @abstractmethod
    def log_densities(values: Values, data: Array) -> Float[Array, "m n"]:
        """Return log p(y_n | k) of every component and observation."""

    @staticmethod
    @abstractmethod
    def draws(key: Key, values: Values, labels: Array) -> Array:
        """Return one observation of the component that each label names."""

    @classmethod
    def component_terms(cls, values: Values, data: ArrayLike) -> Float[Array, "m n"]:
        """Return log w_k + log p(y_n | k) of every component and observation."""
        log_densities = cls.log_densities(values, jnp.asarray(data, float))
        return log_densities + _log_weights(values)[:, None]

    @classmethod
    def pointwise(cls, values: Values, data: ArrayLike) -> Float[Array, " n"]:
        """Return the log likelihood of every observation."""
        return log_sum_components(cls.component_terms(values, data))

    @classmethod
    def density_at(cls, key: Key, values: Values, new: Array, data: PyTree) -> Float[Array, " k"]:
        """Return the predictive density, or probability, of every new observation."""
        del key, data
        return jnp.exp(cls.pointwise(values, new))

    @classmethod
    def predict(cls, key: Key, values: Values, data: ArrayLike) -> Array:
        """Return as many new observations as there are data."""
        key_label, key_own = jax.random.split(key)
        count = jnp.shape(data)[:1]
        labels = jax.random.categorical(key_label, _log_weights(values), shape=count)
        return cls.draws(key_own, values, labels)


def _log_weights(values: Values) -> Float[Array, " m"]:
    if "weight" in values:
        return jnp.log(values["weight"])
    some = next(iter(values.values()))
    return jnp.log(jnp.full_like(some, 1 / some.shape[0]))


class Family(MixtureLikelihood):
    """A distribution of single numbers, its parameters a priori normal or log-normal.

    Attributes:
        kinds: names of the coordinates of a component; `log_sigma` is the logarithm of `sigma`.
        priors: their normal priors.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    priors: tuple[Normal, ...]

    @classmethod
    def names(cls) -> list[str]:
        """Return what the user calls the parameters."""
        return [kind.removeprefix("log_") for kind in cls.kinds]

    def parameters(self, rows: Float[Array, "m size"]) -> tuple[Float[Array, " m"], ...]:
        """Return the parameters of every component, as `kinds` names them."""
        return tuple(prior.from_normal(rows[:, n]) for n, prior in enumerate(self.priors))

    def constrain(self, rows: Float[Array, "m size"]) -> Values:
        """Return the user's parameters of every component."""
        pairs = zip(self.kinds, self.parameters(rows), strict=True)
        values = [jnp.exp(each) if kind.startswith("log_") else each for kind, each in pairs]
        return dict(zip(self.names(), values, strict=True))

    def unconstrain(self, values: Values) -> Float[Array, "m size"]:
        """Return the coordinates of these parameters."""
        pairs = zip(self.priors, self._by_kind(values), strict=True)
        return jnp.stack([prior.to_normal(value) for prior, value in pairs], axis=1)

    @classmethod
    def _by_kind(cls, values: Values) -> tuple[Array, ...]:
        pairs = zip(cls.kinds, cls.names(), strict=True)
        return tuple(
            jnp.log(values[name]) if kind.startswith("log_") else values[name]
            for kind, name in pairs
        )

    @classmethod
    def log_densities(cls, values: Values, data: Array) -> Float[Array, "m n"]:
        """Return log p(y_n | k) of every component and observation."""
        return cls.terms(cls._by_kind(values), data)

    @staticmethod
    @abstractmethod
    def terms(parameters: tuple[Array, ...], data: Array) -> Float[Array, "m n"]:
        """Return log p(y_n | k) at parameters in the order of `kinds`."""

    @classmethod
    def weighted_terms(cls, parameters: tuple[Array, ...], data: Array) -> Float[Array, "m n"]:
        """Return log w_k + log p(y_n | k); the log weights are the first of the parameters."""
        log_weight, *own = parameters
        return cls.terms(tuple(own), data) + log_weight[:, None]


class GaussianFamily(Family):
    """N(μ_k, σ_k²) with normal priors of μ_k and log σ_k."""

    kinds = ("mu", "log_sigma")

    @classmethod
    def for_data(
        cls,
        data: Float[np.ndarray, " n"],
        mu_location: float | None = None,
        mu_scale: float | None = None,
        log_sigma_location: float | None = None,
        log_sigma_scale: float = 1.0,
    ) -> GaussianFamily:
        """Return the family with these priors, or with those that the range of the data gives."""
        middle, width = (float(value) for value in spread_of(data))
        mu_location = middle if mu_location is None else mu_location
        mu_scale = width / 2 if mu_scale is None else mu_scale
        if log_sigma_location is None:
            log_sigma_location = math.log(width / 10)
        positive(mu_scale=mu_scale, log_sigma_scale=log_sigma_scale)
        finite(mu_location=mu_location, log_sigma_location=log_sigma_location)
        return cls((Normal(mu_location, mu_scale), Normal(log_sigma_location, log_sigma_scale)))

    @staticmethod
    def terms(parameters: tuple[Array, ...], data: Array) -> Float[Array, "m n"]:
        """Return log N(y_n; μ_k, σ_k²)."""
        mu, log_sigma = parameters
        residual = (data - mu[:, None]) * jnp.exp(-log_sigma)[:, None]
        return -0.5 * jnp.square(residual) - (log_sigma + 0.5 * LOG_TWO_PI)[:, None]

    @staticmethod
    def draws(key: Key, values: Values, labels: Array) -> Float[Array, " n"]:
        """Return normal variables with the means and deviations of the labels."""
        mu, sigma = values["mu"][labels], values["sigma"][labels]
        return mu + sigma * jax.random.normal(key, labels.shape, mu.dtype)


class PoissonFamily(Family):
    """Poisson(λ_k) with a normal prior of log λ_k."""

    kinds = ("log_rate",)

    @classmethod
    def for_data(
        cls,
        data: Float[np.ndarray, " n"],
        log_rate_location: float | None = None,
        log_rate_scale: float = 1.5,
    ) -> PoissonFamily:
        """Return the family with this prior, or with the one that the mean of the counts gives."""
        if log_rate_location is None:
            spread_of(data)  # refuses constant data
            log_rate_location = math.log(max(float(data.mean()), 0.5))
        finite(log_rate_location=log_rate_location)
        positive(log_rate_scale=log_rate_scale)
        return cls((Normal(log_rate_location, log_rate_scale),))

    @staticmethod
    def terms(parameters: tuple[Array, ...], data: Array) -> Float[Array, "m n"]:
        """Return log Poisson(y_n; λ_k) = y·log λ - λ - log y!."""
        (log_rate,) = parameters
        return data * log_rate[:, None] - jnp.exp(log_rate)[:, None] - gammaln(data + 1)

    @staticmethod
    def draws(key: Key, values: Values, labels: Array) -> Float[Array, " n"]:
        """Return counts with the rates of the labels, as floating numbers like the data."""
        rate = values["rate"][labels]
        return jax.random.poisson(key, rate).astype(rate.dtype)
