"""Everything that can be wrong with a request, looked for before the first evaluation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from folt.certificate.diagnostics import Faults
from folt.certificate.held_out import named_point
from folt.fit import Fit
from folt.problem import Problem
from folt.problem.named_values import Naming, SortKey
from folt.problem.requirements import require_scalar
from folt.problem.symmetry import SymmetryAccount, scattered_points
from folt.problem.symmetry import check as check_symmetry
from folt.proposals.sums import HostDistribution
from folt.sampling.presets import Options, Preset, named
from folt.sampling.spending import FEWEST, in_bytes, require_memory
from folt.training.effort import Effort
from folt.types import Distribution, HostPoints, Trainer, host_generator, in_float64, root_key

_FAR, _FAR_CALLS = 256, 32
"""Points far out at which the density is tried; fewer where every one is a call of a function."""

FAR_STREAM = 2
"""Number of their random stream; the symmetry check has the first two."""

_FARTHEST = 8.0
"""The farthest prior draws are moved to so many times their distance from the mean."""

_RADII = (1e-2, 1e3)
"""Distances between which the search of a reference run begins."""

_RESERVED = ("chain", "draw")
"""Names of the axes of every posterior; a parameter cannot have them."""


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


@in_float64
def check(
    problem: Problem,
    *,
    seed: int = 0,
    chains: int = 4,
    draws: int | None = None,
    reference: object = None,
    flow: Trainer | Distribution | None = None,
    effort: Effort | None = None,
    preset: Literal["default", "paper"] | Preset = "default",
    labels: Literal["sorted", "proposal"] = "sorted",
    sort_by: str | SortKey | None = None,
    sign: str | None = None,
    start: Fit | None = None,
    whole_orbit: bool = True,
    progress: bool = True,
    evaluations: int | None = None,
    points: HostPoints | None = None,
    allow_rotation: bool = False,
) -> Account:
    """Check all that `folt.sample` checks before it starts, with the same options; sample nothing.

    Types and ranges of the options, names, the size of the group, the memory that draws need, the
    reference, flow and start that were given, and `constrain`, `prior`, `sampler` and `pointwise`
    at one point are looked at without evaluating the density. Then the symmetry is tested at
    random points, and the density is tried far out, where the tails of a proposal may go.

    Args:
        problem: what to check; a symmetry that is broken is told, not raised.
        seed: chooses the points.
        chains: as in `folt.sample`, like all that follow.
        draws: draws per chain; the fewest that `folt.sample` would choose if None.
        reference: draws or a sampler.
        flow: a trainer or a distribution.
        effort: what the fit may cost.
        preset: the protocol.
        labels: how components are numbered.
        sort_by: what they are sorted by.
        sign: which signs are reported.
        start: an earlier fit.
        whole_orbit: whether the whole orbit is summed.
        progress: whether progress is shown.
        evaluations: most evaluations of a black box.
        points: where the symmetry is tested; draws of the prior or of the sampler, or normal
            points, if None.
        allow_rotation: say it in the account, instead of refusing, where signed columns may even
            be rotated into each other.

    Returns:
        What was found; `print` it.

    Raises:
        ValueError: the first thing that is wrong, with what was expected.
        RotationError: a continuous rotation symmetry that was not allowed.
    """
    asked = (seed, chains, draws, reference, flow, effort)
    options = Options(*asked, evaluations, preset, labels, start, whole_orbit, progress)
    options = dataclasses.replace(options, naming=Naming(sort_by, sign))
    width = require_possible(problem, options)
    found = check_symmetry(problem, seed=seed, points=points, allow_rotation=allow_rotation)
    far = _far_points(problem, seed, start)
    values = problem.log_folds(far)
    wrong = far[np.isnan(values) | np.isposinf(values)]
    return Account(
        **vars(found),
        memory=require_memory(chains, FEWEST if draws is None else draws, width),
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
    width = problem.dim + _require_parts(problem)
    require_memory(options.chains, FEWEST if options.draws is None else options.draws, width)
    return width


def _require_parts(problem: Problem) -> int:
    """Try the functions of a problem at one point; how many numbers its parameters are.

    Raises:
        ValueError: naming the function and what is wrong with it.
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    point = jax.ShapeDtypeStruct((problem.dim,), jnp.float64)
    for name in ("prior", "sampler"):
        part = getattr(problem, name)
        if name == "prior" and part is not None:
            if not isinstance(part, Distribution):
                raise ValueError(f"expected prior to be a Distribution, got {named(part)}")
            part = part.sample
        if part is not None:
            _require_draw(name, _tried(name, part, key), problem.dim)
    if problem.pointwise is not None:
        _require_arrays("pointwise", _tried("pointwise", problem.log_likelihoods, point))
    return _require_arrays("constrain", _parameters(problem, point))


def _parameters(problem: Problem, point: jax.ShapeDtypeStruct) -> PyTree:
    if problem.black_box is None:
        return _tried("constrain", problem._parameters, point)
    # Beside a black box, this function may be plain NumPy.
    return _called("constrain", lambda: problem.parameters(np.zeros(problem.dim)))


def _tried(name: str, function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    return _called(name, lambda: eqx.filter_eval_shape(function, *arguments))


def _called(name: str, call: Callable[[], PyTree]) -> PyTree:
    try:
        return call()
    except Exception as error:
        what = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ValueError(f"{name} fails at a point of the problem: {what}") from error


def _require_draw(name: str, drawn: PyTree, dim: int) -> None:
    if jnp.shape(drawn) != (dim,):
        shape = getattr(drawn, "shape", type(drawn).__name__)
        raise ValueError(f"expected {name} to draw points of shape ({dim},), got {shape}")


def _require_arrays(name: str, tree: PyTree) -> int:
    """Refuse what is no dictionary of named arrays; how many numbers they are."""
    if not isinstance(tree, Mapping) or not tree:
        raise ValueError(f"expected {name} to return {{name: value}}, got {named(tree)}")
    require_names(name, tree)
    total = 0
    for key, value in tree.items():
        shape, kind = np.shape(value), np.dtype(getattr(value, "dtype", None) or type(value)).kind
        if kind not in "fiub":
            raise ValueError(f"expected {name} to return real numbers, got {key!r} of kind {kind}")
        total += math.prod(shape)
    return total


def require_names(what: str, names: Iterable[object]) -> None:
    """Refuse names under which parameters cannot be kept in a file.

    Raises:
        ValueError: naming the first of them.
    """
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"expected names of {what} to be words, got {name!r}")
        if "/" in name:
            raise ValueError(
                f"the name {name!r} of {what} holds '/', which netCDF keeps for groups: expected "
                f"one without, such as {name.replace('/', '.')!r} (in NumPyro, "
                "handlers.scope(divider='.'))"
            )
        if name in _RESERVED:
            raise ValueError(f"the name {name!r} of {what} is that of an axis: expected another")
