"""Mixtures of normal or Poisson distributions with unknown weights.

y_n ~ Σ_k w_k p(y_n | k) with independent priors on the parameters of every component and
w ~ Dirichlet(concentration), all components alike. A point holds the parameters of every component
in the coordinates in which their prior is N(0, 1), then the centred scores of the weights.

The likelihood of a Gaussian mixture alone is unbounded: a component that sits on one observation
gains a factor 1/σ as σ → 0. The log-normal prior of σ falls faster than any power of σ, so the
posterior is bounded. The likelihood of a Poisson mixture is bounded by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates import AugmentedShares, CentredScores, SimplexCoordinate
from folt.groups import Blocks, Joint, ZeroSum
from folt.models.families import Family, GaussianFamily, PoissonFamily, Values
from folt.models.independent import Independent, StandardNormal, total_log_likelihood
from folt.models.observations import (
    counts,
    named_variables,
    new_counts,
    new_values,
    number_of,
    positive,
    series,
)
from folt.problem import Problem
from folt.problem.observed import Forecast, LogTerms, Pointwise, Predictive
from folt.types import Key, Point, Scalar, host_generator, in_float64

AUGMENTED_FROM = 4
"""Components from which on the labellings are summed over by sets of whole blocks."""


class WeightedMixturePosterior(eqx.Module):
    """Likelihood times prior, all constants included: its integral is the evidence."""

    family: Family
    weight: SimplexCoordinate
    prior: Independent

    def _pieces(self, x: Point) -> tuple[Float[Array, "m size"], Array]:
        rows, weight = self.prior.pieces(x)
        return rows.reshape(-1, len(self.family.kinds)), weight

    def __call__(self, x: Point, observations: Float[Array | np.ndarray, " n"]) -> Scalar:
        """Return the log density at one point."""
        rows, weight = self._pieces(x)
        parameters = (self.weight.push_log(weight), *self.family.parameters(rows))
        terms, data = type(self.family).weighted_terms, jnp.asarray(observations)
        return total_log_likelihood(terms, parameters, data) + self.prior.log_prob(x)

    def constrain(self, x: Point) -> Values:
        """Return the weights and the parameters of the components."""
        rows, weight = self._pieces(x)
        return {"weight": jnp.exp(self.weight.push_log(weight)), **self.family.constrain(rows)}

    def unconstrain(self, values: Values, key: Key | None = None) -> Point:
        """Return the point with these parameters; a free total of the weights is drawn."""
        drawn = (key,) if isinstance(self.weight, AugmentedShares) else ()
        weight = self.weight.pull(values["weight"], *drawn)
        return jnp.concatenate([self.family.unconstrain(values).reshape(-1), weight])


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
    family = GaussianFamily.for_data(
        observations, mu_location, mu_scale, log_sigma_location, log_sigma_scale
    )
    positive(concentration=concentration)
    if augmented is None:
        augmented = m >= AUGMENTED_FROM and concentration == 1
    weight: SimplexCoordinate = CentredScores.symmetric(m, concentration)
    if augmented:
        weight = AugmentedShares(m, observations.size, concentration)
    names = named_variables(data, variables, 1)
    forecast = Forecast("value", new_values, GaussianFamily.density_at)
    return _problem(family, weight, m, observations, forecast, names)


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
    (95 %), the same for every component.

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
    family = PoissonFamily.for_data(observed, log_rate_location, log_rate_scale)
    positive(concentration=concentration)
    weight = CentredScores.symmetric(m, concentration)
    names = named_variables(data, variables, 1)
    forecast = Forecast("count", new_counts, PoissonFamily.density_at)
    return _problem(family, weight, m, observed, forecast, names)


def _problem(
    family: Family,
    weight: SimplexCoordinate,
    m: int,
    observations: Float[np.ndarray, " n"],
    forecast: Forecast,
    coords: dict[str, list[str]],
) -> Problem:
    """Return the posterior of a mixture of m components."""
    kinds, made = family.kinds, type(family)
    augmented = isinstance(weight, AugmentedShares)
    prior = Independent((StandardNormal(len(kinds) * m), weight))
    posterior = WeightedMixturePosterior(family, weight, prior)
    return Problem(
        posterior,
        Joint(m, (Blocks(len(kinds)), Blocks(1) if augmented else ZeroSum())),
        data=observations,
        prior=prior,
        names=[
            *(f"{kind}[{k}]" for k in range(m) for kind in kinds),
            *(f"{'share' if augmented else 'log_ratio'}[{k}]" for k in range(weight.length)),
        ],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, made.pointwise),
        predictive=Predictive(posterior.constrain, made.predict, forecast),
        log_terms=LogTerms(posterior.constrain, made.component_terms),
        dims=dict.fromkeys(("weight", *family.names()), ("component",)),
        coords=coords,
        independent_rows=True,
    )


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


def simulate_poisson_mixture(
    key: Key,
    count: int = 300,
    *,
    weight: Sequence[float] = (0.5, 0.3, 0.2),
    rate: Sequence[float] = (1.0, 6.0, 15.0),
) -> Float[np.ndarray, " count"]:
    """Return counts of a mixture with these parameters."""
    generator = host_generator(key)
    label = generator.choice(len(weight), count, p=np.asarray(weight, float))
    return generator.poisson(np.asarray(rate, float)[label]).astype(float)
