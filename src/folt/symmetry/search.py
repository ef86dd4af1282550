"""Which movers belong together: found from the density, never from names.

All swaps and flips leave a point alone at which equal labels have equal values. From there one
mover is stepped away at a time, then two: a swap of one that is felt only when another has been
stepped away too means that both have to move. So the movers that belong together are collected
with few evaluations, and what was collected is then tried at random points, where it has to
leave the density unchanged to rounding.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from folt.symmetry.findings import Attempt, Factor, Kind
from folt.symmetry.moves import LabelledCoordinates, Move, Negated
from folt.symmetry.probe import TOLERANCE, Change, Probe
from folt.types import HostPoints

_DIRECTIONS = 2
"""Random steps away from the centre, each tried."""

MOST_CHOICES = 300
"""Sets of movers that are tried for one pair of labels."""

Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """A mover together with a way to move it."""

    mover: LabelledCoordinates
    move: Move

    @property
    def places(self) -> frozenset[int]:
        """The coordinates it moves."""
        return self.mover.places


class Search:
    """Factors of m labels.

    Args:
        probe: the density.
        movers: what may carry the labels.
        blocks: all coordinates of a point, as the sets that are stepped away one by one.
        m: number of labels.
    """

    def __init__(
        self,
        probe: Probe,
        movers: Sequence[LabelledCoordinates],
        blocks: Sequence[np.ndarray],
        m: int,
    ) -> None:
        self.probe, self.m = probe, m
        self.nodes = [Node(mover, move) for mover in movers for move in mover.moves]
        self.blocks = [frozenset(np.asarray(block).reshape(-1).tolist()) for block in blocks]
        shape = (_DIRECTIONS, probe.dim)
        self.steps = probe.spread * np.random.default_rng(m).normal(size=shape)
        self.attempts: list[Attempt] = []

    def factors(self) -> tuple[Factor, ...]:
        """Return every factor that holds at all points, the smallest sets of movers only."""
        held: dict[tuple[int, ...], list[Pair]] = {}
        adjacent = [(n, n + 1) for n in range(self.m - 1)]
        for pair in adjacent:
            self._try(pair, held)
        if any(len(pairs) < len(adjacent) for pairs in held.values()) or not held:
            for pair in itertools.combinations(range(self.m), 2):
                if pair not in adjacent:
                    self._try(pair, held)
        factors = []
        for numbers, pairs in held.items():
            chosen = [self.nodes[number] for number in numbers]
            chosen.sort(key=lambda node: node.mover.rank)
            factors.append(
                Factor(
                    self.m,
                    tuple(node.mover for node in chosen),
                    tuple(node.move for node in chosen),
                    classes_of(self.m, pairs),
                )
            )
        return tuple(factors)

    def _try(self, pair: Pair, held: dict[tuple[int, ...], list[Pair]]) -> None:
        """Add to `held` the smallest choices that may be swapped at this pair."""
        choices = self._collected(pair)
        choices += [numbers for numbers in held if numbers not in choices]
        changes = self.changes(choices, pair)
        holding = [numbers for numbers, c in zip(choices, changes, strict=True) if c.holds]
        if not holding and choices:
            choices = [each for each in self._all_choices(pair) if each not in choices]
            changes = self.changes(choices, pair)
            holding = [numbers for numbers, c in zip(choices, changes, strict=True) if c.holds]
        for numbers in self._smallest(holding):
            if all(self.nodes[number].mover.partial for number in numbers):
                continue  # part of the labels of a longer axis, which is tried by itself
            held.setdefault(numbers, []).append(pair)

    def changes(self, choices: Sequence[tuple[int, ...]], pair: Pair) -> list[Change]:
        """Return how much the density changes at random points when these nodes are swapped."""
        images = [self.image(self.probe.points, numbers, pair) for numbers in choices]
        changes = self.probe.changes(images)
        for numbers, change in zip(choices, changes, strict=True):
            names = tuple(self.nodes[number].mover.name for number in numbers)
            flip = all(isinstance(self.nodes[number].move, Negated) for number in numbers)
            kind, labels = (Kind.FLIP, ()) if flip else (Kind.SWAP, pair)
            self.attempts.append(Attempt(kind, names, labels, change))
        return changes

    def image(self, points: HostPoints, numbers: Iterable[int], pair: Pair) -> HostPoints:
        """Return points with two labels exchanged in some nodes."""
        for number in numbers:
            node = self.nodes[number]
            points = node.mover.image(points, node.move, pair)
        return points

    def _collected(self, pair: Pair) -> list[tuple[int, ...]]:
        """Return sets of nodes that have to move together when these labels are swapped."""
        likely = self._likely(pair)
        seeds = [n for n in likely if not self.nodes[n].mover.partial]
        if not seeds:
            return []
        needs = self._needs(likely, pair)
        fits = self._fits(likely, pair)
        found: list[tuple[int, ...]] = []
        for seed in seeds:
            _collect((seed,), self, likely, needs, fits, found)
        return list(dict.fromkeys(tuple(sorted(each)) for each in found))

    def _stepped(self, places: Iterable[int]) -> HostPoints:
        """Return the centre with some coordinates stepped away, once per direction."""
        columns = list(places)
        points = np.tile(self.probe.centre, (_DIRECTIONS, 1))
        points[:, columns] += self.steps[:, columns]
        return points

    def _felt(
        self, cases: Sequence[tuple[tuple[int, ...], frozenset[int]]], pair: Pair
    ) -> list[bool]:
        """Return whether a swap of some nodes is felt where these coordinates are stepped away."""
        if not cases:
            return []
        before = [self._stepped(places) for _, places in cases]
        swaps = zip(before, cases, strict=True)
        after = [self.image(points, numbers, pair) for points, (numbers, _) in swaps]
        change = self.probe.differ(np.concatenate(before), np.concatenate(after))
        return (change.reshape(-1, _DIRECTIONS).max(axis=1) > TOLERANCE).tolist()

    def _likely(self, pair: Pair) -> list[int]:
        """Return nodes whose swap is not felt while everything else is at the centre."""
        felt = self._felt([((n,), node.places) for n, node in enumerate(self.nodes)], pair)
        return [n for n, each in enumerate(felt) if not each]

    def _needs(self, likely: list[int], pair: Pair) -> dict[int, list[int]]:
        """Return for every node the blocks that cannot stay when it moves."""
        cases = [
            (n, b)
            for n in likely
            for b, block in enumerate(self.blocks)
            if not block & self.nodes[n].places
        ]
        felt = self._felt([((n,), self.nodes[n].places | self.blocks[b]) for n, b in cases], pair)
        needs: dict[int, list[int]] = {n: [] for n in likely}
        for (n, b), each in zip(cases, felt, strict=True):
            needs[n] += [b] if each else []
        return needs

    def _fits(self, likely: list[int], pair: Pair) -> set[tuple[int, int]]:
        """Return pairs of nodes that can move together."""
        cases = [
            (n, k)
            for n, k in itertools.combinations(likely, 2)
            if not self.nodes[n].places & self.nodes[k].places
        ]
        felt = self._felt(
            [((n, k), self.nodes[n].places | self.nodes[k].places) for n, k in cases], pair
        )
        return {case for case, each in zip(cases, felt, strict=True) if not each}

    def _all_choices(self, pair: Pair) -> list[tuple[int, ...]]:
        """Return every set of likely nodes, if there are not too many."""
        likely = self._likely(pair)
        subsets: list[tuple[int, ...]] = []
        for size in range(1, len(likely) + 1):
            for numbers in itertools.combinations(likely, size):
                if len(frozenset().union(*(self.nodes[n].places for n in numbers))) == sum(
                    len(self.nodes[n].places) for n in numbers
                ):
                    subsets.append(numbers)
                if len(subsets) > MOST_CHOICES:
                    return subsets[:MOST_CHOICES]
        return subsets

    def _smallest(self, choices: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Return the choices that contain no other one, fewest movers first."""
        kept: list[tuple[int, ...]] = []
        for numbers in sorted(choices, key=len):
            if not any(set(other) < set(numbers) for other in kept):
                kept.append(numbers)
        return kept


def _collect(
    chosen: tuple[int, ...],
    search: Search,
    likely: list[int],
    needs: dict[int, list[int]],
    fits: set[tuple[int, int]],
    found: list[tuple[int, ...]],
) -> None:
    """Add nodes until nothing that has to move stays behind; every way to do so."""
    if len(found) >= MOST_CHOICES:
        return
    movers = [search.nodes[n].mover for n in chosen]
    open_blocks = [
        b
        for n in chosen
        for b in needs[n]
        if not any(mover.covers(search.blocks[b]) for mover in movers)
    ]
    if not open_blocks:
        found.append(chosen)
        return
    block = search.blocks[open_blocks[0]]
    for node in likely:
        joins = all((min(node, n), max(node, n)) in fits for n in chosen)
        if joins and search.nodes[node].mover.covers(block):
            _collect((*chosen, node), search, likely, needs, fits, found)


def classes_of(m: int, pairs: Iterable[Pair]) -> tuple[tuple[int, ...], ...]:
    """Return labels linked by swaps, as sets of at least two."""
    home = list(range(m))
    for first, second in pairs:
        old, new = home[second], home[first]
        home = [new if label == old else label for label in home]
    sets = ([n for n in range(m) if home[n] == root] for root in sorted(set(home)))
    return tuple(tuple(labels) for labels in sets if len(labels) > 1)
