"""Held-out draws, which training and selection cannot see, and what is done with them.

A certificate made from draws that shaped the proposal would be too favourable. So the draws set
aside are sealed: only `HeldOut.judge` returns them, for one finished log ratio. It refuses a second
one, because choosing the better of two proposals by their certificates is selection too.

`refreshed_draws` moves held-out draws by the chain's own kernel, so that a slow reference does not
blur them.

`judged_faults` decides whether proposals at which the log density is not a number may hide mass. A
NaN says nothing about the density there. It is taken for zero, as an overflow in a far corner
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

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from folt.certificate.diagnostics.coverage import Faults
from folt.chains import accepted
from folt.problem import Problem
from folt.problem.ratio import LogRatio
from folt.types import Key, host_generator


@dataclasses.dataclass(frozen=True)
class Judged:
    """Held-out draws and the h of the one proposal that they judged.

    Attributes:
        points: (chain, draw, dim).
        log_ratio: h at them, (chain, draw).
        exact: whether they are independent draws of π_F by construction.
        steps: steps of the chain's kernel that each was moved by.
        before: the same before they were moved; None if they were not.
        proposed: h of all that was proposed to them on the way, each an independent draw of q_F.
        undefined: those of these proposals at which h is not a number.
    """

    points: Float[np.ndarray, "chain draw dim"]
    log_ratio: Float[np.ndarray, "chain draw"]
    exact: bool
    steps: int = 0
    before: Judged | None = None
    proposed: Float[np.ndarray, " n"] = dataclasses.field(default_factory=lambda: np.empty(0))
    undefined: Float[np.ndarray, "k dim"] | None = None

    @property
    def as_they_came(self) -> Float[np.ndarray, "chain draw dim"]:
        """The draws before any refreshment."""
        return (self.before or self).points

    @property
    def stayed(self) -> float:
        """Share of the draws that are where they were before any refreshment."""
        return float(np.mean(np.all(self.points == self.as_they_came, axis=-1)))

    @property
    def raw_log_ratio(self) -> Float[np.ndarray, "chain draw"]:
        """Their h before any refreshment, which says how dependent they are."""
        return (self.before or self).log_ratio


class HeldOut:
    """Reference draws under seal.

    Args:
        draws: (chain, draw, dim), folded; copied, so that no view of them stays outside.
        exact: whether they are independent draws of π_F by construction.
        log_target: log π_F at them, where it is known: sealed with them, and not computed again.
    """

    __slots__ = ("__draws", "__judged", "__log_target", "exact", "shape")

    def __init__(
        self,
        draws: Float[np.ndarray, "chain draw dim"],
        exact: bool,
        log_target: Float[np.ndarray, "chain draw"] | None = None,
    ):
        self.__draws = np.array(draws, np.float64)
        self.__log_target = None if log_target is None else np.array(log_target, np.float64)
        self.__judged: tuple[LogRatio, Judged] | None = None
        self.shape = self.__draws.shape
        self.exact = exact

    def judge(self, ratio: LogRatio) -> Judged:
        """Break the seal for one finished proposal.

        Raises:
            RuntimeError: the draws have judged another proposal already.
        """
        if self.__judged is not None:
            earlier, judged = self.__judged
            if earlier is not ratio:
                raise RuntimeError(
                    "these held-out draws have judged another proposal: a second one needs draws "
                    "of its own, because choosing between two by their certificates is selection"
                )
            return judged
        known = None if self.__log_target is None else self.__log_target.ravel()
        values = ratio.at(self.__draws.reshape(-1, self.shape[-1]), known).reshape(self.shape[:2])
        judged = Judged(self.__draws, values, self.exact)
        self.__judged = (ratio, judged)
        return judged


LEAST, MOST = 2, 12
"""Fewest and most steps of a refreshment."""

IMAGES = 1440
"""Most images of one draw that are summed over in a refreshment: many images, fewer steps."""

REMAINDER = 0.003
"""Share of draws that may stay where they were, at the acceptance that the chains had."""


def refreshed_draws(key: Key, judged: Judged, ratio: LogRatio, steps: int) -> Judged:
    """Move every held-out draw by some steps of independence Metropolis-Hastings of its own.

    The kernel leaves π_F invariant whatever the proposal is, so draws of π_F stay draws of π_F; a
    reference that is close to π_F but slow (dependent draws, modes weighted by where chains
    started) comes closer to it, and nothing can move it away. What the proposal misses is not
    repaired: where w is large no proposal is accepted, the draws stay, and every check still sees
    them. They also stay as dependent as they were, so that draws are counted as they came, without
    credit for having been moved (`folt.certificate.diagnostics.coupling_bounds`).

    Args:
        key: fresh proposals and uniforms come from it.
        judged: held-out draws with their h.
        ratio: the log ratio that judged them.
        steps: steps per draw.
    """
    shape = judged.points.shape
    points = judged.points.reshape(-1, shape[-1])
    values, drawn = judged.log_ratio.ravel(), [judged.proposed]
    undefined = [] if judged.undefined is None else [judged.undefined]
    for number in range(steps):
        propose_key = jax.random.fold_in(key, 2 * number)
        proposals, proposed = ratio.draw(propose_key, values.size)
        drawn.append(proposed)
        undefined.append(proposals[np.isnan(proposed)])
        generator = host_generator(jax.random.fold_in(key, 2 * number + 1))
        moved = accepted(generator, values, proposed)
        points = np.where(moved[:, None], proposals, points)
        values = np.where(moved, proposed, values)
    return dataclasses.replace(
        judged,
        points=points.reshape(shape),
        log_ratio=values.reshape(shape[:2]),
        steps=judged.steps + steps,
        proposed=np.concatenate(drawn),
        undefined=np.concatenate(undefined),
        before=judged.before or judged,
    )


def steps_for(accept_rate: float, order: int = 1) -> int:
    """Return steps after which all but `REMAINDER` of the draws have moved, within reason."""
    most = max(LEAST, min(MOST, IMAGES // order))
    if accept_rate <= 0.0 or accept_rate >= 1.0:
        return most if accept_rate <= 0.0 else LEAST
    needed = math.ceil(math.log(REMAINDER) / math.log1p(-accept_rate))
    return min(max(needed, LEAST), most)


Undefined = Float[np.ndarray, "undefined dim"]
_Evaluated = Float[np.ndarray, "evaluated dim"]
Held = Float[np.ndarray, "held_out dim"]

_NEIGHBOURS = 4
"""Evaluated points towards which the edge of the undefined region is looked for."""

_HALVINGS = 12
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
    evaluated: tuple[_Evaluated, Float[np.ndarray, " evaluated"]],
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
    ratio: LogRatio, undefined: Undefined, neighbours: _Evaluated, held_out: Held
) -> float:
    """Return the largest h that the surroundings of undefined points suggest for one of them."""
    nearest = _nearest(undefined, neighbours, held_out)
    starts = np.repeat(undefined, nearest.shape[1], axis=0)
    ways = nearest.reshape(starts.shape) - starts
    edge = np.ones(len(starts))
    inside = np.zeros(len(starts))
    for _ in range(_HALVINGS):
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
    """Return slopes towards the undefined points, from values at the edge and before it.

    A slope is zero if the values fall, at the end of a way, and beside a place outside the support.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = (values[0] - values[1]) / apart
    return np.where(np.isfinite(slopes), np.maximum(slopes, 0.0), 0.0)


def _nearest(
    undefined: Undefined, neighbours: _Evaluated, held_out: Held
) -> Float[np.ndarray, "undefined neighbour dim"]:
    """The nearest neighbours of every point, in coordinates in which held-out draws are round."""
    dim = held_out.shape[1]
    covariance = np.cov(held_out.T).reshape(dim, dim)
    variances, axes = np.linalg.eigh(covariance)
    largest = float(variances[-1])
    scale = np.sqrt(np.maximum(variances, 1e-12 * largest)) if largest > 0.0 else np.ones(dim)
    here, there = undefined @ axes / scale, neighbours @ axes / scale
    distances = np.stack([np.sum((there - one) ** 2, axis=1) for one in here])
    count = min(_NEIGHBOURS, len(neighbours))
    return neighbours[np.argpartition(distances, count - 1, axis=1)[:, :count]]


def named_point(problem: Problem, x: Float[np.ndarray, " dim"]) -> tuple[tuple[str, float], ...]:
    """Return every number of the user's parameters at a point, with its name: `("mu[0]", 1.5)`."""
    found = []
    for name, value in problem.parameters(x[None]).items():
        whole = np.asarray(value, float)[0]
        for index in np.ndindex(whole.shape):
            label = f"{name}[{','.join(str(i) for i in index)}]" if index else name
            found.append((label, float(whole[index])))
    return tuple(found)
