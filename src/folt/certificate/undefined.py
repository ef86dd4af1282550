"""Proposals at which the log density is not a number: far out, or in the way of mass?

A NaN says nothing about the density there. It is taken for zero, as an overflow in a far corner
deserves, if it is rare (`Faults.RARE`) and if nothing around it speaks of mass: on the ways from
such a point to its nearest evaluated neighbours, in coordinates whitened by the held-out draws, the
last points at which the density is a number have weights w = π_F/q_F of at most a thousandth of
their mean (`Faults.NEGLIGIBLE`). Weights that rise towards the point are continued to it, in the
logarithm and by their slope: on one way at least they must stay as small. A density that rises
towards the point on all ways is a fault however small it is, because it may go on rising. What lies
wholly within the undefined region and does not show at its edge is seen by nobody.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from folt.diagnostics import Faults
from folt.problem import Problem
from folt.problem.ratio import LogRatio

Undefined = Float[np.ndarray, "undefined dim"]
Evaluated = Float[np.ndarray, "evaluated dim"]
Held = Float[np.ndarray, "held_out dim"]

NEIGHBOURS = 4
"""Evaluated points towards which the edge of the undefined region is looked for."""

HALVINGS = 12
"""Bisections of a way to a neighbour: the edge is known to 1/4000 of the way."""

JUDGED = 64
"""Undefined points that are judged; of more, evenly spaced ones. So many are rare among 64 000."""

RISING = 1.0
"""Nats by which a density may rise towards an undefined point on every way to it."""

STRIDE = 0.1
"""Share of the rest of the way over which the slope at the edge is taken."""


def judged_faults(
    faults: Faults,
    ratio: LogRatio,
    undefined: Undefined,
    evaluated: tuple[Evaluated, Float[np.ndarray, " evaluated"]],
    held_out: Held,
) -> Faults:
    """Add to counted faults what the surroundings of undefined points say, and one of them.

    Args:
        faults: what was counted.
        ratio: h.
        undefined: proposals at which h is not a number.
        evaluated: fresh proposals and their h.
        held_out: draws of the target, which whiten the coordinates and are neighbours too.
    """
    if not len(undefined):
        return faults
    points, values = evaluated
    finite = np.isfinite(values)
    point = named_point(ratio.target.problem, undefined[0])
    if faults.share > Faults.RARE or not finite.any():  # no surroundings would excuse so many
        return dataclasses.replace(faults, point=point)
    level = float(logsumexp(values[finite])) - math.log(len(values))
    chosen = undefined[:: -(-len(undefined) // JUDGED)]
    neighbours = np.concatenate([points[finite], held_out[:: max(len(held_out) // 4_096, 1)]])
    weight = float(np.exp(min(_log_weight(ratio, chosen, neighbours, held_out) - level, 700.0)))
    return dataclasses.replace(faults, largest_nearby=weight, point=point)


def _log_weight(
    ratio: LogRatio, undefined: Undefined, neighbours: Evaluated, held_out: Held
) -> float:
    """The largest h that the surroundings of undefined points suggest for one of them."""
    nearest = _nearest(undefined, neighbours, held_out)
    starts = np.repeat(undefined, nearest.shape[1], axis=0)
    ways = nearest.reshape(starts.shape) - starts
    edge = np.ones(len(starts))
    inside = np.zeros(len(starts))
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + edge)
        unknown = np.isnan(ratio.at(starts + middle[:, None] * ways))
        inside, edge = np.where(unknown, middle, inside), np.where(unknown, edge, middle)
    before = edge + STRIDE * (1.0 - edge)
    places = starts + np.stack([edge, before])[:, :, None] * ways
    log_target = np.stack([ratio.target(points) for points in places])
    values = np.stack([ratio.at(*each) for each in zip(places, log_target, strict=True)])
    rise, rise_of_target = (_continued(each, before - edge) * edge for each in (values, log_target))
    shape = nearest.shape[:2]
    near, continued = values[0].reshape(shape), (values[0] + rise).reshape(shape)
    worst = np.maximum(near.max(axis=1), continued.min(axis=1))
    attracts = (rise_of_target.reshape(shape) > RISING).all(axis=1)
    # A neighbour at which h is not a number itself leaves the question open.
    return math.inf if (attracts | np.isnan(worst)).any() else float(worst.max())


def _continued(
    values: Float[np.ndarray, "2 way"], apart: Float[np.ndarray, " way"]
) -> Float[np.ndarray, " way"]:
    """Slopes towards the undefined points, from values at the edge and before it; zero if falling.

    There is none at the end of a way or beside a place outside the support.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = (values[0] - values[1]) / apart
    return np.where(np.isfinite(slopes), np.maximum(slopes, 0.0), 0.0)


def _nearest(
    undefined: Undefined, neighbours: Evaluated, held_out: Held
) -> Float[np.ndarray, "undefined neighbour dim"]:
    """The nearest neighbours of every point, in coordinates in which held-out draws are round."""
    dim = held_out.shape[1]
    covariance = np.cov(held_out.T).reshape(dim, dim)
    variances, axes = np.linalg.eigh(covariance)
    largest = float(variances[-1])
    scale = np.sqrt(np.maximum(variances, 1e-12 * largest)) if largest > 0.0 else np.ones(dim)
    here, there = undefined @ axes / scale, neighbours @ axes / scale
    distances = np.stack([np.sum((there - one) ** 2, axis=1) for one in here])
    count = min(NEIGHBOURS, len(neighbours))
    return neighbours[np.argpartition(distances, count - 1, axis=1)[:, :count]]


def named_point(problem: Problem, x: Float[np.ndarray, " dim"]) -> tuple[tuple[str, float], ...]:
    """Every number of the user's parameters at a point, with its name: `("mu[0]", 1.5)`."""
    found = []
    for name, value in problem.parameters(x[None]).items():
        whole = np.asarray(value, float)[0]
        for index in np.ndindex(whole.shape):
            label = f"{name}[{','.join(str(i) for i in index)}]" if index else name
            found.append((label, float(whole[index])))
    return tuple(found)
