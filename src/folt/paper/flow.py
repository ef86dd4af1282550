"""Spectrally normalised affine couplings: the paper's flow.

Layers are stacked along a leading axis and scanned, so that the time to compile does not grow
with the depth. Every weight matrix W of a conditioner enters as W / max(1, σ(W)/bound). While a
flow is trained σ comes from one step of power iteration off a carried vector, which follows the
slowly moving weights; `certified` then replaces the estimate by exact singular values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.proposals.elliptical import log_radial
from folt.types import Distribution, Key, Point, Scalar, host_generator


class Conditioners(eqx.Module):
    """The networks raw(x) = W₃ tanh(W₂ tanh(W₁ x + b₁) + b₂) + b₃ of all layers, stacked.

    Each returns a log scale and a shift for every coordinate; masks choose among them.
    """

    weights: tuple[Float[Array, "layers ..."], ...]
    biases: tuple[Float[Array, "layers ..."], ...]

    def __call__(self, x: Point) -> Float[Array, " outputs"]:
        """Return the raw output of one layer's network (a slice of the stack)."""
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
    """Return one power iteration in every layer: the new left vector and σ̂ = uᵀWv ≤ σ.

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


Flow = TypeVar("Flow", bound=Distribution)


_Layer = Callable[[Conditioners, Point, float, Point], tuple[Point, Scalar]]
"""One coupling layer: its network, mask and clip, and the point it moves."""


class LipschitzBounds(NamedTuple):
    """What spectral normalisation promises, one number per coupling layer.

    conditioner: |raw(x) - raw(y)| ≤ conditioner · |x - y|, everywhere.
    push: norm of the Jacobian of u ↦ x for |u|_∞ ≤ radius on the layer's latent side.
    pull: norm of the Jacobian of the way back at the images of those u.
    """

    conditioner: Float[Array, " layers"]
    push: Float[Array, " layers"]
    pull: Float[Array, " layers"]


class SpectralCoupling(Distribution):
    """RealNVP on a standard Gaussian with spectrally normalised tanh conditioners.

    One layer keeps the coordinates its mask m selects and moves the others,
    x = m·u + (1-m)·(u·exp(s) + t) with (s, t) = (c·tanh(a/c), b) and (a, b) = raw(m·u): the log
    scale never exceeds the clip c. Masks alternate between even and odd coordinates.

    Args:
        dim: dimension of the space.
        layers: number of coupling layers.
        width: hidden width of the conditioners.
        key: for the initial weights; the flow starts at the identity.
        clip: bound c on the absolute log scale.
        bound: largest spectral norm of any weight matrix.
    """

    conditioners: Conditioners
    directions: tuple[Float[Array, "layers ..."], ...]
    clip: float = eqx.field(static=True)
    bound: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        layers: int,
        width: int,
        key: Key,
        *,
        clip: float = 0.7,
        bound: float = 1.0,
    ):
        if min(dim, layers, width) < 1:
            raise ValueError(
                f"dim, layers and width must be positive, got {dim}, {layers} and {width}"
            )
        if not (clip > 0 and bound > 0):
            raise ValueError(f"clip and bound must be positive, got {clip} and {bound}")
        self.clip, self.bound = clip, bound
        self.conditioners, self.directions = initial_conditioners(key, layers, dim, width)

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.conditioners.weights[0].shape[-1]

    @property
    def layers(self) -> int:
        """Number of coupling layers."""
        return self.conditioners.weights[0].shape[0]

    @property
    def masks(self) -> Float[Array, "layers dim"]:
        """One where a layer keeps a coordinate, zero where it moves it."""
        parity = (jnp.arange(self.layers)[:, None] + jnp.arange(self.dim)) % 2
        return parity.astype(self.conditioners.weights[0].dtype)

    def normalised(self) -> Conditioners:
        """Return the conditioners as they are used, W / max(1, σ̂/bound)."""
        weights = tuple(
            weight / jnp.maximum(1.0, power_step(weight, u)[1] / self.bound)[:, None, None]
            for weight, u in zip(self.conditioners.weights, self.directions, strict=True)
        )
        return Conditioners(weights, self.conditioners.biases)

    def push_and_log_det(self, u: Point) -> tuple[Point, Scalar]:
        """From the latent point to the data, with log |det ∂x/∂u|."""
        return self._scan(_push_layer, u, reverse=False)

    def pull_and_log_det(self, x: Point) -> tuple[Point, Scalar]:
        """From the data to the latent point, with log |det ∂u/∂x|."""
        return self._scan(_pull_layer, x, reverse=True)

    def push(self, u: Point) -> Point:
        """From the latent point to the data."""
        return self.push_and_log_det(u)[0]

    def pull(self, x: Point) -> Point:
        """From the data to the latent point."""
        return self.pull_and_log_det(x)[0]

    def log_prob(self, x: Point) -> Scalar:
        """Log density log N(pull(x); 0, I) + log |det ∂u/∂x|."""
        u, log_det = self.pull_and_log_det(x)
        return log_radial(jnp.sum(u**2), self.dim) + log_det

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        u = jax.random.normal(key, (self.dim,), self.conditioners.weights[0].dtype)
        x, log_det = self.push_and_log_det(u)
        return x, log_radial(jnp.sum(u**2), self.dim) - log_det

    def refreshed(self) -> SpectralCoupling:
        """Return the same flow with the carried vectors one power iteration further."""
        directions = tuple(
            power_step(weight, u)[0]
            for weight, u in zip(self.conditioners.weights, self.directions, strict=True)
        )
        return eqx.tree_at(lambda flow: flow.directions, self, directions)

    def certified(self) -> SpectralCoupling:
        """Return the flow whose declared Lipschitz bounds are true, by exact singular values.

        The weights in use are rescaled wherever a norm still exceeds the bound (power iteration
        can only underestimate), and the carried vectors become the exact leading directions.
        """
        weights, directions = zip(
            *(exactly_normalised(w, self.bound) for w in _normalised(self).weights), strict=True
        )
        return eqx.tree_at(
            lambda flow: (flow.conditioners.weights, flow.directions), self, (weights, directions)
        )

    def lipschitz_bounds(self, radius: float) -> LipschitzBounds:
        """Bounds per layer, true for a `certified` flow.

        tanh has slope at most one, so raw has Lipschitz constant ℓ = bound³. The Jacobian of a
        layer is [[I, 0], [A, exp(s)]] with |A| ≤ ℓ·sqrt(1 + radius²·exp(2c)); its inverse has
        exp(-s) and |B| ≤ ℓ·sqrt(exp(2c) + radius²). The norm of such a block matrix is at most
        that of the 2×2 matrix of the norms of its blocks.

        Args:
            radius: largest absolute coordinate on the latent side of the layer.
        """
        if not radius >= 0:
            raise ValueError(f"radius must not be negative, got {radius}")
        slope = self.bound ** len(self.conditioners.weights)
        stretch = math.exp(self.clip)
        push = _block_norm(slope * math.hypot(1.0, radius * stretch), stretch)
        pull = _block_norm(slope * math.hypot(stretch, radius), stretch)
        return LipschitzBounds(*(jnp.full(self.layers, value) for value in (slope, push, pull)))

    def _scan(self, layer: _Layer, point: Point, reverse: bool) -> tuple[Point, Scalar]:
        def step(
            carry: tuple[Point, Scalar], parts: tuple[Conditioners, Point]
        ) -> tuple[tuple[Point, Scalar], None]:
            conditioner, mask = parts
            moved, log_det = layer(conditioner, mask, self.clip, carry[0])
            return (moved, carry[1] + log_det), None

        start = (point, jnp.zeros((), point.dtype))
        parts = (self.normalised(), self.masks)
        return jax.lax.scan(step, start, parts, reverse=reverse)[0]


def refreshed_couplings(flow: Flow) -> Flow:
    """Return any flow with every spectral coupling inside it refreshed."""
    return _map_couplings(SpectralCoupling.refreshed, flow)


def certified(flow: Flow) -> Flow:
    """Return any flow with every spectral coupling inside it certified."""
    return _map_couplings(SpectralCoupling.certified, flow)


def paper_architecture(dim: int) -> tuple[int, int, int]:
    """Layers, width and training steps that the paper uses in this dimension."""
    if dim <= 4:
        return 8, 64, 2000
    if dim <= 6:
        return 10, 128, 2000
    if dim <= 12:
        return 12, 128, 3500
    return 16, 256, 3500


def _scale_and_shift(
    conditioner: Conditioners, mask: Point, clip: float, kept: Point
) -> tuple[Point, Point]:
    """Clipped log scale and shift, both zero on the coordinates that are kept."""
    raw_scale, shift = jnp.split(conditioner(kept), 2)
    return (1 - mask) * clip * jnp.tanh(raw_scale / clip), (1 - mask) * shift


def _push_layer(
    conditioner: Conditioners, mask: Point, clip: float, u: Point
) -> tuple[Point, Scalar]:
    log_scale, shift = _scale_and_shift(conditioner, mask, clip, mask * u)
    return u * jnp.exp(log_scale) + shift, jnp.sum(log_scale)


def _pull_layer(
    conditioner: Conditioners, mask: Point, clip: float, x: Point
) -> tuple[Point, Scalar]:
    log_scale, shift = _scale_and_shift(conditioner, mask, clip, mask * x)
    return (x - shift) * jnp.exp(-log_scale), -jnp.sum(log_scale)


@eqx.filter_jit
def _normalised(flow: SpectralCoupling) -> Conditioners:
    return flow.normalised()


def _block_norm(below: float, corner: float) -> float:
    """Spectral norm of [[1, 0], [below, corner]]."""
    trace = 1.0 + below**2 + corner**2
    return math.sqrt(0.5 * (trace + math.sqrt(max(trace**2 - 4 * corner**2, 0.0))))


def _map_couplings(change: Callable[[SpectralCoupling], SpectralCoupling], flow: Flow) -> Flow:
    def is_coupling(node: object) -> bool:
        return isinstance(node, SpectralCoupling)

    return jax.tree.map(
        lambda node: change(node) if is_coupling(node) else node, flow, is_leaf=is_coupling
    )
