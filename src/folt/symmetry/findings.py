"""What was tried, what was found and what nearly held, as data; the sentences are in `words`."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from folt.groups import Group
from folt.symmetry.moves import AlongAxis, LabelledCoordinates, Move
from folt.symmetry.probe import Change


class Kind(enum.Enum):
    """What a transformation does to labels."""

    SWAP = "swap"
    FLIP = "flip"
    ROTATION = "rotate"


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
    UNEQUAL_PRIORS = "unequal priors"
    OVERLAPS = "overlaps"
    SIGNS_APART = "signs apart"
    TOO_LARGE = "too large"
    TOO_MANY = "too many"


@dataclasses.dataclass(frozen=True)
class Remark:
    """A reason and the sites it concerns.

    Attributes:
        reason: the reason.
        sites: names of the sites.
        count: how many labels, or how large a group, where that matters.
        undo: whether the front-end can undo it.
    """

    reason: Reason
    sites: tuple[str, ...]
    count: int = 0
    undo: bool = False


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
        movers = [mover for n, mover in enumerate(self.movers) if n not in self.unsigned]
        return frozenset().union(*(mover.places for mover in movers))

    @property
    def whole(self) -> bool:
        """Whether all labels are alike."""
        return self.classes == (tuple(range(self.m)),)

    @property
    def generators(self) -> list[Callable[[np.ndarray], np.ndarray]]:
        """Maps of points (n, dim) whose products are all permutations and sign changes."""
        pairs = [pair for labels in self.classes for pair in itertools.pairwise(labels)]
        swaps = [functools.partial(self.swapped, pair=pair) for pair in pairs]
        return swaps + [functools.partial(self._flip, label=label) for label in self.signed]

    def swapped(self, points: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
        """Return points with two labels exchanged in all that moves."""
        for mover, move in zip(self.movers, self.moves, strict=True):
            points = mover.image(points, move, pair)
        return points

    def _flip(self, points: np.ndarray, label: int) -> np.ndarray:
        points = points.copy()
        for number, (mover, move) in enumerate(zip(self.movers, self.moves, strict=True)):
            if number not in self.unsigned and isinstance(move, AlongAxis):
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
        labels: how many labels are rotated into each other.
        plane: the plane in which it was tried, two labels counted from zero.
        change: how much the log density changes under a rotation by `angle`.
        angle: in radians.
    """

    sites: tuple[str, ...]
    labels: int
    plane: tuple[int, int]
    change: Change
    angle: float


@dataclasses.dataclass(frozen=True, eq=False)
class SymmetryFound:
    """What was tried and found.

    All of these compare equal, so that an account carried by a problem never causes a second
    compilation: no computation reads it.

    Attributes:
        group: the largest group found that folt can fold with.
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
