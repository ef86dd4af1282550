"""Chains in lock step that know how to move, to jump and to warm up."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from folt.chains import accepted
from folt.reference.exploration.chamber import Chamber, covariance_within, fisher_mean
from folt.reference.exploration.modes import Modes
from folt.reference.host_moves import HamiltonianPaths, JumpKernel, States, StepSize, UnionJump
from folt.reference.host_tempering import Walk, random_walk_step
from folt.reference.landscape import Landscape, Matrix
from folt.reference.random_walk import first_scale
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

    def log_shares(self, points: HostPoints) -> HostValues:
        """Return the log of what is left of π_F."""
        ...


class Moving(ABC):
    """Chains with their target, and the distribution from which jumps are proposed."""

    def __init__(self, target: _Target, proposal: JumpKernel | UnionJump, states: States) -> None:
        self.target, self.proposal, self.states = target, proposal, states

    @abstractmethod
    def move(self, generator: np.random.Generator) -> None:
        """One move of every chain."""

    @abstractmethod
    def warm_up(self, generator: np.random.Generator, iterations: int, tell: Progress) -> None:
        """Tune whatever can be tuned, in so many iterations that are thrown away."""

    def jump(self, generator: np.random.Generator) -> None:
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

    def catch_up(self) -> None:  # noqa: B027 - walks know no gradients
        """Compute what a move needs and jumps have left behind; nothing unless told."""

    @property
    def log_target(self) -> HostValues:
        """Log π_F at the chains."""
        return self.states.values - self.target.log_shares(self.states.points)


class RandomWalkers(Moving):
    """Random-walk steps, whose length is tuned during the warm-up, and jumps between them.

    Three exponentials in six dimensions: walks alone are worth 200 draws with R-hat 2, under one
    labelling 900 with 1.1, with as many jumps as steps 1 700 to 3 300 with 1.03 to 1.05.
    """

    def __init__(
        self,
        target: Landscape | Chamber,
        proposal: JumpKernel | UnionJump,
        points: HostPoints,
        covariance: Matrix,
        thin: int,
    ) -> None:
        super().__init__(target, proposal, States(points, target(points), np.zeros_like(points)))
        self.climbed, self.thin, self.log_scale = (
            target,
            thin,
            math.log(first_scale(len(covariance))),
        )
        self.root = np.linalg.cholesky(covariance)

    def move(self, generator: np.random.Generator) -> None:
        """Some steps of every chain, every other one a jump, which costs as much."""
        for number in range(self.thin):
            if number % 2:
                self.jump(generator)
            else:
                self._walk(generator, 0.0)

    def warm_up(self, generator: np.random.Generator, iterations: int, tell: Progress) -> None:
        """Tune the length of the steps."""
        for number in range(iterations):
            self._walk(generator, (1.0 + number) ** -0.5)
            tell((number + 1) / iterations, "warm-up")

    def _walk(self, generator: np.random.Generator, rate: float) -> None:
        points, values, gradients = self.states
        walk = Walk(points, values, values, self.log_scale)
        walk = random_walk_step(generator, self.climbed, walk, self.root, 1.0, None, rate)
        self.states, self.log_scale = (
            States(walk.points, walk.log_target, gradients),
            walk.log_scale,
        )


class Hamiltonian(Moving):
    """Paths whose step size is tuned during the warm-up."""

    def __init__(
        self,
        target: _Target,
        proposal: JumpKernel | UnionJump,
        points: HostPoints,
        covariance: Matrix,
        acceptance: float,
    ) -> None:
        self.acceptance = acceptance
        self._set_metric(target, covariance)
        super().__init__(target, proposal, self.paths.at(points))
        self.behind = np.zeros(len(points), bool)

    def move(self, generator: np.random.Generator) -> None:
        """One path of every chain."""
        self.catch_up()
        step = math.exp(self.size.log_average)
        self.states, _ = self.paths.move(generator, self.states, step)

    def warm_up(self, generator: np.random.Generator, iterations: int, tell: Progress) -> None:
        """Tune the step size."""
        for number in range(iterations):
            step = math.exp(self.size.log_current)
            self.states, acceptance = self.paths.move(generator, self.states, step)
            self.size.update(acceptance)
            self.jump(generator)
            self.catch_up()
            tell((number + 1) / iterations, "warm-up")

    def put(self, rows: np.ndarray, points: HostPoints, values: HostValues) -> None:
        """These chains at other points, whose gradients are not known yet."""
        super().put(rows, points, values)
        self.behind[rows] = True

    def catch_up(self) -> None:
        """Compute the gradients that a path needs and jumps have left behind."""
        rows = np.flatnonzero(self.behind)
        if rows.size:
            self.states.gradients[rows] = self.target.with_gradients(self.states.points[rows])[1]
            self.behind[rows] = False

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
        proposal: JumpKernel | UnionJump,
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

    def _metric(self, seen: list[States]) -> Matrix:
        points = np.concatenate([states.points for states in seen])
        gradients = np.concatenate([states.gradients for states in seen])
        covariance = covariance_within(points, self.modes, self.chamber)
        return fisher_mean(covariance, gradients)
