"""Beyond swaps: signs of single labels, rotations of labels into each other, labels per group."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from folt.symmetry.findings import Attempt, Factor, Reason, RotationFound, Survey
from folt.symmetry.moves import AlongAxis, AxisReversed, Entries, LabelledCoordinates, Move, Negated
from folt.symmetry.probe import Probe

_ANGLE = 0.6
"""Radians by which labels are rotated; no multiple of a right angle, which signs would allow."""

MOST_JOINED = 3
"""Movers whose signs are tried together where no permutation says which belong together."""


def with_signs(probe: Probe, factor: Factor) -> tuple[Factor, list[Attempt], bool]:
    """Find the labels whose sign may be flipped in all, or in some, of what a factor moves.

    Returns:
        The factor, what was tried, and whether there are further signs that may be flipped, which
        no group of folt joins to the permutations.
    """
    if not factor.whole or not all(type(move) is AlongAxis for move in factor.moves):
        return factor, [], False
    labels, numbers = tuple(range(factor.m)), range(len(factor.movers))
    attempts = factor.flips(probe, labels)
    if all(attempt.change.holds for attempt in attempts):
        return dataclasses.replace(factor, signed=labels), attempts, False
    flipping: dict[frozenset[int], Factor] = {}
    for size in numbers[1:]:
        for chosen in map(frozenset, itertools.combinations(numbers, size)):
            if any(other <= chosen for other in flipping):
                continue
            part = dataclasses.replace(
                factor, unsigned=tuple(n for n in numbers if n not in chosen)
            )
            some = part.flips(probe, labels[:1])
            if some[0].change.holds:
                some = part.flips(probe, labels)
            attempts += some
            if all(attempt.change.holds for attempt in some):
                flipping[chosen] = part
    if not flipping:
        return factor, attempts, any(attempt.change.holds for attempt in attempts)
    signed = dataclasses.replace(next(iter(flipping.values())), signed=labels)
    return signed, attempts, len(flipping) > 1


def signed_factor(probe: Probe, factor: Factor, result: Survey) -> Factor:
    """Return the factor with its signs; what else is tried and found is added to the survey."""
    found, tried, apart = with_signs(probe, factor)
    result.attempts += tried
    if apart:
        result.remark(Reason.SIGNS_APART, factor.sites)
    turned = rotation(probe, found)
    result.rotations += [] if turned is None else [turned]
    return found


def lone_signs(
    probe: Probe, movers: Sequence[LabelledCoordinates], m: int, taken: frozenset[int]
) -> tuple[list[Factor], list[Attempt]]:
    """Return labels that cannot be permuted but whose signs may be flipped one by one."""
    options = [
        (mover, move)
        for mover in movers
        for move in mover.moves
        if type(move) is AlongAxis and not mover.partial and not mover.places & taken
    ]
    factors: list[Factor] = []
    attempts: list[Attempt] = []
    for size in range(1, min(MOST_JOINED, len(options)) + 1):
        for chosen in itertools.combinations(options, size):
            own, moves = zip(*chosen, strict=True)
            factor = Factor(m, own, moves, ())
            used = frozenset().union(*(other.places for other in factors))
            if len(factor.places) < sum(len(mover.places) for mover in own) or factor.places & used:
                continue
            tried = factor.flips(probe, range(m))
            attempts += tried
            signed = tuple(n for n, attempt in enumerate(tried) if attempt.change.holds)
            factors += [dataclasses.replace(factor, signed=signed)] if signed else []
    return factors, attempts


def rotation(probe: Probe, factor: Factor) -> RotationFound | None:
    """Return the continuous rotation that contains these signed permutations, if there is one.

    Blocks of one coordinate are left out: labels that only share a round prior are rotated too,
    and do no harm.
    """
    if factor.m < 2 or not factor.signed or len(factor.flipped) < 2 * factor.m:
        return None
    cosine, sine = np.cos(_ANGLE), np.sin(_ANGLE)
    points = probe.points.copy()
    for mover, move in factor.flipping:
        assert isinstance(move, AlongAxis)
        columns = np.moveaxis(mover.columns, move.axis, 0)
        first, second = probe.points[:, columns[0]], probe.points[:, columns[1]]
        points[:, columns[0]] = cosine * first - sine * second
        points[:, columns[1]] = sine * first + cosine * second
    change = probe.changes([points])[0]
    return RotationFound(factor.sites, change, _ANGLE) if change.holds else None


def per_group(probe: Probe, factor: Factor) -> list[Factor]:
    """Split a factor along another axis where each place there has labels of its own."""
    lengths = [
        {length for axis, length in enumerate(mover.shape) if axis != _own_axis(mover, move)}
        for mover, move in factor.pairs
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
    for mover, move in factor.pairs:
        own = _own_axis(mover, move)
        axis = next(a for a, n in enumerate(mover.shape) if n == count and a != own)
        movers.append(mover.part_of(axis, index))
        if isinstance(move, (AlongAxis, AxisReversed)):
            move = type(move)(move.axis - (axis < move.axis))
        elif not isinstance(move, (Entries, Negated)):
            move = AlongAxis(0)
        moves.append(move)
    return dataclasses.replace(factor, movers=tuple(movers), moves=tuple(moves))
