"""Densities that rotations leave alone, taken to the quotient, where nothing turns any more.

A user's functions know the whole point x, the matrix with all its rotated copies. The problem that
is sampled knows coordinates z of the quotient: x(z) is the representative of an orbit, and the
density gains the volume of the orbit. A rotation that is drawn uniformly undoes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.batching import map_points
from folt.coordinates.rotation import Left, RotationChart
from folt.groups import Group, Permutation, Product, Rotation, SignedPermutation, Trivial
from folt.problem.black_box import BlackBox
from folt.problem.named_values import takes_key
from folt.types import Distribution, Key, Point, Scalar, in_float64

STARTS = 4
"""Climbs of the pilot, from points drawn at random."""

_STEPS = 100
"""Most steps of a climb: the rows need not be known well, only which of them are large."""

_TRIED = 6
"""Points at which a declared rotation is tried."""

_TOLERANCE = 1e-7
"""Largest change of log π, relative to 1 + |log π|, that counts as rounding."""


class Quotient(eqx.Module):
    """From coordinates of the quotient to whole points, part by part of a product of groups.

    Attributes:
        groups: the declared groups, rotations with their pivots among them.
    """

    groups: tuple[Group, ...] = eqx.field(static=True)

    @property
    def whole(self) -> int:
        """Dimension of the points that the user's functions know."""
        return sum(group.dim for group in self.groups)

    @property
    def charts(self) -> tuple[RotationChart | None, ...]:
        """The chart of every part; None where nothing is rotated."""
        return tuple(RotationChart(g) if isinstance(g, Rotation) else None for g in self.groups)

    @property
    def rotations(self) -> tuple[Rotation, ...]:
        """The groups that are divided out."""
        return tuple(group for group in self.groups if isinstance(group, Rotation))

    @property
    def rest(self) -> Group:
        """The finite group that is left, on the coordinates of the quotient."""
        left: list[Group] = []
        for group, chart in zip(self.groups, self.charts, strict=True):
            part = group if chart is None else Trivial(chart.dim)
            if left and isinstance(part, Trivial) and isinstance(left[-1], Trivial):
                left[-1] = Trivial(left[-1].dim + part.dim)
            else:
                left.append(part)
        return left[0] if len(left) == 1 else Product(*left)

    def _sizes(self, whole: bool) -> list[int]:
        pairs = zip(self.groups, self.charts, strict=True)
        return [group.dim if whole or chart is None else chart.dim for group, chart in pairs]

    def _parts(self, point: Array, whole: bool) -> list[Array]:
        return jnp.split(point, np.cumsum(self._sizes(whole))[:-1].tolist())

    def lift(self, z: Left) -> Point:
        """Return the representative x(z) of an orbit."""
        pairs = zip(self.charts, self._parts(z, False), strict=True)
        return jnp.concatenate([p if chart is None else chart.push(p) for chart, p in pairs])

    def pull(self, x: Point) -> Left:
        """Return the coordinates of the orbit of a whole point."""
        pairs = zip(self.charts, self._parts(x, True), strict=True)
        return jnp.concatenate([p if chart is None else chart.pull(p) for chart, p in pairs])

    def log_slope(self, z: Left) -> Scalar:
        """Return what is added to the log density."""
        pairs = zip(self.charts, self._parts(z, False), strict=True)
        slopes = [chart.log_slope(part) for chart, part in pairs if chart is not None]
        return jnp.sum(jnp.stack(slopes))

    def turned(self, x: Point, elements: Sequence[Array]) -> Point:
        """Return a whole point whose rotations are turned by these elements, one for each."""
        left, parts = list(elements), []
        for group, part in zip(self.groups, self._parts(x, True), strict=True):
            parts.append(group.act(left.pop(0), part) if isinstance(group, Rotation) else part)
        return jnp.concatenate(parts)

    def at_random(self, key: Key, x: Point) -> Point:
        """Return a whole point with all rotations turned uniformly."""
        keys = jax.random.split(key, len(self.rotations))
        pairs = zip(self.rotations, keys, strict=True)
        return self.turned(x, [group.random_element(own) for group, own in pairs])

    def matrices(self, x: Point) -> list[Float[Array, "rows columns"]]:
        """Return the matrices that are rotated."""
        pairs = zip(self.groups, self._parts(x, True), strict=True)
        return [group.matrix(part) for group, part in pairs if isinstance(group, Rotation)]

    def names(self, whole: Sequence[str]) -> list[str]:
        """The names of the coordinates that are left, of one for every entry of a whole point."""
        start, found = 0, []
        for group, chart in zip(self.groups, self.charts, strict=True):
            own = np.array(whole[start : start + group.dim], object)
            start += group.dim
            if chart is None:
                found += own.tolist()
            else:
                found += chart.group.table(own)[chart.places].tolist()
        return found

    def words(self) -> str:
        """Return what was divided out: "rotations O(3), a ring of dimension 3"."""
        each = [
            f"rotations {group.name} of a matrix of {group.rows} rows, a ring of dimension "
            f"{group.directions}"
            if group.directions
            else f"signs {group.name} of a column of {group.rows} rows"
            for group in self.rotations
        ]
        return "; ".join(each)


class Lifted(eqx.Module):
    """A user's function of whole points, at coordinates of the quotient."""

    function: Callable[..., PyTree]
    quotient: Quotient
    place: int = eqx.field(static=True, default=0)

    def __call__(self, *arguments: Any) -> PyTree:
        """Return the function, its point lifted."""
        given = list(arguments)
        given[self.place] = self.quotient.lift(given[self.place])
        return self.function(*given)


class LiftedDensity(eqx.Module):
    """The log density on the quotient: that of the representative, times the orbit's volume."""

    function: Callable[..., Scalar]
    quotient: Quotient

    def __call__(self, z: Left, *data: PyTree) -> Scalar:
        """Return the log density at coordinates of the quotient."""
        return self.function(self.quotient.lift(z), *data) + self.quotient.log_slope(z)


class Pulled(eqx.Module):
    """From a user's parameters to coordinates of the quotient."""

    function: Callable[..., Point]
    quotient: Quotient

    def __call__(self, values: Any, *data: PyTree, key: Key | None = None) -> Left:
        """Return the coordinates of the orbit with these values."""
        keyed = {"key": key} if takes_key(self.function) else {}
        return self.quotient.pull(jnp.asarray(self.function(values, *data, **keyed)))


class HostLifted:
    """A user's host function of whole points, with a method `many`, on the quotient."""

    def __init__(self, function: Any, quotient: Quotient) -> None:
        self.function, self.quotient = function, quotient

    def __call__(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the function at one point."""
        return self.function(np.asarray(self.quotient.lift(jnp.asarray(z))))

    def many(self, points: np.ndarray, *more: Any) -> dict[str, np.ndarray]:
        """Return the function at many points."""
        whole = map_points(_lift_and_slope, self.quotient, points)[0]
        called = getattr(self.function, "many", self.function)
        return called(whole, *more)


class HostPulled:
    """From many values of a user's parameters, on the host, to coordinates of the quotient."""

    def __init__(self, function: Any, quotient: Quotient) -> None:
        self.function, self.quotient = function, quotient

    def __call__(self, values: Any, key: Key | None = None) -> np.ndarray:
        """Return the coordinates at one value of every parameter."""
        return np.asarray(self.quotient.pull(jnp.asarray(self.function(values, key))))

    def many(self, values: Any, key: Key | None = None) -> np.ndarray:
        """Return the coordinates at many values of every parameter."""
        return map_points(_pull, self.quotient, self.function.many(values, key))


class PulledPrior(Distribution):
    """A prior of whole points that rotations leave alone, on the quotient."""

    prior: Distribution
    quotient: Quotient

    @property
    def dim(self) -> int:
        """Dimension of the quotient."""
        return self.quotient.rest.dim

    def log_prob(self, x: Left) -> Scalar:
        """Return the log density of the orbit."""
        return self.prior.log_prob(self.quotient.lift(x)) + self.quotient.log_slope(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Left, Scalar]:
        """Return the orbit of a draw."""
        z = self.quotient.pull(self.prior.sample(key))
        return z, self.log_prob(z)


class HostQuotient:
    """A host function of whole points, with its gradient, at coordinates of the quotient."""

    def __init__(self, box: BlackBox, quotient: Quotient) -> None:
        self.box, self.quotient = dataclasses.replace(box, workers=1), quotient

    @in_float64
    def values(self, points: np.ndarray) -> np.ndarray:
        """Return the log density at many points."""
        whole, slopes = map_points(_lift_and_slope, self.quotient, points)
        return self.box.values(whole) + slopes

    @in_float64
    def gradients(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log density and gradient at many points."""
        whole, slopes = map_points(_lift_and_slope, self.quotient, points)
        values, gradients = self.box.gradients(whole)
        return values + slopes, map_points(_pulled_back, self.quotient, (points, gradients))


def on_quotient(density: Callable[..., Scalar], quotient: Quotient) -> Callable[..., Scalar]:
    """Return the log density on the quotient, in JAX or on the host as it was given."""
    if not isinstance(density, BlackBox):
        return LiftedDensity(density, quotient)
    host = HostQuotient(density, quotient)
    return BlackBox(
        host.values,
        True,
        density.batch,
        density.workers,
        host.gradients if density.gradient is not None else None,
    )


def quotient_of(symmetry: Group, density: Callable[..., Scalar], data: PyTree) -> Quotient | None:
    """Return the quotient by the rotations of a group, with pivots; None where it has no rotation.

    Raises:
        SymmetryError: the density changes under a rotation that was declared.
    """
    groups = _flattened(symmetry)
    if not any(isinstance(group, Rotation) for group in groups):
        return None
    with jax.enable_x64(True):
        values = _Values(density, data)
        _require_rotations(groups, values)
        missing = [g for g in groups if isinstance(g, Rotation) and g.pivots is None]
        return Quotient(_with_pivots(groups, values) if missing else groups)


def left_of(symmetry: Group) -> Group:
    """Return the finite group that is left of one whose rotations are divided out."""
    return Quotient(_flattened(symmetry)).rest


def with_rotations(
    group: Group, density: Callable[..., Scalar], data: PyTree, scale: float | None
) -> Group | None:
    """The group with permutations of labels made rotations where the density allows it; or None.

    Args:
        group: the finite group that was found.
        density: the log density in its coordinates.
        data: handed to it.
        scale: of an isotropic normal prior of these coordinates, where there is one.
    """
    groups, found = _flattened(group), False
    with jax.enable_x64(True):
        values = _Values(density, data)
        for place, each in enumerate(groups):
            if isinstance(each, SignedPermutation) and not each.unsigned:
                columns, rows = each.columns, each.size
            elif isinstance(each, Permutation):
                columns, rows = each.blocks, each.size
            else:
                continue
            if not 1 < columns <= rows:
                continue
            rotation = Rotation(rows, columns, labels_first=True, scale=scale)
            tried = (*groups[:place], rotation, *groups[place + 1 :])
            if _first_change(tried, values) is None:
                groups, found = tried, True
    return Product(*groups) if found else None


def _flattened(group: Group) -> tuple[Group, ...]:
    if isinstance(group, Product):
        return tuple(part for each in group.groups for part in _flattened(each))
    return (group,)


class _Values:
    """A density of whole points, in JAX or on the host."""

    def __init__(self, density: Callable[..., Scalar], data: PyTree) -> None:
        self.box = density if isinstance(density, BlackBox) else None
        arguments = () if data is None else (data,)

        def one(x: Point) -> Scalar:
            return jnp.asarray(density(x, *arguments))

        self._many = jax.jit(jax.vmap(one))
        self._slope = jax.jit(jax.value_and_grad(one))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.box.values(points) if self.box is not None else np.asarray(self._many(points))

    @property
    def differentiable(self) -> bool:
        return self.box is None or self.box.gradient is not None

    def slope(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log density and its gradient, for a minimiser."""
        if self.box is not None:
            values, slopes = self.box.gradients(x[None])
            value, slope = values[0], slopes[0]
        else:
            value, slope = self._slope(x)
        usable = np.isfinite(value) and np.all(np.isfinite(slope))
        return (-float(value), -np.asarray(slope)) if usable else (1e300, np.zeros_like(x))


def _require_rotations(groups: Sequence[Group], values: _Values) -> None:
    """Refuse a rotation under which the density changes, with the generator and the defect."""
    failed = _first_change(groups, values)
    if failed is not None:
        from folt.problem.symmetry import SymmetryError  # which imports problems

        group, words, change = failed
        raise SymmetryError(
            f"the log density is declared to be left alone by {group.name} but changes by "
            f"{change:.6g} under '{words}': give the matrix a round prior, such as a normal one "
            "with equal scales in a row, or declare the signed permutations alone, "
            "folt.groups.SignedPermutation"
        )


def _first_change(groups: Sequence[Group], values: _Values) -> tuple[Rotation, str, float] | None:
    """The first rotation that changes the density, its generator in words, and by how much."""
    random = np.random.default_rng(0)
    points = random.normal(size=(_TRIED, sum(group.dim for group in groups)))
    plain, start = values(points), 0
    for group in groups:
        own = slice(start, start + group.dim)
        start += group.dim
        if not isinstance(group, Rotation):
            continue
        for element in group.generators:
            turned = points.copy()
            turned[:, own] = [np.asarray(group.act(element, x)) for x in points[:, own]]
            with np.errstate(invalid="ignore"):
                change = np.abs(values(turned) - plain)
            change = np.where(np.isneginf(plain) & ~np.isfinite(change), 0.0, change)
            worst = int(np.argmax(change / (1.0 + np.abs(plain))))
            if not change[worst] <= _TOLERANCE * (1.0 + abs(plain[worst])):
                return group, group.describe(element), float(change[worst])
    return None


def _with_pivots(groups: Sequence[Group], values: _Values) -> tuple[Group, ...]:
    """Return the groups with pivot rows that are far from dependent where the density is large."""
    best = _climbed(sum(group.dim for group in groups), values)
    found, start = [], 0
    for group in groups:
        part = best[start : start + group.dim]
        start += group.dim
        if isinstance(group, Rotation) and group.pivots is None:
            rows = independent_rows(group.table(part), group.columns)
            group = dataclasses.replace(group, pivots=rows)
        found.append(group)
    return tuple(found)


def _climbed(dim: int, values: _Values) -> np.ndarray:
    """Return a point of high density; the best of many random ones where there is no gradient."""
    from scipy.optimize import minimize

    random = np.random.default_rng(1)
    if not values.differentiable:
        points = random.normal(size=(64 * STARTS, dim))
        return points[int(np.argmax(values(points)))]
    ends = [
        minimize(values.slope, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
        for start in random.normal(size=(STARTS, dim))
    ]
    return np.asarray(min(ends, key=lambda end: float(end.fun)).x)


def independent_rows(matrix: Float[np.ndarray, "rows columns"], count: int) -> tuple[int, ...]:
    """Rows chosen one after the other, each the longest in what the earlier ones leave.

    Raises:
        ValueError: the matrix has fewer independent rows.
    """
    left = np.array(matrix, float)
    chosen: list[int] = []
    size = float(np.linalg.norm(left, axis=1).max(initial=0.0))
    for _ in range(count):
        lengths = np.linalg.norm(left, axis=1)
        row = int(np.argmax(lengths))
        if not lengths[row] > 1e-8 * size:
            raise ValueError(
                f"expected a matrix of rank {count} where the density is large, got rank "
                f"{len(chosen)}: leave out columns, or give Rotation(..., pivots=)"
            )
        direction = left[row] / lengths[row]
        left = left - np.outer(left @ direction, direction)
        chosen.append(row)
    return tuple(chosen)


def _pull(quotient: Quotient, x: Point) -> Left:
    return quotient.pull(x)


def _lift_and_slope(quotient: Quotient, z: Left) -> tuple[Point, Scalar]:
    return quotient.lift(z), quotient.log_slope(z)


def _pulled_back(quotient: Quotient, given: tuple[Left, Point]) -> Left:
    z, gradient = given
    _, pull = jax.vjp(lambda at: _lift_and_slope(quotient, at), z)
    return pull((gradient, jnp.ones((), z.dtype)))[0]
