"""Screening: which starting points do the known modes not explain?

A narrow mode may attract one start in ten thousand, far too few to meet by descents. But where it
does, the density is larger than the known modes make it at that distance from them, and that takes
one value to see instead of a whole descent. Points are compared with others equally far from the
known modes, so that tails that are not Gaussian do not drown what is sought.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from folt.problem import Points, Values
from folt.problem.orbits import Action
from folt.reference.exploration.modes import Modes

FEWEST = 0.125
"""Share of the points that is left where distances to all images of the modes are many."""

CHEAP_IMAGES = 8
"""Images of modes, all together, whose distances cost less than the values."""

PER_BIN = 128
"""Points of about equal distance from the known modes that are compared with each other."""


def screened_points(action: Action, modes: Modes, most: int) -> int:
    """How many points are worth screening of so many."""
    images = modes.count * (action.group.order if action.listed else CHEAP_IMAGES)
    share = max(FEWEST, CHEAP_IMAGES / max(images, CHEAP_IMAGES))
    return round(most * share)


@np.errstate(over="ignore", invalid="ignore")  # as in modes that are very narrow
def unexplained(
    action: Action, modes: Modes, points: Points, values: Values, count: int
) -> Float[np.ndarray, "chosen dim"]:
    """The points whose density the known modes explain least, at most so many.

    Args:
        action: the group.
        modes: the modes that are known.
        points: candidates.
        values: log π_F there.
        count: how many are wanted.
    """
    inside = np.isfinite(values)
    points, values = points[inside], values[inside]
    squares = modes.distances(action, points)
    explained = logsumexp(modes.values - 0.5 * squares, axis=1)
    order = np.argsort(squares.min(axis=1), kind="stable")
    excess = (values - explained)[order]
    bins = np.array_split(excess, max(1, len(excess) // PER_BIN))
    excess = np.concatenate([part - np.median(part) for part in bins])
    return points[order[np.argsort(-excess, kind="stable")[:count]]]
