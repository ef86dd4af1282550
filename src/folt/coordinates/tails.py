"""The standard normal distribution far into both tails.

Any continuous distribution function F turns into a standard normal by Φ⁻¹(F(v)). Neither F nor
1 - F alone can carry that: beyond 8 standard deviations one of them rounds to one. The functions
here always hold the smaller of the two, as a logarithm.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array

from folt.coordinates.leaves import Values

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
