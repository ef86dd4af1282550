"""What a trainer is given: symmetry, target, tail safety, the draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from folt.groups import Group
from folt.problem.orbits import Components
from folt.training.guard import invariant_guard
from folt.types import Density, Distribution, Progress

Evaluate = Callable[[np.ndarray], np.ndarray]
Differentiate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Sample(NamedTuple):
    """Reference draws with their log target log π_F."""

    points: np.ndarray
    log_target: np.ndarray


class TrainingTask(NamedTuple):
    """What stays fixed during training.

    Attributes:
        group: the symmetry.
        target: π_F as a density, for objectives that differentiate it by themselves.
        guard: the tail safety that is added afterwards; None for none.
        guard_weight: its share λ of the proposal.
        evaluate: log π_F at many points; what it computes is counted.
        training: draws to learn from.
        selection: draws to choose among trained proposals by.
        visited: points that the reference run has valued on its way, whatever their law.
        modes: components at the modes that it found.
        differentiate: log π_F and its gradient at many points, counted as well; None where the
            density has no gradient.
    """

    group: Group
    target: Density
    guard: Distribution | None
    guard_weight: float
    evaluate: Evaluate
    training: Sample
    selection: Sample
    visited: Sample | None = None
    modes: Components | None = None
    differentiate: Differentiate | None = None

    def invariantly_guarded(self) -> TrainingTask:
        """The same task for a proposal that sums itself over the orbit."""
        if self.guard is None:
            return self
        return self._replace(guard=invariant_guard(self.group, self.training.points))


def stage(progress: Progress | None, first: float, last: float) -> Progress:
    """Progress within one stage, told as progress of the whole."""

    def tell(fraction: float, message: str) -> None:
        if progress is not None:
            progress(first + (last - first) * fraction, message)

    return tell
