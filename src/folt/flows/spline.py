"""Neural spline couplings on top of another distribution, from flowjax's parts."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import (
    AbstractBijection,
    Chain,
    Coupling,
    Invert,
    Permute,
    RationalQuadraticSpline,
    Scan,
)
from flowjax.utils import get_ravelled_pytree_constructor
from jaxtyping import Array, Int

from folt.flows.initial import host_generator
from folt.types import Distribution, Key, Point, Scalar


class Transported(Distribution):
    """A base distribution pushed through a flowjax bijection.

    log q(x) = log base(u) + log |det ∂u/∂x| with u = pull(x). flowjax's own transformed
    distribution reports a NaN as -inf, which would pass for a point outside the support; here a
    fault stays NaN and can be counted.
    """

    base: Distribution
    bijection: AbstractBijection

    def __check_init__(self) -> None:
        if self.bijection.shape != (self.base.dim,):
            raise ValueError(
                f"the base has dimension {self.base.dim}, "
                f"the bijection has shape {self.bijection.shape}"
            )

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.base.dim

    def push_and_log_det(self, u: Point) -> tuple[Point, Scalar]:
        """From the base's space to the data, with log |det ∂x/∂u|."""
        return self.bijection.transform_and_log_det(u)

    def pull_and_log_det(self, x: Point) -> tuple[Point, Scalar]:
        """From the data to the base's space, with log |det ∂u/∂x|."""
        return self.bijection.inverse_and_log_det(x)

    def push(self, u: Point) -> Point:
        """From the base's space to the data."""
        return self.push_and_log_det(u)[0]

    def pull(self, x: Point) -> Point:
        """From the data to the base's space."""
        return self.pull_and_log_det(x)[0]

    def log_prob(self, x: Point) -> Scalar:
        """Log density of the base at pull(x), plus the log determinant of the pull."""
        u, log_det = self.pull_and_log_det(x)
        return self.base.log_prob(u) + log_det

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""
        u, log_prob = self.base.sample_and_log_prob(key)
        x, log_det = self.push_and_log_det(u)
        return x, log_prob - log_det


def spline_coupling(
    key: Key,
    base: Distribution,
    *,
    layers: int = 6,
    width: int = 64,
    knots: int = 8,
    interval: int = 6,
) -> Transported:
    """A rational quadratic spline coupling flow that starts at the identity on its base.

    Each layer moves half of the coordinates by monotone splines on [-interval, interval], the
    identity outside, with knots and slopes from a tanh network of two hidden layers that sees
    the other half. Two successive layers move complementary halves. The base should therefore be
    roughly standardised: wrap the flow in `Pushed` where it is not.

    Args:
        key: for the initial weights and the order of the coordinates.
        base: what the flow starts from and corrects.
        layers: number of coupling layers, scanned.
        width: hidden width of the conditioners.
        knots: inner knots of every spline.
        interval: where the splines act; an integer, so that it adapts to any precision.
    """
    if base.dim < 2:
        raise ValueError("a coupling needs at least two coordinates, got dimension 1")
    if min(layers, width, knots, interval) < 1:
        raise ValueError(
            "layers, width, knots and interval must be positive, "
            f"got {layers}, {width}, {knots} and {interval}"
        )
    skeleton = _skeleton(base.dim, width, knots, interval, jnp.zeros(()).dtype.name)
    stacked = _filled(host_generator(key), skeleton, layers)
    # The scan's own direction is the pull: the one that training and certification use most.
    return Transported(base, Invert(Scan(stacked)))


@functools.cache
def _skeleton(dim: int, width: int, knots: int, interval: int, precision: str) -> Chain:
    """One layer with shapes in the place of arrays, made once per architecture and precision.

    flowjax keeps a freshly made function inside a coupling. Sharing it between all flows of one
    architecture keeps a second flow from compiling again.
    """
    transformer = RationalQuadraticSpline(knots=knots, interval=interval)
    constructor, _ = get_ravelled_pytree_constructor(transformer, eqx.is_inexact_array)

    def layer(key: Key, order: Int[Array, " dim"]) -> Chain:
        coupling = Coupling(
            key,
            transformer=transformer,
            untransformed_dim=dim // 2,
            dim=dim,
            nn_width=width,
            nn_depth=2,
            nn_activation=jnp.tanh,
        )
        return Chain([Permute(order), coupling, Permute(order)])

    shapes = eqx.filter_eval_shape(layer, jax.random.key(0), jnp.arange(dim))
    # The function made while only shapes were traced holds on to the trace: replace it.
    return eqx.tree_at(
        lambda chain: chain.bijections[1].transformer_constructor, shapes, constructor
    )


def _filled(generator: np.random.Generator, skeleton: Chain, layers: int) -> Chain:
    """All layers, stacked: reorder, couple, undo the reordering.

    The last matrix of every conditioner is zero, which makes its splines the identity.
    """
    orders = _orders(generator, layers, skeleton.shape[0])
    undone = np.argsort(orders, axis=-1)
    *hidden, last = (linear.weight for linear in _network(skeleton).layers)
    weights = [generator.standard_normal((layers, *w.shape)) / w.shape[1] ** 0.5 for w in hidden]
    weights.append(np.zeros((layers, *last.shape)))
    biases = [np.zeros(weight.shape[:2]) for weight in weights]
    return eqx.tree_at(
        _arrays,
        skeleton,
        [
            *(jnp.asarray(order) for order in (orders, undone, undone, orders)),
            *(jnp.asarray(array, last.dtype) for array in (*weights, *biases)),
        ],
    )


def _arrays(chain: Any) -> list[Array]:
    """Where the arrays of a layer are, in the order in which `_filled` lists them."""
    there, _, back = chain.bijections
    linears = _network(chain).layers
    return [
        there.permutation[0],
        there.inverse_permutation[0],
        back.permutation[0],
        back.inverse_permutation[0],
        *(linear.weight for linear in linears),
        *(linear.bias for linear in linears),
    ]


def _network(chain: Any) -> eqx.nn.MLP:
    return chain.bijections[1].conditioner


def _orders(generator: np.random.Generator, layers: int, dim: int) -> np.ndarray:
    """Random orders for even layers, each reversed for the odd layer that follows."""
    pairs = [generator.permutation(dim) for _ in range((layers + 1) // 2)]
    return np.stack([order for pair in pairs for order in (pair, pair[::-1])])[:layers]
