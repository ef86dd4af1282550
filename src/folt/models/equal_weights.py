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
from folt.models.families import GaussianFamily, Values
from folt.models.observations import new_values, number_of, series
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Pointwise, Predictive
from folt.proposals import standard_normal
from folt.types import Point, Scalar, in_float64


@jax.custom_jvp
def mixture_log_likelihood(
    mu: Float[Array, " m"], log_sigma: Float[Array, " m"], observations: Float[Array, " n"]
) -> Scalar:
    """Return Σ_n log (1/m) Σ_k N(y_n; μ_k, σ_k²)."""
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

    family: GaussianFamily

    def __call__(self, x: Point, observations: Float[Array | np.ndarray, " n"]) -> Scalar:
        """Return the log density at one point."""
        parameters = self.family.parameters(x.reshape(-1, 2))
        log_likelihood = mixture_log_likelihood(*parameters, jnp.asarray(observations))
        return log_likelihood + jnp.sum(normal_log_density(x))

    def constrain(self, x: Point) -> Values:
        """Return means and standard deviations of the components."""
        return self.family.constrain(x.reshape(-1, 2))

    def unconstrain(self, values: Values) -> Point:
        """Return the point with these means and standard deviations."""
        return self.family.unconstrain(values).reshape(-1)


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
    m = number_of("components", components)
    group = Permutation(m, 2)
    priors = Normal(mu_location, mu_scale), Normal(log_sigma_location, log_sigma_scale)
    posterior = MixturePosterior(GaussianFamily(priors))
    forecast = Forecast("value", new_values, GaussianFamily.density_at)
    return Problem(
        posterior,
        group,
        data=series(bayesian_mixture_data() if data is None else data, m),
        prior=standard_normal(group.dim),
        names=[f"{name}[{k}]" for k in range(m) for name in ("mu", "log_sigma")],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, GaussianFamily.pointwise),
        predictive=Predictive(posterior.constrain, GaussianFamily.predict, forecast),
        log_terms=LogTerms(posterior.constrain, GaussianFamily.component_terms),
        dims={"mu": ("component",), "sigma": ("component",)},
        independent_rows=True,
    )


def bayesian_mixture_data() -> Float[np.ndarray, 500]:
    """Return 500 observations of three overlapping components, the same on every machine.

    Means 0, 3, 6, standard deviations 0.8, 1, 0.7, labels first and then one normal draw per
    observation. NumPy keeps this legacy generator's stream fixed for good.
    """
    generator = np.random.RandomState(42)
    labels = generator.choice(3, 500, p=[1 / 3] * 3)
    return generator.normal(np.array([0.0, 3.0, 6.0])[labels], np.array([0.8, 1.0, 0.7])[labels])
