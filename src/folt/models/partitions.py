"""Where the search for the components of a mixture begins: near partitions of the data.

Every component's block of coordinates is drawn by itself, from the clusters of several partitions
or, in part, from a standard normal, which the prior nearly is. So the start does not change when
labels are exchanged, and components that the data do not ask for begin where the prior has them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from scipy.cluster.vq import kmeans2

from folt.models.independent import LOG_TWO_PI, Independent
from folt.types import Distribution, Key, Point, Scalar

_PARTITIONS = 4
"""Partitions of the data, each from another seed."""

_WIDER = 4.0
"""Widths around a cluster's parameters, in standard errors of these."""

_FROM_PRIOR = 0.3
"""Share of the blocks that begin at a standard normal. Measured with the multivariate mixture of 59
dimensions: 26 CPU seconds instead of 119, the same log Z."""


class NearPartitions(Distribution):
    """Blocks of coordinates, independent and alike, and what follows them from its prior.

    Attributes:
        places: coordinates of every block; together they come first.
        centres: parameters of clusters, as blocks.
        widths: deviations around them.
        rest: the prior of the other coordinates.
    """

    places: np.ndarray
    centres: Float[Array, "clusters size"]
    widths: Float[Array, "clusters size"]
    rest: Independent

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.places.size + self.rest.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at one point."""
        rows = x[self.places]
        away = (rows[:, None] - self.centres) / self.widths
        near = -0.5 * jnp.sum(away**2, axis=2) - jnp.sum(jnp.log(self.widths), axis=1)
        near = near + math.log((1.0 - _FROM_PRIOR) / self.centres.shape[0])
        wide = math.log(_FROM_PRIOR) - 0.5 * jnp.sum(rows**2, axis=1)
        terms = jnp.concatenate([near, wide[:, None]], axis=1)
        blocks = jnp.sum(logsumexp(terms, axis=1)) - 0.5 * LOG_TWO_PI * rows.size
        return blocks + self.rest.log_prob(x[self.places.size :])

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        chosen, wide, noise, others = jax.random.split(key, 4)
        count, size = self.places.shape
        cluster = jax.random.randint(chosen, (count,), 0, self.centres.shape[0])
        normal = jax.random.normal(noise, (count, size))
        near = self.centres[cluster] + self.widths[cluster] * normal
        rows = jnp.where(jax.random.uniform(wide, (count, 1)) < _FROM_PRIOR, normal, near)
        blocks = jnp.zeros(self.places.size).at[self.places].set(rows)
        x = jnp.concatenate([blocks, self.rest.sample(others)])
        return x, self.log_prob(x)


def clusters(data: Float[np.ndarray, "n p"], count: int) -> Iterator[Float[np.ndarray, "some p"]]:
    """Return the clusters of some partitions into so many, by k-means on standardised columns."""
    scaled = data / data.std(axis=0)
    for seed in range(_PARTITIONS):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.simplefilter("ignore")  # equal rows leave clusters empty, which are no cluster
            labels = kmeans2(scaled, count, minit="++", rng=rng)[1]
        yield from (data[labels == label] for label in np.unique(labels))


def standard_error(rows: Float[np.ndarray, "some p"]) -> float:
    """Return the width of a unit deviation that so many rows leave, widened."""
    return min(_WIDER / math.sqrt(len(rows)), 1.0)
