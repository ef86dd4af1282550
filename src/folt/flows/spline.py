"""Neural spline couplings on top of another distribution, from flowjax's parts."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.bijections import (
    AbstractBijection,
    Chain,
    Coupling,
    Invert,
    Permute,
    RationalQuadraticSpline,
    Scan,
)
from jaxtyping import Array, Int

from folt._types import Distribution, Key, Point, Scalar


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
    def dim(self) -> int:  # type: ignore[override]
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
    architecture = (base.dim, width, knots, interval)
    arrays = _layer_arrays(key, layers, *architecture)
    functions = _layer_functions(*architecture, jnp.zeros(()).dtype.name)
    # The scan's own direction is the pull: the one that training and certification use most.
    return Transported(base, Invert(Scan(eqx.combine(arrays, functions))))


@eqx.filter_jit
def _layer_arrays(key: Key, layers: int, dim: int, width: int, knots: int, interval: int) -> Chain:
    """The arrays of all layers, stacked along a leading axis."""

    def arrays(key: Key, order: Int[Array, " dim"]) -> Chain:
        return eqx.filter(_layer(key, order, width, knots, interval), eqx.is_array)

    order_key, weight_key = jax.random.split(key)
    orders = _orders(order_key, layers, dim)
    return jax.vmap(arrays)(jax.random.split(weight_key, layers), orders)


@functools.cache
def _layer_functions(dim: int, width: int, knots: int, interval: int, precision: str) -> Chain:
    """What is not an array in a layer of this architecture, made once per precision.

    flowjax keeps freshly made functions inside a coupling. Sharing them between all flows of one
    architecture keeps a second flow from compiling again.
    """
    layer = _layer(jax.random.key(0), jnp.arange(dim), width, knots, interval)
    return eqx.filter(layer, eqx.is_array, inverse=True)


def _layer(key: Key, order: Int[Array, " dim"], width: int, knots: int, interval: int) -> Chain:
    """Reorder, couple, undo the reordering."""
    dim = order.shape[0]
    coupling = Coupling(
        key,
        transformer=RationalQuadraticSpline(knots=knots, interval=interval),
        untransformed_dim=dim // 2,
        dim=dim,
        nn_width=width,
        nn_depth=2,
        nn_activation=jnp.tanh,
    )
    return Chain([Permute(order), _silent(coupling), Permute(jnp.argsort(order))])


def _silent(coupling: Coupling) -> Coupling:
    """The coupling with its conditioner's last layer zero, which makes it the identity."""
    return eqx.tree_at(
        lambda c: (c.conditioner.layers[-1].weight, c.conditioner.layers[-1].bias),
        coupling,
        replace_fn=jnp.zeros_like,
    )


def _orders(key: Key, layers: int, dim: int) -> Int[Array, "layers dim"]:
    """Random orders for even layers, each reversed for the odd layer that follows."""
    keys = jax.random.split(key, (layers + 1) // 2)
    drawn = jax.vmap(lambda k: jax.random.permutation(k, dim))(keys)
    return jnp.stack([drawn, drawn[:, ::-1]], axis=1).reshape(-1, dim)[:layers]
