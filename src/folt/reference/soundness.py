"""Whether the log density is a number, and a fine enough one, where the posterior has its mass."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from folt.problem import Problem, Values
from folt.problem.symmetry import MATTERS
from folt.types import Key, host_generator

PROBES = 256
"""Points at which the neighbourhood of the draws is tried."""

CONSTANT = 1e-3
"""Spread of log densities, as a share of their size, below which most of that is a constant."""

FAULTY_SHARE = 0.01
"""Share of faults around the draws above which a region of mass is missing."""


def require_numbers_around(
    key: Key, problem: Problem, draws: Float[np.ndarray, "chain draw dim"]
) -> int:
    """Try the density around draws of the posterior; refuse one that is not a number there.

    A sampler takes NaN and +inf for "outside", so a region where the density fails is left out
    without a trace in the draws. Steps of the draws' own size lead into it if it touches the mass.

    Returns:
        Evaluations spent.

    Raises:
        ValueError: NaN or +inf at more than one in a hundred of these points; with one of them.
            Or values so large that their rounding hides the posterior.
    """
    points = probes(key, draws)
    values = problem.log_folds(points)
    faults = np.flatnonzero(np.isnan(values) | (values == np.inf))
    if faults.size > FAULTY_SHARE * len(points):
        point = np.array2string(points[faults[0]], precision=4, separator=", ")
        raise ValueError(
            f"the log density is {values[faults[0]]} at the point {point}, within the mass of the "
            f"posterior ({faults.size} of {len(points)} points around its draws): return -inf if "
            "that point is impossible, guard the operation that fails there, or give a prior= "
            "that excludes it"
        )
    require_resolution(values)
    return len(points)


def require_resolution(values: Values) -> None:
    """Refuse a log density with a constant so large that rounding hides differences which matter.

    Values that are large because their points are far from the mass differ among each other as
    much as they are large; those are left alone.

    Raises:
        ValueError: numbers as large as the best of these values are further apart than `MATTERS`.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return
    best, spread = float(finite.max()), float(np.ptp(finite))
    apart = float(np.spacing(abs(best)))
    if apart > MATTERS and spread < CONSTANT * abs(best):
        raise ValueError(
            f"the log density is {best:.6g} where it is largest, and floating-point numbers of "
            f"that size are {apart:.2g} apart, so that the shape of the posterior is lost: "
            "subtract a constant from the log density"
        )


def probes(
    key: Key, draws: Float[np.ndarray, "chain draw dim"], count: int = PROBES
) -> Float[np.ndarray, "n dim"]:
    """Draws moved by a random-walk step of the usual length, 2.4/√dim of their covariance."""
    generator = host_generator(key)
    flat = draws.reshape(-1, draws.shape[-1])
    chosen = flat[generator.integers(len(flat), size=count)]
    dim = flat.shape[1]
    variances, axes = np.linalg.eigh(np.cov(flat.T).reshape(dim, dim))
    steps = generator.normal(size=(count, dim)) * np.sqrt(np.maximum(variances, 0.0))
    return chosen + 2.4 / np.sqrt(dim) * steps @ axes.T
