"""A model of a probabilistic language as a log density of a point, whatever the language.

A front-end gives its sites and a `Model`, which knows values by name and nothing of coordinates;
density, prior, parameters and log-likelihood terms of the problem follow from these.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.interop.sites import Sites
from folt.types import Distribution, Key, Point, Scalar

Values = dict[str, Array]
"""Arrays by the names of their sites."""


class LogTerms(NamedTuple):
    """The log densities whose sum is the log joint density, each unsummed.

    Attributes:
        priors: of the latent sites.
        observed: of the sites with observations.
        factors: what else was added to the log density; its terms need not be observations.
    """

    priors: Values
    observed: Values
    factors: Values


class Model(Protocol):
    """A model as functions of the values of its latent sites and of the data; a pytree.

    Attributes:
        observed: names of the terms that belong to observations.
    """

    observed: tuple[str, ...]

    def log_terms(self, values: Values, data: PyTree) -> LogTerms:
        """The log density, term by term."""

    def shown(self, values: Values, data: PyTree) -> Values:
        """Latent and deterministic sites, in the order of the model."""

    def completed(self, key: Key, values: Values, data: PyTree) -> Values:
        """All latent sites, those that are not given drawn from their priors."""

    def transformed(self, values: Values, data: PyTree) -> Values:
        """The values, those that keep a transform of the language's own in its coordinates."""


@runtime_checkable
class WithComponents(Protocol):
    """A model one of whose observed sites is a mixture."""

    def component_terms(self, values: Values, data: PyTree) -> Array:
        """Log weight plus log density, (observation, component), up to a constant per row."""


class ModelDensity(eqx.Module):
    """Log joint density of a model plus the log Jacobian of the coordinates."""

    model: Model
    sites: Sites

    def __call__(self, x: Point, data: PyTree = None) -> Scalar:
        """Log density at one point."""
        return _total(self.log_terms(x, data)) + self.sites.log_slope(x)

    def log_terms(self, x: Point, data: PyTree = None) -> LogTerms:
        """The terms of the model at one point."""
        return self.model.log_terms(self.sites.push(x), data)

    def terms(self, x: Point, data: PyTree = None, uneven: bool = False) -> Float[Array, " terms"]:
        """Log density of every latent site in its coordinates, then that of all the rest.

        With `uneven` the terms of an observed site are summed with unequal weights.
        """
        found = self.log_terms(x, data)
        slopes = self.sites.log_slopes(x)
        priors = [jnp.sum(found.priors[name]) + slope for name, slope in slopes.items()]
        weighted = uneven_sum if uneven else jnp.sum
        observed = [weighted(each) for each in found.observed.values()]
        return jnp.stack([*priors, sum(observed, _total(found.factors))])

    def constrain(self, x: Point, data: PyTree = None) -> Values:
        """Latent and deterministic sites at a point."""
        return self.model.shown(self.sites.push(x), data)

    def unconstrain(self, values: Values, data: PyTree = None, key: Key | None = None) -> Point:
        """The point at values of the latent sites; what they leave open is drawn with the key."""
        return self.sites.pull(self.model.transformed(values, data), key)

    def pointwise(self, x: Point, data: PyTree = None) -> Values:
        """Log-likelihood terms of the observations."""
        found = self.log_terms(x, data)
        return {name: {**found.observed, **found.factors}[name] for name in self.model.observed}


class ModelComponents(eqx.Module):
    """The terms of a mixture at a point, (observation, component)."""

    model: WithComponents
    sites: Sites

    def __call__(self, x: Point, data: PyTree = None) -> Array:
        """The terms at one point."""
        return self.model.component_terms(self.sites.push(x), data)


class ModelPrior(Distribution):
    """The prior of the latent sites, in the problem's coordinates."""

    density: ModelDensity
    data: PyTree

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.density.sites.dim

    def log_prob(self, x: Point) -> Scalar:
        """Log densities of the latent sites plus the log Jacobian."""
        found = self.density.log_terms(x, self.data)
        return _total(found.priors) + self.density.sites.log_slope(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Sites with known priors drawn in their coordinates, the others by the model."""
        known_key, model_key, open_key = jax.random.split(key, 3)
        sites = self.density.sites
        known = sites.sample_known(known_key)
        given = {
            each.name: each.push(known[each.name]) for each in sites.maps if each.name in known
        }
        values = self.density.model.completed(model_key, given, self.data)
        x = sites.pull(values, open_key, known)
        return x, self.log_prob(x)


def uneven_sum(terms: Array) -> Scalar:
    """The sum of log-likelihood terms with weights near one, of which no two sums are alike.

    Relabelling leaves every term as it is. Groups whose observations happen to be equal may be
    exchanged as well, but that exchanges terms: an even sum does not see it, this one does.
    """
    weights = np.random.default_rng(0).uniform(0.8, 1.2, terms.size)
    return jnp.sum(weights * jnp.reshape(terms, -1))


def _total(terms: PyTree) -> Scalar:
    return sum((jnp.sum(each) for each in jax.tree.leaves(terms)), jnp.zeros(()))
