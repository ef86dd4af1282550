"""The target of a reference run as the host sees it: many points, plain numbers.

Whether the log density is a number, and a fine enough one, where the posterior has its mass.
"""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np
from jaxtyping import Float

from folt.problem import Problem
from folt.problem.symmetry import MATTERS
from folt.types import HostPoints, HostValues, Key, host_generator

PROBES = 256
"""Points at which the neighbourhood of the draws is tried."""

_CONSTANT = 1e-3
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


def require_resolution(values: HostValues) -> None:
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
    if apart > MATTERS and spread < _CONSTANT * abs(best):
        raise ValueError(
            f"the log density is {best:.6g} where it is largest, and floating-point numbers of "
            f"that size are {apart:.2g} apart, so that the shape of the posterior is lost: "
            "subtract a constant from the log density"
        )


def probes(key: Key, draws: Float[np.ndarray, "chain draw dim"]) -> Float[np.ndarray, "n dim"]:
    """Draws moved by a random-walk step of the usual length, 2.4/√dim of their covariance."""
    generator = host_generator(key)
    flat = draws.reshape(-1, draws.shape[-1])
    chosen = flat[generator.integers(len(flat), size=PROBES)]
    dim = flat.shape[1]
    variances, axes = np.linalg.eigh(np.cov(flat.T).reshape(dim, dim))
    steps = generator.normal(size=(PROBES, dim)) * np.sqrt(np.maximum(variances, 0.0))
    return chosen + 2.4 / np.sqrt(dim) * steps @ axes.T


Matrix = Float[np.ndarray, "dim dim"]


_DEPTH = 10.0
"""How far below the best log density, and twice the dimension, points are worth learning from."""


class Landscape:
    """Log π_F of a problem; counts what it costs, and faults, which become -inf.

    Attributes:
        problem: the problem.
        values: log densities computed so far, every image counted.
        gradients: gradients computed so far.
        faults: values that were NaN or +inf.
        visited: points that may be learnt from, with their values.
        ready: the compilation of the gradient elsewhere, if any; gradients wait for its end.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._values_at, self._gradients_at = problem.log_folds, problem.folded_gradients
        self.values = 0
        self.gradients = 0
        self.faults = 0
        self.visited: list[tuple[HostPoints, HostValues]] = []
        self.ready: Future[None] | None = None

    def __call__(self, points: HostPoints, keep: np.ndarray | None = None) -> HostValues:
        """Return log π_F at every point.

        Args:
            points: where.
            keep: which of them may be learnt from later; none by default.
        """
        self.values += points.shape[0] * self.terms
        values = self._without_faults(self._values_at(points))
        if keep is not None:
            self.visited.append((points[keep], values[keep]))
        return values

    def first(self, points: HostPoints) -> HostValues:
        """Return values where a run begins; one of them at least is finite."""
        self.values += points.shape[0] * self.terms
        values = self._values_at(points)
        self.faults += int(np.sum(np.isnan(values) | np.isposinf(values)))
        return usable_start(values, points)

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return log π_F and its gradient at every point; -inf where either is not a number.

        Paths that diverge end there often, so nothing is counted as a fault.
        """
        if self.ready is not None:
            self.ready.result()
        self.gradients += points.shape[0] * self.terms
        values, gradients = self._gradients_at(points)
        usable = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
        return np.where(usable, values, -np.inf), np.where(usable[:, None], gradients, 0.0)

    def log_shares(self, points: HostPoints) -> HostValues:
        """Return zeros: nothing of π_F is left out, as a `Chamber` leaves other labellings."""
        return np.zeros(len(points))

    def worth_learning(self) -> tuple[HostPoints, HostValues]:
        """Return the visited points inside the support, not too far below the best."""
        points = np.concatenate([part for part, _ in self.visited])
        values = np.concatenate([part for _, part in self.visited])
        near = values >= values.max() - _DEPTH - 2.0 * points.shape[1]
        return points[near], values[near]

    @property
    def evaluations(self) -> dict[str, int]:
        """How many values and gradients were computed."""
        return {"value": self.values, "gradient": self.gradients}

    @property
    def terms(self) -> int:
        """Densities that one value of π_F costs."""
        return 1 if self.problem.invariant else self.problem.group.order

    def _without_faults(self, values: HostValues) -> HostValues:
        fault = np.isnan(values) | np.isposinf(values)
        self.faults += int(fault.sum())
        return np.where(fault, -np.inf, values)


def usable_start(values: HostValues, points: HostPoints) -> HostValues:
    """Starting values, NaN and +inf as -inf: far from the mass a density may be anything.

    A standard deviation of exp(-1000) is zero, and what comes of it is no fault of the model's.
    Whether the density is a number where it matters is asked later, around the draws
    (`require_numbers_around`).

    Raises:
        ValueError: no starting point has a finite log density; with the first fault, if any.
    """
    host = np.asarray(values)
    fault = np.isnan(host) | (host == np.inf)
    usable = np.where(fault, -np.inf, host)
    if np.any(np.isfinite(usable)):
        return usable
    bad = np.flatnonzero(fault)
    first = f", or {host[bad[0]]} as at the point {np.asarray(points[bad[0]])}" if bad.size else ""
    raise ValueError(
        f"expected a finite log density at some starting point, got -inf at all {host.size}"
        f"{first}: give a prior= that reaches the support of the density"
    )
