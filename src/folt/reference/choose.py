"""Which reference run a problem gets."""

from __future__ import annotations

from collections.abc import Callable

from folt.problem import Problem
from folt.reference.host_chains import HostChains
from folt.reference.supplied import Exact, Given
from folt.types import ReferenceSampler

Sampler = ReferenceSampler
"""The contract by its shorter name."""


def reference_for(
    problem: Problem, given: object = None, choose: Callable[[Problem], Sampler] | None = None
) -> Sampler:
    """The reference sampler for a problem.

    Args:
        problem: the problem.
        given: draws in any form that `Given` takes, a sampler object, or None to choose.
        choose: chooses where nothing is given; by default the problem's exact sampler where it
            has one, and tempered particles with chains started from them otherwise.
    """
    if given is None:
        if choose is not None:
            return choose(problem)
        return HostChains() if problem.sampler is None else Exact()
    if callable(given):
        return given
    return Given(given)
