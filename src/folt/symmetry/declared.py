"""Sites that the user says are exchangeable: verified, and corrected where something is missing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from folt.problem.symmetry import SymmetryError
from folt.symmetry.account import declared_refusal
from folt.symmetry.candidates import Place, family_mover, movers_at, site_mover
from folt.symmetry.findings import Attempt, Factor, Survey
from folt.symmetry.moves import (
    AlongAxis,
    Entries,
    LabelledCoordinates,
    Move,
    Negated,
    SquareSides,
    TransitionSides,
)
from folt.symmetry.probe import Probe
from folt.symmetry.signs import rotation, with_signs
from folt.symmetry.survey import survey

Range = slice | Sequence[int] | None
"""Which entries along the first axis of a site carry labels; None for all of them."""


def require_declared(probe: Probe, places: Sequence[Place], named: Mapping[str, Range]) -> Survey:
    """Return the factor of the named sites, all permuted together along their first axis.

    Matrices are tried on both sides and by rows alone; the better way counts.

    Args:
        probe: the density.
        places: all sites.
        named: the sites, each with the entries that carry labels.

    Raises:
        ValueError: sites of unequal length, or entries that a site does not have.
        SymmetryError: the density changes; with the sites to add or to leave out, if any help.
    """
    m, options = _options([place for place in places if place.name in named], named)
    options.sort(key=lambda ways: ways[0][0].rank)
    best: tuple[Factor, Attempt] | None = None
    for ways in itertools.product(*options):
        movers, moves = zip(*ways, strict=True)
        factor = Factor(m, movers, moves, (tuple(range(m)),))
        tried = factor.attempts(probe, [(n, n + 1) for n in range(m - 1)])
        worst = max(tried, key=lambda attempt: attempt.change.defect)
        if best is None or worst.change.defect < best[1].change.defect:
            best = factor, worst
    assert best is not None
    factor, worst = best
    if not worst.change.holds:
        raise SymmetryError(declared_refusal(named, worst, survey(probe, places).factors))
    result = Survey(factors=[factor], attempts=[worst])
    signed, attempts, _ = with_signs(probe, factor)
    if signed.signed:
        turned = rotation(probe, signed)
        result.attempts += attempts
        result.rotations += [] if turned is None else [turned]
    return result


Ways = list[tuple[LabelledCoordinates, Move]]
"""What may be moved, and how: one of these is right."""


def _options(chosen: Sequence[Place], named: Mapping[str, Range]) -> tuple[int, list[Ways]]:
    """Return the number of labels and what moves; equal scalars side by side are labels."""
    ranges = {place.name: _entries(place, named[place.name]) for place in chosen}
    lengths = {
        place.name: len(ranges[place.name]) if ranges[place.name] else _leading(place)
        for place in chosen
    }
    vectors = {length for length in lengths.values() if length is not None}
    scalars = [place for place in chosen if lengths[place.name] is None]
    families: dict[object, list[Place]] = {}
    for place in scalars:
        families.setdefault((place.key, place.shape), []).append(place)
    lone = [each[0] for each in families.values() if len(each) == 1 and each[0].interval]
    counts = vectors | {len(each) for each in families.values() if each[0] not in lone}
    counts |= {2} if lone else set()
    if len(counts) != 1 or 1 in counts:
        told = ", ".join(f"{name!r} {lengths[name] or 'none'}" for name in named)
        raise ValueError(
            f"exchangeable sites must share the length of their first axis, got {told}; where "
            "only some entries are exchangeable, say which: "
            "exchangeable={'mu': None, 'weights': slice(1, 3)}"
        )
    m = counts.pop()
    movers = [
        _leading_movers(place, m, ranges[place.name]) for place in chosen if place not in scalars
    ]
    movers += [[family_mover(each)] for each in families.values() if each[0] not in lone]
    movers += [[site_mover(place, (Negated(),))] for place in lone]
    return m, [[(mover, move) for mover in each for move in mover.moves] for each in movers]


def _entries(place: Place, given: Range) -> tuple[int, ...]:
    """Return the entries that carry labels, ascending; empty where all do.

    Raises:
        ValueError: entries that the site does not have, or that do not ascend.
    """
    count = _leading(place)
    if given is None:
        return ()
    every = range(count or 0)
    if isinstance(given, slice):
        found = tuple(every[given])
    elif all(isinstance(entry, int) for entry in given):
        found = tuple(given)
    else:
        raise ValueError(f"expected a slice or whole numbers for {place.name!r}, got {given!r}")
    ascending = all(one < other for one, other in itertools.pairwise(found))
    if len(found) < 2 or not ascending or not set(found) <= set(every):
        raise ValueError(
            f"expected at least two ascending entries of {place.name!r}, which has {len(every)} "
            f"along its first axis, got {given!r}"
        )
    return () if len(found) == len(every) else found


def _leading_movers(place: Place, m: int, chosen: tuple[int, ...]) -> list[LabelledCoordinates]:
    """Return a site whose labels run along its first axis, or are some of the entries there."""
    if not chosen:
        return [site_mover(place, _leading_moves(place, m))]
    count = _leading(place)
    assert count is not None
    allowed = _leading_moves(place, count)
    return [
        mover
        for mover in movers_at(place, chosen, count)
        if any(type(mover.moves[0]) is type(move) for move in allowed)
        and getattr(mover.moves[0], "axis", 0) == 0
    ]


def _leading(place: Place) -> int | None:
    """Return the length of the leading component axis, or None if there is none."""
    if place.simplex and len(place.shape) == 1:
        return place.shape[0] + 1
    return place.shape[0] if 0 in place.axes else None


def _leading_moves(place: Place, m: int) -> tuple[Move, ...]:
    """Return the ways in which m labels move a site along its first axis: both sides, then rows."""
    moves = place.moves(m)
    first = tuple(
        move
        for move in moves
        if isinstance(move, (SquareSides, TransitionSides)) or move == AlongAxis(0)
    )
    return first or tuple(move for move in moves if isinstance(move, Entries))
