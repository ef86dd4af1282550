"""The Bayesian Gaussian mixture with equal known weights: m! identical modes.

y_n ~ (1/m) Σ_k N(μ_k, σ_k²) with independent priors on μ_k and log σ_k, in the coordinates in
which those priors are N(0, 1). A point reshapes to (components, 2), one row (μ, log σ) each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, ArrayLike, Float, PyTree

from folt.coordinates import Normal
from folt.coordinates.tails import LOG_ROOT_TWO_PI, normal_log_density
from folt.groups import Permutation
from folt.models import gaussian
from folt.models.observations import new_values
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Pointwise, Predictive
from folt.proposals import standard_normal
from folt.types import Key, Point, Scalar, in_float64


@jax.custom_jvp
def mixture_log_likelihood(
    mu: Float[Array, " m"], log_sigma: Float[Array, " m"], observations: Float[Array, " n"]
) -> Scalar:
    """Σ_n log (1/m) Σ_k N(y_n; μ_k, σ_k²)."""
    return _terms(mu, log_sigma, observations)[0]


def _terms(
    mu: Float[Array, " m"], log_sigma: Float[Array, " m"], observations: Float[Array, " n"]
) -> tuple[Scalar, Float[Array, "m n"], Float[Array, "m n"], Float[Array, "m 1"]]:
    """Return the log likelihood, (y_n - μ_k)/σ_k, responsibilities and 1/σ_k.

    Observations run along the last axis, where memory is contiguous.
    """
    inverse_sigma = jnp.exp(-log_sigma)[:, None]
    residual = (observations - mu[:, None]) * inverse_sigma
    exponent = -0.5 * jnp.square(residual) - log_sigma[:, None]
    largest = jnp.max(exponent, axis=0)
    terms = jnp.exp(exponent - largest)
    total = jnp.sum(terms, axis=0)
    constant = observations.shape[0] * (LOG_ROOT_TWO_PI + math.log(mu.shape[0]))
    value = jnp.sum(jnp.log(total) + largest) - constant
    return value, residual, terms / total, inverse_sigma


@functools.partial(mixture_log_likelihood.defjvp, symbolic_zeros=True)
def _score(primals: tuple[Array, ...], tangents: tuple[PyTree, ...]) -> tuple[Scalar, Scalar]:
    """Return the score in responsibilities r: Σ_n r·z/σ for μ and Σ_n r·(z² - 1) for log σ.

    Differentiating the formula gives the same numbers, slower: its passes over the (component,
    observation) table do not fuse.
    """
    value, residual, responsibility, inverse_sigma = _terms(*primals)
    weighted = responsibility * residual
    mu_score = jnp.sum(weighted, axis=1) * inverse_sigma[:, 0]
    log_sigma_score = jnp.sum(weighted * residual - responsibility, axis=1)
    tangent = _directional(mu_score, tangents[0]) + _directional(log_sigma_score, tangents[1])
    if not isinstance(tangents[2], SymbolicZero):
        tangent = tangent - _directional(jnp.sum(weighted * inverse_sigma, axis=0), tangents[2])
    return value, tangent


def _directional(gradient: Float[Array, " k"], tangent: PyTree) -> Scalar:
    """Return the derivative along a tangent; one that is known to vanish costs nothing."""
    if isinstance(tangent, SymbolicZero):
        return jnp.zeros((), gradient.dtype)
    return jnp.dot(gradient, tangent)


class MixturePosterior(eqx.Module):
    """Likelihood times prior of the mixture, all constants included.

    log π(x) = Σ_n log (1/m) Σ_k N(y_n; μ_k, σ_k²) + log N(x; 0, I), whose integral is the
    evidence under normalised priors.
    """

    mu: Normal
    log_sigma: Normal

    def components(self, x: Point) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """μ and log σ of every component."""
        rows = x.reshape(-1, 2)
        return self.mu.from_normal(rows[:, 0]), self.log_sigma.from_normal(rows[:, 1])

    def __call__(self, x: Point, observations: Float[Array | np.ndarray, " n"]) -> Scalar:
        """Return the log density at one point."""
        log_likelihood = mixture_log_likelihood(*self.components(x), jnp.asarray(observations))
        return log_likelihood + jnp.sum(normal_log_density(x))

    def constrain(self, x: Point) -> dict[str, Array]:
        """Return means and standard deviations of the components."""
        mu, log_sigma = self.components(x)
        return {"mu": mu, "sigma": jnp.exp(log_sigma)}

    def unconstrain(self, values: dict[str, Array]) -> Point:
        """Return the point with these means and standard deviations."""
        mu, log_sigma = values["mu"], jnp.log(values["sigma"])
        rows = [self.mu.to_normal(mu), self.log_sigma.to_normal(log_sigma)]
        return jnp.stack(rows, axis=1).reshape(-1)


@in_float64
def bayesian_mixture(
    data: ArrayLike | Sequence[float] | None = None,
    components: int = 3,
    *,
    mu_location: float = 3.0,
    mu_scale: float = 5.0,
    log_sigma_location: float = 0.0,
    log_sigma_scale: float = 0.5,
) -> Problem:
    """Return the posterior of a Gaussian mixture with equal known weights.

    Args:
        data: the observations; `bayesian_mixture_data()` if not given.
        components: number of components, m.
        mu_location: prior mean of every μ_k.
        mu_scale: prior standard deviation of every μ_k.
        log_sigma_location: prior mean of every log σ_k.
        log_sigma_scale: prior standard deviation of every log σ_k.
    """
    group = Permutation(components, 2)
    posterior = MixturePosterior(
        Normal(mu_location, mu_scale), Normal(log_sigma_location, log_sigma_scale)
    )
    return Problem(
        posterior,
        group,
        data=_observations(bayesian_mixture_data() if data is None else data, components),
        prior=standard_normal(group.dim),
        names=[f"{name}[{k}]" for k in range(components) for name in ("mu", "log_sigma")],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, _pointwise),
        predictive=Predictive(posterior.constrain, _predict, _FORECAST),
        log_terms=LogTerms(posterior.constrain, _component_terms),
        dims={"mu": ("component",), "sigma": ("component",)},
        independent_rows=True,
    )


def _pointwise(parameters: dict[str, Array], data: Float[ArrayLike, " n"]) -> Float[Array, " n"]:
    """Return the log likelihood of every observation."""
    return gaussian.pointwise(_with_equal_weights(parameters), data)


def _component_terms(
    parameters: dict[str, Array], data: Float[ArrayLike, " n"]
) -> Float[Array, "m n"]:
    """Return log w_k + log N(y_n; μ_k, σ_k²) of every component and observation, equal weights."""
    return gaussian.component_terms(_with_equal_weights(parameters), data)


def _density_at(
    key: Key, parameters: dict[str, Array], new: Float[Array, " k"], data: PyTree
) -> Float[Array, " k"]:
    """Return the density at every new observation given the parameters."""
    del key, data
    return jnp.exp(_pointwise(parameters, new))


_FORECAST = Forecast("value", new_values, _density_at)
"""The predictive density at new observations."""


def _predict(
    key: Key, parameters: dict[str, Array], data: Float[ArrayLike, " n"]
) -> Float[Array, " n"]:
    """As many new observations as there are data."""
    return gaussian.predict(key, _with_equal_weights(parameters), data)


def _with_equal_weights(parameters: dict[str, Array]) -> dict[str, Array]:
    mu = parameters["mu"]
    return {"weight": jnp.full_like(mu, 1 / mu.shape[0]), **parameters}


def bayesian_mixture_data() -> Float[np.ndarray, 500]:
    """500 observations of three overlapping components, the same on every machine.

    Means 0, 3, 6, standard deviations 0.8, 1, 0.7, labels first and then one normal draw per
    observation. NumPy keeps this legacy generator's stream fixed for good.
    """
    generator = np.random.RandomState(42)
    labels = generator.choice(3, 500, p=[1 / 3] * 3)
    return generator.normal(np.array([0.0, 3.0, 6.0])[labels], np.array([0.8, 1.0, 0.7])[labels])


def _observations(data: ArrayLike | Sequence[float], components: int) -> Float[np.ndarray, " n"]:
    observations = np.asarray(data, float)
    if observations.ndim != 1:
        raise ValueError(
            f"expected one-dimensional observations, got an array of shape {observations.shape}"
        )
    if not np.all(np.isfinite(observations)):
        bad = int(np.flatnonzero(~np.isfinite(observations))[0])
        raise ValueError(f"observations must be finite, got {observations[bad]} at index {bad}")
    if observations.size < components:
        raise ValueError(
            f"expected at least as many observations as components, "
            f"got {observations.size} observations for {components} components"
        )
    return observations
