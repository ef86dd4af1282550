"""Parameters of coordinates and priors: array leaves, kept in double precision.

They stay NumPy arrays until they meet a traced value, because an array made by JAX outside the
float64 context would round 0.7 to single precision for good.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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
