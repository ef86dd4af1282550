"""One simulation of a calibration: draw the truth, make data, fit, rank. It runs on a worker."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from folt.certificate.diagnostics.ranks import rank_among
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from folt.fit import Fit
    from folt.problem import Problem
    from folt.types import Key, Point

RANKED = 99
"""Draws, evenly spaced along the chains, that a truth is ranked among."""

PREDICTED = "predictive mean"
_LIKELIHOOD = "log likelihood"


class Simulated(NamedTuple):
    """What a simulation begins with.

    Attributes:
        problem: the posterior for the simulated data.
        truth: the point of the problem's coordinates that the data were simulated at, a draw of
            the prior.
        rival: the posterior of another model for the same data, where evidence is calibrated.
    """

    problem: Problem
    truth: np.ndarray
    rival: Problem | None = None


@dataclasses.dataclass(frozen=True)
class FromPrior:
    """Simulates by what a problem says of itself: a truth from its prior, data by its `predictive`.

    Priors must not depend on the data, which here are only what they might be: give the model's
    prior options as numbers.

    Attributes:
        build: makes the problem, with data of the right shape that are replaced.
        rival: makes the problem of another model for data of this shape, where evidence is
            calibrated.
        data: `data(key, problem, truth)` simulates the problem's data, where `predictive` does not.
    """

    build: Callable[[], Problem]
    rival: Callable[[], Problem] | None = None
    data: Callable[[Key, Problem, np.ndarray], PyTree] | None = None

    def __call__(self, generator: np.random.Generator) -> Simulated:
        """Return a truth, and the problems for data at it."""
        import jax

        from folt.batching import map_keys

        problem = _built(self.build)
        if problem.prior is None or (self.data is None and problem.predictive is None):
            raise ValueError("expected a problem with prior= and predictive=, got one without")
        key = jax.random.key(int(generator.integers(2**63)))
        drawn, seen = jax.random.split(key)
        # Compiled once for all simulations: a loop that runs outside is compiled for every one.
        (truth,) = map_keys(_from_prior, problem, drawn, 1, length=1, once=True)
        if self.data is not None:
            data = self.data(seen, problem, truth)
        else:
            given = problem, truth
            (data,) = map_keys(_replicated, given, seen, 1, length=1, once=True)
        rival = None if self.rival is None else _built(self.rival).with_data(data)
        return Simulated(problem.with_data(data), truth, rival)


def _from_prior(problem: Problem, key: Key) -> Point:
    assert problem.prior is not None
    return problem.prior.sample(key)


def _replicated(given: tuple[Problem, Point], key: Key) -> PyTree:
    """Return the observations of a problem, at a point."""
    problem, truth = given
    (data,) = problem.replicates(key, truth).values()
    return data


@functools.lru_cache(maxsize=16)
def _built(build: Callable[[], Problem]) -> Problem:
    """The problem, built once: new data of equal shape do not compile again."""
    return build()


Simulate = Callable[[np.random.Generator], Simulated]
Quantities = Callable[["Problem", np.ndarray], Mapping[str, np.ndarray]]
Fitter = Mapping[str, Any] | Callable[["Problem", int], "Fit"]


def simulation(
    number: int, *, seed: int, simulate: Simulate, fit: Fitter, parameters: Quantities | None
) -> Document:
    """A row: the verdict, the rank of every quantity, the evidence of the model and its rival."""
    from folt.types import in_float64

    return in_float64(_simulation)(number, seed, simulate, fit, parameters)


def _simulation(
    number: int, seed: int, simulate: Simulate, fit: Fitter, parameters: Quantities | None
) -> Document:
    generator = np.random.default_rng([seed, number])
    drawn = Simulated(*simulate(generator))
    problem = drawn.problem
    fitted = _fitted(problem, fit, number)
    draws = fitted.draws.reshape(-1, problem.dim)
    chosen = draws[np.round(np.linspace(0, len(draws) - 1, RANKED)).astype(int)]
    points = folded_points(problem, np.vstack([np.asarray(drawn.truth)[None], chosen]))
    values = dict((quantities if parameters is None else parameters)(problem, points))
    values |= label_free(problem, points, number) if parameters is None else {}
    row: Document = {
        "verdict": fitted.certificate.status.name,
        "accept": fitted.accept_rate,
        "log_evidence": fitted.log_evidence.value,
        "log_evidence_error": fitted.log_evidence.standard_error,
        "ranks": {name: _rank(generator, name, value) for name, value in values.items()},
    }
    if drawn.rival is not None:
        other = _fitted(drawn.rival, fit, number)
        row["rival_log_evidence"] = other.log_evidence.value
        row["rival_verdict"] = other.certificate.status.name
    return row


def _fitted(problem: Problem, fit: Fitter, number: int) -> Fit:
    from folt.sampling import sample

    if callable(fit):
        return fit(problem, number)
    return sample(problem, **{"progress": False, "seed": number, **fit})


def _rank(generator: np.random.Generator, name: str, values: np.ndarray) -> int:
    """The rank of the first value, the truth's, among the others."""
    flat = np.asarray(values, float)
    if flat.shape != (RANKED + 1,) or not np.isfinite(flat).all():
        raise ValueError(
            f"expected {name!r} as one finite number per point, {RANKED + 1} of them, got shape "
            f"{flat.shape}"
        )
    return rank_among(generator, flat[0], flat[1:])


def folded_points(problem: Problem, points: np.ndarray) -> np.ndarray:
    """Points on the fundamental domain, the truth like the draws.

    Labels of the truth and of the draws mean different things; which chamber they are folded onto
    does not matter as long as it is the same rule for both.
    """
    from folt.batching import map_points
    from folt.groups import Group

    return np.asarray(map_points(Group.fold, problem.group, points))


def quantities(problem: Problem, points: np.ndarray) -> dict[str, np.ndarray]:
    """Return every scalar of the folded parameters that is not the same everywhere."""
    from folt.fit.text import entries

    values = {name: np.asarray(value)[None] for name, value in problem.parameters(points).items()}
    return {name: flat[0] for name, flat in entries(values).items() if np.ptp(flat) > 0}


def label_free(problem: Problem, points: np.ndarray, number: int) -> dict[str, np.ndarray]:
    """Return what no relabelling changes: the log likelihood, and the mean of data yet to come."""
    import jax

    from folt.batching import map_points

    found: dict[str, np.ndarray] = {}
    if problem.pointwise is not None:
        found[_LIKELIHOOD] = np.asarray(map_points(_log_likelihood, problem, points))
    if problem.predictive is not None:
        keys = jax.random.split(jax.random.key(number), len(points))
        seeds = np.asarray(jax.random.key_data(keys))
        found[PREDICTED] = np.asarray(map_points(_predicted_mean, problem, (seeds, points)))
    return found


def _predicted_mean(problem: Problem, given: tuple[PyTree, PyTree]) -> PyTree:
    import jax
    import jax.numpy as jnp

    seed, x = given
    made = problem.replicates(jax.random.wrap_key_data(seed), x)
    return jnp.mean(jnp.concatenate([jnp.ravel(values) for values in made.values()]))


def _log_likelihood(problem: Problem, x: Point) -> PyTree:
    import jax.numpy as jnp

    return sum(jnp.sum(terms) for terms in problem.log_likelihoods(x).values())
