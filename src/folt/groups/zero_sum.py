"""Coordinates for vectors that sum to zero, such as centred scores."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from folt.groups.arguments import require_positive


@functools.lru_cache
def zero_sum_basis(m: int) -> Float[np.ndarray, "m m-1"]:
    """Orthonormal basis B of the vectors of length m that sum to zero (Helmert).

    Column j is (1, ..., 1, -j, 0, ..., 0)/sqrt(j(j+1)) with j ones: the mean of the first j
    entries against the next. BᵀB = I and BBᵀ = I - 11ᵀ/m, so that w = B·c has coordinates
    c = Bᵀ·w, lengths agree, and a permutation P of w is the rotation BᵀPB of c.
    """
    require_positive("m", m)
    basis = np.zeros((m, m - 1))
    for j in range(1, m):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    basis.setflags(write=False)
    return basis
