"""Coordinates for probabilities that sum to one, in which relabelling is a rotation.

The group has to act orthogonally in the coordinates that a flow sees. Two maps of the simplex do
that: centred log-ratios in an orthonormal basis, one coordinate fewer than probabilities, and
independent Gamma variables divided by their sum, one coordinate each. Stick-breaking does not:
the first stick is treated unlike the last. A transition matrix is one simplex per row, with the
labels on both sides.

Log-ratios are what `folt.models` uses: no dimension is left to its prior, no Gamma quantile has to
be solved, and chains accept more (`tests/validate/test_simplex_coordinates.py` measures both).
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
from folt.coordinates.tails import normal_log_density
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
        """Coordinates of these probabilities."""

    @abstractmethod
    def log_prior(self, x: Coordinates) -> Scalar:
        """Log density of the coordinates when the probabilities have their Dirichlet prior."""

    @abstractmethod
    def sample_prior(self, key: Key) -> Coordinates:
        """Coordinates of one draw of the prior."""

    def push(self, x: Coordinates) -> Probabilities:
        """The probabilities."""
        return jnp.exp(self.push_log(x))


class LogRatios(SimplexCoordinate):
    """Centred log-ratios: log p_k - mean log p = (B·c)_k with orthonormal columns B.

    p ~ Dirichlet(α) has in c the density exp(Σ α_k log p_k + ½ log m - log B(α)). The vectors sum
    to zero: the part `ZeroSum` of a joint group.

    Args:
        concentration: α, one number per probability.
    """

    concentration: Leaf
    flat: bool = eqx.field(static=True)

    def __init__(self, concentration: ArrayLike):
        self.concentration = as_leaf(concentration)
        _require_concentration(self, self.concentration, 1)
        self.flat = _is_flat(self.concentration)

    @classmethod
    def symmetric(cls, m: int, concentration: float = 1.0) -> LogRatios:
        """For m exchangeable probabilities."""
        return cls(np.full(m, float(concentration)))

    @property
    def length(self) -> int:
        """One coordinate fewer than probabilities, m - 1."""
        return np.shape(self.concentration)[0] - 1

    def push_log(self, x: Coordinates) -> Float[Array, " m"]:
        """Log softmax of B·c."""
        return jax.nn.log_softmax(_basis(self.length + 1, x) @ x)

    def pull(self, probabilities: Float[ArrayLike, " m"]) -> Coordinates:
        """Bᵀ·log p; any common factor of the probabilities drops out."""
        logs = jnp.log(jnp.asarray(probabilities))
        return logs @ _basis(self.length + 1, logs)

    def log_slope(self, x: Coordinates) -> Scalar:
        """Log |d(p_1, ..., p_{m-1})/dc| = Σ log p_k + ½ log m."""
        return jnp.sum(self.push_log(x)) + 0.5 * math.log(self.length + 1)

    def log_prior(self, x: Coordinates) -> Scalar:
        """Σ α_k log p_k + ½ log m - log B(α)."""
        return _log_dirichlet(self.concentration, self.push_log(x))

    def sample_prior(self, key: Key) -> Coordinates:
        """Bᵀ of the logarithms of Gamma(α_k) variables."""
        logs = _log_gammas(key, self.concentration, self.flat)
        return logs @ _basis(self.length + 1, logs)


class RowLogRatios(SimplexCoordinate):
    """Centred log-ratios of every row of a transition matrix, in m(m - 1) coordinates.

    Rows are independent Dirichlet with the rows of α. Relabelling permutes the matrix on both
    sides: the part `ZeroSumRows` of a joint group, a symmetry if α has one value on the diagonal
    and one off it.

    Args:
        concentration: α, an m x m matrix.
    """

    concentration: Leaf
    flat: bool = eqx.field(static=True)

    def __init__(self, concentration: ArrayLike):
        self.concentration = as_leaf(concentration)
        _require_concentration(self, self.concentration, 2)
        self.flat = _is_flat(self.concentration)

    @classmethod
    def symmetric(cls, m: int, own: float = 1.0, other: float = 1.0) -> RowLogRatios:
        """For m exchangeable states: one concentration for staying, one for leaving."""
        return cls(_transition_concentration(m, own, other))

    @property
    def length(self) -> int:
        """Number of coordinates, m(m - 1)."""
        m = np.shape(self.concentration)[0]
        return m * (m - 1)

    def push_log(self, x: Coordinates) -> Float[Array, "m m"]:
        """Log softmax of every row of C·Bᵀ."""
        m = np.shape(self.concentration)[0]
        return jax.nn.log_softmax(x.reshape(m, m - 1) @ _basis(m, x).T, axis=1)

    def pull(self, probabilities: Float[ArrayLike, "m m"]) -> Coordinates:
        """The rows of log P times B, one after the other."""
        logs = jnp.log(jnp.asarray(probabilities))
        return (logs @ _basis(logs.shape[0], logs)).reshape(-1)

    def log_prior(self, x: Coordinates) -> Scalar:
        """Sum over rows of Σ α_ij log p_ij + ½ log m - log B(α_i)."""
        return _log_dirichlet(self.concentration, self.push_log(x))

    def sample_prior(self, key: Key) -> Coordinates:
        """As for one simplex, row by row."""
        logs = _log_gammas(key, self.concentration, self.flat)
        return (logs @ _basis(logs.shape[0], logs)).reshape(-1)


class GammaShares(SimplexCoordinate):
    """Shares p = g/Σg of independent g_k ~ Gamma(α_k), each in its prior-normal coordinate.

    One coordinate per probability, prior N(0, I), a plain permutation of coordinates: the part
    `Blocks` of a joint group, or `Square` for a matrix, whose rows are shared out one by one. The
    sum of the g is left to its prior, so that the evidence is the same as in any other
    coordinates.

    Args:
        concentration: α, one number per probability, or an m x m matrix.
    """

    concentration: Leaf = eqx.field(converter=as_leaf)

    def __check_init__(self) -> None:
        _require_concentration(self, self.concentration, np.ndim(self.concentration))

    @classmethod
    def symmetric(cls, m: int, concentration: float = 1.0) -> GammaShares:
        """For m exchangeable probabilities."""
        return cls(np.full(m, float(concentration)))

    @classmethod
    def transitions(cls, m: int, own: float = 1.0, other: float = 1.0) -> GammaShares:
        """For the transition matrix of m exchangeable states."""
        return cls(_transition_concentration(m, own, other))

    @property
    def length(self) -> int:
        """One coordinate per probability."""
        return int(np.size(self.concentration))

    def push_log(self, x: Coordinates) -> Probabilities:
        """Log g - log Σ g along the last axis."""
        alpha = jnp.asarray(self.concentration)
        return jax.nn.log_softmax(Gamma(alpha).log_from_normal(x.reshape(alpha.shape)), axis=-1)

    def pull(self, probabilities: Float[ArrayLike, "*rows m"]) -> Coordinates:
        """The coordinates with these shares whose sum has its prior mean Σα.

        Many coordinates have the same shares; this is one of them.
        """
        alpha = jnp.asarray(self.concentration)
        total = jnp.sum(alpha, axis=-1, keepdims=True)
        return Gamma(alpha).to_normal(jnp.asarray(probabilities) * total).reshape(-1)

    def log_prior(self, x: Coordinates) -> Scalar:
        """Log N(x; 0, I)."""
        return jnp.sum(normal_log_density(x))

    def sample_prior(self, key: Key) -> Coordinates:
        """A standard normal vector."""
        return jax.random.normal(key, (self.length,))


def _basis(m: int, like: Array) -> Float[Array, "m m-1"]:
    return jnp.asarray(zero_sum_basis(m), like.dtype)


def _log_dirichlet(concentration: Leaf, log_probabilities: Probabilities) -> Scalar:
    """Log density of centred log-ratios, summed over rows."""
    alpha = jnp.asarray(concentration)
    rows, m = math.prod(alpha.shape[:-1]), alpha.shape[-1]
    log_beta = jnp.sum(gammaln(alpha)) - jnp.sum(gammaln(jnp.sum(alpha, axis=-1)))
    return jnp.sum(alpha * log_probabilities) + 0.5 * rows * math.log(m) - log_beta


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


def _transition_concentration(m: int, own: float, other: float) -> Float[np.ndarray, "m m"]:
    return np.full((m, m), float(other)) + (float(own) - float(other)) * np.eye(m)


def _require_concentration(owner: object, concentration: Leaf, axes: int) -> None:
    shape = np.shape(concentration)
    if axes not in (1, 2) or len(shape) != axes or shape[-1] < 1 or len(set(shape)) != 1:
        wanted = {1: "one number per probability", 2: "a square matrix"}.get(axes, "a vector")
        raise ValueError(
            f"{type(owner).__name__}: expected the concentration to be {wanted}, got shape {shape}"
        )
    if isinstance(concentration, np.ndarray) and not (
        np.all(np.isfinite(concentration)) and np.all(concentration > 0)
    ):
        raise ValueError(
            f"{type(owner).__name__}: the concentration must be positive and finite, "
            f"got {concentration}"
        )
