"""The whole search: every number of labels, signs, rotations, and what nearly held."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from folt.groups.base import LARGEST_ENUMERATED
from folt.problem.detection.assembly import Cluster, clustered, generated
from folt.problem.detection.candidates import LONGEST_AXIS, Place, families, movers_for
from folt.problem.detection.findings import Attempt, Factor, Kind, Reason, Remark, Rotation
from folt.problem.detection.moves import AlongAxis, AxisReversed, Mover, Negated
from folt.problem.detection.probe import TOLERANCE, Probe
from folt.problem.detection.search import Search
from folt.problem.detection.signs import lone_signs, per_group, rotation, with_signs
from folt.problem.detection.sticks import broken_sticks


@dataclasses.dataclass
class Survey:
    """What a search turned up, before it becomes a group."""

    factors: list[Factor] = dataclasses.field(default_factory=list)
    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    nearly: list[Attempt] = dataclasses.field(default_factory=list)
    rotations: list[Rotation] = dataclasses.field(default_factory=list)
    remarks: list[Remark] = dataclasses.field(default_factory=list)


def survey(probe: Probe, places: Sequence[Place]) -> Survey:
    """Everything that leaves the density unchanged, and what nearly does."""
    result = Survey()
    alike = families(probe, places)
    found: list[Factor] = []
    for m in label_counts(places, alike):
        found += _factors(probe, places, movers_for(probe, places, alike, m), m, result)
    result.factors = _apart(probe, found, result)
    _ordered(places, result)
    if not result.factors:
        _near_misses(probe, places, result)
    return result


def label_counts(places: Sequence[Place], alike: Sequence[list[Place]]) -> list[int]:
    """Numbers of labels worth trying; two ends of a coordinate are always there."""
    lengths = {2} | {len(family) for family in alike}
    lengths = lengths.union(*(place.lengths() for place in places))
    return sorted(length for length in lengths if 2 <= length <= LONGEST_AXIS)


def _factors(
    probe: Probe, places: Sequence[Place], movers: list[Mover], m: int, result: Survey
) -> list[Factor]:
    """Factors of m labels with their signs, split where groups have labels of their own."""
    search = Search(probe, movers, [place.columns for place in places], m)
    found: list[Factor] = []
    for factor in search.factors():
        if not _worth_folding(probe, factor):
            continue
        signed, tried, apart = with_signs(probe, factor)
        result.attempts += tried
        if apart:
            result.remarks.append(Remark(Reason.SIGNS_APART, factor.sites))
        if signed.signed:
            turned = rotation(probe, signed)
            result.rotations += [turned] if turned is not None else []
            found.append(signed)
            continue
        split = per_group(probe, factor)
        order = math.prod(each.order for each in split)
        found += split if order <= LARGEST_ENUMERATED else [factor]
    result.attempts += search.attempts
    taken = frozenset().union(*(factor.places for factor in found))
    lone, attempts = lone_signs(probe, movers, m, taken)
    result.attempts += attempts
    return found + [factor for factor in lone if _worth_folding(probe, factor)]


def _apart(probe: Probe, factors: Iterable[Factor], result: Survey) -> list[Factor]:
    """The factors that add to the group, the largest first, and remarks on what is too large."""
    used: list[Factor] = []
    for factor in sorted(factors, key=lambda each: (-each.order, -_plainness(each))):
        near = [each for each in clustered(used) if _overlap(factor, each)]
        if not near:
            used.append(factor)
        elif any(isinstance(move, AxisReversed) for move in factor.moves):
            continue  # the other sense of a plain exchange that is used already
        elif any(_names_nothing(probe, factor, other) for each in near for other in each):
            continue
        elif (more := _enlarges(factor, near, probe.dim)) is None:
            remark = Remark(Reason.OVERLAPS, factor.sites)
            if remark not in result.remarks:
                result.remarks.append(remark)
        elif more:
            used.append(factor)
    return used


def _names_nothing(probe: Probe, factor: Factor, other: Factor) -> bool:
    """Whether one exchange after another only mirrors what the likelihood does not depend on.

    The rows of a softmax of two classes may be exchanged, or both be negated: one after the other
    mirrors their sum, of which there is one mode. Folding it would give no label a name.
    """
    if len(probe.terms) == 1 or factor.order != 2 or other.order != 2:
        return False
    if not (factor.classes and other.classes):
        return False
    images = other.swapped(factor.swapped(probe.points, (0, 1)), (0, 1))
    along = [(1 - share) * probe.points + share * images for share in (0.25, 0.5)]
    if not all(change.holds for change in probe.of_likelihood().changes(along)):
        return False
    values = probe.values.sum(axis=1)
    slack = TOLERANCE * (1 + np.abs(values))
    return bool(np.all(probe.evaluate(along[1]).sum(axis=1) >= values - slack))


def _enlarges(factor: Factor, near: list[Cluster], dim: int) -> bool | None:
    """Whether a factor adds to the group of those it overlaps; None if that gets too large."""
    cluster = [other for each in near for other in each]
    try:
        before = math.prod(generated(each, dim).order for each in near)
    except ValueError:  # too large to be listed: what is smaller and moves no more is inside
        inside = any(factor.places <= other.places for other in cluster)
        return False if inside and factor.order < cluster[0].order else None
    try:
        return generated([*cluster, factor], dim).order > before
    except ValueError:
        return None


def _overlap(factor: Factor, cluster: Cluster) -> bool:
    return any(factor.places & other.places for other in cluster)


def _worth_folding(probe: Probe, factor: Factor) -> bool:
    """Leave out sites that nothing depends on, and signs of numbers that are likeliest at zero.

    Folding them would report a number without its sign and gain nothing: there is one mode.
    """
    if len(probe.terms) > 1 and not _seen_by_others(probe, factor):
        return False
    if not all(isinstance(move, (Negated, AxisReversed)) for move in factor.moves):
        return True
    # Two rows of a softmax: the likelihood knows their difference, and their sum has one mode.
    if len(probe.terms) > 1 and not _matters(probe.of_likelihood(), factor):
        return False
    if len(factor.places) > 1:
        return True
    (column,) = factor.places
    steps = probe.spread[column] * np.array([0.0, 0.3, 0.6, 1.0, 1.7, 3.0, 5.0])
    points = np.repeat(probe.points, len(steps), axis=0)
    points[:, column] = np.tile(steps, len(probe.points))
    values = probe.evaluate(points).sum(axis=1).reshape(-1, len(steps))
    return bool(np.any(values[:, 1:] > values[:, :1] + TOLERANCE * (1 + np.abs(values[:, :1]))))


def _seen_by_others(probe: Probe, factor: Factor) -> bool:
    """Whether any term but the priors of these sites depends on them, where any depends on any."""
    columns = sorted(factor.places)
    points = probe.points.copy()
    points[:, columns] += 0.3 * probe.spread[columns]
    changed = np.abs(probe.evaluate(points) - probe.values).max(axis=0) > TOLERANCE
    others = [n for n, term in enumerate(probe.terms) if term not in factor.sites]
    return bool(changed[others].any()) or not _likelihood_matters(probe)


def _likelihood_matters(probe: Probe) -> bool:
    return bool(np.ptp(probe.values[:, -1]) > 0)


def _plainness(factor: Factor) -> int:
    """How many of its movers are moved along an axis: what is easiest to understand."""
    return sum(type(move) is AlongAxis for move in factor.moves)


def _ordered(places: Sequence[Place], result: Survey) -> None:
    for place in places:
        if place.ordered:
            count = place.columns.shape[-1]
            result.remarks.append(Remark(Reason.ORDERED, (place.name,), count))


def _near_misses(probe: Probe, places: Sequence[Place], result: Survey) -> None:
    """Where nothing holds: what leaves the likelihood alone, or else what changes least."""
    likelihood = probe.of_likelihood()
    nearly: list[Attempt] = []
    if len(probe.terms) > 1:
        alike = families(likelihood, places)
        for m in label_counts(places, alike):
            movers = movers_for(likelihood, places, alike, m)
            search = Search(likelihood, movers, [place.columns for place in places], m)
            nearly += [
                _as_tried(probe, factor)
                for factor in search.factors()
                if _matters(likelihood, factor)
            ]
        sticks = broken_sticks(likelihood, places)
        if sticks is not None:
            result.remarks.append(sticks)
    if not nearly:
        nearly = _nearest(probe, places)
    result.nearly = sorted(_distinct(nearly), key=lambda attempt: attempt.change.defect)
    result.attempts += result.nearly


def _matters(likelihood: Probe, factor: Factor) -> bool:
    """Whether the likelihood depends on every mover: a hyperparameter spares it in any case."""
    images = []
    for mover in factor.movers:
        points = likelihood.points.copy()
        points[:, mover.columns] += 0.3 * likelihood.spread[mover.columns]
        images.append(points)
    return not any(change.holds for change in likelihood.changes(images))


def _as_tried(probe: Probe, factor: Factor) -> Attempt:
    """How much the whole density changes under the worst swap of a factor of the likelihood."""
    flip = all(isinstance(move, Negated) for move in factor.moves)
    tried = []
    for pair in itertools.pairwise(factor.classes[0]):
        kind, labels = (Kind.FLIP, ()) if flip else (Kind.SWAP, pair)
        change = probe.changes([factor.swapped(probe.points, pair)])[0]
        tried.append(Attempt(kind, factor.names, labels, change))
    return max(tried, key=lambda attempt: attempt.change.defect)


def _nearest(probe: Probe, places: Sequence[Place]) -> list[Attempt]:
    """Swaps of the first two labels, of everything at once and of each thing alone."""
    found: list[Attempt] = []
    named = _same_support(places)
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


def _same_support(places: Sequence[Place]) -> list[list[Place]]:
    """Sites of equal shape and support."""
    groups: dict[Hashable, list[Place]] = {}
    for place in places:
        if not place.ordered:
            groups.setdefault((place.shape, place.simplex, place.key), []).append(place)
    return [group for group in groups.values() if 2 <= len(group) <= LONGEST_AXIS]


def _is_plain(mover: Mover) -> bool:
    return not mover.partial and (
        any(type(move) is AlongAxis for move in mover.moves) or len(mover.sites) > 1
    )


def _disjoint(movers: Iterable[Mover]) -> list[Mover]:
    chosen: list[Mover] = []
    for mover in movers:
        if not any(mover.places & other.places for other in chosen):
            chosen.append(mover)
    return chosen


def _distinct(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The least change for every set of names; what holds is no near miss."""
    best: dict[frozenset[str], Attempt] = {}
    for attempt in attempts:
        key = frozenset(attempt.moved)
        if attempt.change.defect > TOLERANCE and (
            key not in best or attempt.change.defect < best[key].change.defect
        ):
            best[key] = attempt
    return list(best.values())
