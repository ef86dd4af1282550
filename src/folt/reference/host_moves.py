"""Moves of many chains in lock step on the host: Hamiltonian paths, and leaps among particles."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
from jaxtyping import Float

from folt.chains.independence import accepted
from folt.problem import Points, Values
from folt.problem.orbits import Components
from folt.problem.orbits.components import log_sum_exp
from folt.reference.landscape import Matrix

PATH = math.pi / 2
"""Mean length of a chain's path in whitened units: a quarter of a period."""

LONGEST_PATH = 64
"""Largest mean number of its leapfrog steps."""

DEGREES = 4.0
"""Degrees of freedom of the leaps: tails heavier than any posterior the particles come from."""


class States(NamedTuple):
    """Chains: where they are, log π_F there, and its gradient (zero where nobody needs it)."""

    points: Points
    values: Values
    gradients: Points

    def choose(self, accept: np.ndarray, new: States) -> States:
        """The new states where accepted, these elsewhere."""
        column = accept[:, None]
        return States(
            np.where(column, new.points, self.points),
            np.where(accept, new.values, self.values),
            np.where(column, new.gradients, self.gradients),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class LeapKernel:
    """Independence Metropolis from q(x) = (1/M) Σ_j t₄(x; x_j, b²·Σ), up to q's constant.

    Attributes:
        origin: mean of the centres.
        centres: inverse·(x_j - origin).
        root: lower triangular root of b²·Σ.
        inverse: its inverse.
    """

    origin: Float[np.ndarray, " dim"]
    centres: Points
    root: Matrix
    inverse: Matrix

    @classmethod
    def around(cls, points: Points, covariance: Matrix, bandwidth: float) -> LeapKernel:
        """Kernels of scale matrix bandwidth²·Σ around the points."""
        root = bandwidth * np.linalg.cholesky(covariance)
        inverse = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]), lower=True)
        origin = points.mean(axis=0)
        return cls(origin, (points - origin) @ inverse.T, root, inverse)

    def log_prob(self, points: Points) -> Values:
        """Log q, up to a constant.

        Powers of a ratio in (0, 1]: neither exponentials per centre nor underflow of the sum.
        """
        u = (points - self.origin) @ self.inverse.T
        spread = u @ (-2.0 / DEGREES * self.centres.T)
        spread += np.sum(self.centres**2, axis=1) / DEGREES + 1.0
        spread += (np.sum(u**2, axis=1) / DEGREES)[:, None]
        np.maximum(spread, 1.0, out=spread)
        nearest = spread.min(axis=1)
        np.divide(nearest[:, None], spread, out=spread)
        halves = int(DEGREES) + points.shape[1]
        kernels = _power(spread, halves)
        return np.log(kernels.sum(axis=1)) - 0.5 * halves * np.log(nearest)

    @property
    def log_constant(self) -> float:
        """What `log_prob` leaves out."""
        dim = len(self.origin)
        peak = math.lgamma(0.5 * (DEGREES + dim)) - math.lgamma(0.5 * DEGREES)
        peak -= 0.5 * dim * math.log(DEGREES * math.pi)
        return peak - float(np.sum(np.log(np.diag(self.root)))) - math.log(len(self.centres))

    def sample(self, generator: np.random.Generator, count: int) -> Points:
        """Particles chosen at random, and a step away from each."""
        chosen = generator.integers(len(self.centres), size=count)
        noise = generator.standard_normal((count, self.root.shape[0]))
        noise /= np.sqrt(generator.chisquare(DEGREES, (count, 1)) / DEGREES)
        return self.origin + (self.centres[chosen] + noise) @ self.root.T


@dataclasses.dataclass(frozen=True, eq=False)
class UnionLeap:
    """Independence Metropolis, half from the particles' kernels and half from known modes.

    Attributes:
        kernel: the particles'.
        modes: normalised components at the modes.
    """

    kernel: LeapKernel
    modes: Components

    def log_prob(self, points: Points) -> Values:
        """Log of the density of both, up to a common constant."""
        known = log_sum_exp(self.modes.log_terms(points))
        return np.logaddexp(self.kernel.log_prob(points) + self.kernel.log_constant, known)

    def sample(self, generator: np.random.Generator, count: int) -> Points:
        """Every proposal from either, as a coin falls."""
        points = self.kernel.sample(generator, count)
        known = np.flatnonzero(generator.uniform(size=count) < 0.5)
        points[known] = self.modes.sample(generator, known.size)
        return points


def _power(base: np.ndarray, halves: int) -> np.ndarray:
    """base^(halves/2) by multiplications and at most one root."""
    whole, odd = divmod(halves, 2)
    result = np.sqrt(base) if odd else np.ones_like(base)
    while whole:
        if whole & 1:
            result *= base
        whole >>= 1
        if whole:
            base = base * base
    return result


class StepSize:
    """Dual averaging of the logarithm of a step size (Hoffman and Gelman 2014).

    Args:
        first: the first step size.
        wanted: acceptance probability that it aims at.
    """

    def __init__(self, first: float, wanted: float) -> None:
        self.wanted, self.anchor = wanted, math.log(10.0 * first)
        self.log_current, self.log_average = math.log(first), 0.0
        self.error, self.count = 0.0, 0

    def update(self, acceptance: float) -> None:
        """Learn from the acceptance probability of one more iteration."""
        self.count += 1
        weight = 1.0 / (self.count + 10.0)
        self.error = (1.0 - weight) * self.error + weight * (self.wanted - acceptance)
        self.log_current = self.anchor - math.sqrt(self.count) / 0.05 * self.error
        share = self.count**-0.75
        self.log_average = share * self.log_current + (1.0 - share) * self.log_average


class Sloped(Protocol):
    """Whatever has a log density and a gradient at many points."""

    def with_gradients(self, points: Points) -> tuple[Values, Points]:
        """Log density, -inf where it is unusable, and its gradient, zero there."""
        ...


class Paths:
    """Hamiltonian transitions with one number of leapfrog steps for all chains.

    With step size ε the number is uniform on 1..2L-1, L = ⌈length/ε⌉: no resonance with the period
    of some direction lasts, nobody waits for a longer path, and since it does not depend on the
    states, π is left invariant.

    Args:
        landscape: log density and its gradient.
        covariance: inverse mass matrix Σ̄.
        length: mean length of a path in whitened units.
        longest: largest mean number of steps L.
    """

    def __init__(
        self,
        landscape: Sloped,
        covariance: Matrix,
        length: float = PATH,
        longest: int = LONGEST_PATH,
    ) -> None:
        self.landscape, self.covariance = landscape, covariance
        self.length, self.longest = length, longest
        root = np.linalg.cholesky(covariance)
        # Momenta p = R⁻ᵀξ with Σ̄ = R·Rᵀ, row by row.
        self.momentum_root = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)

    def at(self, points: Points) -> States:
        """States with their gradients."""
        return States(points, *self.landscape.with_gradients(points))

    def move(
        self, generator: np.random.Generator, states: States, step: float
    ) -> tuple[States, float]:
        """One transition of every chain, and the mean acceptance probability."""
        mean = min(max(math.ceil(self.length / step), 1), self.longest)
        count = int(generator.integers(1, 2 * mean))
        first = generator.standard_normal(states.points.shape) @ self.momentum_root
        end, momentum = states, first
        for _ in range(count):
            momentum = momentum + 0.5 * step * end.gradients
            end = self.at(end.points + step * momentum @ self.covariance)
            momentum = momentum + 0.5 * step * end.gradients
        with np.errstate(invalid="ignore", over="ignore"):
            gain = end.values - states.values + self._kinetic(first) - self._kinetic(momentum)
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        accept = accepted(generator, np.zeros(len(gain)), gain)
        return states.choose(accept, end), float(np.mean(np.exp(np.minimum(gain, 0.0))))

    def _kinetic(self, momentum: Points) -> Values:
        return 0.5 * np.sum((momentum @ self.covariance) * momentum, axis=1)
