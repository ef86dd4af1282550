"""Modes of a black box: a polish of tempered particles by differences of values.

Without a gradient nothing searches beside the ladder. But its particles can be brought to the
maxima that they lie around, which tells how many there are, and of what shape: chains then live
under one labelling, with jumps between the modes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from folt.proposals.action import Action
from folt.reference.exploration.descents import descents
from folt.reference.exploration.images import nearest_images
from folt.reference.exploration.modes import RUNG_SOURCE, Modes, modes_of
from folt.reference.host_tempering import Walk
from folt.reference.landscape import Landscape
from folt.types import HostPoints, HostValues

MOST_POLISHED = 16
"""Most particles that are polished."""

_ROUNDS, _NEWTON = 20, 4
"""Differences that a descent may take, and Hessians that Newton steps may take after it."""

_STEP = 1e-3
"""Step of the differences, in standard deviations of the particles."""


class Differences:
    """Gradients by central differences: a value at the point and two in every direction.

    Args:
        landscape: log π_F.
        steps: length of the step in every coordinate.
    """

    def __init__(self, landscape: Landscape, steps: Float[np.ndarray, " dim"]) -> None:
        self.landscape, self.steps = landscape, steps

    def __call__(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return log π_F and its gradient at every point; -inf and zero where one is unusable."""
        offsets = np.diag(self.steps)
        around = np.concatenate([np.zeros((1, self.steps.size)), offsets, -offsets])
        probes = (points[:, None] + around).reshape(-1, self.steps.size)
        values = self.landscape(probes).reshape(len(points), -1)
        ahead, behind = np.split(values[:, 1:], 2, axis=1)
        usable = np.isfinite(values).all(axis=1)
        with np.errstate(invalid="ignore"):
            slopes = (ahead - behind) / (2.0 * self.steps)
        return np.where(usable, values[:, 0], -np.inf), np.where(usable[:, None], slopes, 0.0)


def polished(landscape: Landscape, walk: Walk, action: Action, budget: float) -> Modes | None:
    """Return the modes that some particles lie around; None where the budget is too small.

    Args:
        landscape: log π_F.
        walk: the particles at the end of a ladder.
        action: the group.
        budget: values that may be computed.
    """
    dim = walk.points.shape[1]
    covariance = action.covariance(walk.points)
    scale = np.sqrt(np.diagonal(covariance))
    each = (2 * dim + 1) * (_ROUNDS + _NEWTON * (2 * dim + 1))
    count = min(MOST_POLISHED, int(budget / landscape.terms) // each)
    if count == 0:
        return None
    left = [walk.points[_apart(walk, action, np.linalg.inv(np.linalg.cholesky(covariance)), count)]]

    def starts(asked: int) -> tuple[HostPoints, Int[np.ndarray, " n"]]:
        given, left[0] = left[0][:asked], left[0][asked:]
        return given, np.full(len(given), RUNG_SOURCE)

    slopes = Differences(landscape, _STEP * scale)
    # As many slots as starts and too few rounds for a second start in any of them.
    ends = descents(slopes, starts, scale, count, _ROUNDS)
    return modes_of(slopes, ends, walk.points.mean(axis=0), scale, action)


def _apart(
    walk: Walk, action: Action, factor: Float[np.ndarray, "dim dim"], count: int
) -> Int[np.ndarray, " count"]:
    """Return the best particle and others, each the farthest from all before under any label."""
    folded = action.fold(walk.points)
    chosen = [int(walk.log_target.argmax())]
    nearest = np.full(len(folded), np.inf)
    while len(chosen) < count:
        last = nearest_images(action, folded, folded[chosen[-1]], factor)[1]
        nearest = np.minimum(nearest, last)
        chosen.append(int(nearest.argmax()))
    return np.array(chosen)
