"""A continuous rotation of signed columns, which no finite group folds away."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.groups import Group, Product, SignedPermutation
from folt.problem.evaluated import Points

ROTATES = (
    "The log density has a continuous rotation symmetry of its signed columns, which no finite "
    "group folds away."
)

ANGLE = 0.6
"""Radians by which columns are rotated; no multiple of a right angle, which signs would allow."""


class Turning(NamedTuple):
    """A rotation that leaves the log density as it is.

    Attributes:
        change: largest change of the log density, which is rounding.
        coordinates: coordinates of all the columns that turn.
    """

    change: float
    coordinates: tuple[int, ...]


def rotation_found(
    whole: Group,
    points: Points,
    plain: Float[np.ndarray, " n"],
    values: Callable[[Points], Float[np.ndarray, " n"]],
    tolerance: float,
) -> Turning | None:
    """Turn the first two columns of every signed permutation; None where that changes the density.

    Args:
        whole: the group, of which signed permutations may be factors.
        points: where to try.
        plain: the log density there.
        values: the log density at other points.
        tolerance: change, relative to 1 + |log π|, that counts as rounding.
    """
    changes: list[float] = []
    coordinates: list[int] = []
    for start, group in _signed(whole, 0):
        columns = start + np.arange(group.dim).reshape(group.columns, group.size)
        turned = points.copy()
        first, second = points[:, columns[0]], points[:, columns[1]]
        turned[:, columns[0]] = np.cos(ANGLE) * first - np.sin(ANGLE) * second
        turned[:, columns[1]] = np.sin(ANGLE) * first + np.cos(ANGLE) * second
        finite = np.isfinite(plain)
        change = np.abs(values(turned) - plain)[finite]
        if change.size and np.all(change <= tolerance * (1.0 + np.abs(plain[finite]))):
            changes.append(float(change.max()))
            coordinates += columns.ravel().tolist()
    return Turning(max(changes), tuple(coordinates)) if changes else None


def _signed(group: Group, start: int) -> list[tuple[int, SignedPermutation]]:
    """Signed permutations of several columns of several entries, with their first coordinate."""
    if isinstance(group, SignedPermutation):
        several = group.columns > 1 and group.size > 1 and not group.unsigned
        return [(start, group)] if several else []
    if not isinstance(group, Product):
        return []
    starts = start + np.cumsum([0, *(each.dim for each in group.groups)])
    pairs = zip(group.groups, starts[:-1].tolist(), strict=True)
    return [found for each, first in pairs for found in _signed(each, first)]
