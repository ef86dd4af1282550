"""Fewer draws, evenly spaced: those that a file holds, and those whose likelihood terms are made.

Terms are computed at the draws that stay, block by block: what is in memory at once is bounded,
however many draws and observations there are.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int

from folt.problem import Problem
from folt.problem.batching import map_points
from folt.types import Point, in_float64

if TYPE_CHECKING:
    from folt.fit.fit import Fit

Keep = int | Literal["all"] | None

ENOUGH = 5_000
"""Draws per chain that a file holds at least of those that nobody asked for. Four chains of so many
give a mean to .7 % of the posterior's deviation and the ends of a 95 % interval to 2 %: fewer than
the digits that anybody reports."""

TERMS = 8_000_000
"""Log-likelihood terms that are computed and kept; of more, those of evenly spaced draws. Of 10 000
observations these are 800 draws, more than `arviz.loo` needs, and 32 MB of a file."""

TERMS_AT_ONCE = 1 << 20
"""Terms of the draws that are evaluated together: 8 MB."""


def thinned(fit: Fit, keep: Keep = None) -> Fit:
    """The fit with every k-th of its draws, and so with k times as many steps between them.

    The chain that is left is a chain of the same kernel and can be extended; the certificate stays
    that of all draws, whose number `provenance["thinned"]` remembers.

    Args:
        fit: the fit.
        keep: draws that stay on every chain, at least; "all"; or None for all that were asked for
            and `ENOUGH` of those that were chosen by budget.

    Raises:
        ValueError: `keep` is none of these.
    """
    if keep is None:
        keep = "all" if fit.provenance.get("draws_asked", True) else ENOUGH
    if keep != "all" and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise ValueError(f"expected keep to be 'all' or a number of draws per chain, got {keep!r}")
    length = fit.draws.shape[1]
    every = 1 if keep == "all" else max(1, length // keep)
    if every == 1:
        return fit
    draws = fit.draws[:, ::every]
    counts = {"kept": draws.shape[0] * draws.shape[1], "of": fit.drawn}
    steps = every * fit.steps_per_draw
    return dataclasses.replace(
        fit,
        draws=draws,
        log_ratio=fit.log_ratio[:, ::every],
        accepted=fit.accepted[:, ::every],
        posterior={name: values[:, ::every] for name, values in fit.posterior.items()},
        log_likelihood=_thinned_terms(fit.log_likelihood, every),
        provenance={**fit.provenance, "steps_per_draw": steps, "thinned": counts},
    )


class Terms(NamedTuple):
    """Pointwise log likelihoods of some draws.

    Attributes:
        values: `{name: (chain, draw, ...)}`.
        at: positions of these draws on their chains.
    """

    values: dict[str, np.ndarray]
    at: Int[np.ndarray, " draw"]


def log_likelihoods(fit: Fit, precision: type[np.floating] = np.float64) -> Terms | None:
    """The terms of evenly spaced draws, of all where that makes at most `TERMS` of them.

    They are computed where the problem is known, else those of the file; None where there are none.

    Args:
        fit: the fit.
        precision: of terms that are computed. The rounding of single precision is far below what
            `arviz.loo` can resolve.
    """
    if fit.problem is None:
        return fit.log_likelihood
    return None if fit.problem.pointwise is None else _computed(fit, fit.problem, precision)


@in_float64
def _computed(fit: Fit, problem: Problem, precision: type[np.floating]) -> Terms:
    """Terms at as many draws as the bound allows, block by block."""
    chains, draws, dim = fit.draws.shape
    shapes = jax.eval_shape(problem.log_likelihoods, fit.draws[0, 0])
    terms = max(1, sum(math.prod(shape.shape) for shape in shapes.values()))
    at = np.arange(0, draws, -(-chains * draws * terms // TERMS))
    points = fit.draws[:, at].reshape(-1, dim)
    found = {
        name: np.empty((len(points), *shape.shape), precision) for name, shape in shapes.items()
    }
    length = int(np.clip(TERMS_AT_ONCE // terms, 1, 1024))
    for start in range(0, len(points), 2 * length):  # two blocks are under way at a time
        block = slice(start, start + 2 * length)
        values = map_points(_terms, problem, points[block], length=length)
        for name, value in values.items():
            found[name][block] = value
    lead = (chains, at.size)
    return Terms(
        {name: value.reshape(*lead, *value.shape[1:]) for name, value in found.items()}, at
    )


def _terms(problem: Problem, point: Point) -> dict[str, Array]:
    return problem.log_likelihoods(point)


def _thinned_terms(terms: Terms | None, every: int) -> Terms | None:
    """Those terms of a file whose draws stay."""
    if terms is None:
        return None
    stays = terms.at % every == 0
    if not stays.any():
        return None
    values = {name: value[:, stays] for name, value in terms.values.items()}
    return Terms(values, terms.at[stays] // every)
