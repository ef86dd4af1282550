"""What was tried, what was found and what nearly held, as data; `account` makes the sentences."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np

from folt.groups import Group
from folt.groups.base import LARGEST_ENUMERATED
from folt.symmetry.moves import AlongAxis, LabelledCoordinates, Move, Negated
from folt.symmetry.probe import Change, Probe


class Kind(enum.Enum):
    """What a transformation does to labels."""

    SWAP = "swap"
    FLIP = "flip"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One transformation, tried at random points.

    Attributes:
        kind: what it does.
        moved: names of what it moves.
        labels: the labels it concerns, counted from zero.
        change: how much the log density changes.
    """

    kind: Kind
    moved: tuple[str, ...]
    labels: tuple[int, ...]
    change: Change


class Reason(enum.Enum):
    """Why a symmetry one would expect is not folded, or only part of it."""

    ORDERED = "ordered"
    STICKS = "sticks"
    OVERLAPS = "overlaps"
    SIGNS_APART = "signs apart"
    TOO_LARGE = "too large"


@dataclasses.dataclass(frozen=True)
class Remark:
    """A reason and the sites it concerns.

    Attributes:
        reason: the reason.
        sites: names of the sites.
        count: how many labels, or how large a group, where that matters.
    """

    reason: Reason
    sites: tuple[str, ...]
    count: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """Movers whose labels are permuted together.

    Attributes:
        m: number of labels.
        movers: what moves.
        moves: how each of them moves.
        classes: sets of labels, counted from zero, that may be permuted among themselves.
        signed: labels whose sign may be flipped in these movers at once.
        unsigned: numbers of the movers that keep their sign then.
    """

    m: int
    movers: tuple[LabelledCoordinates, ...]
    moves: tuple[Move, ...]
    classes: tuple[tuple[int, ...], ...]
    signed: tuple[int, ...] = ()
    unsigned: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what moves."""
        return tuple(mover.name for mover in self.movers)

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites that move."""
        return tuple(dict.fromkeys(site for mover in self.movers for site in mover.sites))

    @property
    def places(self) -> frozenset[int]:
        """The coordinates that move."""
        return frozenset().union(*(mover.places for mover in self.movers))

    @property
    def flipped(self) -> frozenset[int]:
        """The coordinates whose sign is flipped."""
        return frozenset().union(*(mover.places for mover, _ in self.flipping))

    @property
    def whole(self) -> bool:
        """Whether all labels are alike."""
        return self.classes == (tuple(range(self.m)),)

    @property
    def negated(self) -> bool:
        """Whether exchanging the two labels flips all signs and does nothing else."""
        return all(isinstance(move, Negated) for move in self.moves)

    @property
    def partial(self) -> bool:
        """Whether some sites have entries without a label."""
        return any(mover.partial for mover in self.movers)

    @property
    def generators(self) -> list[Callable[[np.ndarray], np.ndarray]]:
        """Maps of points (n, dim) whose products are all permutations and sign changes."""
        pairs = [pair for labels in self.classes for pair in itertools.pairwise(labels)]
        swaps = [functools.partial(self.swapped, pair=pair) for pair in pairs]
        return swaps + [functools.partial(self.flip, label=label) for label in self.signed]

    @property
    def pairs(self) -> list[tuple[LabelledCoordinates, Move]]:
        """What moves, each with the way in which it moves."""
        return list(zip(self.movers, self.moves, strict=True))

    @property
    def flipping(self) -> list[tuple[LabelledCoordinates, Move]]:
        """Those of the pairs whose sign is flipped with that of their label."""
        return [pair for n, pair in enumerate(self.pairs) if n not in self.unsigned]

    def swapped(self, points: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        """Return points with two labels exchanged in all that moves."""
        for mover, move in self.pairs:
            points = mover.image(points, move, pair)
        return points

    def attempts(self, probe: Probe, pairs: Iterable[tuple[int, int]]) -> list[Attempt]:
        """Return how much the density changes when these pairs of labels are exchanged."""
        swapped = list(pairs)
        flip = self.negated
        kind = Kind.FLIP if flip else Kind.SWAP
        changes = probe.changes([self.swapped(probe.points, pair) for pair in swapped])
        return [
            Attempt(kind, self.names, () if flip else pair, change)
            for pair, change in zip(swapped, changes, strict=True)
        ]

    def flips(self, probe: Probe, labels: Iterable[int]) -> list[Attempt]:
        """Return how much the density changes when the sign of each of these labels is flipped."""
        flipped = list(labels)
        names = tuple(mover.name for mover, _ in self.flipping)
        changes = probe.changes([self.flip(probe.points, label) for label in flipped])
        return [
            Attempt(Kind.FLIP, names, (label,), change)
            for label, change in zip(flipped, changes, strict=True)
        ]

    def flip(self, points: np.ndarray, label: int) -> np.ndarray:
        """Return points with the sign of one label flipped, in all that flips."""
        points = points.copy()
        for mover, move in self.flipping:
            if isinstance(move, AlongAxis):
                points[:, np.moveaxis(mover.columns, move.axis, 0)[label]] *= -1.0
        return points

    @property
    def order(self) -> int:
        """Number of permutations and sign changes."""
        permutations = math.prod(math.factorial(len(labels)) for labels in self.classes)
        return permutations * 2 ** len(self.signed)


@dataclasses.dataclass(frozen=True)
class RotationFound:
    """A continuous symmetry, which no finite group folds away.

    Attributes:
        sites: what is rotated together.
        change: how much the log density changes when the first two labels are turned by `angle`.
        angle: in radians.
    """

    sites: tuple[str, ...]
    change: Change
    angle: float


@dataclasses.dataclass(frozen=True, eq=False)
class SymmetryFound:
    """What was tried and found.

    All of these compare equal, so that an account carried by a problem never causes a second
    compilation: no computation reads it.

    Attributes:
        group: the largest group found that folt can fold with; what is left of it where rotations
            are divided out.
        factors: what is permuted together, and among which labels.
        attempts: every transformation that was tried at all points.
        nearly: transformations that leave the likelihood alone, or nearly everything, and fail.
        rotations: continuous symmetries.
        remarks: reasons why something is not folded.
        repeated: sites with repeated structure, whose labels might have been alike.
        points: number of points at which the density was tried.
        evaluations: evaluations of the density.
        looked: False where the user said that nothing is to be folded.
        front_end: the library the model is written in, for advice in its own words.
        divided: whether the continuous symmetries are divided out.
    """

    group: Group
    factors: tuple[Factor, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    nearly: tuple[Attempt, ...] = ()
    rotations: tuple[RotationFound, ...] = ()
    remarks: tuple[Remark, ...] = ()
    repeated: tuple[str, ...] = ()
    points: int = 0
    evaluations: int = 0
    looked: bool = True
    front_end: str = ""
    divided: bool = False

    @property
    def found(self) -> tuple[Attempt, ...]:
        """The attempts that leave the log density unchanged."""
        return tuple(attempt for attempt in self.attempts if attempt.change.holds)

    @property
    def folded(self) -> bool:
        """Whether there is anything to fold."""
        return self.group.order > 1 or self.divided

    @property
    def missed(self) -> bool:
        """Whether nothing is folded although the model has repeated structure."""
        return self.looked and not self.folded and bool(self.repeated)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymmetryFound)

    def __hash__(self) -> int:
        return hash(SymmetryFound)

    def __str__(self) -> str:
        from folt.symmetry.account import account_of

        return account_of(self)


@dataclasses.dataclass
class Survey:
    """What a search has turned up so far; the attributes are those of `SymmetryFound`."""

    factors: list[Factor] = dataclasses.field(default_factory=list)
    attempts: list[Attempt] = dataclasses.field(default_factory=list)
    nearly: list[Attempt] = dataclasses.field(default_factory=list)
    rotations: list[RotationFound] = dataclasses.field(default_factory=list)
    remarks: list[Remark] = dataclasses.field(default_factory=list)

    def remark(self, reason: Reason, sites: tuple[str, ...], count: int = 0) -> None:
        """Add a remark, unless it was made already."""
        found = Remark(reason, sites, count)
        self.remarks += [] if found in self.remarks else [found]

    def found(
        self, group: Group, probe: Probe, repeated: Iterable[str], front_end: str = ""
    ) -> SymmetryFound:
        """Return the findings with the group that is made of them."""
        if group.order > LARGEST_ENUMERATED:
            self.remark(Reason.TOO_LARGE, (), group.order)
        return SymmetryFound(
            group=group,
            factors=tuple(self.factors),
            attempts=tuple(self.attempts),
            nearly=tuple(self.nearly),
            rotations=tuple(self.rotations),
            remarks=tuple(self.remarks),
            repeated=tuple(dict.fromkeys(repeated)),
            points=len(probe.points),
            evaluations=probe.evaluations,
            front_end=front_end,
        )
