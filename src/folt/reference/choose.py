"""Which reference run a problem gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from folt.problem import Problem
from folt.reference.host_chains import HostChains
from folt.reference.result import Reference
from folt.reference.supplied import Exact, Given
from folt.reference.tempered_chains import TemperedChains

Sampler = Callable[..., Reference]
"""Anything called as `sampler(key, problem, progress)` that returns a `Reference`."""


def reference_for(problem: Problem, given: Any = None) -> Sampler:
    """The reference sampler for a problem.

    Args:
        problem: the problem.
        given: draws in any form that `Given` takes, a sampler object, or None to choose: the
            problem's exact sampler where it has one, random-walk chains on the host for a black
            box, tempering and gradient chains otherwise.
    """
    if given is None:
        if problem.sampler is not None:
            return Exact()
        return TemperedChains() if problem.black_box is None else HostChains()
    if callable(given):
        return given
    return Given(given)
