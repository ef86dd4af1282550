"""The complex normal density of ordinates, by what modes explain of them.

With W a Hermitian m x m matrix and u an m-vector at every frequency (`shapes`),

    explained = uᴴ W⁻¹ u - log|W|.

W is real where the forces of different modes are uncorrelated; u then has a real and an imaginary
part that share its factors. The factors are written out entry by entry for all frequencies at once,
several times faster than a batch of small factorisations. Derivatives through them would be slow in
turn; with z = W⁻¹u the change of `_explained` is

    2·Re zᴴ du - Re Σ_ij (conj(z_i)·z_j + conj(W⁻¹_ij))·dW_ij.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from folt.modal.models.coherence import Lower, Vector, correlated_entries, transfer
from folt.modal.models.ordinates import FourierOrdinates
from folt.modal.models.powers import inverse_resonance

_LOG_PI = math.log(math.pi)


class Shapes(NamedTuple):
    """What the ordinates are made of, in the unit of the scaled ordinates.

    Attributes:
        psi: shapes times the roots of their powers.
        frequency: in Hz.
        damping: ratios.
        noise: density of every channel.
        root: R of the coherences C = R·Rᴴ between modal forces; None where they are uncorrelated.
    """

    psi: Float[Array, "m n"]
    frequency: Float[Array, " m"]
    damping: Float[Array, " m"]
    noise: Float[Array, " n"]
    root: Complex[Array, "m m"] | None = None


def log_complex_normal(modes: Shapes, data: FourierOrdinates, exponent: int) -> Float[Array, " k"]:
    """Return log CN(F_k; 0, E_k) by the m x m matrices W_k."""
    real, imaginary = jnp.asarray(data.real), jnp.asarray(data.imaginary)
    weighted = modes.psi / modes.noise
    inner, seen = weighted @ modes.psi.T, [weighted @ real.T, weighted @ imaginary.T]
    at = (jnp.asarray(data.frequency), modes.frequency, modes.damping, exponent)
    if modes.root is None:
        stiff = inverse_resonance(*at)
        matrix = tuple(
            tuple(inner[i, j] + (row if i == j else jnp.zeros_like(row)) for j in range(i + 1))
            for i, row in enumerate(stiff)
        )
        gained = _explained(matrix, tuple(map(tuple, seen))) + jnp.log(jnp.prod(stiff, axis=0))
    else:
        both = seen[0] + 1j * seen[1]
        matrix, part = correlated_entries(modes.root, transfer(*at), inner, both)
        gained = _explained(matrix, (part,))
    total = (jnp.square(real) + jnp.square(imaginary)) @ (1 / modes.noise)
    constant = jnp.sum(jnp.log(modes.noise)) + real.shape[1] * _LOG_PI
    return gained - total - constant


@jax.custom_jvp
def _explained(matrix: Lower, parts: tuple[Vector, ...]) -> Float[Array, " k"]:
    """uᴴ W⁻¹ u - log|W| at every frequency.

    Args:
        matrix: lower triangle of W, of real or of complex entries.
        parts: u; as its real and its imaginary part where W is real.
    """
    factor = _factor(matrix)
    return _value(factor, [_forward(factor, part) for part in parts])


@_explained.defjvp
def _explained_jvp(
    primals: tuple[Lower, tuple[Vector, ...]], tangents: tuple[Lower, tuple[Vector, ...]]
) -> tuple[Array, Array]:
    (matrix, parts), (d_matrix, d_parts) = primals, tangents
    m = len(matrix)
    factor = _factor(matrix)
    halves = [_forward(factor, part) for part in parts]
    solved = [_backward(factor, half) for half in halves]
    inverse = _inverse_factor(factor)
    change = jnp.zeros_like(factor[0][0].real)
    for z, d_u in zip(solved, d_parts, strict=True):
        for i in range(m):
            change = change + 2 * jnp.real(jnp.conj(z[i]) * d_u[i])
    for i in range(m):
        for j in range(i + 1):
            # Entry (i, j) of W⁻¹ = L⁻ᴴ L⁻¹, conjugated.
            weight = _sum(inverse[k][i] * jnp.conj(inverse[k][j]) for k in range(i, m))
            weight = weight + _sum(jnp.conj(z[i]) * z[j] for z in solved)
            both = 1.0 if i == j else 2.0
            change = change - both * jnp.real(weight * d_matrix[i][j])
    return _value(factor, halves), change


def _value(factor: Lower, halves: list[Vector]) -> Float[Array, " k"]:
    """Return the squares of L⁻¹u less the logarithm of |W| = |L|²."""
    squares = _sum(jnp.real(one * jnp.conj(one)) for half in halves for one in half)
    return squares - 2 * _sum(jnp.log(jnp.real(row[i])) for i, row in enumerate(factor))


def _sum(terms: Iterable[Array]) -> Array:
    """The sum of some arrays, without an array of zeros to begin with."""
    return functools.reduce(operator.add, terms)


def _factor(matrix: Lower) -> Lower:
    """Cholesky factors L of W = L·Lᴴ, row by row."""
    factor: list[Vector] = []
    for i, entries in enumerate(matrix):
        row: list[Array] = []
        for j, entry in enumerate(entries):
            other = row if i == j else factor[j]
            for k in range(j):
                entry = entry - row[k] * jnp.conj(other[k])
            row.append(jnp.sqrt(entry.real).astype(entry.dtype) if i == j else entry / factor[j][j])
        factor.append(tuple(row))
    return tuple(factor)


def _forward(factor: Lower, right: Vector) -> Vector:
    """Return the solution of L·y = right."""
    solved: list[Array] = []
    for i, left in enumerate(right):
        for k in range(i):
            left = left - factor[i][k] * solved[k]
        solved.append(left / factor[i][i])
    return tuple(solved)


def _backward(factor: Lower, right: Vector) -> Vector:
    """Return the solution of Lᴴ·y = right."""
    m, solved = len(right), list(right)
    for i in reversed(range(m)):
        left = right[i]
        for k in range(i + 1, m):
            left = left - jnp.conj(factor[k][i]) * solved[k]
        solved[i] = left / factor[i][i]
    return tuple(solved)


def _inverse_factor(factor: Lower) -> Lower:
    """L⁻¹, row by row."""
    inverse: list[Vector] = []
    for i, row in enumerate(factor):
        found = []
        for j in range(i):
            product = _sum(row[k] * inverse[k][j] for k in range(j, i))
            found.append(-product / row[i])
        inverse.append((*found, 1 / row[i]))
    return tuple(inverse)
