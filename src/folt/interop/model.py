"""A model of a probabilistic language as a log density of a point, whatever the language.

A front-end gives its sites and a `Model`, which knows values by name and nothing of coordinates;
density, prior, parameters and log-likelihood terms of the problem follow from these.

Where relabelling would rotate the weights of a mixture: a free total makes it permute blocks.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.groups import Group
from folt.interop.coordinates import FreeTotal, SimplexRows
from folt.interop.sites import Site, Sites, laid_out
from folt.models.mixtures import AUGMENTED_FROM
from folt.symmetry.assembly import Order, assembled
from folt.symmetry.findings import Factor
from folt.symmetry.moves import AlongAxis, Entries, LabelledCoordinates, Move
from folt.types import Distribution, Key, Point, Scalar

SiteValues = dict[str, Array]
"""Arrays by the names of their sites."""


class UnsummedTerms(NamedTuple):
    """The log densities whose sum is the log joint density, each unsummed.

    Attributes:
        priors: of the latent sites.
        observed: of the sites with observations.
        factors: what else was added to the log density; its terms need not be observations.
    """

    priors: SiteValues
    observed: SiteValues
    factors: SiteValues


class Model(Protocol):
    """A model as functions of the values of its latent sites and of the data; a pytree.

    Attributes:
        observed: names of the terms that belong to observations.
    """

    observed: tuple[str, ...]

    def log_terms(self, values: SiteValues, data: PyTree) -> UnsummedTerms:
        """Return the log density, term by term."""

    def shown(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return latent and deterministic sites, in the order of the model."""

    def completed(self, key: Key, values: SiteValues, data: PyTree) -> SiteValues:
        """Return all latent sites, those that are not given drawn from their priors."""

    def observations(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return the values of the observed sites."""

    def transformed(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return the values, those that keep a transform of the language in its coordinates."""


@runtime_checkable
class WithComponents(Protocol):
    """A model one of whose observed sites is a mixture."""

    def component_terms(self, values: SiteValues, data: PyTree) -> Array:
        """Return log w + log p, (observation, component), up to a constant per row."""


class ModelDensity(eqx.Module):
    """Log joint density of a model plus the log Jacobian of the coordinates."""

    model: Model
    sites: Sites

    def __call__(self, x: Point, data: PyTree = None) -> Scalar:
        """Return the log density at one point."""
        return _total(self.log_terms(x, data)) + self.sites.log_slope(x)

    def log_terms(self, x: Point, data: PyTree = None) -> UnsummedTerms:
        """Return the terms of the model at one point."""
        return self.model.log_terms(self.sites.push(x), data)

    def terms(self, x: Point, data: PyTree = None, uneven: bool = False) -> Float[Array, " terms"]:
        """Return the log density of every latent site in its coordinates, then all the rest.

        With `uneven` the terms of an observed site are summed with unequal weights.
        """
        found = self.log_terms(x, data)
        slopes = self.sites.log_slopes(x)
        priors = [jnp.sum(found.priors[name]) + slope for name, slope in slopes.items()]
        weighted = uneven_sum if uneven else jnp.sum
        observed = [weighted(each) for each in found.observed.values()]
        return jnp.stack([*priors, sum(observed, _total(found.factors))])

    def constrain(self, x: Point, data: PyTree = None) -> SiteValues:
        """Return latent and deterministic sites at a point."""
        return self.model.shown(self.sites.push(x), data)

    def unconstrain(self, values: SiteValues, data: PyTree = None, key: Key | None = None) -> Point:
        """Return the point at these values; what they leave open is drawn with the key."""
        return self.sites.pull(self.model.transformed(values, data), key)

    def pointwise(self, x: Point, data: PyTree = None) -> SiteValues:
        """Return the log-likelihood terms of the observations."""
        found = self.log_terms(x, data)
        return {name: {**found.observed, **found.factors}[name] for name in self.model.observed}

    def observations(self, data: PyTree = None) -> SiteValues:
        """Return what was observed, which is the same at every point."""
        return self.model.observations(self.sites.push(jnp.zeros(self.sites.dim)), data)


class ModelComponents(eqx.Module):
    """The terms of a mixture at a point, (observation, component)."""

    model: WithComponents
    sites: Sites

    def __call__(self, x: Point, data: PyTree = None) -> Array:
        """Return the terms at one point."""
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
        """Return the log densities of the latent sites plus the log Jacobian."""
        found = self.density.log_terms(x, self.data)
        return _total(found.priors) + self.density.sites.log_slope(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return sites with known priors drawn in their coordinates, the others by the model."""
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
    """Return the sum of log-likelihood terms with weights near one, of which no two sums are alike.

    Relabelling leaves every term as it is. Groups whose observations happen to be equal may be
    exchanged as well, but that exchanges terms: an even sum does not see it, this one does.
    """
    weights = np.random.default_rng(0).uniform(0.8, 1.2, terms.size)
    return jnp.sum(weights * jnp.reshape(terms, -1))


def _total(terms: PyTree) -> Scalar:
    return sum((jnp.sum(each) for each in jax.tree.leaves(terms)), jnp.zeros(()))


ASSUMED_OBSERVATIONS = 100
"""Where a model does not say how many it has: a likelihood in one number, without data."""


@dataclasses.dataclass(frozen=True)
class SitePlan:
    """Sites, and what moves the coordinates that they have one after the other."""

    sites: Sequence[Site]
    factors: Sequence[Factor]

    @functools.cached_property
    def assembled(self) -> tuple[Group, Order]:
        """The group, and the order in which it needs the coordinates."""
        return assembled(self.factors, sum(site.size for site in self.sites))

    @property
    def group(self) -> Group:
        """The group that the factors make."""
        return self.assembled[0]


def in_blocks(plan: SitePlan, count: Callable[[], int]) -> SitePlan:
    """Give vectors of weights a free total, where all that moves is then plain blocks.

    From `AUGMENTED_FROM` labels on, a proposal sums over the labellings by sets of whole blocks. It
    needs the action in that form, which centred weights do not have; the evidence stays the same.
    The plan stays as it is for fewer labels, and where anything else is no block: transition
    matrices, several groups, weights of several rows. `count` tells the number of observations.
    """
    if len(plan.factors) != 1 or plan.factors[0].m < AUGMENTED_FROM:
        return plan
    (factor,) = plan.factors
    pairs = list(zip(factor.movers, factor.moves, strict=True))
    rotated = {mover.name for mover, move in pairs if isinstance(move, Entries)}
    vectors = {site.name for site in plan.sites if _is_vector(site)}
    if not rotated or not rotated <= vectors:
        return plan
    total = count()
    sites = [_with_total(site, total) if site.name in rotated else site for site in plan.sites]
    starts = np.cumsum([0, *(site.size for site in sites)])
    old = (np.arange(site.size) for site in plan.sites)
    columns = np.concatenate([start + own for start, own in zip(starts, old, strict=False)])
    moved = [_in_blocks(mover, move, columns, factor.m) for mover, move in pairs]
    movers, moves = zip(*moved, strict=True)
    blocks = SitePlan(sites, (dataclasses.replace(factor, movers=movers, moves=moves),))
    return blocks if blocks.group.block_form is not None else plan


def _is_vector(site: Site) -> bool:
    return isinstance(site.coordinate, SimplexRows) and len(site.shape) == 1


def _with_total(site: Site, count: int) -> Site:
    assert isinstance(site.coordinate, SimplexRows)
    total = FreeTotal(site.coordinate, count)
    return dataclasses.replace(site, shape=(site.coordinate.length,), coordinate=total)


def _in_blocks(
    mover: LabelledCoordinates, move: Move, columns: np.ndarray, m: int
) -> tuple[LabelledCoordinates, Move]:
    """Return a mover where its coordinates stand now, weights with one coordinate per label."""
    if not isinstance(move, Entries):
        return dataclasses.replace(mover, columns=columns[mover.columns]), move
    rows = AlongAxis(0)
    own = columns[mover.columns[0]] + np.arange(m)
    return dataclasses.replace(mover, columns=own, moves=(rows,)), rows


def number_of_observations(model: Model, sites: Sequence[Site], data: PyTree) -> int:
    """Return the number of observations of a model: the most terms that any observed site has.

    A likelihood that is added by `numpyro.factor` or `pm.Potential` need not show them: then it is
    the length of the longest array among the data and the added terms, and without any
    `ASSUMED_OBSERVATIONS`. What depends on it is how well a proposal fits, never what is sampled.
    """
    laid = laid_out(sites, plain=True)
    terms = ModelDensity(model, laid).log_terms
    found = jax.eval_shape(terms, jnp.zeros(laid.dim), data)
    if found.observed:
        return max(each.size for each in found.observed.values())
    lengths = [np.shape(leaf)[0] for leaf in jax.tree.leaves((found.factors, data)) if leaf.ndim]
    return max(lengths, default=ASSUMED_OBSERVATIONS)
