"""Scores of counts: a map of the real line that makes Gamma variables nearly normal.

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

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.coordinates.tails import Values

COUNT = 20.0
"""Number of observations that scores are made for."""

LOWEST = -746.0
"""Logarithm below that of every positive double: zero itself gets the score of this."""

INVERSE_STEPS = 8
"""Newton steps from a count to its score, which reach rounding error."""

Scores = Float[Array, "*rows m"]


def log_count(score: Values) -> Values:
    """φ(y) = y(√(y² + 8) - y)/4 + 2 asinh(y/√8), without cancellation on either side of zero."""
    bent, reach = _pieces(score)
    return bent + jnp.sign(score) * jnp.log(reach**2 / 8.0)


def log_growth(score: Values) -> Values:
    """Log dg/dy = φ(y) + log φ'(y), likewise."""
    bent, reach = _pieces(score)
    return bent + jnp.where(score > 0, jnp.log(0.5 * reach), jnp.log(4.0 / reach))


def _pieces(score: Values) -> tuple[Values, Values]:
    """The first term of φ, and √(y² + 8) + |y|, of which the rest of it is made."""
    reach = jnp.sqrt(jnp.square(score) + 8.0) + jnp.abs(score)
    return jnp.where(score > 0, 2.0 * score / reach, 0.25 * score * reach), reach


def _steepness(score: Values, reach: Values) -> Values:
    """φ'(y) = (√(y² + 8) - y)/2."""
    return jnp.where(score > 0, 4.0 / reach, 0.5 * reach)


@jax.custom_jvp
def score_of_log(log_count_: Values) -> Values:
    """The score y at which φ(y) is this.

    Newton's method on φ, which is concave, from a score below the root: every step stays below.
    """
    log_count_ = jnp.maximum(log_count_, LOWEST)

    def step(_: Array, score: Values) -> Values:
        slope = _steepness(score, _pieces(score)[1])
        return score + (log_count_ - log_count(score)) / slope

    start = -jnp.sqrt(jnp.maximum(-2.0 * log_count_, 0.0))
    return jax.lax.fori_loop(0, INVERSE_STEPS, step, start)


@score_of_log.defjvp
def _score_of_log_jvp(primals: tuple[Values], tangents: tuple[Values]) -> tuple[Values, Values]:
    """The change dφ over φ'(y)."""
    score = score_of_log(*primals)
    return score, tangents[0] / _steepness(score, _pieces(score)[1])


@jax.custom_jvp
def shift(centred: Scores) -> Float[Array, "*rows 1"]:
    """The t at which the counts of every row sum to `COUNT`.

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
    """The score of a count of `COUNT`/m, read from a table and not below it."""
    scores = np.linspace(-9.0, 4.0, 6_501)
    logs = scores * (np.sqrt(scores**2 + 8.0) - scores) / 4 + 2 * np.arcsinh(scores / np.sqrt(8.0))
    return float(np.interp(math.log(COUNT / m), logs, scores))
