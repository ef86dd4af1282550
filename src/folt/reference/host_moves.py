"""Moves of many chains in lock step on the host: Hamiltonian paths, and jumps among particles.

The ladder of adaptive tempering: the next temperature, and which particles go on from there.

Particles follow π_λ ∝ start^(1-λ)·π^λ from λ = 0 to 1. Every increment of λ is chosen so that the
weights keep a given share of effective particles. Separate modes keep particles in proportion to
their mass, which no local chain could arrange.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.special
from jaxtyping import Float, Int

from folt.chains import accepted
from folt.proposals.components import Components, log_sum_exp
from folt.reference.landscape import Matrix
from folt.types import HostPoints, HostValues

LONGEST_LADDER = 500
"""Temperatures after which tempering gives up."""


def next_temperature(
    temperature: float, log_ratio: Float[np.ndarray, " n"], share: float
) -> tuple[float, Float[np.ndarray, " n"]]:
    """The largest λ that keeps the effective share of particles, and the log weights up to it.

    The effective number is (Σ w)²/Σ w² with w = exp((λ' - λ)·log(π/start)). The share counts
    particles inside the support only: those outside die at any λ > 0 and would otherwise hold
    the ladder at its first rung. Solved on the host, where it costs no compilation.
    """
    alive = log_ratio > -np.inf
    ratio = np.where(alive, log_ratio, 0.0)
    wanted = math.log(share * alive.sum())

    def log_weights(increment: float) -> np.ndarray:
        return np.where(alive, increment * ratio, -np.inf)

    def excess(increment: float) -> float:
        logs = log_weights(increment)
        logsumexp = scipy.special.logsumexp
        return float(2 * logsumexp(logs) - logsumexp(2 * logs)) - wanted

    rest = 1.0 - temperature
    if excess(rest) >= 0:
        return 1.0, log_weights(rest)
    # Increments span many magnitudes when the start is broad, so the root is found in the log.
    increment = rest * math.exp(_crossing(lambda t: excess(rest * math.exp(t)), -60.0, 0.0))
    return temperature + increment, log_weights(increment)


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls from above zero to below it crosses zero, to a millionth.

    Chords with the Illinois rule, which halves the value at an end that stays: three steps more
    than Brent's method, and `scipy.optimize` takes a fifth of a second to import.
    """
    above, below, stayed = function(low), function(high), 0
    while high - low > 1e-6 and above > below:
        middle = low + (high - low) * above / (above - below)
        middle = min(max(middle, low + 5e-7), high - 5e-7)
        value = function(middle)
        if value > 0.0:
            low, above, below = middle, value, below * (0.5 if stayed == 1 else 1.0)
            stayed = 1
        else:
            high, below, above = middle, value, above * (0.5 if stayed == -1 else 1.0)
            stayed = -1
    return 0.5 * (low + high)


def systematic_resample(
    uniform: float, log_weights: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """Return indices of as many particles, each within one copy of its expected number."""
    count = log_weights.size
    cumulative = np.cumsum(scipy.special.softmax(log_weights))
    positions = (uniform + np.arange(count)) / count
    return np.minimum(np.searchsorted(cumulative, positions * cumulative[-1]), count - 1)


_PATH = math.pi / 2
"""Mean length of a chain's path in whitened units: a quarter of a period."""

_LONGEST_PATH = 64
"""Largest mean number of its jumpfrog steps."""

_DEGREES = 4.0
"""Degrees of freedom of the jumps: tails heavier than any posterior the particles come from."""


class States(NamedTuple):
    """Chains: where they are, log π_F there, and its gradient (zero where nobody needs it)."""

    points: HostPoints
    values: HostValues
    gradients: HostPoints

    def choose(self, accept: np.ndarray, new: States) -> States:
        """Return the new states where accepted, these elsewhere."""
        column = accept[:, None]
        return States(
            np.where(column, new.points, self.points),
            np.where(accept, new.values, self.values),
            np.where(column, new.gradients, self.gradients),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class JumpKernel:
    """Independence Metropolis from q(x) = (1/M) Σ_j t₄(x; x_j, b²·Σ), up to q's constant.

    Attributes:
        origin: mean of the centres.
        centres: inverse·(x_j - origin).
        root: lower triangular root of b²·Σ.
        inverse: its inverse.
    """

    origin: Float[np.ndarray, " dim"]
    centres: HostPoints
    root: Matrix
    inverse: Matrix

    @classmethod
    def around(cls, points: HostPoints, covariance: Matrix, bandwidth: float) -> JumpKernel:
        """Kernels of scale matrix bandwidth²·Σ around the points."""
        root = bandwidth * np.linalg.cholesky(covariance)
        inverse = scipy.linalg.solve_triangular(root, np.eye(root.shape[0]), lower=True)
        origin = points.mean(axis=0)
        return cls(origin, (points - origin) @ inverse.T, root, inverse)

    def log_prob(self, points: HostPoints) -> HostValues:
        """Return log q, up to a constant.

        Powers of a ratio in (0, 1]: neither exponentials per centre nor underflow of the sum.
        """
        u = (points - self.origin) @ self.inverse.T
        spread = u @ (-2.0 / _DEGREES * self.centres.T)
        spread += np.sum(self.centres**2, axis=1) / _DEGREES + 1.0
        spread += (np.sum(u**2, axis=1) / _DEGREES)[:, None]
        np.maximum(spread, 1.0, out=spread)
        nearest = spread.min(axis=1)
        np.divide(nearest[:, None], spread, out=spread)
        halves = int(_DEGREES) + points.shape[1]
        kernels = _power(spread, halves)
        return np.log(kernels.sum(axis=1)) - 0.5 * halves * np.log(nearest)

    @property
    def log_constant(self) -> float:
        """What `log_prob` leaves out."""
        dim = len(self.origin)
        peak = math.lgamma(0.5 * (_DEGREES + dim)) - math.lgamma(0.5 * _DEGREES)
        peak -= 0.5 * dim * math.log(_DEGREES * math.pi)
        return peak - float(np.sum(np.log(np.diag(self.root)))) - math.log(len(self.centres))

    def sample(self, generator: np.random.Generator, count: int) -> HostPoints:
        """Particles chosen at random, and a step away from each."""
        chosen = generator.integers(len(self.centres), size=count)
        noise = generator.standard_normal((count, self.root.shape[0]))
        noise /= np.sqrt(generator.chisquare(_DEGREES, (count, 1)) / _DEGREES)
        return self.origin + (self.centres[chosen] + noise) @ self.root.T


@dataclasses.dataclass(frozen=True, eq=False)
class UnionJump:
    """Independence Metropolis, half from the particles' kernels and half from known modes.

    Attributes:
        kernel: the particles'.
        modes: normalised components at the modes.
    """

    kernel: JumpKernel
    modes: Components

    def log_prob(self, points: HostPoints) -> HostValues:
        """Return the log of the density of both, up to a common constant."""
        known = log_sum_exp(self.modes.log_terms(points))
        return np.logaddexp(self.kernel.log_prob(points) + self.kernel.log_constant, known)

    def sample(self, generator: np.random.Generator, count: int) -> HostPoints:
        """Return every proposal from either, as a coin falls."""
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

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log density, -inf where it is unusable, and its gradient, zero there."""
        ...


class HamiltonianPaths:
    """Hamiltonian transitions with one number of jumpfrog steps for all chains.

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
        length: float = _PATH,
        longest: int = _LONGEST_PATH,
    ) -> None:
        self.landscape, self.covariance = landscape, covariance
        self.length, self.longest = length, longest
        root = np.linalg.cholesky(covariance)
        # Momenta p = R⁻ᵀξ with Σ̄ = R·Rᵀ, row by row.
        self.momentum_root = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)

    def at(self, points: HostPoints) -> States:
        """States with their gradients."""
        return States(points, *self.landscape.with_gradients(points))

    def move(
        self, generator: np.random.Generator, states: States, step: float
    ) -> tuple[States, float]:
        """Return one transition of every chain, and the mean acceptance probability."""
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

    def _kinetic(self, momentum: HostPoints) -> HostValues:
        return 0.5 * np.sum((momentum @ self.covariance) * momentum, axis=1)
