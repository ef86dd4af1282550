"""Weights made by breaking a stick: a relabelling there is no orthogonal map.

Sticks v turn into weights p_k = v_k·Π_{j<k}(1 - v_j), the last piece being what is left, or there
are as many sticks as weights and these are made to sum to one. Swapping two weights changes all
sticks between them, by a map that stretches space. So it is looked for in the likelihood alone, to
be told and not to be folded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from folt.problem.detection.candidates import LONGEST_AXIS, Place, site_mover
from folt.problem.detection.findings import Reason, Remark
from folt.problem.detection.moves import AlongAxis, Mover
from folt.problem.detection.probe import Points, Probe


def broken_sticks(likelihood: Probe, places: Sequence[Place]) -> Remark | None:
    """The site of sticks, if swapping its weights with other sites spares the likelihood."""
    for sticks in places:
        pieces = sticks.columns.size
        if not sticks.interval or len(sticks.shape) != 1 or pieces < 2:
            continue
        for m in (pieces + 1, pieces):
            movers = [
                site_mover(place, (AlongAxis(0),))
                for place in places
                if place is not sticks and place.shape[:1] == (m,) and not place.simplex
            ]
            for chosen in [movers, *([mover] for mover in movers)]:
                if chosen and m <= LONGEST_AXIS and _spared(likelihood, sticks, chosen):
                    return Remark(Reason.STICKS, (sticks.name,), m)
    return None


def _spared(likelihood: Probe, sticks: Place, movers: Sequence[Mover]) -> bool:
    points = likelihood.points.copy()
    points[:, sticks.columns] = _swapped(points[:, sticks.columns])
    for mover in movers:
        points = mover.image(points, AlongAxis(0), (0, 1))
    return likelihood.changes([points])[0].holds


def _swapped(logits: Points) -> Points:
    """Logits of the sticks after the first two weights have changed places."""
    sticks = 1.0 / (1.0 + np.exp(-logits))
    first, second = sticks[:, 0], (1 - sticks[:, 0]) * sticks[:, 1]
    moved = sticks.copy()
    moved[:, 0] = second
    moved[:, 1] = first / (1 - second)
    return np.log(moved) - np.log1p(-moved)
