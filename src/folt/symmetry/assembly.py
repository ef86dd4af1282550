"""From factors to a group and the order of coordinates in which it acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from folt.groups import (
    Blocks,
    Fixed,
    Generated,
    Group,
    Joint,
    Part,
    Permutation,
    Product,
    SignedPermutation,
    Trivial,
    Within,
)
from folt.symmetry.findings import Factor
from folt.symmetry.moves import (
    AlongAxis,
    Entries,
    LabelledCoordinates,
    Move,
    SquareSides,
    TransitionSides,
)


@dataclasses.dataclass(frozen=True)
class Order:
    """Coordinates in another order, some with the other sign: y = signs·x[places].

    Attributes:
        places: for every new coordinate its old place.
        signs: by which the new coordinates are multiplied.
    """

    places: tuple[int, ...]
    signs: tuple[int, ...]

    @classmethod
    def plain(cls, dim: int) -> Order:
        """Return everything as it is."""
        return cls(tuple(range(dim)), (1,) * dim)


def assembled(factors: Sequence[Factor], dim: int) -> tuple[Group, Order]:
    """Return the group of some factors, and the order in which their coordinates have to stand."""
    clusters = clustered(factors)
    places = [_places(cluster) for cluster in clusters]
    moved = {place for each in places for place in each}
    rest = [place for place in range(dim) if place not in moved]
    order = [place for each in places for place in each] + rest
    signs = [sign for cluster in clusters for sign in _signs(cluster)] + [1] * len(rest)
    return _group(clusters, dim, len(rest)), Order(tuple(order), tuple(signs))


Cluster = list[Factor]
"""Factors that move common coordinates, one by another."""


def clustered(factors: Iterable[Factor]) -> list[Cluster]:
    """Return the factors, those that overlap side by side."""
    clusters: list[Cluster] = []
    for factor in factors:
        near = [each for each in clusters if any(factor.places & other.places for other in each)]
        clusters = [each for each in clusters if each not in near]
        clusters.append([*(other for each in near for other in each), factor])
    return clusters


def generated(cluster: Cluster, dim: int) -> Generated:
    """Return the group that some factors generate, on the coordinates that they move.

    Raises:
        ValueError: it is too large.
    """
    places = _moved(cluster)
    axes = np.eye(dim)[places]
    moves = [move for factor in cluster for move in factor.generators]
    return Generated([move(axes)[:, places].T for move in moves])


def _moved(cluster: Cluster) -> list[int]:
    """Return the coordinates that some factors move, each once."""
    movers = [mover for factor in cluster for mover in factor.movers]
    return list(dict.fromkeys(place for mover in movers for place in mover.columns.flat))


def _places(cluster: Cluster) -> list[int]:
    """Return the coordinates in their order; label by label where signs belong to labels."""
    if len(cluster) > 1:
        return _moved(cluster)
    (factor,) = cluster
    if not factor.signed:
        return np.concatenate([move.order(mover.columns) for mover, move in factor.pairs]).tolist()
    pairs = factor.flipping + [factor.pairs[n] for n in factor.unsigned]
    blocks = [move.order(mover.columns).reshape(factor.m, -1) for mover, move in pairs]
    return np.concatenate(blocks, axis=1).reshape(-1).tolist()


def _signs(cluster: Cluster) -> list[int]:
    if len(cluster) > 1:
        return [1] * len(_moved(cluster))
    (factor,) = cluster
    return [int(sign) for mover, move in factor.pairs for sign in move.signs(mover.shape)]


def _group(clusters: Sequence[Cluster], dim: int, rest: int) -> Group:
    """Return the group; coordinates that stay are a part of one permutation, or a factor."""
    alone = len(clusters) == 1 and len(clusters[0]) == 1 and not clusters[0][0].signed
    behind = [Fixed(rest)] if rest and alone else []
    groups = [group for cluster in clusters for group in _groups(cluster, dim, behind)]
    return product([*groups, *([Trivial(rest)] if rest and not alone else [])])


def _groups(cluster: Cluster, dim: int, behind: Sequence[Part]) -> list[Group]:
    if len(cluster) > 1:
        return [generated(cluster, dim)]
    (factor,) = cluster
    parts = [part for mover, move in factor.pairs for part in move.parts(mover.shape, factor.m)]
    return factor_groups(factor, [*parts, *behind])


def factor_groups(factor: Factor, parts: Sequence[Part]) -> list[Group]:
    """Return the groups of one factor on consecutive coordinates: signed blocks, or these parts."""
    m = factor.m
    if factor.negated:  # one column with a sign, of which the fold makes the first entry positive
        still = sum(part.size for part in parts if isinstance(part, Fixed))
        return [SignedPermutation(1, len(factor.places) + still, sort_by=0, unsigned=still)]
    if factor.signed:
        size = len(factor.places) // m
        if factor.classes:
            unsigned = size - len(factor.flipped) // m
            return [SignedPermutation(m, size, unsigned=unsigned)]
        flipped = set(factor.signed)
        return [SignedPermutation(1, size) if n in flipped else Trivial(size) for n in range(m)]
    only = parts[0]
    if factor.whole and len(parts) == 1 and isinstance(only, Blocks):
        return [Permutation(m, only.size, only.sort_by)]
    joint = Joint(m, parts)
    return [joint if factor.whole else Within(joint, factor.classes)]


def product(groups: Sequence[Group]) -> Group:
    """Return the product of groups on consecutive coordinates, trivial neighbours as one."""
    merged: list[Group] = []
    for group in groups:
        if merged and isinstance(group, Trivial) and isinstance(merged[-1], Trivial):
            merged[-1] = Trivial(merged[-1].dim + group.dim)
        else:
            merged.append(group)
    return merged[0] if len(merged) == 1 else Product(*merged)


def component_axes(factors: Sequence[Factor]) -> dict[str, dict[int, str]]:
    """Return for every site that carries labels the names of the axes along which they run."""
    named: dict[str, dict[int, str]] = {}
    numbers: dict[str, int] = {}
    for factor in factors:
        known = [numbers[site] for site in factor.sites if site in numbers]
        number = known[0] if known else len(set(numbers.values()))
        word = "component" if number == 0 else f"component_{number}"
        for mover, move in factor.pairs:
            axes = _label_axes(mover, move)
            words = dict(zip(axes, (word, f"{word}_to"), strict=False))
            for site in mover.sites:
                numbers.setdefault(site, number)
                named.setdefault(site, {axis: w for axis, w in words.items() if axis is not None})
    return named


def _label_axes(mover: LabelledCoordinates, move: Move) -> tuple[int | None, ...]:
    """Return the axes of the site along which labels run."""
    if isinstance(move, AlongAxis):
        return (mover.axes[move.axis],)
    if isinstance(move, Entries):
        return (mover.axes[-1],)
    if isinstance(move, (SquareSides, TransitionSides)):
        return mover.axes
    return ()
