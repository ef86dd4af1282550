"""Data like those observed, and which those are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from folt.batching import map_points
from folt.fit.predictions import require_predictive
from folt.problem import Problem
from folt.problem.observed import Observing
from folt.problem.quotient import LiftedDensity
from folt.types import Key, Point, in_float64

if TYPE_CHECKING:
    from folt.fit.fit import Fit

ENTRIES = 8_000_000
"""Replicated entries, and log-likelihood terms, that are computed and kept unless more are asked
for; of more, those of evenly spaced draws. Of 10 000 observations these are 800 draws, more than
`arviz.loo` needs, and 64 MB."""


class OfSomeDraws(NamedTuple):
    """What was computed at some draws: replicates, or pointwise log likelihoods.

    Attributes:
        values: `{name: (chain, draw, ...)}`.
        at: positions of these draws on their chains.
    """

    values: dict[str, np.ndarray]
    at: Int[np.ndarray, " draw"]


@in_float64
def replicates(fit: Fit, seed: int = 0, draws: int | None = None) -> OfSomeDraws:
    """Data like those observed, one set for each of some draws, evenly spaced on every chain.

    Args:
        fit: the fit.
        seed: of the replicates.
        draws: of every chain; as many as make at most `ENTRIES` entries if None.

    Raises:
        ValueError: the model does not say how observations are drawn, the chains have fewer draws,
            or the fit was loaded without its problem.
    """
    problem = require_predictive(fit)
    shapes = _shapes(problem)
    at = _positions(fit, draws, sum(math.prod(shape.shape) for shape in shapes.values()))
    chosen = fit.draws[:, at]
    points, lead = chosen.reshape(-1, fit.group.dim), chosen.shape[:2]
    keys = jax.random.split(jax.random.key(seed), len(points))
    values = map_points(_replicated, problem, (keys, points))
    return OfSomeDraws(
        {name: value.reshape(*lead, *value.shape[1:]) for name, value in values.items()}, at
    )


def _positions(fit: Fit, draws: int | None, entries: int) -> Int[np.ndarray, " draw"]:
    """Return positions on the chains: as many as were asked for, or as `ENTRIES` allows."""
    length = fit.draws.shape[1]
    if draws is None:
        return spaced(fit, entries)
    whole = isinstance(draws, int | np.integer) and not isinstance(draws, bool)
    if not whole or not 1 <= draws <= length:
        raise ValueError(
            f"expected draws to be a number of draws of every chain, 1 to {length:,}, got {draws!r}"
        )
    return np.linspace(0, length - 1, draws).round().astype(int)


def spaced(fit: Fit, entries: int) -> Int[np.ndarray, " draw"]:
    """Return evenly spaced positions on the chains with `ENTRIES` entries in all, and one at least.

    Args:
        fit: the fit.
        entries: of one draw.
    """
    chains, draws = fit.draws.shape[:2]
    return np.arange(0, draws, -(-chains * draws * max(1, entries) // ENTRIES))


@in_float64
def observations(problem: Problem) -> dict[str, np.ndarray]:
    """Return what was observed by the names that replicates have, as far as it is known.

    Models of PyMC and NumPyro name it. Of any other problem it is the array of the data with the
    name and the shape of the replicates, or the only one with their shape.
    """
    density: object = problem.log_density
    if isinstance(density, LiftedDensity):
        density = density.function
    if isinstance(density, Observing):
        found = map_points(_observed, (density, problem.data), np.zeros(1), length=1)
        return {name: value[0] for name, value in found.items()}
    if problem.predictive is None:
        return {}
    named = problem.data if isinstance(problem.data, dict) else {}
    observed: dict[str, np.ndarray] = {}
    for name, shape in _shapes(problem).items():
        arrays = [named[name]] if name in named else jax.tree.leaves(problem.data)
        fitting = [array for array in arrays if np.shape(array) == shape.shape]
        observed |= {name: np.asarray(fitting[0])} if len(fitting) == 1 else {}
    return observed


def _shapes(problem: Problem) -> dict[str, jax.ShapeDtypeStruct]:
    """Return what one set of replicates has."""
    key, x = jax.random.key(0), np.zeros(problem.dim)
    shapes: dict[str, jax.ShapeDtypeStruct] = jax.eval_shape(problem.replicates, key, x)
    return shapes


def _observed(context: tuple[Observing, PyTree], _: Array) -> dict[str, Array]:
    density, data = context
    return density.observations(data)


def _replicated(problem: Problem, drawn: tuple[Key, Point]) -> dict[str, Array]:
    return problem.replicates(*drawn)
