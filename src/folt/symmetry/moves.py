"""How a swap of two labels may move some coordinates, in NumPy.

A mover is a set of coordinates that carries m labels: an axis of an array, the entries of a
simplex, equal sites side by side. It may be moved in several ways, every one of them orthogonal;
which of them leaves a density unchanged is for the search to say.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod

import numpy as np

from folt.groups import Blocks, Part, Square, ZeroSum, ZeroSumRows, zero_sum_basis

_Values = np.ndarray
"""Coordinates of a mover at many points, (n, *shape)."""


class Move(ABC):
    """One way in which labels move the coordinates of a mover, laid out as (n, *shape)."""

    @abstractmethod
    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return the coordinates after two labels changed places."""

    @abstractmethod
    def raised(self, shape: tuple[int, ...], label: int) -> np.ndarray:
        """Return a step of all that belongs to one label, alike for every label."""

    @abstractmethod
    def parts(self, shape: tuple[int, ...], m: int) -> tuple[Part, ...]:
        """Return the parts of a joint group that act like this on coordinates in `order`."""

    def order(self, columns: np.ndarray) -> np.ndarray:
        """Return where the coordinates stand in a point, in the order that the parts expect."""
        return columns.reshape(-1)

    def signs(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return signs by which the coordinates, in that order, are multiplied first."""
        return np.ones(int(np.prod(shape)))


@dataclasses.dataclass(frozen=True)
class AlongAxis(Move):
    """The labels run along one axis."""

    axis: int

    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return the coordinates with the two slices exchanged."""
        places = np.arange(values.shape[self.axis + 1])
        places[[first, second]] = second, first
        return np.take(values, places, axis=self.axis + 1)

    def raised(self, shape: tuple[int, ...], label: int) -> np.ndarray:
        """Return a generic step of one slice."""
        step = np.zeros(shape)
        one = np.moveaxis(step, self.axis, 0)[label]
        np.moveaxis(step, self.axis, 0)[label] = 0.5 + 0.1 * np.arange(one.size).reshape(one.shape)
        return step

    def parts(self, shape: tuple[int, ...], m: int) -> tuple[Part, ...]:
        """Return one block per label."""
        return (Blocks(int(np.prod(shape)) // m),)

    def order(self, columns: np.ndarray) -> np.ndarray:
        """Return the places label by label."""
        return np.moveaxis(columns, self.axis, 0).reshape(-1)


@dataclasses.dataclass(frozen=True)
class AxisReversed(AlongAxis):
    """Two labels along one axis change places and every coordinate its sign.

    The chance of the second of two states given the present one: p1 and p2 become 1 - p2, 1 - p1.
    """

    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return the two slices exchanged, with the other sign."""
        return -super().swapped(values, first, second)

    def signs(self, shape: tuple[int, ...]) -> np.ndarray:
        """Count the second label the other way round, which makes it a plain exchange."""
        size = int(np.prod(shape))
        return np.repeat([1.0, -1.0], size // 2)


@dataclasses.dataclass(frozen=True)
class Negated(Move):
    """Two labels at the two ends of a coordinate, such as a weight and one minus it."""

    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return every coordinate with the other sign."""
        return -values

    def raised(self, shape: tuple[int, ...], label: int) -> np.ndarray:
        """Return a step towards one end."""
        return np.full(shape, 0.5 if label == 0 else -0.5)

    def parts(self, shape: tuple[int, ...], m: int) -> tuple[Part, ...]:
        """Return a zero-sum vector of two entries for every coordinate."""
        return (ZeroSum(),) * int(np.prod(shape))


@dataclasses.dataclass(frozen=True)
class Among(Move):
    """Labels among entries of which some carry none.

    Attributes:
        others: places of the entries without a label.
    """

    others: tuple[int, ...] = ()

    def place(self, label: int) -> int:
        """Return the entry of a label."""
        for other in self.others:  # ascending
            label += other <= label
        return label


@dataclasses.dataclass(frozen=True)
class Entries(Among):
    """The entries of simplices in centred scores along the last axis."""

    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return two columns of the logarithms exchanged."""
        one, other = self.place(first), self.place(second)
        basis = zero_sum_basis(values.shape[-1] + 1)
        logs = values @ basis.T
        logs[..., [one, other]] = logs[..., [other, one]]
        return logs @ basis

    def raised(self, shape: tuple[int, ...], label: int) -> np.ndarray:
        """Return a step that makes one entry grow."""
        return np.broadcast_to(0.7 * zero_sum_basis(shape[-1] + 1)[self.place(label)], shape)

    def parts(self, shape: tuple[int, ...], m: int) -> tuple[Part, ...]:
        """Return one zero-sum vector per simplex."""
        return (ZeroSum(self.others),) * (int(np.prod(shape)) // shape[-1])


@dataclasses.dataclass(frozen=True)
class SquareSides(Among):
    """A square matrix with the labels on both sides."""

    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return rows and columns exchanged."""
        pair = self.place(first), self.place(second)
        return AlongAxis(1).swapped(AlongAxis(0).swapped(values, *pair), *pair)

    def raised(self, shape: tuple[int, ...], label: int) -> np.ndarray:
        """Return the diagonal entry of one label."""
        step = np.zeros(shape)
        step[self.place(label), self.place(label)] = 0.6
        return step

    def parts(self, shape: tuple[int, ...], m: int) -> tuple[Part, ...]:
        """Return a square."""
        return (Square(self.others),)


@dataclasses.dataclass(frozen=True)
class TransitionSides(Among):
    """A transition matrix, one simplex per row, with the labels on both sides."""

    def swapped(self, values: _Values, first: int, second: int) -> _Values:
        """Return rows exchanged, and the entries of every row."""
        pair = self.place(first), self.place(second)
        return Entries().swapped(AlongAxis(0).swapped(values, *pair), *pair)

    def raised(self, shape: tuple[int, ...], label: int) -> np.ndarray:
        """Return the chance of staying with one label."""
        step = np.zeros(shape)
        step[self.place(label)] = 0.7 * zero_sum_basis(shape[-1] + 1)[self.place(label)]
        return step

    def parts(self, shape: tuple[int, ...], m: int) -> tuple[Part, ...]:
        """Return rows that sum to zero."""
        return (ZeroSumRows(self.others),)


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledCoordinates:
    """Coordinates that may carry m labels.

    Attributes:
        name: what the user calls it.
        sites: the sites it is made of.
        columns: places of its coordinates in a point, in the shape of the mover.
        moves: ways to move it.
        rank: the lower, the better its coordinates serve to sort labels by.
        axes: for every axis of the mover the axis of its site; None for labels made of sites.
        chosen: the entries that carry labels where others do not; empty where all do.
    """

    name: str
    sites: tuple[str, ...]
    columns: np.ndarray
    moves: tuple[Move, ...]
    rank: int = 0
    axes: tuple[int | None, ...] = ()
    chosen: tuple[int, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether some entries carry no label."""
        return bool(self.chosen)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its coordinates."""
        return self.columns.shape

    @property
    def places(self) -> frozenset[int]:
        """Its coordinates as a set."""
        return frozenset(self.columns.reshape(-1).tolist())

    def image(self, points: np.ndarray, move: Move, pair: tuple[int, int]) -> np.ndarray:
        """Return points with two labels of this mover exchanged, all else left alone."""
        moved = points.copy()
        moved[:, self.columns] = move.swapped(points[:, self.columns], *pair)
        return moved

    def covers(self, block: frozenset[int]) -> bool:
        """Return whether a block of coordinates is moved, but for the entries without a label."""
        return block <= self.places or (self.partial and bool(block & self.places))

    def part_of(self, axis: int, index: int) -> LabelledCoordinates:
        """Return the mover at one place of an axis along which labels do not run."""
        columns = np.take(self.columns, index, axis=axis)
        axes = (*self.axes[:axis], *self.axes[axis + 1 :])
        name = f"{self.name}[{index}]"
        return dataclasses.replace(self, name=name, columns=columns, axes=axes)
