"""Values by name: those of a problem's parameters at many points, and the way back."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from folt.problem.batching import map_points
from folt.types import Key, Point

if TYPE_CHECKING:
    from folt.problem.problem import Problem

Points = Float[np.ndarray, "n dim"]

ENTRY = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")
"""A name such as `mu[0]`: one entry of an array that may be given whole."""


def by_draw(
    shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, ArrayLike]
) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """The common leading axes, and every known parameter with those axes as one."""
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
    """The values of a parameter, or of the entry of an array that its name means."""
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


def require_inside(points: Points, names: Sequence[str]) -> None:
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


def parameters_at(problem: Problem, points: Points) -> dict[str, np.ndarray]:
    """The parameters at many points; beside a black box the function may be plain NumPy.

    A function with a method `many` gets all points at once, as that of `points_at` all values.
    """
    if problem.black_box is None or problem.constrain is None:
        with jax.enable_x64(True):
            return map_points(_parameters_of, problem, points)
    if hasattr(problem.constrain, "many"):
        return problem.constrain.many(points)
    rows = [problem._parameters(point) for point in points]
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def points_at(problem: Problem, flat: dict[str, np.ndarray], key: Key | None) -> Points:
    """The points of many values, compiled or on the host as `parameters_at`."""
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
    """Whether a function asks for a key by name."""
    return "key" in inspect.signature(function).parameters


def own_shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter at one point."""
    origin = np.zeros(problem.dim)
    if problem.black_box is not None:
        found = problem._parameters(origin)  # may be plain NumPy
    else:
        found = eqx.filter_eval_shape(_parameters_of, problem, origin)
    return {name: tuple(np.shape(value)) for name, value in found.items()}
