"""Is the symmetry there? Verified at random points before anything else.

A density declared invariant that is not would be folded with one term instead of the orbit sum,
and every draw and every certificate would be wrong without a sign of it. So the declaration is
tested, and a failure is an error that names the element, the point and the defect.
"""

from __future__ import annotations

import dataclasses
import functools
import time

import jax
import numpy as np
from jaxtyping import Array

from folt.batching import map_keys, map_points
from folt.groups import Element, Group
from folt.problem.evaluated import VALUES_PER_BLOCK
from folt.problem.problem import Problem
from folt.problem.requirements import (
    ANGLE,
    ROTATES,
    require_gradient,
    require_scalar,
    rotation_found,
)
from folt.proposals.action import action_of
from folt.proposals.sums import HostDistribution
from folt.types import HostPoints, Key, host_generator, in_float64, root_key

_TOLERANCE = 1e-7
"""Largest defect of log π, relative to 1 + |log π|, that counts as rounding."""

MATTERS = 0.01
"""Defect in nats that matters to a posterior however large the constant in log π is."""

ROUNDINGS = 64.0
"""Units in the last place of log π by which two orders of the same sum may differ."""

_POINTS = 16

_UNDEFINED = 0.5
"""Share of the points tried at which the density may be NaN, which counts as outside."""

_COPIES, _NUDGE = 16, 16.0 * np.finfo(float).eps
"""Copies of a point, and how far each is moved, relatively, to see what rounding does there: where
log(1 - F) has F within 1e-15 of one, four units in the last place change it by tens of nats."""

_ROUNDED = 0.5
"""Share of the points at which rounding may account for a change: a density that changes by as
much wherever it is tried has not been seen to be symmetric anywhere."""

_EDGE = "It is a number there and -inf or NaN at the image, or the other way round."

TURNING = 4
"""Names of turning parameters that a sentence lists."""

RANDOM_ELEMENTS = 4
"""Elements tested besides the generators."""


class SymmetryError(ValueError):
    """A density that was declared invariant is not."""


class RotationError(SymmetryError):
    """A density has a continuous rotation symmetry, which no finite group folds away."""


@dataclasses.dataclass(frozen=True)
class SymmetryAccount:
    """What was tested and found.

    Attributes:
        order: number of group elements.
        tested: elements tested, in words.
        points: number of points at which they were tested.
        defect: largest |log π(g·x) - log π(x)|; infinite where only one of them is finite.
        allowed: the defect that counts as rounding at that point.
        element: the element with the largest defect, in words.
        point: the point where it occurred.
        holds: whether every defect is rounding.
        rotation: change of the log density when two signed columns are rotated into each other,
            where that is rounding: a continuous symmetry. None where there is none.
        turning: names of the coordinates that turn under it.
        pace: seconds that one evaluation took, compilation left out; no computation reads it.
    """

    order: int
    tested: tuple[str, ...]
    points: int
    defect: float
    allowed: float
    element: str
    point: np.ndarray
    holds: bool
    rotation: float | None = None
    turning: tuple[str, ...] = ()
    pace: float = dataclasses.field(default=0.0, compare=False, repr=False)

    def __str__(self) -> str:
        found = "holds" if self.holds else f"fails under: {self.element}"
        hidden = "" if self.allowed <= MATTERS else f" {self.blindness}"
        hidden += "" if self.rotation is None else f" {ROTATES} {turning_words(self.turning)}"
        return (
            f"Symmetry of order {self.order} {found}. Tested {len(self.tested)} elements at "
            f"{self.points} points; largest change of the log density {self.defect:.3g}.{hidden}"
        )

    @property
    def blindness(self) -> str:
        """What to do where rounding hides differences that matter."""
        return (
            f"The log density is so large that rounding alone may change it by {self.allowed:.2g}: "
            "subtract a constant from it, so that smaller differences can be seen."
        )


@in_float64
def check_symmetry(
    problem: Problem,
    *,
    seed: int = 0,
    points: HostPoints | None = None,
    allow_rotation: bool = False,
) -> SymmetryAccount:
    """Test the declared symmetry at random points and say what was found.

    Generators of the group are tested (a function invariant under these is invariant under all),
    and a few random elements besides.

    Args:
        problem: what to test; the account is given for broken symmetry too, never raised.
        seed: chooses the points.
        points: where to test; draws of the prior or of the sampler, or normal points, if None.
        allow_rotation: say it in the account, instead of refusing, where signed columns may even
            be rotated into each other; so does `Problem(..., allow_rotation=True)`.

    Raises:
        GradientError: a gradient of the user's own that differences contradict.
        RotationError: a continuous rotation symmetry that was not allowed.
    """
    require_scalar(problem)
    root = root_key(seed)
    point_key, element_key = jax.random.fold_in(root, 0), jax.random.fold_in(root, 1)
    if points is None:
        points = scattered_points(point_key, problem, _POINTS)
    points = np.asarray(points, np.float64)
    plain = _values(problem, points)
    _require_numbers(problem, plain, points)
    require_gradient(problem, jax.random.fold_in(root, 2), points, plain)
    elements, images = _tested(problem, element_key, points)
    count, dim = images.shape[1], problem.dim
    begun = time.perf_counter()
    moved = _values(problem, images.reshape(-1, dim)).reshape(-1, count)
    pace = (time.perf_counter() - begun) / _evaluated(problem, moved.size)
    _require_numbers(problem, moved.reshape(-1), images.reshape(-1, dim))
    plain, moved = _nan_outside(plain), _nan_outside(moved)
    defect, allowed = _defects(plain, moved), allowance(plain)
    broken = np.flatnonzero(np.max(defect, axis=1) > allowed)
    if 0 < broken.size <= _ROUNDED * len(points):
        worst = images[broken, np.argmax(defect[broken], axis=1)]
        rounding = np.maximum(_rounding(problem, points[broken]), _rounding(problem, worst))
        allowed[broken] = np.maximum(allowed[broken], rounding)
    account = _account(problem, points, elements, defect, allowed)
    found = None
    if account.holds:
        values = functools.partial(_values, problem)
        found = rotation_found(problem.group, points, plain, values, _TOLERANCE)
    if found is None:
        return dataclasses.replace(account, pace=pace)
    if not (allow_rotation or problem.allow_rotation):
        raise RotationError(
            f"{ROTATES[:-1]}: turning columns 1 and 2 into each other by {ANGLE:g} radians changes "
            f"it by {found.change:.1g}. Declare folt.groups.Rotation, which is divided out, give "
            "the loadings a prior that is not round, such as Laplace, or pass "
            "allow_rotation=True, which folds the signed permutations alone"
        )
    turning = tuple(problem.names[i] for i in found.coordinates)
    return dataclasses.replace(account, rotation=found.change, turning=turning, pace=pace)


def turning_words(names: tuple[str, ...]) -> str:
    """Return which parameters turn, the first few of them, and what may be used all the same."""
    shown = ", ".join(names[:TURNING]) + (", …" if len(names) > TURNING else "")
    return (
        f"What turns is {shown}: use only quantities that do not turn, such as ΛΛᵀ of loadings Λ "
        "and predictions."
    )


def require_symmetry(problem: Problem, seed: int = 0) -> SymmetryAccount:
    """`check`, raising where a density declared invariant is not.

    Raises:
        SymmetryError: with the element, the point, the defect and the two ways out.
    """
    account = check_symmetry(problem, seed=seed)
    if problem.invariant and not account.holds:
        point = np.array2string(account.point, precision=4, separator=", ")
        edge = "" if np.isfinite(account.defect) else f" {_EDGE}"
        raise SymmetryError(
            f"the log density is declared invariant but changes by {account.defect:.6g} under "
            f"'{account.element}' at the point {point}.{edge} "
            "Either give the group the density really has, or pass invariant=False to Problem, "
            "which needs no symmetry."
        )
    return account


def scattered_points(key: Key, problem: Problem, count: int) -> HostPoints:
    """Points at which the density is tried: prior draws, exact draws, or standard normals."""
    if problem.prior is not None:
        return HostDistribution(problem.prior).sample(key, count)
    if problem.sampler is not None:
        return problem.exact_draws(key, count)
    return host_generator(key).standard_normal((count, problem.dim))


def _values(problem: Problem, points: HostPoints) -> np.ndarray:
    """Log π, up to a constant; through π_F where that is s·π, which sampling compiles anyway."""
    return problem.log_folds(points) if problem.invariant else problem.log_probs(points)


def _evaluated(problem: Problem, count: int) -> int:
    """Return evaluations behind so many values: compiled code goes through whole blocks."""
    if problem.black_box is not None:
        return count
    return -(-count // VALUES_PER_BLOCK) * VALUES_PER_BLOCK


def _require_numbers(problem: Problem, values: np.ndarray, points: HostPoints) -> None:
    """Refuse +inf anywhere, and NaN at so many points that few are left to try."""
    faulty = np.flatnonzero((values == np.inf) | np.isnan(values))
    nans = int(np.isnan(values).sum())
    if not np.any(values == np.inf) and nans <= _UNDEFINED * len(values):
        return
    place = faulty[np.argmin(np.isnan(values[faulty]))]
    often = f" and at {nans} of the {len(values)} points tried" if np.isnan(values[place]) else ""
    raise ValueError(
        f"the log density is {float(values[place])} at the point "
        f"{_where(problem, np.asarray(points[place]))}{often}; expected a finite number, or "
        "-inf outside the support"
    )


def _nan_outside(values: np.ndarray) -> np.ndarray:
    """Return the values with NaN as -inf: sampling takes both for outside the support."""
    return np.where(np.isnan(values), -np.inf, values)


def _where(problem: Problem, point: np.ndarray) -> str:
    """Return the coordinates of a point, and its parameters where they are something else."""
    words = np.array2string(point, precision=6, separator=", ")
    if problem.constrain is None:
        return words
    try:
        named = problem.parameters(point[None])
    except Exception:  # a function that fails outside the support must not hide the fault
        return words
    values = ", ".join(
        f"{name} = {np.array2string(value[0], precision=4, separator=', ', threshold=8)}"
        for name, value in named.items()
    )
    return f"{words} ({' '.join(values.split())})"


def _tested(problem: Problem, key: Key, points: HostPoints) -> tuple[Element, np.ndarray]:
    """Generators and a few random elements, and the images (n, element, dim) of the points."""
    group, action = problem.group, action_of(problem.group)
    if action.listed:
        drawn = host_generator(key).integers(group.order, size=RANDOM_ELEMENTS)
        places = np.concatenate([action.places(group.generators), drawn])
        elements = jax.tree.map(lambda leaf: np.asarray(leaf)[places], group.elements)
        return elements, np.einsum("gij,nj->ngi", action.matrices[places], points)
    random = map_keys(_random_element, group, key, RANDOM_ELEMENTS)
    elements = jax.tree.map(
        lambda a, b: np.concatenate([np.asarray(a), b]), group.generators, random
    )
    return elements, map_points(_images, (group, elements), points)


def _random_element(group: Group, key: Key) -> Element:
    return group.random_element(key)


def _images(context: tuple[object, object], x: Array) -> Array:
    group, elements = context
    return jax.vmap(group.act, in_axes=(0, None))(elements, x)  # type: ignore[attr-defined]


def allowance(values: np.ndarray) -> np.ndarray:
    """Return the change of log π in nats that rounding explains at each of these values.

    A small share of its size, but never as much as matters to a posterior, unless the value is so
    large that its last digits are no finer.
    """
    size = np.abs(np.where(np.isfinite(values), values, 0.0))
    rounding = ROUNDINGS * np.finfo(float).eps * size
    return np.maximum(np.minimum(_TOLERANCE * (1.0 + size), MATTERS), rounding)


def _defects(plain: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return |log π(g·x) - log π(x)|, a row for each point; outside on both sides is none."""
    both_outside = np.isneginf(plain)[:, None] & np.isneginf(moved)
    with np.errstate(invalid="ignore"):
        return np.where(both_outside, 0.0, np.abs(moved - plain[:, None]))


def _rounding(problem: Problem, points: HostPoints) -> np.ndarray:
    """Return by how much log π differs among copies of each point that differ in last places."""
    nudges = host_generator(root_key(0)).uniform(-_NUDGE, _NUDGE, (_COPIES, *points.shape))
    copies = (points * (1.0 + nudges)).reshape(-1, problem.dim)
    values = _nan_outside(_values(problem, copies)).reshape(_COPIES, -1)
    with np.errstate(invalid="ignore"):
        spread = values.max(axis=0) - values.min(axis=0)
    return np.where(np.isnan(spread), 0.0, spread)


def _account(
    problem: Problem,
    points: HostPoints,
    elements: object,
    defect: np.ndarray,
    allowed: np.ndarray,
) -> SymmetryAccount:
    with np.errstate(invalid="ignore"):
        excess = np.nan_to_num(defect / allowed[:, None], nan=0.0, posinf=np.inf)
    row, column = np.unravel_index(np.argmax(excess), excess.shape)
    count = defect.shape[1]
    words = tuple(
        problem.group.describe(jax.tree.map(lambda leaf: np.asarray(leaf)[i], elements))  # noqa: B023
        for i in range(count)
    )
    return SymmetryAccount(
        order=problem.group.order,
        tested=words,
        points=points.shape[0],
        defect=float(defect[row, column]),
        allowed=float(allowed[row]),
        element=words[column],
        point=np.asarray(points[row]),
        holds=bool(excess[row, column] <= 1.0),
    )
