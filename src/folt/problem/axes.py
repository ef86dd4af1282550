"""Named axes of parameters: their names, their labels, and those along which relabelling acts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from folt.groups import Element, Group
from folt.problem.batching import map_points
from folt.problem.named_values import own_shapes, parameters_at
from folt.types import Point, in_float64

if TYPE_CHECKING:
    from folt.problem.problem import Problem

SAME = 1e-9
"""Relative difference below which two values count as one that moved: rounding is 1e-16."""


class Coords(Mapping[str, tuple[Any, ...]]):
    """The labels of named axes, `{axis: labels}`.

    All of these compare equal, so that labels never cause a second compilation: no computation
    reads them.
    """

    def __init__(self, labels: Mapping[str, Iterable[Any]] | None = None) -> None:
        self._labels = {str(axis): _as_tuple(axis, own) for axis, own in (labels or {}).items()}

    def __getitem__(self, axis: str) -> tuple[Any, ...]:
        return self._labels[axis]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coords)

    def __hash__(self) -> int:
        return hash(Coords)

    def __repr__(self) -> str:
        return f"Coords({self._labels})"


def _as_tuple(axis: str, labels: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise ValueError(f"expected the labels of axis {axis!r} as a sequence, got {labels!r}")
    return tuple(labels)


def require_lengths(problem: Problem) -> None:
    """Refuse labels of an axis that are more or fewer than its entries.

    Raises:
        ValueError: naming the axis, the parameter and both numbers.
    """
    with jax.enable_x64(True):
        shapes = own_shapes(problem)
    for name, axes in problem.dims:
        shape = shapes.get(name, ())
        for axis, length in zip(axes, shape, strict=False):
            labels = problem.coords.get(axis)
            if len(axes) == len(shape) and labels is not None and len(labels) != length:
                raise ValueError(
                    f"coords give axis {axis!r} {len(labels)} labels, but {name} has {length} "
                    "entries along it"
                )


def fitting_dims(
    problem: Problem, posterior: Mapping[str, np.ndarray]
) -> dict[str, tuple[str, ...]]:
    """Names of axes that fit: one per axis, and every name of one length throughout.

    Those of observations are kept as they are: their shapes are known where they are computed.
    """
    shapes = {name: np.shape(value)[2:] for name, value in posterior.items()}
    taken = {"chain", "draw", *shapes}
    own = {name: axes for name, axes in problem.dims if name in shapes and not taken & set(axes)}
    rest = {name: axes for name, axes in problem.dims if name not in shapes}
    return {**matching_dims(own, shapes), **rest}


def matching_dims(
    dims: Mapping[str, tuple[str, ...]], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[str, ...]]:
    """Those names of axes that have one length throughout, of the arrays with these shapes."""
    lengths: dict[str, int] = {}
    found = {}
    for name, axes in dims.items():
        shape = shapes.get(name)
        if shape is None or len(axes) != len(shape) or len(set(axes)) != len(axes):
            continue
        pairs = list(zip(axes, shape, strict=True))
        if all(lengths.get(axis, length) == length for axis, length in pairs):
            lengths |= dict(pairs)
            found[name] = axes
    return found


def fitting_coords(
    coords: Mapping[str, Iterable[Any]],
    dims: Mapping[str, tuple[str, ...]],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, np.ndarray]:
    """The labels of all axes that are named, as arrays; positions where an axis has none."""
    found: dict[str, np.ndarray] = {}
    for name, axes in matching_dims(dims, shapes).items():
        for axis, length in zip(axes, shapes[name], strict=True):
            labels = list(coords.get(axis, ()))
            found[axis] = as_array(labels if len(labels) == length else range(length))
    return found


def as_array(labels: Iterable[Any]) -> np.ndarray:
    """Labels as an array; what is neither number, text nor time by its words."""
    found = list(labels)
    array = np.asarray(found)
    if array.ndim == 1 and array.dtype.kind in "iufbUMm":
        return array
    return np.array([str(label) for label in found])


@in_float64
def label_axes(problem: Problem, point: ArrayLike) -> dict[str, tuple[int, ...]]:
    """The axes of every parameter along which the group permutes entries, found at one point.

    The parameters at the images under the generators are compared with those at the point: a
    parameter carries labels along an axis if some image exchanges its slices along it, or along
    both sides of a square matrix at once.
    """
    if problem.group.order == 1:
        return {}
    generators = problem.group.generators
    count = len(jax.tree.leaves(generators)[0])
    points = np.repeat(np.asarray(point, np.float64)[None], count, axis=0)
    images = np.asarray(map_points(_image, problem.group, (generators, points)))
    values = parameters_at(problem, np.concatenate([points[:1], images]))
    found: dict[str, set[int]] = {}
    for image in range(1, count + 1):
        arrangements: set[tuple[int, ...]] = set()
        for name, value in values.items():
            for axis in range(value.ndim - 1):
                arrangement = _arrangement(value[0], value[image], axis)
                if arrangement is not None:
                    found.setdefault(name, set()).add(axis)
                    arrangements.add(arrangement)
        for name, value in values.items():
            if any(_both_sides(value[0], value[image], own) for own in arrangements):
                found.setdefault(name, set()).update((0, 1))
    return {name: tuple(sorted(found[name])) for name in values if name in found}


def _image(group: Group, moved: tuple[Element, Point]) -> Point:
    return group.act(*moved)


def _arrangement(value: np.ndarray, image: np.ndarray, axis: int) -> tuple[int, ...] | None:
    """Which slice of the value every slice of the image is; None if they are not exchanged."""
    before, after = (np.moveaxis(each, axis, 0) for each in (value, image))
    same = np.array([[_close(one, other) for other in before] for one in after])
    if not same.size or not (same.sum(axis=0) == 1).all() or not (same.sum(axis=1) == 1).all():
        return None
    order = tuple(int(place) for place in same.argmax(axis=1))
    return None if order == tuple(range(len(order))) else order


def _both_sides(value: np.ndarray, image: np.ndarray, order: tuple[int, ...]) -> bool:
    if value.ndim != 2 or value.shape != (len(order), len(order)):
        return False
    moved = value[list(order)][:, list(order)]
    return not _close(value, image) and _close(moved, image)


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=SAME, atol=SAME))
