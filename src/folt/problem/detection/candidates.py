"""What may carry labels in a model: axes of arrays, simplices, equal sites side by side."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Hashable, Sequence

import numpy as np

from folt.problem.detection.moves import (
    AlongAxis,
    AxisReversed,
    Entries,
    Move,
    Mover,
    Negated,
    SquareSides,
    TransitionSides,
)
from folt.problem.detection.probe import TOLERANCE, Probe

LONGEST_AXIS = 20
"""Longest axis that is taken for a component axis without being named."""


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A site as the search for symmetry sees it.

    Attributes:
        name: its name.
        columns: places of its coordinates in a point, in the shape of the site.
        axes: axes that may carry labels.
        simplex: whether the last axis holds centred scores of probabilities.
        interval: whether values lie between 0 and 1.
        key: equal for sites with equal supports.
        rank: the lower, the better to sort labels by.
        ordered: whether values ascend by construction.
    """

    name: str
    columns: np.ndarray
    axes: tuple[int, ...]
    simplex: bool
    interval: bool
    key: Hashable
    rank: int
    ordered: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its coordinates."""
        return self.columns.shape

    def lengths(self) -> set[int]:
        """Numbers of labels it may carry."""
        found = {self.shape[axis] for axis in self.axes}
        return found | ({self.shape[-1] + 1} if self.simplex else set())

    def moves(self, m: int) -> tuple[Move, ...]:
        """Ways in which m labels may move it."""
        along = [AlongAxis(axis) for axis in self.axes if self.shape[axis] == m]
        found: list[Move] = []
        if self.simplex:
            entries = self.shape[-1] + 1 == m
            if entries and self.shape == (m, m - 1) and along:
                found.append(TransitionSides())
            return (*found, *along, *([Entries()] if entries else []))
        if self.shape == (m, m) and len(along) == 2:
            found.append(SquareSides())
        found += along
        if m == 2:
            found.append(Negated())
            found += [AxisReversed(move.axis) for move in along]
        return tuple(found)


def families(probe: Probe, places: Sequence[Place]) -> list[list[Place]]:
    """Equal sites side by side that the density does not tell apart.

    Each is stepped away from the centre alone, all by the same step: sites that are alike give
    the same density.
    """
    groups: dict[Hashable, list[Place]] = {}
    for place in places:
        if not place.ordered:
            groups.setdefault((place.shape, place.simplex, place.key), []).append(place)
    found = []
    for alike in groups.values():
        if len(alike) < 2:
            continue
        points = np.tile(probe.centre, (len(alike), 1))
        for point, place in zip(points, alike, strict=True):
            step = 0.7 - 0.3 * np.arange(place.columns.size).reshape(place.shape)
            point[place.columns] += probe.spread[place.columns] * step
        first = np.repeat(np.arange(len(alike)), len(alike))
        second = np.tile(np.arange(len(alike)), len(alike))
        same = probe.differ(points[first], points[second]) <= TOLERANCE
        table = same.reshape(len(alike), len(alike))
        seen: set[int] = set()
        for n in range(len(alike)):
            members = [k for k in range(len(alike)) if table[n, k] and k not in seen]
            seen.update(members)
            if 2 <= len(members) <= LONGEST_AXIS:
                found.append([alike[k] for k in members])
    return found


def movers_for(
    probe: Probe, places: Sequence[Place], alike: Sequence[list[Place]], m: int
) -> list[Mover]:
    """Everything that may carry m labels, families in matching order."""
    movers = [
        site_mover(place, place.moves(m))
        for place in places
        if place.moves(m) and not place.ordered
    ]
    if any(type(move) is AlongAxis for mover in movers for move in mover.moves):
        movers += [part for place in places for part in _partial_movers(place, m)]
    for family in alike:
        if len(family) == m:
            movers.append(_aligned(probe, movers, family_mover(family), m))
    return movers


def site_mover(place: Place, moves: tuple[Move, ...]) -> Mover:
    """One site as a mover."""
    axes = tuple(range(len(place.shape)))
    return Mover(place.name, (place.name,), place.columns, moves, place.rank, axes)


def _partial_movers(place: Place, m: int) -> list[Mover]:
    """An axis of one label more than m without its first or its last one.

    Weights of three components may be a softmax of two numbers and a zero: their labels are those
    of the other sites but one.
    """
    if place.simplex or place.ordered:
        return []
    found = []
    for axis in place.axes:
        if place.shape[axis] != m + 1:
            continue
        for places, words in ((range(m), "but the last"), (range(1, m + 1), "but the first")):
            mover = site_mover(place, (AlongAxis(axis),))
            columns = np.take(place.columns, list(places), axis=axis)
            name = f"{place.name} {words}"
            found.append(dataclasses.replace(mover, name=name, columns=columns, partial=True))
    return found


def family_mover(family: Sequence[Place]) -> Mover:
    """Equal sites as one mover with the labels in front."""
    names = tuple(place.name for place in family)
    columns = np.stack([place.columns for place in family])
    moves: tuple[Move, ...] = (AlongAxis(0),)
    if len(family) == 2 and not family[0].simplex:
        moves += (AxisReversed(0),)
    axes = (None, *range(columns.ndim - 1))
    return Mover(", ".join(names), names, columns, moves, family[0].rank, axes)


def _aligned(probe: Probe, others: Sequence[Mover], mover: Mover, m: int) -> Mover:
    """The family in the order in which its members belong to the labels of another mover.

    Stepping label i of the other and member j away at once, the pairs that belong together
    stand out: in every row one entry differs from the rest.
    """
    if m < 3:
        return mover
    for other in others:
        if other.places & mover.places:
            continue
        points = np.tile(probe.centre, (m * m, 1))
        for i in range(m):
            for j in range(m):
                point = points[i * m + j]
                point[other.columns] += other.moves[0].raised(other.shape, i)
                point[mover.columns] += mover.moves[0].raised(mover.shape, j)
        values = probe.evaluate(points).sum(axis=1).reshape(m, m)
        away = np.abs(values - np.median(values, axis=1, keepdims=True))
        order = np.argmax(away, axis=1)
        if len(set(order.tolist())) == m and away.max() > TOLERANCE * (1 + np.abs(values).max()):
            sites = tuple(mover.sites[j] for j in order)
            columns = mover.columns[order]
            return dataclasses.replace(mover, name=", ".join(sites), sites=sites, columns=columns)
    return mover


def stems(places: Sequence[Place]) -> list[list[Place]]:
    """Sites whose names differ by a number alone, for the account and nothing else."""
    groups: dict[Hashable, list[Place]] = {}
    for place in places:
        if re.search(r"\d", place.name):
            groups.setdefault((re.sub(r"\d+", "#", place.name), place.shape), []).append(place)
    return [group for group in groups.values() if len(group) > 1]
