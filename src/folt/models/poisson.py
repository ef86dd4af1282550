"""The Poisson mixture with unknown weights and rates.

y_n ~ Σ_k w_k Poisson(λ_k) with log λ_k ~ N(log_rate_location, log_rate_scale²) and
w ~ Dirichlet(concentration), all components alike. A point holds the log rates in the coordinates
in which their prior is N(0, 1), then the centred scores of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float, PyTree

from folt.coordinates import CentredScores, Normal
from folt.groups import Blocks, Joint, ZeroSum
from folt.models.independent import (
    Independent,
    StandardNormal,
    log_sum_components,
    total_log_likelihood,
)
from folt.models.observations import (
    counts,
    finite,
    named_variables,
    new_counts,
    number_of,
    positive,
)
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Pointwise, Predictive
from folt.types import Key, Point, Scalar, host_generator, in_float64


class PoissonMixturePosterior(eqx.Module):
    """Likelihood times prior, all constants included: its integral is the evidence."""

    log_rate: Normal
    weight: CentredScores
    prior: Independent

    def components(self, x: Point) -> tuple[Array, Array]:
        """Return the log weight and log rate of every component."""
        rates, ratios = self.prior.pieces(x)
        return self.weight.push_log(ratios), self.log_rate.from_normal(rates)

    def __call__(self, x: Point, observed: Float[Array | np.ndarray, " n"]) -> Scalar:
        """Return the log density at one point."""
        parameters, data = self.components(x), jnp.asarray(observed)
        return total_log_likelihood(_terms, parameters, data) + self.prior.log_prob(x)

    def constrain(self, x: Point) -> dict[str, Array]:
        """The weights and rates at a point."""
        log_weight, log_rate = self.components(x)
        return {"weight": jnp.exp(log_weight), "rate": jnp.exp(log_rate)}

    def unconstrain(self, values: dict[str, Array]) -> Point:
        """The point with these weights and rates."""
        rates = self.log_rate.to_normal(jnp.log(values["rate"]))
        return jnp.concatenate([rates, self.weight.pull(values["weight"])])


def _terms(parameters: tuple[Array, ...], observed: Float[Array, " n"]) -> Array:
    """Return log w_k + log Poisson(y_n; λ_k) of every component and count."""
    log_weight, log_rate = parameters
    return poisson_terms(log_rate, observed) + log_weight[:, None]


def poisson_terms(log_rate: Float[Array, " m"], observed: Float[Array, " n"]) -> Array:
    """Return log Poisson(y_n; λ_k) = y·log λ - λ - log y! of every component and observation."""
    return observed * log_rate[:, None] - jnp.exp(log_rate)[:, None] - gammaln(observed + 1)


@in_float64
def poisson_mixture(
    data: ArrayLike | Sequence[int],
    components: int,
    *,
    log_rate_location: float | None = None,
    log_rate_scale: float = 1.5,
    concentration: float = 1.0,
    variables: Sequence[str] | None = None,
) -> Problem:
    """Return the posterior of a Poisson mixture with unknown weights.

    The default looks at the data only through their mean: rates within a factor of 19 of it
    (95 %), the same for every component. Unlike a Gaussian mixture this likelihood is bounded.

    Args:
        data: the counts.
        components: number of components, m.
        log_rate_location: prior mean of every log λ_k; the log of the mean count if None, at
            least log ½.
        log_rate_scale: prior standard deviation of every log λ_k.
        concentration: of the Dirichlet prior of the weights; 1 is flat.
        variables: the name of what is observed, as a list of one; that of a pandas series if None.
    """
    m = number_of("components", components)
    observed = counts(data, m)
    location = rate_location(observed) if log_rate_location is None else log_rate_location
    finite(log_rate_location=location)
    positive(log_rate_scale=log_rate_scale, concentration=concentration)
    weight = CentredScores.symmetric(m, concentration)
    prior = Independent((StandardNormal(m), weight))
    posterior = PoissonMixturePosterior(Normal(location, log_rate_scale), weight, prior)
    return Problem(
        posterior,
        Joint(m, (Blocks(1), ZeroSum())),
        data=observed,
        prior=prior,
        names=[
            *(f"log_rate[{k}]" for k in range(m)),
            *(f"log_ratio[{k}]" for k in range(m - 1)),
        ],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, _pointwise),
        predictive=Predictive(posterior.constrain, _predict, _FORECAST),
        log_terms=LogTerms(posterior.constrain, _component_terms),
        dims={"weight": ("component",), "rate": ("component",)},
        coords=named_variables(data, variables, 1),
        independent_rows=True,
    )


def rate_location(observed: Float[np.ndarray, " n"]) -> float:
    """Return the log of the mean count, at least log ½.

    Raises:
        ValueError: all counts are equal.
    """
    if np.all(observed == observed[0]):
        raise ValueError(
            f"all observations are equal to {observed[0]:g}: no spread can be "
            "estimated from constant data"
        )
    return math.log(max(float(observed.mean()), 0.5))


def _pointwise(parameters: dict[str, Array], data: Float[ArrayLike, " n"]) -> Float[Array, " n"]:
    """Return the log likelihood of every count."""
    return log_sum_components(_component_terms(parameters, data))


def _component_terms(
    parameters: dict[str, Array], data: Float[ArrayLike, " n"]
) -> Float[Array, "m n"]:
    """Return log w_k + log Poisson(y_n; λ_k) of every component and count."""
    logs = jnp.log(parameters["weight"]), jnp.log(parameters["rate"])
    return _terms(logs, jnp.asarray(data, float))


def _density_at(
    key: Key, parameters: dict[str, Array], new: Float[Array, " k"], data: PyTree
) -> Float[Array, " k"]:
    """Return the probability of every new count given the parameters."""
    del key, data
    return jnp.exp(_pointwise(parameters, new))


_FORECAST = Forecast("count", new_counts, _density_at)
"""The predictive probabilities of counts."""


def _predict(
    key: Key, parameters: dict[str, Array], data: Float[ArrayLike, " n"]
) -> Float[Array, " n"]:
    """As many new counts as there are data."""
    key_label, key_count = jax.random.split(key)
    shape = jnp.shape(data)
    label = jax.random.categorical(key_label, jnp.log(parameters["weight"]), shape=shape)
    return poisson_draws(key_count, parameters["rate"][label])


def poisson_draws(key: Key, rate: Float[Array, " n"]) -> Float[Array, " n"]:
    """One Poisson draw per rate, as floating numbers like the data."""
    return jax.random.poisson(key, rate).astype(rate.dtype)


def simulate_poisson_mixture(
    key: Key,
    count: int = 300,
    *,
    weight: Sequence[float] = (0.5, 0.3, 0.2),
    rate: Sequence[float] = (1.0, 6.0, 15.0),
) -> Float[np.ndarray, " count"]:
    """Counts of a mixture with these parameters."""
    generator = host_generator(key)
    label = generator.choice(len(weight), count, p=np.asarray(weight, float))
    return generator.poisson(np.asarray(rate, float)[label]).astype(float)
