"""A latent-space model of a network (Hoff, Raftery and Handcock 2002).

Every node has a position z_i in a space of few dimensions, and the nearer two nodes are, the
likelier is a tie between them: logit P(y_ij = 1) = a - |z_i - z_j|. Positions are
z_i ~ N(0, scale²·I) and a ~ N(0, intercept_scale²). Distances do not change when all positions are
rotated or reflected together, so O(k) is divided out: what is left is the shape they make.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from scipy.sparse.csgraph import shortest_path

from folt.coordinates.tails import normal_log_density
from folt.groups import Product, Rotation, Trivial
from folt.models.observations import number_of, positive
from folt.problem import Problem
from folt.problem.observed import Forecast, Pointwise, Predictive
from folt.problem.quotient import independent_rows
from folt.proposals import standard_normal
from folt.types import Key, Point, Scalar, in_float64

NEAREST = 1e-12
"""Squared distance below which two nodes are in one place, where the distance has no slope."""


class LatentSpacePosterior(eqx.Module):
    """Likelihood times prior, all constants included.

    Attributes:
        nodes: number of nodes, n.
        dimensions: of the space, k.
        scale: standard deviation of a position.
        intercept_scale: that of the intercept.
    """

    nodes: int = eqx.field(static=True)
    dimensions: int = eqx.field(static=True)
    scale: float
    intercept_scale: float

    def constrain(self, x: Point) -> dict[str, Array]:
        """Return positions (n, k), the intercept, and the distances, which no rotation changes."""
        positions = self.scale * x[:-1].reshape(self.nodes, self.dimensions)
        return {
            "position": positions,
            "intercept": self.intercept_scale * x[-1],
            "distance": _distances(positions),
        }

    def unconstrain(self, values: dict[str, Array]) -> Point:
        """Return the point with these positions and this intercept."""
        intercept = values["intercept"] / self.intercept_scale
        return jnp.append((values["position"] / self.scale).reshape(-1), intercept)

    def __call__(self, x: Point, ties: Float[Array | np.ndarray, " pairs"]) -> Scalar:
        """Return the log density at one point."""
        return jnp.sum(_pointwise(self.constrain(x), ties)) + jnp.sum(normal_log_density(x))


def _distances(positions: Float[Array, "n k"]) -> Float[Array, " pairs"]:
    first, second = np.triu_indices(positions.shape[0], 1)
    squares = jnp.sum((positions[first] - positions[second]) ** 2, axis=1)
    return jnp.sqrt(squares + NEAREST)


def _pointwise(parameters: dict[str, Array], data: ArrayLike) -> Float[Array, " pairs"]:
    """Return the log likelihood of every pair of nodes, tied or not."""
    logit = parameters["intercept"] - parameters["distance"]
    ties = jnp.asarray(data)
    return ties * jax.nn.log_sigmoid(logit) + (1.0 - ties) * jax.nn.log_sigmoid(-logit)


def _predict(key: Key, parameters: dict[str, Array], data: ArrayLike) -> Float[Array, " pairs"]:
    """Return a new network, pair by pair."""
    chance = jax.nn.sigmoid(parameters["intercept"] - parameters["distance"])
    return (jax.random.uniform(key, chance.shape) < chance).astype(chance.dtype)


def new_pairs(new: object, data: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, "k 2"]:
    """Return pairs of nodes by number, as given or all of them.

    Raises:
        ValueError: they are no pairs of two different nodes of the network.
    """
    nodes = round((1.0 + np.sqrt(1.0 + 8.0 * data.size)) / 2.0)
    if new is None:
        return np.stack(np.triu_indices(nodes, 1), axis=1).astype(float)
    pairs = np.atleast_2d(np.asarray(new, float))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            f"expected new pairs of nodes of shape (n, 2), got {np.asarray(new).shape}"
        )
    inside = (pairs >= 0) & (pairs < nodes) & (pairs == np.round(pairs))
    if not inside.all() or np.any(pairs[:, 0] == pairs[:, 1]):
        raise ValueError(f"expected pairs of two different nodes from 0 to {nodes - 1}")
    return pairs


def tie_chances(
    key: Key, parameters: dict[str, Array], new: Float[Array, "k 2"], data: ArrayLike
) -> Float[Array, " k"]:
    """Return the probability of a tie between the nodes of every pair."""
    del key, data
    first, second = parameters["position"][new.astype(int).T]
    distance = jnp.sqrt(jnp.sum((first - second) ** 2, axis=1) + NEAREST)
    return jax.nn.sigmoid(parameters["intercept"] - distance)


_FORECAST = Forecast("pair", new_pairs, tie_chances)
"""Probabilities of ties."""


@in_float64
def latent_space(
    adjacency: ArrayLike | Sequence[Sequence[float]],
    dimensions: int = 2,
    *,
    scale: float = 2.0,
    intercept_scale: float = 2.0,
) -> Problem:
    """Return the posterior of the positions of a network's nodes, rotations divided out.

    Args:
        adjacency: a symmetric matrix (n, n) of zeros and ones with a zero diagonal.
        dimensions: of the space, k.
        scale: prior standard deviation of the positions in every direction.
        intercept_scale: prior standard deviation of the intercept.
    """
    k = number_of("dimensions", dimensions)
    matrix = np.asarray(adjacency, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"expected a square matrix of ties, got shape {matrix.shape}")
    n = len(matrix)
    if not np.all((matrix == 0.0) | (matrix == 1.0)) or np.any(np.diagonal(matrix) != 0.0):
        raise ValueError(
            "expected zeros and ones, and zeros on the diagonal, in the matrix of ties"
        )
    if not np.array_equal(matrix, matrix.T):
        first, second = np.argwhere(matrix != matrix.T)[0]
        raise ValueError(f"expected a symmetric matrix of ties, got ({first}, {second}) one way")
    if n <= k:
        raise ValueError(f"expected more than {k} nodes for {k} dimensions, got {n}")
    positive(scale=scale, intercept_scale=intercept_scale)
    posterior = LatentSpacePosterior(n, k, float(scale), float(intercept_scale))
    rotation = Rotation(n, k, pivots=_far_apart(matrix, k), scale=1.0)
    return Problem(
        posterior,
        Product(rotation, Trivial(1)),
        data=matrix[np.triu_indices(n, 1)],
        prior=standard_normal(rotation.dim - rotation.directions + 1),
        names=[*(f"position[{i},{j}]" for i in range(n) for j in range(k)), "intercept"],
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
        pointwise=Pointwise(posterior.constrain, _pointwise),
        predictive=Predictive(posterior.constrain, _predict, _FORECAST),
        dims={"position": ("node", "direction"), "distance": ("pair",)},
    )


def _far_apart(matrix: Float[np.ndarray, "n n"], k: int) -> tuple[int, ...]:
    """Return nodes in different directions, by classical scaling of shortest paths."""
    lengths = shortest_path(matrix, unweighted=True)
    reached = lengths[np.isfinite(lengths)]
    lengths = np.where(np.isfinite(lengths), lengths, reached.max() + 1.0)
    centring = np.eye(len(matrix)) - 1.0 / len(matrix)
    values, vectors = np.linalg.eigh(-0.5 * centring @ lengths**2 @ centring)
    sizes = np.sqrt(np.maximum(values[-k:], 1e-3 * max(values[-1], 1e-12)))
    return independent_rows(vectors[:, -k:] * sizes, k)
