"""Modal forces that are correlated with each other: a Hermitian matrix C with unit diagonal.

Coordinates are the entries h_ij of a Hermitian matrix H without diagonal, real and imaginary part
of every pair i < j. With X = exp(H/2) and R the rows of X scaled to unit length,

    C = R·Rᴴ,

which is positive definite for every H; of two modes C_12 = tanh|h|·h/|h|. A permutation or a sign
of the modes acts on C as it acts on H, so the symmetry stays linear:

    C_ij -> s_i·s_j·C_ij,    C_ji = conj(C_ij).
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from folt.groups import Generated

Vector = tuple[Array, ...]
"""Entries of a vector, each an array over the frequencies."""

Lower = tuple[Vector, ...]
"""Entries of a lower triangle, row by row, each an array over the frequencies."""

COHERENCE_SCALE = 0.5
"""Prior deviation of the real and of the imaginary part of h: coherences of two modes then have the
median tanh(.59) = .53, and one in twelve is above .8."""

MOST_MODES = 4
"""Most modes with correlated forces: the symmetry of five has 3 840 elements, too many to list."""

_HALVINGS, _TERMS = 5, 10
"""Of the exponential, by its series at H/2^(HALVINGS + 1): exact to rounding for |H| up to ten."""

_ITERATIONS = 200
"""Steps towards the matrix H of a given C, each of which shrinks the error to a half or less."""


def mode_pairs(modes: int) -> list[tuple[int, int]]:
    """Pairs i < j in the order of their coordinates."""
    return list(itertools.combinations(range(modes), 2))


def correlated_pairs(modes: int) -> list[tuple[int, int]]:
    """Return the pairs of modes whose forces may be correlated; refuse too many modes."""
    if modes > MOST_MODES:
        raise ValueError(
            f"expected at most {MOST_MODES} modes with correlated forces, got {modes}: take a "
            "narrower band, or uncorrelated forces"
        )
    return mode_pairs(modes)


def coherence_root(h: Float[Array, " pairs2"], modes: int) -> Complex[Array, "m m"]:
    """R with C = R·Rᴴ, from the real and imaginary parts of every pair."""
    matrix = _hermitian(h[::2] + 1j * h[1::2], modes)
    small = matrix / 2 ** (_HALVINGS + 1)
    power = total = jnp.eye(modes, dtype=small.dtype)
    for k in range(1, _TERMS + 1):
        power = power @ small / k
        total = total + power
    for _ in range(_HALVINGS):
        total = total @ total
    return total / jnp.sqrt(jnp.sum(jnp.real(total * jnp.conj(total)), axis=1, keepdims=True))


def _hermitian(entries: Complex[Array, " pairs"], modes: int) -> Complex[Array, "m m"]:
    """Return the Hermitian matrix without diagonal that has these entries above it."""
    matrix = jnp.zeros((modes, modes), complex)
    for number, (i, j) in enumerate(mode_pairs(modes)):
        entry = entries[number]
        matrix = matrix.at[i, j].set(entry).at[j, i].set(jnp.conj(entry))
    return matrix


def coherence_coordinates(entries: Complex[Array, " pairs"], modes: int) -> Float[Array, " pairs2"]:
    """Return the coordinates h of a matrix C with these entries, the inverse of `coherence_root`.

    diag(eˣ)·C·diag(eˣ) = exp(H) where H has no diagonal; x is found step by step.
    """
    c = jnp.eye(modes) + _hermitian(entries, modes)

    def logarithm(x: Float[Array, " m"]) -> Complex[Array, "m m"]:
        values, vectors = jnp.linalg.eigh(jnp.exp(x)[:, None] * c * jnp.exp(x))
        return (vectors * jnp.log(values)) @ jnp.conj(vectors.T)

    def step(_: int, x: Float[Array, " m"]) -> Float[Array, " m"]:
        return x - 0.5 * jnp.real(jnp.diagonal(logarithm(x)))

    matrix = logarithm(jax.lax.fori_loop(0, _ITERATIONS, step, jnp.zeros(modes)))
    found = jnp.stack([matrix[i, j] for i, j in mode_pairs(modes)])
    return jnp.stack([found.real, found.imag], axis=1).reshape(-1)


def transfer(
    at: Float[Array, " k"],
    frequency: Float[Array, " m"],
    damping: Float[Array, " m"],
    exponent: int,
) -> Complex[Array, "m k"]:
    """Complex amplitude of every mode; its square is `powers.resonance`.

    Factors that all modes share, such as the sign of an acceleration, drop out and are left out.
    """
    own, ratio = frequency[:, None], damping[:, None]
    root = jnp.sqrt(4 * ratio * own**3 / math.pi) * (at / own) ** (exponent / 2)
    return root / (own**2 - at**2 + 2j * ratio * own * at)


def correlated_entries(
    root: Complex[Array, "m m"],
    amplitude: Complex[Array, "m k"],
    inner: Float[Array, "m m"],
    seen: Complex[Array, "m k"],
) -> tuple[Lower, Vector]:
    """W = I + TᴴGT and u = Tᴴq with T_ia = amplitude_i·R_ia, entry by entry for all frequencies.

    Args:
        root: R.
        amplitude: transfer of every mode.
        inner: G, products of the shapes in the metric of the noise.
        seen: q, products of shapes and ordinates in that metric.
    """
    each = range(len(inner))
    forced = [[amplitude[i] * root[i, a] for a in each] for i in each]
    moved = [[sum(inner[i, j] * forced[j][b] for j in each) for b in each] for i in each]
    matrix = tuple(
        tuple(
            sum((jnp.conj(forced[i][a]) * moved[i][b] for i in each), start=1.0 * (a == b))
            for b in range(a + 1)
        )
        for a in each
    )
    explained_by = tuple(sum(jnp.conj(forced[i][a]) * seen[i] for i in each) for a in each)
    return matrix, explained_by  # type: ignore[return-value]


def correlated_group(modes: int, width: int, noises: int) -> Generated:
    """Signed permutations of (ψ; f, ξ) that act on the pairs as well.

    Args:
        modes: their number.
        width: coordinates per mode, the last two without a sign.
        noises: coordinates that follow and do not change.
    """
    turned = [*range(1, modes), 0]
    swapped = [1, 0, *range(2, modes)]
    ones, flipped = np.ones(modes), np.ones(modes)
    flipped[0] = -1.0
    moves = [(turned, ones), (swapped, ones), (list(range(modes)), flipped)]
    return Generated([_matrix(places, signs, width, noises) for places, signs in moves])


def _matrix(
    places: list[int], signs: Float[np.ndarray, " m"], width: int, noises: int
) -> Float[np.ndarray, "dim dim"]:
    """Return the map that puts mode i, with a sign, into its new place."""
    modes, pairs = len(places), mode_pairs(len(places))
    size = modes * width
    matrix = np.zeros((size + 2 * len(pairs) + noises,) * 2)
    for i, place in enumerate(places):
        diagonal = np.concatenate([np.full(width - 2, signs[i]), np.ones(2)])
        rows = slice(place * width, (place + 1) * width)
        matrix[rows, i * width : (i + 1) * width] = np.diag(diagonal)
    for number, (i, j) in enumerate(pairs):
        first, second = sorted((places[i], places[j]))
        to, sign = size + 2 * pairs.index((first, second)), signs[i] * signs[j]
        conjugated = 1.0 if places[i] < places[j] else -1.0
        matrix[to, size + 2 * number] = sign
        matrix[to + 1, size + 2 * number + 1] = sign * conjugated
    last = size + 2 * len(pairs)
    matrix[last:, last:] = np.eye(noises)
    return matrix
