"""The networks of a coupling flow, all layers stacked, and the norms of their weights.

Every weight matrix W enters as W / max(1, σ(W)/bound), with σ from one step of power iteration off
a carried vector while a flow is trained, and exact at its end.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.types import Key, Point, host_generator


class Conditioners(eqx.Module):
    """The networks raw(x) = W₃ tanh(W₂ tanh(W₁ x + b₁) + b₂) + b₃ of all layers, stacked.

    Each returns a log scale and a shift for every coordinate; masks choose among them.
    """

    weights: tuple[Float[Array, "layers ..."], ...]
    biases: tuple[Float[Array, "layers ..."], ...]

    def __call__(self, x: Point) -> Float[Array, " outputs"]:
        """The raw output of one layer's network (a slice of the stack)."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(weight @ x + bias)
        return self.weights[-1] @ x + self.biases[-1]


def initial_conditioners(
    key: Key, layers: int, dim: int, width: int
) -> tuple[Conditioners, tuple[Float[Array, "layers ..."], ...]]:
    """Conditioners of a new flow, and the vectors that estimate their norms.

    Glorot weights, but the last matrix is zero: the flow starts at the identity.
    """
    generator = host_generator(key)
    weights = [
        generator.standard_normal((layers, width, size)) * math.sqrt(2.0 / (size + width))
        for size in (dim, width)
    ]
    weights.append(np.zeros((layers, 2 * dim, width)))
    directions = [np.linalg.svd(weight, full_matrices=False)[0][:, :, 0] for weight in weights]
    biases = [np.zeros(weight.shape[:2]) for weight in weights]
    parts = [tuple(jnp.asarray(a, float) for a in part) for part in (weights, biases, directions)]
    return Conditioners(parts[0], parts[1]), parts[2]


def power_step(
    weight: Float[Array, "layers rows columns"], u: Float[Array, "layers rows"]
) -> tuple[Float[Array, "layers rows"], Float[Array, " layers"]]:
    """One power iteration in every layer: the new left vector and σ̂ = uᵀWv ≤ σ.

    The vectors are held constant under differentiation, which is exact at convergence.
    """
    frozen = jax.lax.stop_gradient(weight)
    v = _unit(jnp.einsum("lij,li->lj", frozen, jax.lax.stop_gradient(u)))
    u = _unit(jnp.einsum("lij,lj->li", frozen, v))
    return u, jnp.einsum("li,lij,lj->l", u, weight, v)


def _unit(vectors: Float[Array, "layers n"]) -> Float[Array, "layers n"]:
    """Unit vectors; a zero vector, met where a weight is zero, becomes the constant one."""
    vectors = jax.lax.stop_gradient(vectors)
    norms = jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    constant = jnp.full_like(vectors, vectors.shape[-1] ** -0.5)
    return jnp.where(norms > 0, vectors / jnp.where(norms > 0, norms, 1.0), constant)


def exactly_normalised(
    weight: Float[Array, "layers rows columns"], bound: float
) -> tuple[Float[Array, "layers rows columns"], Float[Array, "layers rows"]]:
    """Rescaled weights and their leading left vectors; NumPy, since it happens once."""
    left, values, _ = np.linalg.svd(np.asarray(weight), full_matrices=False)
    scale = np.maximum(1.0, values[:, 0] / bound)[:, None, None]
    return jnp.asarray(np.asarray(weight) / scale), jnp.asarray(left[:, :, 0])
