"""What nearly holds where nothing is folded: told, so that no miss is silent.

Weights made by breaking a stick are a case of their own. Sticks v turn into weights
p_k = v_k·Π_{j<k}(1 - v_j), the last piece being what is left, or there are as many sticks as
weights and these are made to sum to one. Swapping two weights changes all sticks between them, by
a map that stretches space. So it is looked for in the likelihood alone, to be told and not to be
folded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from folt.symmetry.candidates import (
    LONGEST_AXIS,
    Place,
    families,
    label_counts,
    movers_for,
    same_support,
    site_mover,
)
from folt.symmetry.findings import Attempt, Factor, Reason, Remark
from folt.symmetry.moves import AlongAxis, LabelledCoordinates
from folt.symmetry.probe import TOLERANCE, Probe
from folt.symmetry.search import Search
from folt.types import HostPoints


def near_misses(probe: Probe, places: Sequence[Place]) -> tuple[list[Attempt], list[Remark]]:
    """Return what leaves the likelihood alone, or else what changes the density least."""
    likelihood = probe.of_likelihood()
    nearly: list[Attempt] = []
    remarks: list[Remark] = []
    if len(probe.terms) > 1:
        alike = families(likelihood, places)
        for m in label_counts(places, alike):
            movers = movers_for(likelihood, places, alike, m)
            search = Search(likelihood, movers, [place.columns for place in places], m)
            nearly += [
                _as_tried(probe, factor)
                for factor in search.factors()
                if matters(likelihood, factor)
            ]
        sticks = _broken_sticks(likelihood, places)
        remarks += [sticks] if sticks is not None else []
    if not nearly:
        nearly = _nearest(probe, places)
    return sorted(_distinct(nearly), key=lambda attempt: attempt.change.defect), remarks


def _as_tried(probe: Probe, factor: Factor) -> Attempt:
    """Return the swap of a factor of the likelihood that changes the whole density most."""
    tried = factor.attempts(probe, itertools.pairwise(factor.classes[0]))
    return max(tried, key=lambda attempt: attempt.change.defect)


def _nearest(probe: Probe, places: Sequence[Place]) -> list[Attempt]:
    """Swap the first two labels, of everything at once and of each thing alone."""
    found: list[Attempt] = []
    named = [group for group in same_support(places) if len(group) <= LONGEST_AXIS]
    for m in label_counts(places, named):
        movers = [mover for mover in movers_for(probe, places, named, m) if _is_plain(mover)]
        if not movers:
            continue
        together = _disjoint(movers)
        sets = [[mover] for mover in movers] + ([together] if len(together) > 1 else [])
        for chosen in sets:
            moves = tuple(mover.moves[0] for mover in chosen)
            factor = Factor(m, tuple(chosen), moves, ((0, 1),))
            found.append(_as_tried(probe, factor))
    return found


def _is_plain(mover: LabelledCoordinates) -> bool:
    return not mover.partial and (
        any(type(move) is AlongAxis for move in mover.moves) or len(mover.sites) > 1
    )


def _disjoint(movers: Iterable[LabelledCoordinates]) -> list[LabelledCoordinates]:
    chosen: list[LabelledCoordinates] = []
    for mover in movers:
        if not any(mover.places & other.places for other in chosen):
            chosen.append(mover)
    return chosen


def _distinct(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the least change for every set of names; what holds is no near miss."""
    best: dict[frozenset[str], Attempt] = {}
    for attempt in attempts:
        key = frozenset(attempt.moved)
        if attempt.change.defect > TOLERANCE and (
            key not in best or attempt.change.defect < best[key].change.defect
        ):
            best[key] = attempt
    return list(best.values())


def matters(likelihood: Probe, factor: Factor) -> bool:
    """Return whether the likelihood depends on every mover, as on no hyperparameter."""
    images = []
    for mover in factor.movers:
        points = likelihood.points.copy()
        points[:, mover.columns] += 0.3 * likelihood.spread[mover.columns]
        images.append(points)
    return not any(change.holds for change in likelihood.changes(images))


def _broken_sticks(likelihood: Probe, places: Sequence[Place]) -> Remark | None:
    """Return the site of sticks, if swapping its weights with other sites spares the likelihood."""
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


def _spared(likelihood: Probe, sticks: Place, movers: Sequence[LabelledCoordinates]) -> bool:
    points = likelihood.points.copy()
    points[:, sticks.columns] = _swapped(points[:, sticks.columns])
    for mover in movers:
        points = mover.image(points, AlongAxis(0), (0, 1))
    return likelihood.changes([points])[0].holds


def _swapped(logits: HostPoints) -> HostPoints:
    """Return logits of the sticks after the first two weights have changed places."""
    sticks = 1.0 / (1.0 + np.exp(-logits))
    first, second = sticks[:, 0], (1 - sticks[:, 0]) * sticks[:, 1]
    moved = sticks.copy()
    moved[:, 0] = second
    moved[:, 1] = first / (1 - second)
    return np.log(moved) - np.log1p(-moved)
