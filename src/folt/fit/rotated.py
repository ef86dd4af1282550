"""Draws of a quotient by rotations, turned so that they can be read.

The representative of an orbit is lower trapezoidal, which is exact and hard to read. For reading,
every draw is turned as near as possible to a target (Procrustes), which may be the mean of the
draws turned to its varimax position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import jax
import numpy as np
from jaxtyping import Array, Float

from folt.batching import map_points
from folt.coordinates.rotation import Left
from folt.groups import Rotation
from folt.problem.quotient import Quotient
from folt.types import Key, Point, in_float64

if TYPE_CHECKING:
    from folt.fit.fit import Fit

Matrices = Float[np.ndarray, "n rows columns"]

_ROUNDS = 20
"""Rounds in which draws and their mean settle on each other, or a varimax rotation settles."""


@in_float64
def rotated(
    fit: Fit, to: Literal["varimax"] | np.ndarray | list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the posterior in the user's parameters, every draw turned to a target.

    Raises:
        ValueError: nothing was divided out, no problem, or a target of another shape.
    """
    problem = fit.problem
    if problem is None or problem.quotient is None:
        raise ValueError(
            "expected a fit whose rotations were divided out, with its problem: a loaded fit needs "
            "folt.load(path, problem=problem)"
        )
    quotient, lead = problem.quotient, fit.draws.shape[:2]
    points = fit.draws.reshape(-1, fit.group.dim)
    whole = map_points(Quotient.lift, quotient, points)
    stacks = [np.asarray(each) for each in map_points(Quotient.matrices, quotient, whole)]
    targets = _targets(quotient, stacks, to)
    elements = [
        _nearest(stack, target, group.special)
        for stack, target, group in zip(stacks, targets, quotient.rotations, strict=True)
    ]
    turned = map_points(_turned, quotient, (whole, elements))
    # The problem's functions lift a point of the quotient; these points are whole already.
    read = problem.whole_parameters
    if problem.black_box is not None:
        values = read.many(turned) if hasattr(read, "many") else _one_by_one(read, turned)
    else:
        values = map_points(_read, read, turned)
    return {name: np.asarray(v).reshape(*lead, *v.shape[1:]) for name, v in values.items()}


def _targets(
    quotient: Quotient, stacks: list[Matrices], to: str | np.ndarray | list[np.ndarray]
) -> list[np.ndarray]:
    if isinstance(to, str):
        if to != "varimax":
            raise ValueError(f"expected 'varimax' or a target matrix, got {to!r}")
        return [
            varimax(_settled_mean(stack, group.special), group)
            for stack, group in zip(stacks, quotient.rotations, strict=True)
        ]
    given = to if isinstance(to, (list, tuple)) else [to]
    targets = [np.asarray(each, np.float64) for each in given]
    shapes = [(group.rows, group.columns) for group in quotient.rotations]
    if [each.shape for each in targets] != shapes:
        raise ValueError(
            f"expected a target of shape {' and '.join(map(str, shapes))}, rows by columns that "
            f"turn, got {' and '.join(str(each.shape) for each in targets)}"
        )
    return targets


def _nearest(stack: Matrices, target: np.ndarray, special: bool) -> Float[np.ndarray, "n k k"]:
    """The elements g of which Λgᵀ is nearest to the target: g = VUᵀ of the SVD of Λᵀ·target."""
    left, _, right = np.linalg.svd(np.einsum("nij,ik->njk", stack, target))
    if special:
        sign = np.linalg.det(left) * np.linalg.det(right)
        left[:, :, -1] *= sign[:, None]
    return np.swapaxes(left @ right, 1, 2)


def _settled_mean(stack: Matrices, special: bool) -> np.ndarray:
    """The mean of the draws after each was turned towards it."""
    mean = stack[0]
    for _ in range(_ROUNDS):
        elements = _nearest(stack, mean, special)
        mean = np.einsum("nij,nkj->ik", stack, elements) / len(stack)
    return mean


def varimax(matrix: Float[np.ndarray, "rows columns"], group: Rotation) -> np.ndarray:
    """Return the rotation of a matrix whose squared entries vary most within columns (Kaiser)."""
    k = group.columns
    turn = np.eye(k)
    for _ in range(_ROUNDS * k):
        now = matrix @ turn
        slope = matrix.T @ (now**3 - now * np.mean(now**2, axis=0))
        left, _, right = np.linalg.svd(slope)
        turn = left @ right
        if group.special and np.linalg.det(turn) < 0:
            turn[:, -1] *= -1.0
    return matrix @ turn


def _turned(quotient: Quotient, given: tuple[Point, list[Array]]) -> Point:
    return quotient.turned(*given)


def _one_by_one(read: Callable[..., dict[str, Array]], points: np.ndarray) -> dict[str, np.ndarray]:
    rows = [read(point) for point in points]
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def _read(read: object, x: Point) -> dict[str, Array]:
    return read(x)  # type: ignore[operator]


def whole_at_random(quotient: Quotient, given: tuple[Key, Left]) -> Point:
    """A whole point of an orbit, uniformly chosen."""
    key, z = given
    return quotient.at_random(jax.random.fold_in(key, 1), quotient.lift(z))
