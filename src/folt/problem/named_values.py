"""Values by name: those of a problem's parameters at many points, and the way back.

Named axes of parameters: their names, their labels, and those along which relabelling acts.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, ArrayLike

from folt.batching import map_points
from folt.groups import Element, Group
from folt.types import HostPoints, Key, Point, in_float64

if TYPE_CHECKING:
    from folt.problem.problem import Problem


ENTRY = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")
"""A name such as `mu[0]`: one entry of an array that may be given whole."""


def by_draw(
    shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, ArrayLike]
) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """Return the common leading axes, and every known parameter with those axes as one."""
    found, leads = {}, {}
    for name, own in shapes.items():
        array = _value(values, name)
        if array is None:
            continue
        lead = array.shape[: array.ndim - len(own)] if array.ndim >= len(own) else None
        if lead is None or array.shape[len(lead) :] != own:
            axes = f"(..., {', '.join(map(str, own))})" if own else "(...), one number each,"
            raise ValueError(f"expected {name} of shape {axes} got {array.shape}")
        found[name], leads[name] = array.reshape(-1, *own), lead
        _require_numbers(name, found[name])
    if len(set(leads.values())) > 1:
        told = ", ".join(f"{name} {lead}" for name, lead in leads.items())
        raise ValueError(f"expected as many draws of every parameter, got {told}")
    if not found:
        raise ValueError(
            f"none of the problem's parameters {', '.join(shapes)} is among the values, which "
            f"have {', '.join(values) or 'none'}"
        )
    return next(iter(leads.values())), found


SEEN = 64
"""Points at which coordinates and parameters are compared."""


def spoken_names(
    names: Sequence[str], points: HostPoints, values: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    """Return the names of the coordinates; of those without one, that of what grows with them.

    Whoever gave parameters by `constrain=` never sees `x0`. A coordinate of which an entry of a
    parameter is an increasing function has its name; if it decreases, the name has a minus.
    """
    unnamed = [j for j, name in enumerate(names) if name == f"x{j}" and name not in values]
    found = list(names)
    if not unnamed:
        return tuple(found)
    every = slice(None, None, -(-len(points) // SEEN))
    seen = points[every]
    entries = [
        f"{name}[{','.join(map(str, index))}]" if index else name
        for name, value in values.items()
        for index in np.ndindex(np.shape(value)[1:])
    ]
    columns = [np.reshape(value[every], (len(seen), -1)) for value in values.values()]
    table = np.concatenate(columns, axis=1, dtype=np.float64) if columns else np.empty((0, 0))
    for j in unnamed:
        order = np.argsort(seen[:, j])
        apart = np.diff(seen[order, j]) > 0.0
        steps = np.diff(table[order], axis=0)[apart]
        for sign, alike in (("", steps > 0.0), ("-", steps < 0.0)):
            if len(steps) >= SEEN // 4 and (places := np.flatnonzero(alike.all(axis=0))).size:
                found[j] = sign + entries[places[0]]
                break
    return tuple(found)


def _require_numbers(name: str, draws: np.ndarray) -> None:
    """Refuse NaN and infinities, which no sampler means to return.

    Raises:
        ValueError: naming the parameter and the first draw.
    """
    wrong = np.flatnonzero(~np.isfinite(draws).all(axis=tuple(range(1, draws.ndim))))
    if wrong.size:
        raise ValueError(
            f"{wrong.size} of {len(draws)} draws of {name} are NaN or infinite, the first at "
            f"position {wrong[0]}: expected numbers; see why the sampler that made them failed"
        )


def _value(values: Mapping[str, ArrayLike], name: str) -> np.ndarray | None:
    """Return the values of a parameter, or of the entry of an array that its name means."""
    if name in values:
        return np.asarray(values[name], np.float64)
    entry = ENTRY.fullmatch(name)
    if entry is None or entry[1] not in values:
        return None
    array, index = np.asarray(values[entry[1]], np.float64), tuple(map(int, entry[2].split(",")))
    lengths = array.shape[array.ndim - len(index) :] if array.ndim >= len(index) else ()
    if len(lengths) < len(index) or any(i >= n for i, n in zip(index, lengths, strict=True)):
        raise ValueError(f"expected {entry[1]} with an entry {name}, got shape {array.shape}")
    return np.moveaxis(array, range(-len(index), 0), range(len(index)))[index]


def require_inside(points: HostPoints, names: Sequence[str]) -> None:
    """Refuse values outside the support, or on its edge, where coordinates are infinite."""
    draws, places = np.nonzero(~np.isfinite(points))
    if draws.size:
        raise ValueError(
            f"{len(np.unique(draws))} of {len(points)} draws lie on or beyond the edge of the "
            f"support, the first at position {draws[0]} in {names[places[0]]}: values rounded to "
            "single precision do, so sample in double precision"
        )


def _parameters_of(problem: Problem, x: Point) -> dict[str, Array]:
    return problem._parameters(x)


def parameters_at(problem: Problem, points: HostPoints) -> dict[str, np.ndarray]:
    """The parameters at many points; beside a black box the function may be plain NumPy.

    A function with a method `many` gets all points at once, as that of `points_at` all values.
    """
    if problem.black_box is None or problem.constrain is None:
        with jax.enable_x64(True):
            found = map_points(_parameters_of, problem, points)
            return {name: found[name] for name in _order(problem)}
    if hasattr(problem.constrain, "many"):
        return problem.constrain.many(points)
    rows = [problem._parameters(point) for point in points]
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def _order(problem: Problem) -> list[str]:
    """Names of the parameters as the model has them: compiled programs sort names by alphabet."""
    order: list[str] = []

    def noted(problem: Problem, x: Point) -> dict[str, Array]:
        found = problem._parameters(x)
        order[:] = found
        return found

    eqx.filter_eval_shape(noted, problem, np.zeros(problem.dim))
    return order


def points_at(problem: Problem, flat: dict[str, np.ndarray], key: Key | None) -> HostPoints:
    """Return the points of many values, compiled or on the host as `parameters_at`."""
    count = next(iter(flat.values())).shape[0] if flat else 0
    keys = jax.random.split(jax.random.key(0) if key is None else key, count)
    if problem.black_box is None:
        return map_points(_point_of, problem, (keys, flat))
    if problem.inverse is not None and hasattr(problem.inverse, "many"):
        return problem.inverse.many(flat, key)
    rows = [
        problem._point({name: value[n] for name, value in flat.items()}, keys[n])
        for n in range(count)
    ]
    return np.asarray(rows, np.float64).reshape(count, problem.dim)


def _point_of(problem: Problem, drawn: tuple[Key, dict[str, Array]]) -> Point | np.ndarray:
    return problem._point(drawn[1], drawn[0])


def takes_key(function: Callable[..., object]) -> bool:
    """Return whether a function asks for a key by name."""
    return "key" in inspect.signature(function).parameters


def own_shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter at one point."""
    origin = np.zeros(problem.dim)
    if problem.black_box is not None:
        found = problem._parameters(origin)  # may be plain NumPy
    else:
        found = eqx.filter_eval_shape(_parameters_of, problem, origin)
    return {name: tuple(np.shape(value)) for name, value in found.items()}


_SAME = 1e-9
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


SortKey = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""From the posterior, arrays with leading axes (chain, draw), to one number per label."""


LIKELIEST = "proposal"
"""The order by the labels that the proposal finds likeliest."""


@dataclasses.dataclass(frozen=True, eq=False)
class Naming:
    """What labels are to be sorted by, and which signs are to be reported.

    All of these compare equal, so that a convention never causes a second compilation: no
    computation reads it.

    Args:
        sort_by: a parameter with one number per label, or a function of the posterior; LIKELIEST
            for the labels that the proposal finds likeliest; None for the order of the fold.
        sign: "largest", or a coordinate that is to be positive; None for the signs of the fold.
    """

    sort_by: str | SortKey | None = None
    sign: str | None = None

    def __post_init__(self) -> None:
        key = self.sort_by
        if key is not None and not isinstance(key, str) and not callable(key):
            kind = type(key).__name__
            raise ValueError(f"expected sort_by to be a parameter or a function, got {kind}")
        if self.sign is not None and not isinstance(self.sign, str):
            raise ValueError(f"expected sign to be 'largest' or a coordinate, got {self.sign!r}")

    def __bool__(self) -> bool:
        return self.sort_by is not None or self.sign is not None

    def __str__(self) -> str:
        name = getattr(self.sort_by, "__name__", self.sort_by)
        order = [f"are sorted by {name}"] if self.sort_by is not None else []
        if self.sort_by == LIKELIEST:
            order = ["take labels from the proposal"]
        entry = "the largest entry" if self.sign == "largest" else self.sign
        signs = [f"have {entry} positive"] if self.sign is not None else []
        return " and ".join([*order, *signs])

    def require(self, problem: Problem) -> None:
        """Refuse a convention that no fit of the problem can follow.

        Raises:
            ValueError: no symmetry, a parameter or an entry that the problem does not have.
        """
        if self and problem.group.order == 1:
            raise ValueError("expected a symmetry to sort or to choose signs in, got none")
        known = [*own_shapes(problem), LIKELIEST] if isinstance(self.sort_by, str) else []
        if known and self.sort_by not in known:
            raise ValueError(
                f"expected sort_by among {', '.join(map(repr, known))}, got {self.sort_by!r}"
            )
        if (
            self.sign not in (None, "largest")
            and entry_name(self.sign, problem.names, dict(problem.dims), problem.coords) is None
        ):
            raise ValueError(
                f"expected sign='largest' or a coordinate such as {problem.names[0]!r}, got "
                f"{self.sign!r}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Naming)

    def __hash__(self) -> int:
        return hash(Naming)


def entry_name(
    entry: str,
    names: Sequence[str],
    dims: Mapping[str, tuple[str, ...]],
    coords: Mapping[str, Iterable[Any]],
) -> str | None:
    """Return the coordinate that is meant by its own name, or by labels as in `loading[0,arm]`.

    A place may also be named as the summary names it, counted from one: `loading[factor 1,arm]`.
    """
    if entry in names:
        return entry
    stem, _, rest = entry.partition("[")
    axes, words = dims.get(stem, ()), rest.removesuffix("]").split(",")
    places = []
    for axis, word in zip(axes, words, strict=False):
        labels, word = [str(label) for label in coords.get(axis, ())], word.strip()
        number = word.removeprefix(f"{axis} ")
        if word in labels:
            word = str(labels.index(word))
        elif number != word and number.isdecimal():
            word = str(int(number) - 1)
        places.append(word)
    found = f"{stem}[{','.join(places)}]"
    return found if len(axes) == len(words) and found in names else None


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
    """Return names of axes that fit: one per axis, and every name of one length throughout.

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
    """Return the labels of all axes that are named, as arrays; positions where an axis has none."""
    found: dict[str, np.ndarray] = {}
    for name, axes in matching_dims(dims, shapes).items():
        for axis, length in zip(axes, shapes[name], strict=True):
            labels = list(coords.get(axis, ()))
            found[axis] = as_array(labels if len(labels) == length else range(length))
    return found


def as_array(labels: Iterable[Any]) -> np.ndarray:
    """Return labels as an array; what is neither number, text nor time by its words."""
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
    values = _at_images(problem, point)
    found: dict[str, set[int]] = {}
    for image in range(1, max(map(len, values.values()), default=0)):
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


@in_float64
def moved_entries(problem: Problem, point: ArrayLike) -> dict[str, np.ndarray]:
    """Which entries of every parameter the group changes, by relabelling or by a flip of signs.

    The parameters at the images under the generators are compared with those at the point.
    """
    return {
        name: ~np.isclose(value[1:], value[:1], rtol=_SAME, atol=_SAME).all(axis=0)
        for name, value in _at_images(problem, point).items()
    }


def _at_images(problem: Problem, point: ArrayLike) -> dict[str, np.ndarray]:
    """Return the parameters at a point and at its images under the generators; none if trivial."""
    if problem.group.order == 1:
        return {}
    generators = problem.group.generators
    count = len(jax.tree.leaves(generators)[0])
    points = np.repeat(np.asarray(point, np.float64)[None], count, axis=0)
    images = np.asarray(map_points(_image, problem.group, (generators, points)))
    return parameters_at(problem, np.concatenate([points[:1], images]))


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
    return bool(np.allclose(one, other, rtol=_SAME, atol=_SAME))
