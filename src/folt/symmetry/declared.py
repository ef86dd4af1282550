"""Sites that the user says are exchangeable: verified, and corrected where something is missing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from folt.problem.symmetry import SymmetryError
from folt.symmetry.account import LIKELIHOOD, attempt_in_words
from folt.symmetry.candidates import Place, family_mover, movers_at, site_mover
from folt.symmetry.findings import Attempt, Factor, Kind
from folt.symmetry.moves import (
    AlongAxis,
    Entries,
    LabelledCoordinates,
    Move,
    Negated,
    TransitionSides,
)
from folt.symmetry.probe import Probe
from folt.symmetry.signs import rotation, with_signs
from folt.symmetry.survey import Survey, survey

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
        worst = _worst(probe, factor)
        if best is None or worst.change.defect < best[1].change.defect:
            best = factor, worst
    assert best is not None
    factor, worst = best
    if not worst.change.holds:
        _refuse(probe, places, list(named), worst)
    result = Survey(factors=[factor], attempts=[worst])
    signed, attempts, _ = with_signs(probe, factor)
    if signed.signed:
        result.attempts += attempts
        turned = rotation(probe, signed)
        result.rotations += [turned] if turned is not None else []
    return result


Ways = list[tuple[LabelledCoordinates, Move]]
"""What may be moved, and how: one of these is right."""


def _options(chosen: Sequence[Place], named: Mapping[str, Range]) -> tuple[int, list[Ways]]:
    """What moves, and how many labels there are; equal scalars side by side are the labels."""
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
    """Length of the leading component axis, or None if there is none."""
    if place.simplex and len(place.shape) == 1:
        return place.shape[0] + 1
    return place.shape[0] if 0 in place.axes else None


def _leading_moves(place: Place, m: int) -> tuple[Move, ...]:
    moves = place.moves(m)
    both = tuple(m for m in moves if not isinstance(m, (AlongAxis, Entries, Negated)))
    rows = tuple(m for m in moves if type(m) is AlongAxis and m.axis == 0)
    entries = tuple(m for m in moves if isinstance(m, Entries))
    if isinstance(both[0] if both else None, TransitionSides):
        return (*both, *rows)
    return (*both, *rows) or entries


def _worst(probe: Probe, factor: Factor) -> Attempt:
    pairs = [(n, n + 1) for n in range(factor.m - 1)]
    images = [factor.swapped(probe.points, pair) for pair in pairs]
    tried = [
        Attempt(Kind.SWAP, factor.names, pair, change)
        for pair, change in zip(pairs, probe.changes(images), strict=True)
    ]
    return max(tried, key=lambda attempt: attempt.change.defect)


def _refuse(probe: Probe, places: Sequence[Place], names: Sequence[str], worst: Attempt) -> None:
    """Say what fails, and which sites would make it hold."""
    named = set(names)
    found = survey(probe, places)
    told = ", ".join(map(repr, names))
    message = (
        f"sites {told} are declared exchangeable, but the log density changes by "
        f"{worst.change.defect:.3g} of its size under '{attempt_in_words(worst)}'"
    )
    for factor in found.factors:
        sites = set(factor.sites)
        if named & sites:
            listed = _listed(factor)
            add = ", ".join(repr(site) for site in factor.sites if site not in named)
            drop = ", ".join(repr(name) for name in names if name not in sites)
            steps = [f"add {add}"] if add else []
            steps += [f"leave out {drop}"] if drop else []
            advice = " and ".join(steps)
            if advice:
                raise SymmetryError(f"{message}: {advice}, that is exchangeable={listed}")
            if any(mover.partial for mover in factor.movers):
                raise SymmetryError(f"{message}: say which entries, exchangeable={listed}")
    blame = worst.change.blame
    culprit = "the likelihood" if blame == LIKELIHOOD else f"the prior of {blame!r}"
    raise SymmetryError(
        f"{message}; what changes most is {culprit}: give the components equal priors and "
        "likelihoods, name other sites, or use exchangeable='auto'"
    )


def _listed(factor: Factor) -> str:
    """Return what to declare for a factor."""
    if not any(mover.partial for mover in factor.movers):
        return "[" + ", ".join(f'"{site}"' for site in factor.sites) + "]"
    ranges = {site: mover.chosen for mover in factor.movers for site in mover.sites}
    told = (f'"{site}": {list(chosen) or None}' for site, chosen in ranges.items())
    return "{" + ", ".join(told) + "}"
