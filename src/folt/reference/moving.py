"""Chains in lock step that know how to move, to leap and to warm up."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from folt.chains import accepted
from folt.reference.exploration.chamber import Chamber, covariance_within, fisher_mean
from folt.reference.exploration.modes import Modes
from folt.reference.host_moves import HamiltonianPaths, LeapKernel, States, StepSize, UnionLeap
from folt.reference.host_tempering import Walk, random_walk_step
from folt.reference.landscape import Landscape, Matrix
from folt.types import HostPoints, HostValues, Progress

_FIRST_STEP = 0.5
"""First step size of the paths, in whitened units."""


class _Target(Protocol):
    """A log density at many points, with its gradient where that is asked for."""

    def __call__(self, points: HostPoints) -> HostValues:
        """Return the log density."""
        ...

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log density and gradient."""
        ...


class Moving:
    """Chains with their target, and the distribution from which leaps are proposed."""

    def __init__(self, target: _Target, proposal: LeapKernel | UnionLeap, states: States) -> None:
        self.target, self.proposal, self.states = target, proposal, states

    def move(self, generator: np.random.Generator) -> None:
        """One move of every chain."""
        raise NotImplementedError

    def warm_up(self, generator: np.random.Generator, iterations: int, tell: Progress) -> None:
        """Tune whatever can be tuned."""
        raise NotImplementedError

    def leap(self, generator: np.random.Generator) -> None:
        """Every chain to a proposed place with probability min(1, π(x')q(x)/(π(x)q(x'))).

        Most are refused in many dimensions, so that a proposal costs a value and only those that
        are accepted cost a gradient.
        """
        proposed = self.proposal.sample(generator, len(self.states.values))
        values = self.target(proposed)
        here = self.states.values - self.proposal.log_prob(self.states.points)
        there = values - self.proposal.log_prob(proposed)
        rows = np.flatnonzero(accepted(generator, here, there))
        self.put(rows, proposed[rows], values[rows])

    def put(self, rows: np.ndarray, points: HostPoints, values: HostValues) -> None:
        """These chains at other points."""
        self.states.points[rows], self.states.values[rows] = points, values

    @property
    def log_target(self) -> HostValues:
        """Log π_F at the chains."""
        return self.states.values


class RandomWalkers(Moving):
    """Random-walk steps with the scale that tempering tuned."""

    def __init__(
        self, target: Landscape, kernel: LeapKernel, walk: Walk, covariance: Matrix, thin: int
    ) -> None:
        points, values = walk.points, walk.log_target
        super().__init__(target, kernel, States(points, values, np.zeros_like(points)))
        self.landscape, self.thin, self.log_scale = target, thin, walk.log_scale
        self.root = np.linalg.cholesky(covariance)

    def move(self, generator: np.random.Generator) -> None:
        """Some steps of every chain."""
        points, values, gradients = self.states
        walk = Walk(points, values, values, self.log_scale)
        for _ in range(self.thin):
            walk = random_walk_step(generator, self.landscape, walk, self.root, 1.0, None, 0.0)
        self.states = States(walk.points, walk.log_target, gradients)


class Hamiltonian(Moving):
    """Paths whose step size is tuned during the warm-up."""

    def __init__(
        self,
        target: _Target,
        proposal: LeapKernel | UnionLeap,
        points: HostPoints,
        covariance: Matrix,
        acceptance: float,
    ) -> None:
        self.acceptance = acceptance
        self._set_metric(target, covariance)
        super().__init__(target, proposal, self.paths.at(points))

    def move(self, generator: np.random.Generator) -> None:
        """One path of every chain."""
        step = math.exp(self.size.log_average)
        self.states, _ = self.paths.move(generator, self.states, step)

    def warm_up(self, generator: np.random.Generator, iterations: int, tell: Progress) -> None:
        """Tune the step size."""
        for number in range(iterations):
            step = math.exp(self.size.log_current)
            self.states, acceptance = self.paths.move(generator, self.states, step)
            self.size.update(acceptance)
            self.leap(generator)
            tell((number + 1) / iterations, "warm-up")

    def put(self, rows: np.ndarray, points: HostPoints, values: HostValues) -> None:
        """These chains at other points, with their gradients."""
        if rows.size:
            super().put(rows, points, values)
            self.states.gradients[rows] = self.target.with_gradients(points)[1]

    def _set_metric(self, target: _Target, covariance: Matrix) -> None:
        self.paths, self.size = (
            HamiltonianPaths(target, covariance),
            StepSize(_FIRST_STEP, self.acceptance),
        )


class InChamber(Hamiltonian):
    """Paths under one labelling, whose metric is made anew on the way."""

    def __init__(
        self,
        chamber: Chamber,
        proposal: LeapKernel | UnionLeap,
        points: HostPoints,
        covariance: Matrix,
        acceptance: float,
        modes: Modes,
    ) -> None:
        super().__init__(chamber, proposal, points, covariance, acceptance)
        self.chamber, self.modes = chamber, modes

    def warm_up(self, generator: np.random.Generator, iterations: int, tell: Progress) -> None:
        """Tune the step size, then the metric by the chains' own draws, and the step size again."""
        first, seen = iterations // 2, list[States]()
        for number in range(iterations):
            if number == first > 0:
                self._set_metric(self.chamber, self._metric(seen))
            super().warm_up(generator, 1, lambda *_: None)
            if number >= first // 2:
                seen.append(self.states)
            tell((number + 1) / iterations, "warm-up")

    @property
    def log_target(self) -> HostValues:
        """Log π_F at the chains."""
        return self.states.values - self.chamber.log_shares(self.states.points)

    def _metric(self, seen: list[States]) -> Matrix:
        points = np.concatenate([states.points for states in seen])
        gradients = np.concatenate([states.gradients for states in seen])
        covariance = covariance_within(points, self.modes, self.chamber)
        return fisher_mean(covariance, gradients)
