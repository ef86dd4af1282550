"""Coordinates for probabilities that sum to one, in which relabelling is a rotation.

The group has to act orthogonally in the coordinates that a flow sees. Centred log-ratios in an
orthonormal basis do that, with one coordinate fewer than probabilities. Stick-breaking does not:
the first stick is treated unlike the last. A transition matrix is one simplex per row, with the
labels on both sides.

Log-ratios are what `folt.models` uses: no dimension is left to its prior, no Gamma quantile has to
be solved, and chains accept more than with Gamma variables divided by their sum
(`tests/validate/test_simplex_coordinates.py` measures both).
"""

from __future__ import annotations

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates.gamma import Gamma
from folt.coordinates.leaves import Leaf, as_leaf
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
        """The coordinates at which the probabilities are these."""

    @abstractmethod
    def log_prior(self, x: Coordinates) -> Scalar:
        """Log density of the coordinates when the probabilities have their Dirichlet prior."""

    @abstractmethod
    def sample_prior(self, key: Key) -> Coordinates:
        """Coordinates of one draw of the prior."""

    def push(self, x: Coordinates) -> Probabilities:
        """The probabilities at these coordinates."""
        return jnp.exp(self.push_log(x))


class LogRatios(SimplexCoordinate):
    """Centred log-ratios: log p_k - mean log p = (B·c)_k with orthonormal columns B.

    p ~ Dirichlet(α) has in c the density exp(Σ α_k log p_k + ½ log m - log B(α)). The vectors sum
    to zero: the part `ZeroSum` of a joint group.

    A square matrix α stands for the rows of a transition matrix, independent Dirichlet with the
    rows of α, in m(m - 1) coordinates. Relabelling then permutes the matrix on both sides: the part
    `ZeroSumRows`, a symmetry if α has one value on the diagonal and one off it.

    Args:
        concentration: α, one number per probability, or an m x m matrix.
    """

    concentration: Leaf
    flat: bool = eqx.field(static=True)

    def __init__(self, concentration: ArrayLike):
        self.concentration = as_leaf(concentration)
        _require_concentration(self, self.concentration)
        self.flat = _is_flat(self.concentration)

    @classmethod
    def symmetric(cls, m: int, concentration: float = 1.0) -> LogRatios:
        """The coordinate for m exchangeable probabilities, one concentration for all."""
        return cls(np.full(m, float(concentration)))

    @classmethod
    def transitions(cls, m: int, own: float = 1.0, other: float = 1.0) -> LogRatios:
        """For m exchangeable states: one concentration for staying, one for leaving."""
        return cls(np.full((m, m), float(other)) + (float(own) - float(other)) * np.eye(m))

    @property
    def length(self) -> int:
        """One coordinate fewer than probabilities in every row."""
        *rows, m = np.shape(self.concentration)
        return math.prod(rows) * (m - 1)

    def push_log(self, x: Coordinates) -> Probabilities:
        """Log softmax of B·c, row by row."""
        *rows, m = np.shape(self.concentration)
        return jax.nn.log_softmax(x.reshape(*rows, m - 1) @ _basis(m, x).T)

    def pull(self, probabilities: Float[ArrayLike, "*rows m"]) -> Coordinates:
        """Bᵀ·log p; any common factor of the probabilities of a row drops out."""
        return self._pull_log(jnp.log(jnp.asarray(probabilities)))

    def log_slope(self, x: Coordinates) -> Scalar:
        """Log |d(p_1, ..., p_{m-1})/dc| = Σ log p_k + ½ log m, summed over rows."""
        *rows, m = np.shape(self.concentration)
        return jnp.sum(self.push_log(x)) + 0.5 * math.prod(rows) * math.log(m)

    def log_prior(self, x: Coordinates) -> Scalar:
        """Σ α_k log p_k + ½ log m - log B(α), summed over rows."""
        alpha = jnp.asarray(self.concentration)
        log_beta = jnp.sum(gammaln(alpha)) - jnp.sum(gammaln(jnp.sum(alpha, axis=-1)))
        return self.log_slope(x) + jnp.sum((alpha - 1) * self.push_log(x)) - log_beta

    def sample_prior(self, key: Key) -> Coordinates:
        """Bᵀ of the logarithms of Gamma(α_k) variables."""
        return self._pull_log(_log_gammas(key, self.concentration, self.flat))

    def _pull_log(self, logs: Probabilities) -> Coordinates:
        return (logs @ _basis(logs.shape[-1], logs)).reshape(-1)


def _basis(m: int, like: Array) -> Float[Array, "m m-1"]:
    return jnp.asarray(zero_sum_basis(m), like.dtype)


def _log_gammas(key: Key, concentration: Leaf, flat: bool) -> Array:
    """Logarithms of independent Gamma(α) draws, by their quantile of normal ones.

    JAX's own Gamma draws take longer to compile, and a flat prior needs only exponential ones.
    """
    alpha = jnp.asarray(concentration)
    if flat:
        return jnp.log(jax.random.exponential(key, alpha.shape, alpha.dtype))
    return Gamma(alpha).log_from_normal(jax.random.normal(key, alpha.shape, alpha.dtype))


def _is_flat(concentration: Leaf) -> bool:
    """Whether every concentration is known to be one."""
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
