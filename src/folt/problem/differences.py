"""A gradient that a user gives is compared with differences of the log density it belongs to.

A wrong gradient makes no error: paths are rejected, chains stand still and the fit ends in doubt
with advice that does not help. So it is tried at a few points before anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from folt.types import Key, host_generator

if TYPE_CHECKING:
    from folt.problem.problem import Problem

TRIED = 3
"""Points at which a gradient is tried, and directions at each: a wrong entry shows in every one."""

STEP = 1e-3
"""First step of the differences, relative to 1 + |x|; the second is half of it."""

ROUNDING = 1e-4
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
    points = points[np.isfinite(plain)][:TRIED]
    values, slopes = problem.gradients(points)
    own = problem.log_probs(points)
    random = host_generator(key)
    for point, value, slope, alone in zip(points, values, slopes, own, strict=True):
        where = np.array2string(point, precision=4, separator=", ")
        if not abs(value - alone) <= ROUNDING * (1.0 + abs(alone)):
            raise GradientError(
                f"gradient returns the log density {value:.6g} at the point {where}, the function "
                f"itself {alone:.6g}: both must give the same number"
            )
        along = random.choice([-1.0, 1.0], (TRIED, len(point))) * (1.0 + np.abs(point))
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
    steps = STEP * np.array([1.0, 0.5])
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
    allowed = error + ROUNDING * (1.0 + np.abs(along) @ np.abs(slope))
    # Where a difference leaves the support nothing contradicts the gradient.
    wrong = np.isfinite(better) & ~(np.abs(given - better) <= allowed)
    return wrong, given, better
