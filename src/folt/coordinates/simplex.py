"""Coordinates for probabilities that sum to one, in which relabelling is a rotation.

The group has to act orthogonally in the coordinates that a flow sees. Centred log-ratios in an
orthonormal basis do that, with one coordinate fewer than probabilities. Stick-breaking does not:
the first stick is treated unlike the last. A transition matrix is one simplex per row, with the
labels on both sides.

Given counts, probabilities are Gamma variables divided by their sum. The logarithm of a Gamma
variable with a small count is far from normal, its score is not: `CentredScores` are what models
use, and `LogRatios` what they are compared with
(`tests/validate/test_simplex_coordinates.py` measures them).

Mixture weights with a free total: plain blocks, and a posterior that factorises.

For w ~ Dirichlet(α, ..., α) and N observations of a mixture, let T ~ Gamma(mα + N) be independent
of everything and g = T·w. Given which component every observation came from, the g are then
independent of each other: the posterior is a mixture, over allocations, of products over the
components. Relabelling permutes the g, and the evidence is what it was.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates.location_scale import Gamma
from folt.coordinates.tails import (
    COUNT,
    Leaf,
    from_log_tails,
    log_count,
    log_tails,
    log_volume,
    normal_log_density,
    parameter,
    score_of_log,
    shift,
)
from folt.groups import zero_sum_basis
from folt.types import Key, Scalar

Coordinates = Float[Array, " length"]
Probabilities = Float[Array, "*rows m"]


class SimplexCoordinate(eqx.Module):
    """A map from R^length to probabilities with a Dirichlet prior.

    Exchangeable labels need one concentration for all of them; a transition matrix may have one
    on its diagonal and another off it.
    """

    @property
    @abstractmethod
    def length(self) -> int:
        """Number of coordinates."""

    @abstractmethod
    def push_log(self, x: Coordinates) -> Probabilities:
        """Logarithms of the probabilities, finite however small they are."""

    @abstractmethod
    def pull(self, probabilities: Probabilities) -> Coordinates:
        """Return the coordinates at which the probabilities are these."""

    @abstractmethod
    def log_prior(self, x: Coordinates) -> Scalar:
        """Log density of the coordinates when the probabilities have their Dirichlet prior."""

    @abstractmethod
    def sample_prior(self, key: Key) -> Coordinates:
        """Return coordinates of one draw of the prior."""

    def push(self, x: Coordinates) -> Probabilities:
        """Return the probabilities at these coordinates."""
        return jnp.exp(self.push_log(x))


class ZeroSumCoordinate(SimplexCoordinate):
    """Scores of the probabilities, centred, in an orthonormal basis B of what sums to zero.

    The vectors B·c sum to zero: the part `ZeroSum` of a joint group. A square matrix α stands for
    the rows of a transition matrix, independent Dirichlet with the rows of α, in m(m - 1)
    coordinates. Relabelling then permutes the matrix on both sides: the part `ZeroSumRows`, a
    symmetry if α has one value on the diagonal and one off it.

    Args:
        concentration: α, one number per probability, or an m x m matrix.
    """

    concentration: Leaf = parameter()
    flat: bool = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        _require_concentration(self, self.concentration)
        self.flat = _is_flat(self.concentration)

    @classmethod
    def symmetric(cls, m: int, concentration: float = 1.0) -> Self:
        """Return the coordinate for m exchangeable probabilities, one concentration for all."""
        return cls(np.full(m, float(concentration)))

    @classmethod
    def transitions(cls, m: int, own: float = 1.0, other: float = 1.0) -> Self:
        """For m exchangeable states: one concentration for staying, one for leaving."""
        return cls(np.full((m, m), float(other)) + (float(own) - float(other)) * np.eye(m))

    @property
    def length(self) -> int:
        """One coordinate fewer than probabilities in every row."""
        *rows, m = np.shape(self.concentration)
        return math.prod(rows) * (m - 1)

    @abstractmethod
    def log_slope(self, x: Coordinates) -> Scalar:
        """Return log |d(p_1, ..., p_{m-1})/dc|, summed over rows."""

    @abstractmethod
    def pull_log(self, logs: Probabilities) -> Coordinates:
        """The coordinates of probabilities in these proportions, given by their logarithms."""

    def pull(self, probabilities: Float[ArrayLike, "*rows m"]) -> Coordinates:
        """The coordinates; any common factor of the probabilities of a row drops out."""
        return self.pull_log(jnp.log(jnp.asarray(probabilities)))

    def log_prior(self, x: Coordinates) -> Scalar:
        """Log slope plus Σ (α_k - 1) log p_k - log B(α), summed over rows."""
        alpha = jnp.asarray(self.concentration)
        log_beta = jnp.sum(gammaln(alpha)) - jnp.sum(gammaln(jnp.sum(alpha, axis=-1)))
        return self.log_slope(x) + jnp.sum((alpha - 1) * self.push_log(x)) - log_beta

    def sample_prior(self, key: Key) -> Coordinates:
        """Return the coordinates of Gamma(α_k) variables divided by their sum."""
        return self.pull_log(_log_gammas(key, self.concentration, self.flat))

    def _centred(self, x: Coordinates) -> Probabilities:
        """B·c, row by row."""
        *rows, m = np.shape(self.concentration)
        return x.reshape(*rows, m - 1) @ _basis(m, x).T


class LogRatios(ZeroSumCoordinate):
    """Centred log-ratios: log p_k - mean log p = (B·c)_k.

    p ~ Dirichlet(α) has in c the density exp(Σ α_k log p_k + ½ log m - log B(α)).
    """

    def push_log(self, x: Coordinates) -> Probabilities:
        """Return the log softmax of B·c, row by row."""
        return jax.nn.log_softmax(self._centred(x))

    def pull_log(self, logs: Probabilities) -> Coordinates:
        """Bᵀ·log p."""
        return (logs @ _basis(logs.shape[-1], logs)).reshape(-1)

    def log_slope(self, x: Coordinates) -> Scalar:
        """Return log |d(p_1, ..., p_{m-1})/dc| = Σ log p_k + ½ log m, summed over rows."""
        *rows, m = np.shape(self.concentration)
        return jnp.sum(self.push_log(x)) + 0.5 * math.prod(rows) * math.log(m)


class CentredScores(ZeroSumCoordinate):
    """Centred scores of counts: y_k - mean y = (B·c)_k, y_k the score of a count of N·p_k.

    Probabilities estimated from counts, few or many, are nearly normal in c, and so are the tails
    of a Dirichlet prior; `folt.coordinates.tails` has the map.
    """

    def push_log(self, x: Coordinates) -> Probabilities:
        """Return the log counts of B·c + t, less the logarithm of their sum."""
        centred = self._centred(x)
        return jax.nn.log_softmax(log_count(centred + shift(centred)))

    def pull_log(self, logs: Probabilities) -> Coordinates:
        """Bᵀ·y."""
        scores = score_of_log(jax.nn.log_softmax(logs) + math.log(COUNT))
        return (scores @ _basis(scores.shape[-1], scores)).reshape(-1)

    def log_slope(self, x: Coordinates) -> Scalar:
        """Return the log volume change of every row, summed."""
        return jnp.sum(log_volume(self._centred(x)))


def _basis(m: int, like: Array) -> Float[Array, "m m-1"]:
    return jnp.asarray(zero_sum_basis(m), like.dtype)


def _log_gammas(key: Key, concentration: Leaf, flat: bool) -> Array:
    """Return logarithms of independent Gamma(α) draws, by their quantile of normal ones.

    JAX's own Gamma draws take longer to compile, and a flat prior needs only exponential ones.
    """
    alpha = jnp.asarray(concentration)
    if flat:
        return jnp.log(jax.random.exponential(key, alpha.shape, alpha.dtype))
    return Gamma(alpha).log_from_normal(jax.random.normal(key, alpha.shape, alpha.dtype))


def _is_flat(concentration: Leaf) -> bool:
    """Return whether every concentration is known to be one."""
    return isinstance(concentration, np.ndarray) and bool(np.all(concentration == 1))


def _require_concentration(owner: object, concentration: Leaf) -> None:
    shape = np.shape(concentration)
    if len(shape) not in (1, 2) or shape[-1] < 1 or len(set(shape)) != 1:
        raise ValueError(
            f"{type(owner).__name__}: expected the concentration to be one number per probability "
            f"or a square matrix, got shape {shape}"
        )
    if isinstance(concentration, np.ndarray) and not (
        np.all(np.isfinite(concentration)) and np.all(concentration > 0)
    ):
        raise ValueError(
            f"{type(owner).__name__}: the concentration must be positive and finite, "
            f"got {concentration}"
        )


LARGEST_COUNT = 400
"""Most observations for a concentration other than one: its Gamma quantile is then still exact."""


class AugmentedShares(SimplexCoordinate):
    """Shares w = g/Σg of g_k in their Gamma(α) prior-normal coordinates, with Σg ~ Gamma(mα + N).

    The log prior is log N(x; 0, I) + N log Σg + log Γ(mα) - log Γ(mα + N), which is normalised and
    gives w its Dirichlet prior.

    Args:
        m: number of shares.
        observations: N.
        concentration: α, the same for all shares.
    """

    m: int = eqx.field(static=True)
    observations: int = eqx.field(static=True)
    concentration: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if self.m < 1 or self.observations < 0 or not self.concentration > 0:
            raise ValueError(
                "expected at least one share, no negative number of observations and a positive "
                f"concentration, got {self.m}, {self.observations} and {self.concentration}"
            )
        if self.concentration != 1 and self.observations > LARGEST_COUNT:
            raise ValueError(
                f"expected concentration 1 or at most {LARGEST_COUNT} observations, got "
                f"{self.concentration} and {self.observations}"
            )

    @property
    def length(self) -> int:
        """Number of coordinates, one per share."""
        return self.m

    @property
    def total_shape(self) -> float:
        """The shape mα + N of the total."""
        return self.m * self.concentration + self.observations

    def log_gammas(self, x: Coordinates) -> Float[Array, " m"]:
        """Return log g; for α = 1 it is log(-log Φ(-x)), exact however large g is."""
        if self.concentration == 1:
            return jnp.log(-log_tails(x)[1])
        return Gamma(self.concentration).log_from_normal(x)

    def push_log(self, x: Coordinates) -> Probabilities:
        """Return log g - log Σ g."""
        return jax.nn.log_softmax(self.log_gammas(x))

    def pull(self, probabilities: Float[ArrayLike, " m"], key: Key | None = None) -> Coordinates:
        """The coordinates with these shares whose total is drawn, or without a key its mean."""
        logs = jnp.log(jnp.asarray(probabilities))
        return self._from_log(logs + self._log_total(key))

    def log_prior(self, x: Coordinates) -> Scalar:
        """Return the normalised log prior of shares and total."""
        log_total = jax.scipy.special.logsumexp(self.log_gammas(x))
        constant = gammaln(self.m * self.concentration) - gammaln(self.total_shape)
        return jnp.sum(normal_log_density(x)) + self.observations * log_total + constant

    def sample_prior(self, key: Key) -> Coordinates:
        """Shares from their Dirichlet prior, times an independent total."""
        share_key, total_key = jax.random.split(key)
        free = self.log_gammas(jax.random.normal(share_key, (self.m,)))
        return self._from_log(jax.nn.log_softmax(free) + self._log_total(total_key))

    def _log_total(self, key: Key | None) -> Scalar:
        if key is None:
            return jnp.log(self.total_shape)
        return Gamma(self.total_shape).log_from_normal(jax.random.normal(key))

    def _from_log(self, log_gammas: Float[Array, " m"]) -> Coordinates:
        values = jnp.exp(log_gammas)
        if self.concentration == 1:
            return from_log_tails(jnp.log(-jnp.expm1(-values)), -values)
        return Gamma(self.concentration).to_normal(values)
