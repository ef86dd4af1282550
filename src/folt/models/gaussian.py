"""The Gaussian mixture with unknown weights, means and standard deviations.

y_n ~ Σ_k w_k N(μ_k, σ_k²) with independent normal priors on μ_k and log σ_k and
w ~ Dirichlet(concentration), all components alike. A point holds (μ, log σ) of every component in
the coordinates in which their prior is N(0, 1), then the centred scores of the weights.

The likelihood alone is unbounded: a component that sits on one observation gains a factor 1/σ as
σ → 0. The log-normal prior of σ falls faster than any power of σ, so the posterior is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree

from folt.coordinates import AugmentedShares, CentredScores, Normal, SimplexCoordinate
from folt.groups import Blocks, Joint, Part, ZeroSum
from folt.models.independent import (
    LOG_TWO_PI,
    Independent,
    StandardNormal,
    log_sum_components,
    total_log_likelihood,
)
from folt.models.observations import (
    finite,
    named_variables,
    new_values,
    number_of,
    positive,
    series,
    spread_of,
)
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Pointwise, Predictive
from folt.types import Key, Point, Scalar, host_generator, in_float64

AUGMENTED_FROM = 4
"""Components from which on the labellings are summed over by sets of whole blocks."""


class GaussianMixturePosterior(eqx.Module):
    """Likelihood times prior, all constants included: its integral is the evidence."""

    mu: Normal
    log_sigma: Normal
    weight: SimplexCoordinate
    prior: Independent

    def components(self, x: Point) -> tuple[Array, Array, Array]:
        """Return the log weight, mean and log standard deviation of every component."""
        blocks, ratios = self.prior.pieces(x)
        rows = blocks.reshape(-1, 2)
        mu, log_sigma = self.mu.from_normal(rows[:, 0]), self.log_sigma.from_normal(rows[:, 1])
        return self.weight.push_log(ratios), mu, log_sigma

    def __call__(self, x: Point, observations: Float[Array | np.ndarray, " n"]) -> Scalar:
        """Return the log density at one point."""
        parameters, data = self.components(x), jnp.asarray(observations)
        return total_log_likelihood(_terms, parameters, data) + self.prior.log_prob(x)

    def constrain(self, x: Point) -> dict[str, Array]:
        """Return weights, means and standard deviations."""
        log_weight, mu, log_sigma = self.components(x)
        return {"weight": jnp.exp(log_weight), "mu": mu, "sigma": jnp.exp(log_sigma)}

    def unconstrain(self, values: dict[str, Array], key: Key | None = None) -> Point:
        """The point with these weights, means and standard deviations; a free total is drawn."""
        mu, log_sigma = values["mu"], jnp.log(values["sigma"])
        rows = jnp.stack([self.mu.to_normal(mu), self.log_sigma.to_normal(log_sigma)], axis=1)
        drawn = (key,) if isinstance(self.weight, AugmentedShares) else ()
        weight = self.weight.pull(values["weight"], *drawn)
        return jnp.concatenate([rows.reshape(-1), weight])


def _terms(parameters: tuple[Array, ...], observations: Float[Array, " n"]) -> Array:
    """Return log w_k + log N(y_n; μ_k, σ_k²) of every component and observation."""
    log_weight, mu, log_sigma = parameters
    return gaussian_terms(mu, log_sigma, observations) + log_weight[:, None]


def gaussian_terms(
    mu: Float[Array, " m"], log_sigma: Float[Array, " m"], observations: Float[Array, " n"]
) -> Float[Array, "m n"]:
    """Return log N(y_n; μ_k, σ_k²) of every component and observation."""
    residual = (observations - mu[:, None]) * jnp.exp(-log_sigma)[:, None]
    return -0.5 * jnp.square(residual) - (log_sigma + 0.5 * LOG_TWO_PI)[:, None]


@in_float64
def gaussian_mixture(
    data: ArrayLike | Sequence[float],
    components: int,
    *,
    mu_location: float | None = None,
    mu_scale: float | None = None,
    log_sigma_location: float | None = None,
    log_sigma_scale: float = 1.0,
    concentration: float = 1.0,
    augmented: bool | None = None,
    variables: Sequence[str] | None = None,
) -> Problem:
    """Return the posterior of a Gaussian mixture with unknown weights.

    The defaults look at the data only through their range R and its middle, the same for every
    component: means anywhere up to half a range beyond the data (two prior standard deviations),
    standard deviations from R/70 to 1.4·R (95 %).

    Args:
        data: the observations.
        components: number of components, m.
        mu_location: prior mean of every μ_k; the midrange if None.
        mu_scale: prior standard deviation of every μ_k; R/2 if None.
        log_sigma_location: prior mean of every log σ_k; log(R/10) if None.
        log_sigma_scale: prior standard deviation of every log σ_k.
        concentration: of the Dirichlet prior of the weights; 1 is flat.
        augmented: give the weights a free total (`folt.coordinates.AugmentedShares`), so that
            relabelling permutes whole blocks, in the place of their scores. The evidence is
            the same. If None, from `AUGMENTED_FROM` components on under a flat prior.
        variables: the name of what is observed, as a list of one; that of a pandas series if None.
    """
    m = number_of("components", components)
    observations = series(data, m)
    options = scale_options(observations, mu_location, mu_scale, log_sigma_location)
    mu_location, mu_scale, log_sigma_location = options
    positive(mu_scale=mu_scale, log_sigma_scale=log_sigma_scale, concentration=concentration)
    finite(mu_location=mu_location, log_sigma_location=log_sigma_location)
    if augmented is None:
        augmented = m >= AUGMENTED_FROM and concentration == 1
    weight, part = weight_coordinates(m, observations.size, concentration, augmented)
    prior = Independent((StandardNormal(2 * m), weight))
    posterior = GaussianMixturePosterior(
        Normal(mu_location, mu_scale), Normal(log_sigma_location, log_sigma_scale), weight, prior
    )
    return Problem(
        posterior,
        Joint(m, (Blocks(2), part)),
        data=observations,
        prior=prior,
        names=[
            *(f"{name}[{k}]" for k in range(m) for name in ("mu", "log_sigma")),
            *(f"{'share' if augmented else 'log_ratio'}[{k}]" for k in range(weight.length)),
        ],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, pointwise),
        predictive=Predictive(posterior.constrain, predict, _FORECAST),
        log_terms=LogTerms(posterior.constrain, component_terms),
        dims={"weight": ("component",), "mu": ("component",), "sigma": ("component",)},
        coords=named_variables(data, variables, 1),
        independent_rows=True,
    )


def weight_coordinates(
    m: int, count: int, concentration: float, augmented: bool
) -> tuple[SimplexCoordinate, Part]:
    """Return coordinates of the weights of m components, and how relabelling moves them."""
    if augmented:
        return AugmentedShares(m, count, concentration), Blocks(1)
    return CentredScores.symmetric(m, concentration), ZeroSum()


def scale_options(
    observations: Float[np.ndarray, " n"],
    mu_location: float | None,
    mu_scale: float | None,
    log_sigma_location: float | None,
) -> tuple[float, float, float]:
    """The given prior options, with those from the range of the data where none was given."""
    middle, width = (float(value) for value in spread_of(observations))
    return (
        middle if mu_location is None else mu_location,
        width / 2 if mu_scale is None else mu_scale,
        math.log(width / 10) if log_sigma_location is None else log_sigma_location,
    )


def pointwise(parameters: dict[str, Array], data: Float[ArrayLike, " n"]) -> Float[Array, " n"]:
    """Return the log likelihood of every observation."""
    return log_sum_components(component_terms(parameters, data))


def component_terms(
    parameters: dict[str, Array], data: Float[ArrayLike, " n"]
) -> Float[Array, "m n"]:
    """Return log w_k + log N(y_n; μ_k, σ_k²) of every component and observation."""
    logs = jnp.log(parameters["weight"]), parameters["mu"], jnp.log(parameters["sigma"])
    return _terms(logs, jnp.asarray(data))


def _density_at(
    key: Key, parameters: dict[str, Array], new: Float[Array, " k"], data: PyTree
) -> Float[Array, " k"]:
    """Return the density at every new observation given the parameters."""
    del key, data
    return jnp.exp(pointwise(parameters, new))


_FORECAST = Forecast("value", new_values, _density_at)
"""The predictive density at new observations."""


def predict(
    key: Key, parameters: dict[str, Array], data: Float[ArrayLike, " n"]
) -> Float[Array, " n"]:
    """As many new observations as there are data."""
    key_label, key_noise = jax.random.split(key)
    shape = jnp.shape(data)
    label = jax.random.categorical(key_label, jnp.log(parameters["weight"]), shape=shape)
    mu, sigma = parameters["mu"], parameters["sigma"]
    return mu[label] + sigma[label] * jax.random.normal(key_noise, shape, mu.dtype)


def simulate_gaussian_mixture(
    key: Key,
    count: int = 300,
    *,
    weight: Sequence[float] = (0.5, 0.3, 0.2),
    mu: Sequence[float] = (0.0, 4.0, 8.0),
    sigma: Sequence[float] = (1.0, 0.8, 1.2),
) -> Float[np.ndarray, " count"]:
    """Return observations of a mixture with these parameters."""
    generator = host_generator(key)
    label = generator.choice(len(weight), count, p=np.asarray(weight, float))
    return generator.normal(np.asarray(mu, float)[label], np.asarray(sigma, float)[label])
