"""Sites that the user says are exchangeable: verified, and corrected where something is missing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from folt.problem.detection.candidates import Place, family_mover, site_mover
from folt.problem.detection.findings import Attempt, Factor, Kind
from folt.problem.detection.moves import AlongAxis, Entries, Move, Mover, Negated, TransitionSides
from folt.problem.detection.probe import Probe
from folt.problem.detection.signs import rotation, with_signs
from folt.problem.detection.survey import Survey, survey
from folt.problem.detection.words import LIKELIHOOD, attempt_in_words
from folt.problem.symmetry import SymmetryError


def require_declared(probe: Probe, places: Sequence[Place], names: Sequence[str]) -> Survey:
    """The factor of the named sites, all permuted together along their first axis.

    Matrices are tried on both sides and by rows alone; the better way counts.

    Raises:
        ValueError: sites of unequal length.
        SymmetryError: the density changes; with the sites to add or to leave out, if any help.
    """
    chosen = [place for place in places if place.name in names]
    m, movers = _movers(chosen, names)
    movers.sort(key=lambda mover: mover.rank)
    best: tuple[Factor, Attempt] | None = None
    for moves in itertools.product(*(mover.moves for mover in movers)):
        factor = Factor(m, tuple(movers), moves, (tuple(range(m)),))
        worst = _worst(probe, factor)
        if best is None or worst.change.defect < best[1].change.defect:
            best = factor, worst
    assert best is not None
    factor, worst = best
    if not worst.change.holds:
        _refuse(probe, places, names, worst)
    result = Survey(factors=[factor], attempts=[worst])
    signed, attempts, _ = with_signs(probe, factor)
    if signed.signed:
        result.attempts += attempts
        turned = rotation(probe, signed)
        result.rotations += [turned] if turned is not None else []
    return result


def _movers(chosen: Sequence[Place], names: Sequence[str]) -> tuple[int, list[Mover]]:
    """What moves, and how many labels there are; equal scalars side by side are the labels."""
    lengths = {place.name: _leading(place) for place in chosen}
    vectors = {length for length in lengths.values() if length is not None}
    scalars = [place for place in chosen if lengths[place.name] is None]
    families: dict[object, list[Place]] = {}
    for place in scalars:
        families.setdefault((place.key, place.shape), []).append(place)
    lone = [each[0] for each in families.values() if len(each) == 1 and each[0].interval]
    counts = vectors | {len(each) for each in families.values() if each[0] not in lone}
    counts |= {2} if lone else set()
    if len(counts) != 1 or 1 in counts:
        told = ", ".join(f"{name!r} {lengths[name] or 'none'}" for name in names)
        raise ValueError(
            f"exchangeable sites must share the length of their first axis, got {told}"
        )
    m = counts.pop()
    movers = [
        site_mover(place, _leading_moves(place, m)) for place in chosen if place not in scalars
    ]
    movers += [family_mover(each) for each in families.values() if each[0] not in lone]
    movers += [site_mover(place, (Negated(),)) for place in lone]
    return m, movers


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
            listed = "[" + ", ".join(f'"{site}"' for site in factor.sites) + "]"
            add = ", ".join(repr(site) for site in factor.sites if site not in named)
            drop = ", ".join(repr(name) for name in names if name not in sites)
            steps = [f"add {add}"] if add else []
            steps += [f"leave out {drop}"] if drop else []
            advice = " and ".join(steps)
            if advice:
                raise SymmetryError(f"{message}: {advice}, that is exchangeable={listed}")
    blame = worst.change.blame
    culprit = "the likelihood" if blame == LIKELIHOOD else f"the prior of {blame!r}"
    raise SymmetryError(
        f"{message}; what changes most is {culprit}: give the components equal priors and "
        "likelihoods, name other sites, or use exchangeable='auto'"
    )
