"""The standard normal distribution far into both tails.

Any continuous distribution function F turns into a standard normal by Φ⁻¹(F(v)). Neither F nor
1 - F alone can carry that: beyond 8 standard deviations one of them rounds to one. The functions
here always hold the smaller of the two, as a logarithm.

Parameters of coordinates and priors: array leaves, kept in double precision.

They stay NumPy arrays until they meet a traced value, because an array made by JAX outside the
float64 context would round 0.7 to single precision for good.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, ArrayLike, Float

Leaf = Float[Array | np.ndarray, "..."] | float
Values = Float[Array, "..."]


def as_leaf(value: ArrayLike) -> Leaf:
    """The value as a floating array: JAX arrays as they are, all else as float64 NumPy."""
    return value if isinstance(value, jax.Array) else np.asarray(value, float)


def parameter() -> Any:
    """A field that holds one parameter as an array leaf."""
    return eqx.field(converter=as_leaf)


def require_positive(owner: object, name: str, value: ArrayLike) -> None:
    """Refuse a parameter that is known not to be positive and finite."""
    known = _numbers(value)
    if known is not None and not np.all((known > 0) & np.isfinite(known)):
        raise ValueError(f"{type(owner).__name__}: {name} must be positive and finite, got {value}")


def require_interval(owner: object, low: ArrayLike, high: ArrayLike) -> None:
    """Refuse bounds that are known not to be finite with low < high."""
    below, above = _numbers(low), _numbers(high)
    if below is None or above is None:
        return
    if not np.all((below < above) & np.isfinite(below) & np.isfinite(above)):
        raise ValueError(
            f"{type(owner).__name__}: expected finite low < high, got low={low}, high={high}"
        )


def _numbers(value: ArrayLike) -> np.ndarray | None:
    """The value on the host, where nothing is compiled; None for a traced one."""
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value)


def from_nearest_end(low: Leaf, high: Leaf, fraction: Values, from_low: Array) -> Values:
    """The point at this fraction of the interval from one of its ends, strictly inside.

    Measured from the nearer end, low + width·fraction or high - width·fraction, a tiny fraction
    is not lost against one. What still rounds to an end moves to the next number inside, so that
    the value stays in the open support.
    """
    width = high - low
    value = jnp.where(from_low, low + width * fraction, high - width * fraction)
    low, high = jnp.asarray(low, value.dtype), jnp.asarray(high, value.dtype)
    return jnp.clip(value, jnp.nextafter(low, high), jnp.nextafter(high, low))


LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)

NEWTON_STEPS = 6
"""Five reach rounding error from the start below, anywhere in double precision."""


def normal_log_density(x: Values) -> Values:
    """Log φ(x) = -x²/2 - log √(2π)."""
    return -0.5 * jnp.square(x) - LOG_ROOT_TWO_PI


def smaller_tail(x: Values) -> Values:
    """Φ(-|x|), the probability beyond x on its own side."""
    return ndtr(jnp.where(x < 0, x, -x))


def log_smaller_tail(x: Values) -> Values:
    """Log Φ(-|x|), also where Φ(-|x|) itself underflows.

    The logarithm of Φ is exact to rounding while Φ is representable, which JAX's `log_ndtr` is
    not near -20; that takes over below.
    """
    lower = jnp.where(x < 0, x, -x)
    tail = ndtr(lower)
    tiny = jnp.finfo(tail.dtype).tiny
    return jnp.where(tail > tiny, jnp.log(jnp.maximum(tail, tiny)), log_ndtr(lower))


def log_tails(x: Values) -> tuple[Values, Values]:
    """Log Φ(x) and log Φ(-x), both to relative rounding error."""
    small, large = log_smaller_tail(x), jnp.log1p(-smaller_tail(x))
    return jnp.where(x < 0, small, large), jnp.where(x < 0, large, small)


@jax.custom_jvp
def from_log_tails(log_cdf: Values, log_survival: Values) -> Values:
    """The x with log Φ(x) = log_cdf and log Φ(-x) = log_survival, read from the smaller one."""
    x = quantile_of_log(jnp.minimum(log_cdf, log_survival))
    return jnp.where(log_cdf < log_survival, x, -x)


@from_log_tails.defjvp
def _from_log_tails_jvp(
    primals: tuple[Values, Values], tangents: tuple[Values, Values]
) -> tuple[Values, Values]:
    """Φ(x) = F gives φ(x) dx = F dlog F, and the same with the other sign above the median."""
    x = from_log_tails(*primals)
    lower = primals[0] < primals[1]
    log_slope = jnp.where(lower, *primals) - normal_log_density(x)
    return x, jnp.exp(log_slope) * jnp.where(lower, tangents[0], -tangents[1])


def quantile_of_log(log_tail: Values) -> Values:
    """The x ≤ 0 with log Φ(x) = log_tail, for tails up to one half.

    Newton on log Φ, which is concave, from -√(-2 log_tail), which lies below the root because
    Φ(-t) ≤ exp(-t²/2): every step stays below and none can overshoot.
    """

    def step(_: Array, x: Values) -> Values:
        log_value = log_smaller_tail(x)
        return x - (log_value - log_tail) * jnp.exp(log_value - normal_log_density(x))

    return jax.lax.fori_loop(0, NEWTON_STEPS, step, -jnp.sqrt(-2 * log_tail))
