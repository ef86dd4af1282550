"""What a group too large to be summed over element by element asks of the proposal."""

from __future__ import annotations

import dataclasses
from typing import Any

from folt.flows.class_chain import block_form_of
from folt.problem import Problem
from folt.training.effort import Effort
from folt.training.orbit_chain import OrbitChain
from folt.training.orbit_mixture import OrbitMixture
from folt.training.truncated import likely_orbits, sums_in_part
from folt.types import OrbitSummed

CHAINED_FROM = 4
"""Labels from which on a class chain takes the place of a mixture over all labellings: that accepts
too little from four components of the galaxies on (tests/validate/test_galaxies.py)."""

SUMMED_ONE_BY_ONE = 100
"""Largest group of block form whose elements are gone through one by one: for one component, and
where training may take its time for a mixture, which then makes h flatter than a class chain."""


def proposal_maker(problem: Problem, given: Any, default: Any, effort: Effort | None = None) -> Any:
    """The trainer, or the distribution as it is, that proposes for a problem.

    Args:
        problem: the target with its group.
        given: what the caller asked for; None to choose.
        default: the trainer for groups that are summed over element by element.
        effort: what a class chain may cost; the default effort if None.

    Returns:
        `given` or `default`; a class chain where the group is large and of block form, after one
        component of `default` where it can still be summed over element by element.

    Raises:
        ValueError: at once, where the group is too large for what is asked.
    """
    group = problem.group
    effort = Effort.default() if effort is None else effort
    chain = OrbitChain.at(effort)
    if sums_in_part(group, given):
        _require_invariant(problem)
        return likely_orbits(group, given)
    if isinstance(given, (OrbitChain, OrbitSummed)):
        block_form_of(group)
        _require_invariant(problem)
        return given
    if not group.listable:
        _require_invariant(problem)
        block_form_of(group)
        if given is not None:
            raise ValueError(
                f"{type(given).__name__} sums over the {group.order} elements of the group one by "
                "one, which are too many: leave the flow to folt, or give folt.training.OrbitChain"
            )
        return chain
    if given is not None:
        return given
    form = group.block_form if problem.invariant else None
    if form is None:
        return default
    if effort.rounds is None:
        return chain if group.order > SUMMED_ONE_BY_ONE else default
    if form.labels < CHAINED_FROM:
        return default
    if isinstance(default, OrbitMixture) and group.order <= SUMMED_ONE_BY_ONE:
        return dataclasses.replace(default, beyond=chain)
    return chain


def _require_invariant(problem: Problem) -> None:
    if not problem.invariant:
        raise ValueError(
            f"a broken symmetry needs the target at all {problem.group.order} images of every "
            "point, which are too many: declare the symmetry that holds, or a smaller group"
        )
