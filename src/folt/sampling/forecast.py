"""How long a stage will take: work that can be counted beforehand, times the pace measured.

Words for whoever waits; nothing that is computed depends on them.
"""

from __future__ import annotations

from typing import NamedTuple

from folt.problem import Problem
from folt.problem.symmetry import SymmetryAccount
from folt.reference import HostChains
from folt.reference.host_tempering import TemperedPaths, mover_for

TEMPERATURES = 12
"""Temperatures of a usual ladder."""

GRADIENTS_PER_DRAW = 4
"""Gradients of a usual path."""

VALUES_PER_GRADIENT = 3
"""What a gradient costs, in values."""


class Forecast(NamedTuple):
    """Work that lies ahead.

    Attributes:
        evaluations: log densities to be computed, about.
        seconds: how long that takes at the pace measured.
    """

    evaluations: int
    seconds: float


def forecast(problem: Problem, account: SymmetryAccount, evaluations: int) -> Forecast:
    """Evaluations of π_F at the pace that the check of the symmetry had."""
    images = 1 if problem.invariant else problem.group.order
    return Forecast(evaluations * images, evaluations * images * account.pace)


def reference_work(problem: Problem, sampler: object) -> int:
    """Evaluations of a reference run, about; zero where nothing is known of it."""
    if not isinstance(sampler, HostChains):
        return 0
    per_draw = GRADIENTS_PER_DRAW * VALUES_PER_GRADIENT
    first, more = sampler.search_steps
    search = 0 if problem.prior is not None else sampler.searchers * (first + more * problem.dim)
    per_draw = per_draw if problem.differentiable else sampler.thin
    moves = mover_for(problem, sampler.moves, sampler.paths)
    per_particle = moves.paths * per_draw if isinstance(moves, TemperedPaths) else sampler.moves
    tempering = sampler.particles * per_particle * TEMPERATURES
    return search + tempering + sampler.chains * (sampler.warmup + sampler.draws) * per_draw
