"""Everything that can be wrong with a request, looked for before the first evaluation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from folt.certificate.diagnostics.coverage import Faults
from folt.certificate.held_out import named_point
from folt.fit import Fit
from folt.problem import Problem
from folt.problem.requirements import require_parts, require_scalar
from folt.problem.symmetry import SymmetryAccount, scattered_points
from folt.problem.symmetry import check_symmetry as check_symmetry
from folt.proposals.sums import HostDistribution
from folt.sampling.options import Options, one_problem
from folt.sampling.spending import FEWEST, in_bytes, require_memory
from folt.types import HostPoints, host_generator, in_float64, one_blas_thread, root_key

_FAR, _FAR_CALLS = 256, 32
"""Points far out at which the density is tried; fewer where every one is a call of a function."""

FAR_STREAM = 2
"""Number of their random stream; the symmetry check has the first two."""

_FARTHEST = 8.0
"""The farthest prior draws are moved to so many times their distance from the mean."""

_RADII = (1e-2, 1e3)
"""Distances between which the search of a reference run begins."""


@dataclasses.dataclass(frozen=True)
class Account(SymmetryAccount):
    """What was checked: the options, the parts of the problem, and its symmetry.

    Attributes:
        memory: bytes that the draws will need.
        tried: points far out at which the density was tried: where a proposal's tails may go.
        undefined: how many of them are NaN or +inf.
        undefined_point: one of them, the user's parameters by name.
    """

    memory: int = 0
    tried: int = 0
    undefined: int = 0
    undefined_point: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        order = (
            f"{super().__str__()} Options, names, parameters and shapes are in order; the draws "
            f"will need about {in_bytes(self.memory)}."
        )
        if not self.undefined:
            return order
        where = Faults(0, self.undefined, 0, point=self.undefined_point).where
        return (
            f"{order} The log density is not a number at {self.undefined} of {self.tried} points "
            f"far out, such as {where}: that does no harm where the posterior has no mass, and "
            "makes the verdict faulty where it may have some; better return -inf there."
        )


@one_problem
@in_float64
@one_blas_thread
def check(
    problem: Problem,
    *,
    points: HostPoints | None = None,
    allow_rotation: bool = False,
    **options: Any,
) -> Account:
    """Check all that `folt.sample` checks before it starts, with the same options; sample nothing.

    Types and ranges of the options, names, the size of the group, the memory that draws need, the
    reference, flow and start that were given, and `constrain`, `prior`, `sampler` and `pointwise`
    at one point are looked at without evaluating the density. Then the symmetry is tested at
    random points, and the density is tried far out, where the tails of a proposal may go.

    Args:
        problem: what to check; a symmetry that is broken is told, not raised.
        points: where the symmetry is tested; draws of the prior or of the sampler, or normal
            points, if None.
        allow_rotation: say it in the account, instead of refusing, where signed columns may even
            be rotated into each other.
        options: those of `folt.sample`; the seed chooses the points.

    Returns:
        What was found; `print` it.

    Raises:
        ValueError: the first thing that is wrong, with what was expected.
        RotationError: a continuous rotation symmetry that was not allowed.
    """
    unknown = options.keys() - {field.name for field in dataclasses.fields(Options)}
    if unknown:
        raise TypeError(f"expected options of folt.sample, got {', '.join(sorted(unknown))}")
    asked = Options(**options)
    width = require_possible(problem, asked)
    found = check_symmetry(problem, seed=asked.seed, points=points, allow_rotation=allow_rotation)
    far = _far_points(problem, asked.seed, asked.start)
    values = problem.log_folds(far)
    wrong = far[np.isnan(values) | np.isposinf(values)]
    draws = FEWEST if asked.draws is None else asked.draws
    return Account(
        **vars(found),
        memory=require_memory(asked.chains, draws, width),
        tried=len(far),
        undefined=len(wrong),
        undefined_point=named_point(problem, wrong[0]) if len(wrong) else (),
    )


def _far_points(problem: Problem, seed: int, start: Fit | None) -> HostPoints:
    """Return points where the tails of a proposal may go.

    Draws of the prior or of the exact sampler, spread out about their mean; without either, points
    at all distances from the origin; and draws of the proposal of a start, guard included.
    """
    key = jax.random.fold_in(root_key(seed), FAR_STREAM)
    generator = host_generator(key)
    count = _FAR if problem.black_box is None else _FAR_CALLS
    if problem.prior is None and problem.sampler is None:
        directions = generator.standard_normal((count, problem.dim))
        radii = np.linalg.norm(directions, axis=1, keepdims=True)
        low, high = (math.log(radius) for radius in _RADII)
        far = directions / radii * np.exp(generator.uniform(low, high, (count, 1)))
    else:
        drawn = scattered_points(key, problem, count)
        spread = np.exp(generator.uniform(0.0, math.log(_FARTHEST), (count, 1)))
        far = drawn.mean(axis=0) + spread * (drawn - drawn.mean(axis=0))
    if start is not None and start.proposal is not None:
        far = np.concatenate([far, HostDistribution(start.proposal).sample(key, count)])
    return far


def require_possible(problem: Problem, options: Options) -> int:
    """Refuse what `folt.sample` cannot do; nothing is evaluated.

    Returns:
        Coordinates and parameters of a draw.

    Raises:
        ValueError: with what was expected and what came.
    """
    options.require_usable(problem)
    require_scalar(problem)
    width = problem.dim + require_parts(problem)
    require_memory(options.chains, FEWEST if options.draws is None else options.draws, width)
    return width
