"""The whole search: every number of labels, signs, rotations, and what nearly held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from folt.groups.base import LARGEST_ENUMERATED
from folt.symmetry.assembly import Cluster, clustered, generated
from folt.symmetry.candidates import Place, families, label_counts, movers_for
from folt.symmetry.findings import Factor, Reason, Survey
from folt.symmetry.moves import AlongAxis, AxisReversed, LabelledCoordinates, Negated
from folt.symmetry.near_misses import matters, near_misses
from folt.symmetry.probe import TOLERANCE, Probe
from folt.symmetry.search import Search
from folt.symmetry.signs import lone_signs, per_group, signed_factor


def survey(probe: Probe, places: Sequence[Place]) -> Survey:
    """Return everything that leaves the density unchanged, and what nearly does."""
    result = Survey()
    alike = families(probe, places)
    found: list[Factor] = []
    for m in label_counts(places, alike):
        found += _factors(probe, places, movers_for(probe, places, alike, m), m, result)
    result.factors = _apart(probe, found, result)
    for place in places:
        if place.ordered:
            result.remark(Reason.ORDERED, (place.name,), place.columns.shape[-1])
    if not result.factors:
        result.nearly, remarks = near_misses(probe, places)
        result.attempts += result.nearly
        result.remarks += remarks
    return result


def _factors(
    probe: Probe, places: Sequence[Place], movers: list[LabelledCoordinates], m: int, result: Survey
) -> list[Factor]:
    """Return factors of m labels with their signs, split where groups have labels of their own."""
    search = Search(probe, movers, [place.columns for place in places], m)
    found: list[Factor] = []
    for factor in search.factors():
        if not _worth_folding(probe, factor):
            continue
        signed = signed_factor(probe, factor, result)
        if signed.signed:
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
    """Return the factors that add to the group, the largest first; remark on what is too large."""
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
            result.remark(Reason.OVERLAPS, factor.sites)
        elif more:
            used.append(factor)
    return used


def _names_nothing(probe: Probe, factor: Factor, other: Factor) -> bool:
    """Return whether two exchanges together only mirror what the likelihood does not depend on.

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
    """Return whether a factor adds to the group it overlaps; None if that gets too large."""
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
    if len(probe.terms) > 1 and not matters(probe.of_likelihood(), factor):
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
    """Return whether any term but the priors of these sites depends on them."""
    columns = sorted(factor.places)
    points = probe.points.copy()
    points[:, columns] += 0.3 * probe.spread[columns]
    changed = np.abs(probe.evaluate(points) - probe.values).max(axis=0) > TOLERANCE
    others = [n for n, term in enumerate(probe.terms) if term not in factor.sites]
    any_data = bool(np.ptp(probe.values[:, -1]) > 0)
    return bool(changed[others].any()) or not any_data


def _plainness(factor: Factor) -> int:
    """Return how many of its movers are moved along an axis: what is easiest to understand."""
    return sum(type(move) is AlongAxis for move in factor.moves)
