"""How far apart draws lie, over all their images."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from folt.diagnostics.covering import LARGEST_TABLE

QUERIES = 64
"""Points from which the search for the diameter starts."""


def diameter(points: np.ndarray, orbit: Callable[[np.ndarray], np.ndarray] | None = None) -> float:
    """Largest distance between two draws, or between images of two draws.

    With `orbit`, max over i, j, g of |z_i - g·z_j|: the diameter of all images, because the action
    is orthogonal. Looks for the farthest draw from each of the `QUERIES` outermost ones, then from
    those it found, until it finds no new ones. Exact for up to `QUERIES` draws; never too large.

    Args:
        points: draws (n, dim).
        orbit: from points (k, dim) to their images (k, s, dim).
    """
    points = np.asarray(points, float)
    if points.shape[0] == 0:
        raise ValueError("expected at least one point, got none")
    squares = np.einsum("ij,ij->i", points, points)
    queries = np.argsort(np.linalg.norm(points - points.mean(axis=0), axis=1))[-QUERIES:]
    seen: set[int] = set()
    largest = 0.0
    while queries.size:
        seen.update(queries.tolist())
        images = points[queries][:, None] if orbit is None else orbit(points[queries])
        ends = [_farthest(stack, points, squares) for stack in images]
        largest = max(largest, max(distance for _, distance in ends))
        queries = np.array(sorted({at for at, _ in ends} - seen), int)
    return largest


def _farthest(images: np.ndarray, points: np.ndarray, squares: np.ndarray) -> tuple[int, float]:
    """The point farthest from any image of one query, all images having the same norm."""
    rows = max(LARGEST_TABLE // points.shape[0], 1)
    best, at = -math.inf, 0
    for start in range(0, images.shape[0], rows):
        reach = (squares - 2.0 * (images[start : start + rows] @ points.T)).max(axis=0)
        if reach.max() > best:
            best, at = float(reach.max()), int(np.argmax(reach))
    return at, float(np.linalg.norm(images - points[at], axis=1).max())
