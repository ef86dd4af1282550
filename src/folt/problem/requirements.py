"""What is given as a problem, and what comes with it, is tried before anything else.

A model of another library is no problem yet.

A gradient that a user gives is compared with differences of the log density it belongs to.
A wrong gradient makes no error: paths are rejected, chains stand still and the fit ends in doubt
with advice that does not help. So it is tried at a few points.

A log density takes one point and returns one number; asked without evaluating it.

A continuous rotation of signed columns, which no finite group folds away.

Functions and names that come with a problem are tried at one point.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from folt.groups import Group, Product, SignedPermutation
from folt.problem.problem import Problem
from folt.types import Distribution, HostPoints, Key, Scalar, host_generator


def require_made(problem: object) -> None:
    """Refuse a model of another library where a problem is expected.

    Raises:
        ValueError: with the call that makes a problem of it.
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"expected a folt.Problem, got {type(problem).__name__}{maker(problem)}")


def maker(model: object) -> str:
    """Return how a problem is made of a model of another library, where it is one."""
    rooms = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "pymc" in rooms:
        return ": make one of a PyMC model by folt.from_pymc(model)"
    if callable(model):
        return (
            ": make one by folt.from_numpyro(model, *data) of a NumPyro model, by "
            "folt.Problem(log_density, symmetry) of a log density in JAX, or by "
            "folt.from_callable(function, dim, symmetry) of any other"
        )
    return ""


def require_scalar(problem: Problem) -> None:
    """Raise unless the log density takes a point of R^dim and returns one real number.

    Raises:
        ValueError: with the expected and the received shape or type.
    """
    if problem.black_box is not None:
        problem.black_box.values(np.zeros((1, problem.dim)))
        return
    point = jax.ShapeDtypeStruct((problem.dim,), jnp.float64)
    arguments = (point,) if problem.data is None else (point, problem.data)
    try:
        with _indices_checked():
            result = eqx.filter_eval_shape(_call, problem.log_density, arguments)
    except jax.errors.TracerArrayConversionError as error:
        raise ValueError(
            "the log density calls NumPy, SciPy or another function that cannot be traced by JAX: "
            "write it with jax.numpy, or give it as it is by folt.from_callable(function, "
            f"{problem.dim}, symmetry)"
        ) from error
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"the log density cannot be evaluated at a point of shape ({problem.dim},), the "
            f"dimension of the group: {error}"
        ) from error
    shape, dtype = getattr(result, "shape", None), getattr(result, "dtype", type(result).__name__)
    if shape != () or not jnp.issubdtype(result.dtype, jnp.floating):
        raise ValueError(
            f"the log density must return one real number of shape (), "
            f"got shape {shape} and type {dtype}"
        )


@contextlib.contextmanager
def _indices_checked() -> Iterator[None]:
    """JAX reads x[5] of two coordinates as x[1] unless it is told to check.

    The switch is global: what another thread traces meanwhile is checked too, and nothing else.
    """
    before = jax.config.values["jax_check_static_indices"]
    jax.config.update("jax_check_static_indices", True)
    try:
        yield
    finally:
        jax.config.update("jax_check_static_indices", before)


@eqx.filter_jit
def _call(log_density: Callable[..., Scalar], arguments: tuple[PyTree, ...]) -> PyTree:
    """Compiled code remembers the shapes it has seen: the density is not traced again for them."""
    return log_density(*arguments)


_TRIED = 3
"""Points at which a gradient is tried, and directions at each: a wrong entry shows in every one."""

_STEP = 1e-3
"""First step of the differences, relative to 1 + |x|; the second is half of it."""

_ROUNDING = 1e-4
"""Largest error of a gradient, relative to one plus its size, that is not called wrong."""


class GradientError(ValueError):
    """The gradient of a log density is not that of its values."""


def require_gradient(problem: Problem, key: Key, points: np.ndarray, plain: np.ndarray) -> None:
    """Refuse a host function's gradient that differences of its values contradict.

    Args:
        problem: with any density; one that JAX differentiates, or without gradient, is passed.
        key: of the directions.
        points: where the density was evaluated.
        plain: the log density there; points outside the support are not used.

    Raises:
        GradientError: naming the coordinate, the point and both numbers.
    """
    if problem.black_box is None or not problem.differentiable:
        return
    points = points[np.isfinite(plain)][:_TRIED]
    values, slopes = problem.gradients(points)
    own = problem.log_probs(points)
    random = host_generator(key)
    for point, value, slope, alone in zip(points, values, slopes, own, strict=True):
        where = np.array2string(point, precision=4, separator=", ")
        if not abs(value - alone) <= _ROUNDING * (1.0 + abs(alone)):
            raise GradientError(
                f"gradient returns the log density {value:.6g} at the point {where}, the function "
                f"itself {alone:.6g}: both must give the same number"
            )
        along = random.choice([-1.0, 1.0], (_TRIED, len(point))) * (1.0 + np.abs(point))
        if not _wrong(problem, point, slope, along, alone)[0].any():
            continue
        wrong, slopes_there, differences = _wrong(
            problem, point, slope, np.diag(1.0 + np.abs(point)), alone
        )
        if wrong.any():
            place = int(np.argmax(wrong))
            scale = 1.0 + abs(point[place])
            raise GradientError(
                f"the gradient is wrong in coordinate {problem.names[place]!r} at the point "
                f"{where}: it is {slopes_there[place] / scale:.6g}, and differences of the log "
                f"density give {differences[place] / scale:.6g}"
            )


def _wrong(
    problem: Problem, point: np.ndarray, slope: np.ndarray, along: np.ndarray, value: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which derivatives along these directions are wrong, those given, and those by differences.

    Two central differences give an extrapolated derivative and, by how far they differ, its error;
    a derivative that lies within that error is not contradicted.
    """
    steps = _STEP * np.array([1.0, 0.5])
    ends = point + np.array([1.0, -1.0])[:, None, None, None] * steps[:, None, None] * along
    upper, lower = problem.log_probs(ends.reshape(-1, len(point))).reshape(2, 2, -1)
    with np.errstate(invalid="ignore"):
        coarse, fine = (upper - lower) / (2.0 * steps[:, None])
        better = fine + (fine - coarse) / 3.0
        bends = (upper + lower - 2.0 * value) / steps[:, None]
        kink = np.abs(2.0 * bends[1] - bends[0])  # nothing where the function is smooth
        rounding = 100 * np.finfo(float).eps * (1.0 + abs(value)) / steps[1]
        error = np.abs(fine - coarse) + kink + rounding
    given = along @ slope
    allowed = error + _ROUNDING * (1.0 + np.abs(along) @ np.abs(slope))
    # Where a difference leaves the support nothing contradicts the gradient.
    wrong = np.isfinite(better) & ~(np.abs(given - better) <= allowed)
    return wrong, given, better


ROTATES = (
    "The log density has a continuous rotation symmetry of its signed columns, which no finite "
    "group folds away."
)

ANGLE = 0.6
"""Radians by which columns are rotated; no multiple of a right angle, which signs would allow."""


class Turning(NamedTuple):
    """A rotation that leaves the log density as it is.

    Attributes:
        change: largest change of the log density, which is rounding.
        coordinates: coordinates of all the columns that turn.
    """

    change: float
    coordinates: tuple[int, ...]


def rotation_found(
    whole: Group,
    points: HostPoints,
    plain: Float[np.ndarray, " n"],
    values: Callable[[HostPoints], Float[np.ndarray, " n"]],
    tolerance: float,
) -> Turning | None:
    """Turn the first two columns of every signed permutation; None where that changes the density.

    Args:
        whole: the group, of which signed permutations may be factors.
        points: where to try.
        plain: the log density there.
        values: the log density at other points.
        tolerance: change, relative to 1 + |log π|, that counts as rounding.
    """
    changes: list[float] = []
    coordinates: list[int] = []
    for start, group in _signed(whole, 0):
        columns = start + np.arange(group.dim).reshape(group.columns, group.size)
        turned = points.copy()
        first, second = points[:, columns[0]], points[:, columns[1]]
        turned[:, columns[0]] = np.cos(ANGLE) * first - np.sin(ANGLE) * second
        turned[:, columns[1]] = np.sin(ANGLE) * first + np.cos(ANGLE) * second
        finite = np.isfinite(plain)
        change = np.abs(values(turned) - plain)[finite]
        if change.size and np.all(change <= tolerance * (1.0 + np.abs(plain[finite]))):
            changes.append(float(change.max()))
            coordinates += columns.ravel().tolist()
    return Turning(max(changes), tuple(coordinates)) if changes else None


def _signed(group: Group, start: int) -> list[tuple[int, SignedPermutation]]:
    """Signed permutations of several columns of several entries, with their first coordinate."""
    if isinstance(group, SignedPermutation):
        several = group.columns > 1 and group.size > 1 and not group.unsigned
        return [(start, group)] if several else []
    if not isinstance(group, Product):
        return []
    starts = start + np.cumsum([0, *(each.dim for each in group.groups)])
    pairs = zip(group.groups, starts[:-1].tolist(), strict=True)
    return [found for each, first in pairs for found in _signed(each, first)]


def named(value: object) -> str:
    """Return what came instead of what was expected, in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__}: give an instance, {value.__name__}(...)"
    return f"{value!r}" if isinstance(value, str | int | float) else type(value).__name__


_RESERVED = ("chain", "draw")
"""Names of the axes of every posterior; a parameter cannot have them."""


def require_parts(problem: Problem) -> int:
    """Try the functions of a problem at one point; return how many numbers its parameters are.

    Raises:
        ValueError: naming the function and what is wrong with it.
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    point = jax.ShapeDtypeStruct((problem.dim,), jnp.float64)
    for name in ("prior", "sampler"):
        part = getattr(problem, name)
        if name == "prior" and part is not None:
            if not isinstance(part, Distribution):
                raise ValueError(f"expected prior to be a Distribution, got {named(part)}")
            part = part.sample
        if part is not None:
            _require_draw(name, _tried(name, part, key), problem.dim)
    if problem.pointwise is not None:
        _require_arrays("pointwise", _tried("pointwise", problem.log_likelihoods, point))
    return _require_arrays("constrain", _parameters(problem, point))


def _parameters(problem: Problem, point: jax.ShapeDtypeStruct) -> PyTree:
    if problem.black_box is None:
        return _tried("constrain", problem._parameters, point)
    # Beside a black box, this function may be plain NumPy.
    return _called("constrain", lambda: problem.parameters(np.zeros(problem.dim)))


def _tried(name: str, function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    return _called(name, lambda: eqx.filter_eval_shape(function, *arguments))


def _called(name: str, call: Callable[[], PyTree]) -> PyTree:
    try:
        return call()
    except Exception as error:
        what = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ValueError(f"{name} fails at a point of the problem: {what}") from error


def _require_draw(name: str, drawn: PyTree, dim: int) -> None:
    if jnp.shape(drawn) != (dim,):
        shape = getattr(drawn, "shape", type(drawn).__name__)
        raise ValueError(f"expected {name} to draw points of shape ({dim},), got {shape}")


def _require_arrays(name: str, tree: PyTree) -> int:
    """Refuse what is no dictionary of named arrays; how many numbers they are."""
    if not isinstance(tree, Mapping) or not tree:
        raise ValueError(f"expected {name} to return {{name: value}}, got {named(tree)}")
    require_names(name, tree)
    total = 0
    for key, value in tree.items():
        shape, kind = np.shape(value), np.dtype(getattr(value, "dtype", None) or type(value)).kind
        if kind not in "fiub":
            raise ValueError(f"expected {name} to return real numbers, got {key!r} of kind {kind}")
        total += math.prod(shape)
    return total


def require_names(what: str, names: Iterable[object]) -> None:
    """Refuse names under which parameters cannot be kept in a file.

    Raises:
        ValueError: naming the first of them.
    """
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"expected names of {what} to be words, got {name!r}")
        if "/" in name:
            raise ValueError(
                f"the name {name!r} of {what} holds '/', which netCDF keeps for groups: expected "
                f"one without, such as {name.replace('/', '.')!r} (in NumPyro, "
                "handlers.scope(divider='.'))"
            )
        if name in _RESERVED:
            raise ValueError(f"the name {name!r} of {what} is that of an axis: expected another")
