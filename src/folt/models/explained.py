"""What modes explain of complex normal ordinates, with derivatives written out.

With a_i the amplitudes of the modes at one frequency, G the m x m matrix of inner products of their
shapes in the metric of the noise, and q the products of shapes and ordinates in that metric,

    W = I + (a_i·G_ij·a_j)_ij,    u = (a_i·q_i)_i,    explained = uᴴ W⁻¹ u - log|W|.

The factors of W are written out entry by entry for all frequencies at once, several times faster
than a batch of small factorisations. Derivatives through them would be slow in turn (twelve times
the value); with z = W⁻¹u and P = W⁻¹ + Re z·zᴴ the change of `explained` is

    2·Re zᴴ du - Σ_ij P_ij·dW_ij.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Rows = list[list[Array]]
"""Entries of lower triangular matrices, each an array over the frequencies."""


@jax.custom_jvp
def explained(
    inner: Float[Array, "m m"], amplitude: Float[Array, "m k"], seen: Float[Array, "2 m k"]
) -> Float[Array, " k"]:
    """uᴴ W⁻¹ u - log|W| at every frequency.

    Args:
        inner: G.
        amplitude: a_i at every frequency.
        seen: real and imaginary parts of q.
    """
    factor = _factor(inner, amplitude)
    return _value(factor, [_forward(factor, list(amplitude * part)) for part in seen])


@explained.defjvp
def _explained_jvp(
    primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    inner, amplitude, seen = primals
    d_inner, d_amplitude, d_seen = tangents
    m = amplitude.shape[0]
    factor = _factor(inner, amplitude)
    halves = [_forward(factor, list(amplitude * part)) for part in seen]
    solved = jnp.stack([jnp.stack(_backward(factor, half)) for half in halves])
    unit = jnp.eye(m, dtype=inner.dtype)[:, :, None] * jnp.ones_like(amplitude[0])
    inverse = jnp.stack([jnp.stack(_backward(factor, _forward(factor, list(e)))) for e in unit])
    weight = inverse + jnp.einsum("pik,pjk->ijk", solved, solved)
    along = jnp.sum(solved * seen, axis=0) - jnp.einsum("ijk,ij,jk->ik", weight, inner, amplitude)
    slope = weight * amplitude[:, None] * amplitude[None, :]
    change = 2 * jnp.sum(along * d_amplitude, axis=0)
    change = change + 2 * jnp.sum(amplitude * solved * d_seen, axis=(0, 1))
    return _value(factor, halves), change - jnp.einsum("ijk,ij->k", slope, d_inner)


def _value(factor: Rows, halves: Rows) -> Float[Array, " k"]:
    """The squares of L⁻¹u less the logarithm of |W| = |L|²."""
    value = jnp.zeros_like(factor[0][0])
    for i, row in enumerate(factor):
        value = value - 2 * jnp.log(row[i])
    for half in halves:
        for one in half:
            value = value + jnp.square(one)
    return value


def _factor(inner: Float[Array, "m m"], amplitude: Float[Array, "m k"]) -> Rows:
    """Cholesky factors of W, row by row."""
    factor: Rows = []
    for i in range(amplitude.shape[0]):
        row: list[Array] = []
        for j in range(i + 1):
            entry = inner[i, j] * amplitude[i] * amplitude[j] + (1.0 if i == j else 0.0)
            for k in range(j):
                entry = entry - row[k] * (row[k] if i == j else factor[j][k])
            row.append(jnp.sqrt(entry) if i == j else entry / factor[j][j])
        factor.append(row)
    return factor


def _forward(factor: Rows, right: list[Array]) -> list[Array]:
    """The solution of factor·y = right."""
    solved: list[Array] = []
    for i, left in enumerate(right):
        for k in range(i):
            left = left - factor[i][k] * solved[k]
        solved.append(left / factor[i][i])
    return solved


def _backward(factor: Rows, right: list[Array]) -> list[Array]:
    """The solution of factorᵀ·y = right."""
    m = len(right)
    solved = list(right)
    for i in reversed(range(m)):
        left = right[i]
        for k in range(i + 1, m):
            left = left - factor[k][i] * solved[k]
        solved[i] = left / factor[i][i]
    return solved
