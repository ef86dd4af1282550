"""What a fit is asked for: the options, what is wrong with them, and what follows from them.

Nothing is evaluated here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from folt.certificate.cautions import Caution, Concern
from folt.fit import Fit
from folt.problem import VALUES_PER_GRADIENT, Problem
from folt.problem.named_values import Naming, SortKey
from folt.problem.requirements import maker, named, require_made
from folt.reference import Exact, HostChains, Sampler, reference_for
from folt.reference.exploration.descents import LAST_STARTS, ROUNDS, SLOTS
from folt.training import OrbitMixture, proposal_maker
from folt.training.effort import (
    EFFORTS,
    Effort,
    EffortName,
    effort_named,
    evaluations_of_black_box,
)
from folt.types import Distribution, Trainer

PARTICLES_PER_MODE = 5
"""Particles that a mode should have on average to be found."""

LARGEST_SEED = 2**63 - 1

PROTOCOL_MODULES = {"paper": "folt.paper.training"}
"""Modules that hold another protocol than folt's own: `protocol()` is its effort and trainer."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `folt.sample` and `folt.check`; the former says what they mean."""

    seed: int = 0
    chains: int = 4
    draws: int | None = None
    reference: object = None
    flow: Trainer | Distribution | None = None
    effort: Effort | EffortName | None = None
    evaluations: int | None = None
    preset: str = "default"
    labels: str = "sorted"
    sort_by: str | SortKey | None = None
    sign: str | None = None
    start: Fit | None = None
    whole_orbit: bool = True
    progress: bool = True

    def naming_of(self, problem: Problem) -> Naming:
        """Return how labels are ordered and signs chosen: as asked for, or as the problem says."""
        own = problem.naming
        order = own.sort_by if self.sort_by is None and self.labels == "sorted" else self.sort_by
        return Naming(order, own.sign if self.sign is None else self.sign)

    def effort_for(self, problem: Problem, pace: float) -> Effort:
        """Return the effort, within the cap on evaluations where there is one.

        Args:
            problem: what is evaluated; without gradient it has a cap unless one is given.
            pace: seconds per evaluation, as measured.
        """
        if self.preset != "default":
            return _protocol(self.preset)[0]
        evaluations, effort = self.evaluations, effort_named(self.effort)
        usual = effort in (Effort.quick(), Effort.default())
        if evaluations is None and usual and not problem.differentiable:
            evaluations = evaluations_of_black_box(problem.dim, pace)
        if evaluations is not None:
            return effort.within(evaluations)
        return effort.with_many_rows() if usual and problem.rows >= MANY_ROWS else effort

    def sampler_for(self, problem: Problem, effort: Effort) -> Sampler:
        """Return what was given, exact draws if the problem has some, or particles and chains."""
        if self.reference is not None:
            return reference_for(problem, self.reference)
        if problem.sampler is not None:
            return Exact(effort.exact_draws, effort.chains)
        return HostChains(
            particles=effort.particles,
            moves=effort.moves,
            chains=effort.chains,
            draws=effort.draws,
            thin=effort.walk_steps,
            **(
                ({} if effort.evaluations is None else _economical(effort.evaluations, problem.dim))
                | (_with_many_rows(problem.rows) if problem.rows >= MANY_ROWS else {})
            ),
        )

    def proposal_for(self, problem: Problem, effort: Effort) -> Trainer | Distribution:
        """Return what was given, or the protocol's trainer for the group of the problem."""
        own = self.preset == "default"
        trainer = OrbitMixture.at(effort) if own else _protocol(self.preset)[1]
        maker: Trainer | Distribution = proposal_maker(problem, self.flow, trainer, effort)
        return maker

    def require_usable(self, problem: Problem) -> None:
        """Refuse what `folt.sample` cannot use.

        Raises:
            ValueError: with what was expected and what came.
        """
        require_made(problem)
        if self.evaluations is not None:
            whole_number("evaluations", self.evaluations, 1)
        whole_number("seed", self.seed, 0, LARGEST_SEED)
        whole_number("chains", self.chains, 1)
        if self.draws is not None:
            whole_number("draws", self.draws, 1)
        if self.labels not in ("sorted", "proposal"):
            raise ValueError(f"expected labels 'sorted' or 'proposal', got {self.labels!r}")
        require_preset(self.preset, self.effort)
        for name in ("whole_orbit", "progress"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise ValueError(f"expected {name} to be True or False, got {value!r}")
        self._require_naming(problem)
        _require_flow(self.flow, problem)
        proposal_maker(problem, self.flow, None)  # refuses a group too large for the flow
        _require_reference(self.reference, problem)
        _require_start(self.start, problem)

    def _require_naming(self, problem: Problem) -> None:
        """Refuse a convention that no fit of the problem can follow."""
        if self.sort_by is not None and self.labels != "sorted":
            raise ValueError(f"expected sort_by or labels={self.labels!r}, got both")
        self.naming_of(problem).require(problem)


Asked = ParamSpec("Asked")
Made = TypeVar("Made")


def require_preset(preset: object, effort: object = None) -> None:
    """Refuse a protocol that does not exist, and an effort that it does not take.

    Raises:
        ValueError: naming those that exist.
    """
    if preset != "default" and preset not in PROTOCOL_MODULES:
        known = " or ".join(map(repr, ("default", *PROTOCOL_MODULES)))
        raise ValueError(f"expected preset {known}, got {preset!r}")
    effort_named(effort)
    if effort is not None and preset != "default":
        raise ValueError(f"expected no effort with preset {preset!r}, which has its own")


def one_problem(function: Callable[Asked, Made]) -> Callable[Asked, Made]:
    """Say what is missing where a model and its data are given instead of one problem."""

    @functools.wraps(function)
    def of_problem(*given: Asked.args, **options: Asked.kwargs) -> Made:
        if len(given) > 1:
            name = getattr(function, "__name__", "this")
            raise TypeError(
                f"expected {name}(problem) and options by name, got {len(given)} things"
                f"{maker(given[0]) or ': options have names, such as seed=1'}"
            )
        return function(*given, **options)

    return of_problem


def _protocol(preset: str) -> tuple[Effort, Trainer]:
    """Return effort and trainer of a protocol that lives above this room."""
    found: tuple[Effort, Trainer] = importlib.import_module(PROTOCOL_MODULES[preset]).protocol()
    return found


def _economical(evaluations: int, dim: int) -> dict[str, Any]:
    """A search that takes a tenth of the evaluations, walks, chains of one length.

    Another tenth goes to descents, if that is enough for them to arrive somewhere, or without a
    gradient to a polish of particles.
    """
    first, more = 30, 8
    walkers = evaluations // (10 * (first + more * dim))
    rounds = evaluations // (10 * SLOTS * VALUES_PER_GRADIENT)
    return {
        "share": 0.4,
        "descents": min(rounds, ROUNDS) if rounds > LAST_STARTS else 0,
        "searchers": min(max(walkers, 32), 512),
        "search_steps": (first, more),
        "paths": 0,
        "longest": 1,
    }


MANY_ROWS, FEWEST_ROUNDS = 100_000, 24
"""Rows of data from which on paths and descents become fewer, the latter as the root of their
number, and gradients that each slot of them has at least: one search comes to its end in those. At
ten thousand rows a path in four draws took a quarter of the reference's effective draws."""


def _with_many_rows(rows: int) -> dict[str, Any]:
    """Paths between some draws only, since jumps are accepted where many rows make modes Gaussian.

    Descents that pay for very many rows are fewer: those from the modes of a subset are short.
    """
    rounds = round(ROUNDS * math.sqrt(MANY_ROWS / (4 * rows)))
    return {"path_every": 4, "warmup": 10, "descents": min(max(rounds, FEWEST_ROUNDS), ROUNDS)}


def cap_cautions(effort: Effort) -> tuple[Caution, ...]:
    """Return what a cap on evaluations cost, against the same effort without it."""
    usual = EFFORTS[effort.name]() if effort.name in EFFORTS else effort
    if effort.evaluations is None or effort.particles >= usual.particles:
        return ()
    caution = Caution.of(
        Concern.CAPPED,
        evaluations=effort.evaluations,
        particles=effort.particles,
        usual=usual.particles,
        weight=PARTICLES_PER_MODE / effort.particles,
        blur=math.sqrt(usual.certification_draws / effort.certification_draws),
    )
    return (caution,)


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


def _require_flow(flow: object, problem: Problem) -> None:
    if flow is None:
        return
    if isinstance(flow, Distribution):
        if flow.dim != problem.dim:
            raise ValueError(f"expected a flow of dimension {problem.dim}, got {flow.dim}")
    elif isinstance(flow, type) or not callable(flow):
        raise ValueError(
            "expected flow to be a trainer such as folt.training.OrbitMixture() or a "
            f"Distribution, got {named(flow)}"
        )
    else:
        _require_takes("flow", flow, 4, "(key, task, start, progress)")


def _require_reference(reference: object, problem: Problem) -> None:
    if isinstance(reference, type):
        raise ValueError(
            "expected reference draws of shape (draw, dim) or (chain, draw, dim), or a sampler "
            f"object such as folt.reference.HostChains(), got {named(reference)}"
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
        raise ValueError(f"expected start to be an earlier folt.Fit, got {named(start)}")
    if start.flow is None:
        raise ValueError("expected a start with its proposal, got one whose file could not hold it")
    if start.group.dim != problem.dim:
        raise ValueError(
            f"expected a start of dimension {problem.dim}, got one of dimension {start.group.dim}"
        )
