"""Mapping over many points in bounded memory.

Points go through in chunks of a few fixed sizes, so that the number of points never causes a
new compilation and an orbit of 120 images never meets 20 000 points at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Function = Callable[..., Any]

TERMS_PER_CHUNK = 8192
"""Density terms (points times orbit length) that are evaluated at once."""


@eqx.filter_jit
def _mapped(function: Function, module: Any, points: Any) -> Any:
    return jax.vmap(lambda point: function(module, point))(points)


def chunk_length(count: int, terms: int = 1) -> int:
    """Points per chunk: a power of two that bounds points x terms, small for small batches."""
    largest = max(16, TERMS_PER_CHUNK // max(terms, 1))
    largest = 1 << (largest.bit_length() - 1)
    return min(largest, max(64, 1 << max(count - 1, 1).bit_length())) if count < largest else largest


def map_points(function: Function, module: Any, points: Any, terms: int = 1) -> Any:
    """`function(module, point)` for every point along the leading axis, chunk by chunk.

    Args:
        function: a module-level function or method; its identity keys the compilation cache.
        module: a pytree handed to it whole.
        points: an array, or a pytree of arrays (keys among them), with a common leading axis.
        terms: how many density terms one point costs, |G| for an orbit sum.
    """
    count = jax.tree.leaves(points)[0].shape[0]
    length = chunk_length(count, terms)
    pieces = []
    for start in range(0, count, length):
        piece = jax.tree.map(lambda leaf: _padded(leaf, start, length), points)  # noqa: B023
        pieces.append(_mapped(function, module, piece))
    joined = jax.tree.map(lambda *parts: jnp.concatenate(parts)[:count], *pieces)
    return joined


def _padded(leaf: Array, start: int, length: int) -> Array:
    """Rows start to start + length; the last row is repeated where the batch ends."""
    rows = np.minimum(np.arange(start, start + length), leaf.shape[0] - 1)
    return leaf[rows]
