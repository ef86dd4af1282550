"""The standard normal distribution far into both tails.

Any continuous distribution function F turns into a standard normal by Φ⁻¹(F(v)). Neither F nor
1 - F alone can carry that: beyond 8 standard deviations one of them rounds to one. The functions
here always hold the smaller of the two, as a logarithm.

Parameters of coordinates and priors: array leaves, kept in double precision.

They stay NumPy arrays until they meet a traced value, because an array made by JAX outside the
float64 context would round 0.7 to single precision for good.

Scores of counts: a map of the real line that makes Gamma variables nearly normal.

A probability estimated from counts is a Gamma variable divided by a sum. The logarithm of such a
variable has an exponential tail below, and it is its square root that is normal where counts are
large. The score y of a count g = exp φ(y) has both: φ falls like -y²/2, so that a density flat at
g = 0 has a normal tail, and grows like 2 log y. Its slope is φ'(y) = (√(y² + 8) - y)/2.

The scores of a row of probabilities are those of the counts `COUNT`·p_k, less their mean. There is
one shift t of centred scores at which counts sum to `COUNT`, because each of them grows with t.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp, ndtr
from jaxtyping import Array, ArrayLike, Float

Leaf = Float[Array | np.ndarray, "..."] | float
Numbers = Float[Array, "..."]


def as_leaf(value: ArrayLike) -> Leaf:
    """Return the value as a floating array: JAX arrays as they are, all else as float64 NumPy."""
    return value if isinstance(value, jax.Array) else np.asarray(value, float)


def parameter() -> Any:
    """Return a field that holds one parameter as an array leaf."""
    return eqx.field(converter=as_leaf)


def require_positive_parameter(owner: object, name: str, value: ArrayLike) -> None:
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
    """Return the value on the host, where nothing is compiled; None for a traced one."""
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value)


def from_nearest_end(low: Leaf, high: Leaf, fraction: Numbers, from_low: Array) -> Numbers:
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

_NEWTON_STEPS = 6
"""Five reach rounding error from the start below, anywhere in double precision."""


def normal_log_density(x: Numbers) -> Numbers:
    """Return log φ(x) = -x²/2 - log √(2π)."""
    return -0.5 * jnp.square(x) - LOG_ROOT_TWO_PI


def smaller_tail(x: Numbers) -> Numbers:
    """Φ(-|x|), the probability beyond x on its own side."""
    return ndtr(jnp.where(x < 0, x, -x))


def log_smaller_tail(x: Numbers) -> Numbers:
    """Return log Φ(-|x|), also where Φ(-|x|) itself underflows.

    The logarithm of Φ is exact to rounding while Φ is representable, which JAX's `log_ndtr` is
    not near -20; that takes over below.
    """
    lower = jnp.where(x < 0, x, -x)
    tail = ndtr(lower)
    tiny = jnp.finfo(tail.dtype).tiny
    return jnp.where(tail > tiny, jnp.log(jnp.maximum(tail, tiny)), log_ndtr(lower))


def log_tails(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return log Φ(x) and log Φ(-x), both to relative rounding error."""
    small, large = log_smaller_tail(x), jnp.log1p(-smaller_tail(x))
    return jnp.where(x < 0, small, large), jnp.where(x < 0, large, small)


@jax.custom_jvp
def from_log_tails(log_cdf: Numbers, log_survival: Numbers) -> Numbers:
    """The x with log Φ(x) = log_cdf and log Φ(-x) = log_survival, read from the smaller one."""
    x = quantile_of_log(jnp.minimum(log_cdf, log_survival))
    return jnp.where(log_cdf < log_survival, x, -x)


@from_log_tails.defjvp
def _from_log_tails_jvp(
    primals: tuple[Numbers, Numbers], tangents: tuple[Numbers, Numbers]
) -> tuple[Numbers, Numbers]:
    """Φ(x) = F gives φ(x) dx = F dlog F, and the same with the other sign above the median."""
    x = from_log_tails(*primals)
    lower = primals[0] < primals[1]
    log_slope = jnp.where(lower, *primals) - normal_log_density(x)
    return x, jnp.exp(log_slope) * jnp.where(lower, tangents[0], -tangents[1])


def quantile_of_log(log_tail: Numbers) -> Numbers:
    """Return the x ≤ 0 with log Φ(x) = log_tail, for tails up to one half.

    Newton on log Φ, which is concave, from -√(-2 log_tail), which lies below the root because
    Φ(-t) ≤ exp(-t²/2): every step stays below and none can overshoot.
    """

    def step(_: Array, x: Numbers) -> Numbers:
        log_value = log_smaller_tail(x)
        return x - (log_value - log_tail) * jnp.exp(log_value - normal_log_density(x))

    return jax.lax.fori_loop(0, _NEWTON_STEPS, step, -jnp.sqrt(-2 * log_tail))


COUNT = 20.0
"""Number of observations that scores are made for."""

_LOWEST = -746.0
"""Logarithm below that of every positive double: zero itself gets the score of this."""

INVERSE_STEPS = 8
"""Newton steps from a count to its score, which reach rounding error."""

Scores = Float[Array, "*rows m"]


def log_count(score: Numbers) -> Numbers:
    """φ(y) = y(√(y² + 8) - y)/4 + 2 asinh(y/√8), without cancellation on either side of zero."""
    bent, reach = _pieces(score)
    return bent + jnp.sign(score) * jnp.log(reach**2 / 8.0)


def log_growth(score: Numbers) -> Numbers:
    """Return the log dg/dy = φ(y) + log φ'(y), likewise."""
    bent, reach = _pieces(score)
    return bent + jnp.where(score > 0, jnp.log(0.5 * reach), jnp.log(4.0 / reach))


def _pieces(score: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first term of φ, and √(y² + 8) + |y|, of which the rest of it is made."""
    reach = jnp.sqrt(jnp.square(score) + 8.0) + jnp.abs(score)
    return jnp.where(score > 0, 2.0 * score / reach, 0.25 * score * reach), reach


def _steepness(score: Numbers, reach: Numbers) -> Numbers:
    """φ'(y) = (√(y² + 8) - y)/2."""
    return jnp.where(score > 0, 4.0 / reach, 0.5 * reach)


@jax.custom_jvp
def score_of_log(log_count_: Numbers) -> Numbers:
    """Return the score y at which φ(y) is this.

    Newton's method on φ, which is concave, from a score below the root: every step stays below.
    """
    log_count_ = jnp.maximum(log_count_, _LOWEST)

    def step(_: Array, score: Numbers) -> Numbers:
        slope = _steepness(score, _pieces(score)[1])
        return score + (log_count_ - log_count(score)) / slope

    start = -jnp.sqrt(jnp.maximum(-2.0 * log_count_, 0.0))
    return jax.lax.fori_loop(0, INVERSE_STEPS, step, start)


@score_of_log.defjvp
def _score_of_log_jvp(primals: tuple[Numbers], tangents: tuple[Numbers]) -> tuple[Numbers, Numbers]:
    """Return the change dφ over φ'(y)."""
    score = score_of_log(*primals)
    return score, tangents[0] / _steepness(score, _pieces(score)[1])


@jax.custom_jvp
def shift(centred: Scores) -> Float[Array, "*rows 1"]:
    """Return the t at which the counts of every row sum to `COUNT`.

    Newton's method on the sum, which is convex in t. It starts where the largest count alone is
    `COUNT`, or where the counts of equal scores are, whichever is lower; both are above the root,
    and every step stays there.
    """
    m = centred.shape[-1]
    alone = _score_of_share(1) - jnp.max(centred, axis=-1, keepdims=True)
    start = jnp.minimum(alone, _score_of_share(m))

    def step(_: Array, t: Array) -> Array:
        score = centred + t
        bent, reach = _pieces(score)
        turned = reach**2 / 8.0
        counts = jnp.exp(bent) * jnp.where(score > 0, turned, 1.0 / turned)
        slope = jnp.sum(counts * _steepness(score, reach), axis=-1, keepdims=True)
        return t - (jnp.sum(counts, axis=-1, keepdims=True) - COUNT) / slope

    return jax.lax.fori_loop(0, 4 if m == 2 else 6, step, start)


@shift.defjvp
def _shift_jvp(primals: tuple[Scores], tangents: tuple[Scores]) -> tuple[Array, Array]:
    """The counts keep their sum: Σ g_k φ'_k (dy_k + dt) = 0."""
    (centred,), (change,) = primals, tangents
    t = shift(centred)
    share = jax.nn.softmax(log_growth(centred + t))
    return t, -jnp.sum(share * change, axis=-1, keepdims=True)


def log_volume(centred: Scores) -> Float[Array, "*rows"]:
    """Log volume change from centred scores, in an orthonormal basis, to all but one probability.

    It is Σ log D_k - log Σ D_k + ½ log m with D_k = dp_k/dy_k.
    """
    slopes = log_growth(centred + shift(centred)) - math.log(COUNT)
    total = jnp.sum(slopes, axis=-1) - logsumexp(slopes, axis=-1)
    return total + 0.5 * math.log(centred.shape[-1])


@functools.cache
def _score_of_share(m: int) -> float:
    """Return the score of a count of `COUNT`/m, read from a table and not below it."""
    scores = np.linspace(-9.0, 4.0, 6_501)
    logs = scores * (np.sqrt(scores**2 + 8.0) - scores) / 4 + 2 * np.arcsinh(scores / np.sqrt(8.0))
    return float(np.interp(math.log(COUNT / m), logs, scores))
