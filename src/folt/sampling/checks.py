"""Everything that can be wrong with a request, looked for before the first evaluation."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from folt.fit import Fit
from folt.problem import Points, Problem
from folt.problem.symmetry import SymmetryAccount, require_scalar
from folt.problem.symmetry import check as check_symmetry
from folt.reference import Exact, reference_for
from folt.sampling.presets import preset_named
from folt.training import proposal_maker
from folt.training.effort import Effort
from folt.types import Distribution, Trainer, in_float64

LARGEST_SEED = 2**63 - 1

COPIES = 6
"""Arrays of the size of the draws that live at once: draws, proposals, parameters, their copies."""

RESERVED = ("chain", "draw")
"""Names of the axes of every posterior; a parameter cannot have them."""


@dataclasses.dataclass(frozen=True)
class Account(SymmetryAccount):
    """What was checked: the options, the parts of the problem, and its symmetry.

    Attributes:
        memory: bytes that the draws will need.
    """

    memory: int = 0

    def __str__(self) -> str:
        return (
            f"{super().__str__()} Options, names, parameters and shapes are in order; the draws "
            f"will need about {_bytes(self.memory)}."
        )


@in_float64
def check(
    problem: Problem,
    *,
    seed: int = 0,
    chains: int = 4,
    draws: int = 5000,
    reference: object = None,
    flow: Trainer | Distribution | None = None,
    effort: Effort | None = None,
    preset: Literal["default", "paper"] = "default",
    labels: Literal["sorted", "proposal"] = "sorted",
    start: Fit | None = None,
    whole_orbit: bool = True,
    progress: bool = True,
    evaluations: int | None = None,
    points: Points | None = None,
    allow_rotation: bool = False,
) -> Account:
    """Check all that `folt.sample` checks before it starts, with the same options; sample nothing.

    Types and ranges of the options, names, the size of the group, the memory that draws need, the
    reference, flow and start that were given, and `constrain`, `prior`, `sampler` and `pointwise`
    at one point are looked at without evaluating the density. Then the symmetry is tested at
    random points.

    Args:
        problem: what to check; a symmetry that is broken is told, not raised.
        seed: chooses the points.
        chains: as in `folt.sample`, like all that follow.
        draws: draws per chain.
        reference: draws or a sampler.
        flow: a trainer or a distribution.
        effort: what the fit may cost.
        preset: the protocol.
        labels: how components are numbered.
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
    if evaluations is not None:
        whole_number("evaluations", evaluations, 1)
    memory = require_options(
        problem,
        seed,
        chains,
        draws,
        reference,
        flow,
        effort,
        preset,
        labels,
        start,
        whole_orbit,
        progress,
    )
    found = check_symmetry(problem, seed=seed, points=points, allow_rotation=allow_rotation)
    return Account(**vars(found), memory=memory)


def require_options(
    problem: Problem,
    seed: int,
    chains: int,
    draws: int,
    reference: object,
    flow: Trainer | Distribution | None,
    effort: Effort | None,
    preset: str,
    labels: str,
    start: Fit | None,
    whole_orbit: bool,
    progress: bool,
) -> int:
    """Refuse what `folt.sample` cannot use; nothing is evaluated.

    Returns:
        Bytes that the draws will need.

    Raises:
        ValueError: with what was expected and what came.
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"expected a folt.Problem, got {type(problem).__name__}")
    whole_number("seed", seed, 0, LARGEST_SEED)
    whole_number("chains", chains, 1)
    whole_number("draws", draws, 1)
    if labels not in ("sorted", "proposal"):
        raise ValueError(f"expected labels 'sorted' or 'proposal', got {labels!r}")
    if not isinstance(preset, str):
        raise ValueError(f"expected preset as a word, got {type(preset).__name__}")
    preset_named(preset, effort)
    for name, value in (("whole_orbit", whole_orbit), ("progress", progress)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"expected {name} to be True or False, got {value!r}")
    _require_flow(flow, problem)
    require_group_size(problem, flow)
    _require_reference(reference, problem)
    _require_start(start, problem)
    require_scalar(problem)
    width = _require_parts(problem)
    return _require_memory(int(chains), int(draws), problem.dim + width)


def whole_number(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse what is no whole number within bounds.

    Raises:
        ValueError: naming the option.
    """
    kind = f"a whole number of at least {low}" + ("" if high is None else f" and at most {high}")
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise ValueError(f"expected {name} to be {kind}, got {value!r} ({type(value).__name__})")
    if value < low or (high is not None and value > high):
        raise ValueError(f"expected {name} to be {kind}, got {value}")


def require_group_size(problem: Problem, flow: Trainer | Distribution | None) -> None:
    """Refuse a group with more elements than what proposes can be summed over.

    Raises:
        ValueError: with the limit.
    """
    proposal_maker(problem, flow, None)


def _require_flow(flow: object, problem: Problem) -> None:
    if flow is None:
        return
    if isinstance(flow, Distribution):
        if flow.dim != problem.dim:
            raise ValueError(f"expected a flow of dimension {problem.dim}, got {flow.dim}")
    elif isinstance(flow, type) or not callable(flow):
        raise ValueError(
            "expected flow to be a trainer such as folt.training.OrbitMixture() or a "
            f"Distribution, got {_named(flow)}"
        )
    else:
        _require_takes("flow", flow, 4, "(key, arena, start, progress)")


def _require_reference(reference: object, problem: Problem) -> None:
    if isinstance(reference, type):
        raise ValueError(
            "expected reference draws of shape (draw, dim) or (chain, draw, dim), or a sampler "
            f"object such as folt.reference.TemperedChains(), got {_named(reference)}"
        )
    sampler = reference_for(problem, reference)
    if isinstance(sampler, Exact) and problem.sampler is None:
        raise ValueError("expected a problem with an exact sampler, got one without")
    require = getattr(sampler, "require_usable", None)
    if require is not None:
        require(problem)
    else:
        _require_takes("reference", sampler, 3, "(key, problem, progress)")


def _require_takes(name: str, function: Callable[..., object], count: int, shape: str) -> None:
    """Refuse a function that cannot be called with that many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise ValueError(f"expected {name} to be called as {shape}: {error}") from error
    except ValueError:  # built in, without a signature
        return


def _require_start(start: object, problem: Problem) -> None:
    if start is None:
        return
    if not isinstance(start, Fit):
        raise ValueError(f"expected start to be an earlier folt.Fit, got {_named(start)}")
    if start.flow is None:
        raise ValueError("expected a start with its proposal, got one whose file could not hold it")
    if start.group.dim != problem.dim:
        raise ValueError(
            f"expected a start of dimension {problem.dim}, got one of dimension {start.group.dim}"
        )


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
                raise ValueError(f"expected prior to be a Distribution, got {_named(part)}")
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
        raise ValueError(f"expected {name} to return {{name: value}}, got {_named(tree)}")
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
        if name in RESERVED:
            raise ValueError(f"the name {name!r} of {what} is that of an axis: expected another")


def _require_memory(chains: int, draws: int, width: int) -> int:
    needed = 8 * COPIES * chains * draws * width
    free = free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"{chains} chains of {draws} draws need about {_bytes(needed)} of memory, and "
            f"{_bytes(free)} are free: expected fewer draws"
        )
    return needed


def free_memory() -> int | None:
    """Bytes of memory that this process can still have; None where the system does not say."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        found.append(1024 * sizes["MemAvailable"])
    except (OSError, ValueError, IndexError, KeyError):
        try:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return None
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        found.append(limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(min(found), 0)


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count} bytes"


def _named(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}: give an instance, {value.__name__}(...)"
    return f"{value!r}" if isinstance(value, str | int | float) else type(value).__name__
