"""What may carry labels in a model: axes of arrays, simplices, equal sites side by side."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Hashable, Sequence

import numpy as np

from folt.symmetry.moves import (
    AlongAxis,
    Among,
    AxisReversed,
    Entries,
    LabelledCoordinates,
    Move,
    Negated,
    SquareSides,
    TransitionSides,
)
from folt.symmetry.probe import TOLERANCE, Probe

LONGEST_AXIS = 20
"""Longest axis that is taken for a component axis without being named."""

MOST_PARTIAL = 10
"""Choices of labels among more entries that are all tried: two of five, nine of ten."""


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
        """Return the numbers of labels it may carry."""
        found = {self.shape[axis] for axis in self.axes}
        return found | ({self.shape[-1] + 1} if self.simplex else set())

    def moves(self, m: int) -> tuple[Move, ...]:
        """Return the ways in which m labels may move it."""
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
    """Return sets of equal sites that the density does not tell apart.

    Each is stepped away from the centre alone, all by the same step: sites that are alike give
    the same density.
    """
    found = []
    for alike in same_support(places):
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


def same_support(places: Sequence[Place]) -> list[list[Place]]:
    """Return sets of at least two sites of equal shape and support."""
    groups: dict[Hashable, list[Place]] = {}
    for place in places:
        if not place.ordered:
            groups.setdefault((place.shape, place.simplex, place.key), []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def label_counts(places: Sequence[Place], alike: Sequence[list[Place]]) -> list[int]:
    """Return the numbers of labels worth trying; a coordinate always has two ends."""
    lengths = {2} | {len(family) for family in alike}
    lengths = lengths.union(*(place.lengths() for place in places))
    return sorted(length for length in lengths if 2 <= length <= LONGEST_AXIS)


def movers_for(
    probe: Probe, places: Sequence[Place], alike: Sequence[list[Place]], m: int
) -> list[LabelledCoordinates]:
    """Return everything that may carry m labels, families in matching order."""
    movers = [
        site_mover(place, place.moves(m))
        for place in places
        if place.moves(m) and not place.ordered
    ]
    families_of_m = [family for family in alike if len(family) == m]
    if families_of_m or any(
        type(move) in (AlongAxis, Entries) for mover in movers for move in mover.moves
    ):
        movers += [part for place in places for part in _partial_movers(place, m)]
    for family in families_of_m:
        movers.append(_aligned(probe, movers, family_mover(family), m))
    return movers


def site_mover(place: Place, moves: tuple[Move, ...]) -> LabelledCoordinates:
    """Return one site as a mover."""
    axes = tuple(range(len(place.shape)))
    return LabelledCoordinates(place.name, (place.name,), place.columns, moves, place.rank, axes)


def _partial_movers(place: Place, m: int) -> list[LabelledCoordinates]:
    """Return sites of more than m entries, m of which carry the labels of other sites.

    Weights of three components may be a softmax of two numbers and a zero, and a component at a
    fixed place has a weight and nothing else.
    """
    if place.ordered:
        return []
    return [
        mover
        for count in sorted(place.lengths())
        if m < count <= LONGEST_AXIS
        for chosen in _label_places(count, m)
        for mover in movers_at(place, chosen, count)
    ]


def _label_places(count: int, m: int) -> list[tuple[int, ...]]:
    """Return which m entries may carry labels: all choices, or the first and the last ones."""
    if math.comb(count, m) <= MOST_PARTIAL:
        return list(itertools.combinations(range(count), m))
    return [tuple(range(m)), tuple(range(count - m, count))]


def movers_at(place: Place, chosen: Sequence[int], count: int) -> list[LabelledCoordinates]:
    """Return a site whose labels are at some of the entries along an axis of this length.

    Args:
        place: the site.
        chosen: places of the labels, ascending.
        count: number of entries.
    """
    others = tuple(n for n in range(count) if n not in chosen)
    found = []
    for move in place.moves(count):
        if type(move) is AlongAxis:
            mover = site_mover(place, (move,))
            columns, axis = np.take(place.columns, list(chosen), axis=move.axis), move.axis
        elif isinstance(move, Among):
            mover = site_mover(place, (dataclasses.replace(move, others=others),))
            columns, axis = place.columns, place.columns.ndim - 1 if type(move) is Entries else 0
        else:
            continue
        name = f"{place.name}[{':, ' * axis}{_range(chosen)}]"
        found.append(dataclasses.replace(mover, name=name, columns=columns, chosen=tuple(chosen)))
    return found


def _range(chosen: Sequence[int]) -> str:
    """Return some places as one would index them: 1:3, or [0, 2]."""
    first, last = chosen[0], chosen[-1]
    return f"{first}:{last + 1}" if last - first == len(chosen) - 1 else f"{list(chosen)}"


def family_mover(family: Sequence[Place]) -> LabelledCoordinates:
    """Return equal sites as one mover with the labels in front."""
    names = tuple(place.name for place in family)
    columns = np.stack([place.columns for place in family])
    moves: tuple[Move, ...] = (AlongAxis(0),)
    if len(family) == 2 and not family[0].simplex:
        moves += (AxisReversed(0),)
    axes = (None, *range(columns.ndim - 1))
    return LabelledCoordinates(", ".join(names), names, columns, moves, family[0].rank, axes)


def _aligned(
    probe: Probe, others: Sequence[LabelledCoordinates], mover: LabelledCoordinates, m: int
) -> LabelledCoordinates:
    """Return the family in the order in which its members belong to the labels of another mover.

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


def similar_sites(places: Sequence[Place]) -> list[list[Place]]:
    """Return sites whose names differ by a number alone, for the account and nothing else."""
    groups: dict[Hashable, list[Place]] = {}
    for place in places:
        if re.search(r"\d", place.name):
            groups.setdefault((re.sub(r"\d+", "#", place.name), place.shape), []).append(place)
    return [group for group in groups.values() if len(group) > 1]
