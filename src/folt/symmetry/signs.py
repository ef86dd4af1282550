"""Beyond swaps: signs of single labels, rotations of labels into each other, labels per group."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from folt.symmetry.findings import Attempt, Factor, Kind, RotationFound
from folt.symmetry.moves import AlongAxis, AxisReversed, Entries, LabelledCoordinates, Move, Negated
from folt.symmetry.probe import Probe

_ANGLE = 0.6
"""Radians by which labels are rotated; no multiple of a right angle, which signs would allow."""

MOST_JOINED = 3
"""Movers whose signs are tried together where no permutation says which belong together."""


def with_signs(probe: Probe, factor: Factor) -> tuple[Factor, tuple[Attempt, ...], bool]:
    """The factor with the labels whose sign may be flipped in all, or in some, of its movers.

    Returns:
        The factor, what was tried, and whether there are further signs that may be flipped, which
        no group of folt joins to the permutations.
    """
    if not factor.whole or not all(type(move) is AlongAxis for move in factor.moves):
        return factor, (), False
    axes = [move.axis for move in factor.moves if isinstance(move, AlongAxis)]
    movers = list(zip(factor.movers, axes, strict=True))
    labels = range(factor.m)
    attempts = list(_flips(probe, movers, labels))
    if all(attempt.change.holds for attempt in attempts):
        return dataclasses.replace(factor, signed=tuple(labels)), tuple(attempts), False
    flipping: list[frozenset[int]] = []
    for size in range(1, len(movers)):
        for chosen in map(frozenset, itertools.combinations(range(len(movers)), size)):
            if any(other <= chosen for other in flipping):
                continue
            flipped = [movers[n] for n in sorted(chosen)]
            some = _flips(probe, flipped, range(1))
            if some[0].change.holds:
                some = _flips(probe, flipped, labels)
            attempts += some
            if all(attempt.change.holds for attempt in some):
                flipping.append(chosen)
    if not flipping:
        return factor, tuple(attempts), any(attempt.change.holds for attempt in attempts)
    kept = tuple(n for n in range(len(movers)) if n not in flipping[0])
    signed = dataclasses.replace(factor, signed=tuple(labels), unsigned=kept)
    return signed, tuple(attempts), len(flipping) > 1


def lone_signs(
    probe: Probe, movers: Sequence[LabelledCoordinates], m: int, taken: frozenset[int]
) -> tuple[list[Factor], list[Attempt]]:
    """Return labels that cannot be permuted but whose signs may be flipped one by one."""
    options = [
        (mover, move.axis)
        for mover in movers
        for move in mover.moves
        if type(move) is AlongAxis and not mover.partial and not mover.places & taken
    ]
    factors: list[Factor] = []
    attempts: list[Attempt] = []
    for size in range(1, min(MOST_JOINED, len(options)) + 1):
        for chosen in itertools.combinations(options, size):
            places = [mover.places for mover, _ in chosen]
            used = frozenset().union(*(factor.places for factor in factors))
            joined = frozenset().union(*places)
            if len(joined) < sum(map(len, places)) or joined & used:
                continue
            tried = _flips(probe, list(chosen), range(m))
            attempts += tried
            signed = tuple(n for n, attempt in enumerate(tried) if attempt.change.holds)
            if signed:
                moves = tuple(AlongAxis(axis) for _, axis in chosen)
                movers_of = tuple(mover for mover, _ in chosen)
                factors.append(Factor(m, movers_of, moves, (), signed))
    return factors, attempts


def rotation(probe: Probe, factor: Factor) -> RotationFound | None:
    """The continuous rotation of labels that contains these signed permutations, if there is one.

    Blocks of one coordinate are left out: labels that only share a round prior are rotated too,
    and do no harm.
    """
    if factor.m < 2 or len(factor.flipped) < 2 * factor.m:
        return None
    cosine, sine = np.cos(_ANGLE), np.sin(_ANGLE)
    points = probe.points.copy()
    for number, (mover, move) in enumerate(zip(factor.movers, factor.moves, strict=True)):
        assert isinstance(move, AlongAxis)
        if number in factor.unsigned:
            continue
        columns = np.moveaxis(mover.columns, move.axis, 0)
        first, second = probe.points[:, columns[0]], probe.points[:, columns[1]]
        points[:, columns[0]] = cosine * first - sine * second
        points[:, columns[1]] = sine * first + cosine * second
    change = probe.changes([points])[0]
    return RotationFound(factor.sites, factor.m, (0, 1), change, _ANGLE) if change.holds else None


def per_group(probe: Probe, factor: Factor) -> list[Factor]:
    """One factor for every place along another axis, if labels there are free of each other."""
    lengths = [
        {length for axis, length in enumerate(mover.shape) if axis != _own_axis(mover, move)}
        for mover, move in zip(factor.movers, factor.moves, strict=True)
    ]
    common = frozenset.intersection(*map(frozenset, lengths)) if lengths else frozenset()
    for count in sorted(common - {1}, reverse=True):
        parts = [_at(factor, count, index) for index in range(count)]
        pairs = [(n, n + 1) for n in range(factor.m - 1)]
        images = [part.swapped(probe.points, pair) for part in parts for pair in pairs]
        if factor.whole and all(change.holds for change in probe.changes(images)):
            return [finer for part in parts for finer in per_group(probe, part)]
    return [factor]


def _own_axis(mover: LabelledCoordinates, move: Move) -> int | None:
    """Return the axis along which labels run; None where every coordinate has both."""
    if isinstance(move, AlongAxis):
        return move.axis
    if isinstance(move, Entries):
        return len(mover.shape) - 1
    return None


def _at(factor: Factor, count: int, index: int) -> Factor:
    """Return the factor at one place of an axis of this length."""
    movers, moves = [], []
    for mover, move in zip(factor.movers, factor.moves, strict=True):
        own = _own_axis(mover, move)
        axis = next(a for a, n in enumerate(mover.shape) if n == count and a != own)
        movers.append(mover.part_of(axis, index))
        if isinstance(move, (AlongAxis, AxisReversed)):
            move = type(move)(move.axis - (axis < move.axis))
        elif not isinstance(move, (Entries, Negated)):
            move = AlongAxis(0)
        moves.append(move)
    return dataclasses.replace(factor, movers=tuple(movers), moves=tuple(moves))


def _flips(
    probe: Probe, movers: Sequence[tuple[LabelledCoordinates, int]], labels: range
) -> tuple[Attempt, ...]:
    """Attempts to flip the sign of each label in all of these movers."""
    images = []
    for label in labels:
        points = probe.points.copy()
        for mover, axis in movers:
            points[:, np.moveaxis(mover.columns, axis, 0)[label]] *= -1.0
        images.append(points)
    names = tuple(mover.name for mover, _ in movers)
    changes = probe.changes(images)
    return tuple(
        Attempt(Kind.FLIP, names, (label,), change)
        for label, change in zip(labels, changes, strict=True)
    )
