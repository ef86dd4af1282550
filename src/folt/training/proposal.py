"""The proposal of a fit: what is learnt from, what is added for the tails, what it is worth."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from folt.certificate.cautions import Reference
from folt.chains import chances_to_leave, steps_worth_taking
from folt.problem.ratio import LogRatio, Target
from folt.proposals import Mixture, OrbitSafety, Safety
from folt.proposals.components import Components
from folt.training.effort import Effort
from folt.training.task import Differentiate, Sample, TrainingTask, guard_of, invariant_guard
from folt.types import Distribution, Key, OrbitSummed, Progress, Trainer

PILOT = 1_000
"""Number of the random stream that tells how many steps a draw is worth."""

PILOT_DRAWS = 2_048

_WORTHWHILE = 1.2
"""Autocorrelation time of recorded draws above which more steps lie between them."""

SHARP = 0.0013
"""Standard error of log Z above which more proposals are drawn: a pilot guesses it, so that .0015
is kept."""


class TrainingData(NamedTuple):
    """What a proposal is learnt from, with log π_F at every point.

    Attributes:
        training: draws to train on.
        selection: draws to choose among trained proposals by.
        visited: points that the reference run has valued on its way, where calls are expensive.
        modes: components at the modes that it found.
    """

    training: Sample
    selection: Sample
    visited: Sample | None
    modes: Components | None = None

    @classmethod
    def of(
        cls,
        run: Reference,
        train: np.ndarray,
        select: np.ndarray,
        target: Target,
        effort: Effort,
    ) -> TrainingData:
        """Draws with the values that the reference run knows already, or with computed ones."""
        known = run.log_target
        parts = []
        for draws, first in ((train, 0), (select, len(train))):
            points = draws.reshape(-1, draws.shape[-1])
            values = target(points) if known is None else known[first : first + len(draws)].ravel()
            parts.append(Sample(points, values))
        expensive = effort.evaluations is not None
        visited = _visited(run, len(parts[0].points)) if expensive else None
        modes = None if run.explored is None else run.explored.components
        return cls(parts[0], parts[1], visited, modes)


def _visited(run: Reference, most: int) -> Sample | None:
    """At most about so many of the points that the run has valued on its way."""
    if run.visited is None:
        return None
    points, values = run.visited
    every = max(1, len(values) // most)
    return Sample(points[::every], values[::every])


def proposal_from(
    maker: Trainer | Distribution,
    key: Key,
    target: Target,
    data: TrainingData,
    effort: Effort,
    start: Distribution | None,
    tell: Progress,
) -> Distribution:
    """Train on what may be learnt from, or take what was given, and add the tail safety."""
    problem, weight, points = target.problem, effort.safety_weight, data.training.points
    guard = guard_of(points, weight) if weight > 0 else None
    if isinstance(maker, Distribution):
        fitted: Distribution = maker
    else:
        task = TrainingTask(
            group=problem.group,
            target=problem.folded(),
            guard=guard,
            guard_weight=weight,
            evaluate=target,
            training=data.training,
            selection=data.selection,
            visited=data.visited,
            modes=data.modes,
            differentiate=_gradients(target, effort),
        )
        fitted = maker(key, task, start, tell)
    fitted = made_accurate(fitted)
    if guard is None:
        return fitted
    if isinstance(fitted, OrbitSummed):
        return OrbitSafety(fitted, invariant_guard(problem.group, points), weight)
    return Safety(fitted, guard, weight)


def _gradients(target: Target, effort: Effort) -> Differentiate | None:
    """Gradients of log π_F, where there are some and no cap counts every evaluation."""
    if not target.problem.differentiable or effort.evaluations is not None:
        return None
    return target.with_gradients


def made_accurate(flow: Distribution) -> Distribution:
    """The same flow, made accurate: h is a difference of large numbers.

    Parameters become float64, and mixtures of narrow components give up their fast formula.
    """

    def doubled(leaf: PyTree) -> PyTree:
        if not eqx.is_array(leaf) or leaf.dtype not in (np.float16, np.float32):
            return leaf
        return jax.device_put(np.asarray(leaf, np.float64))

    def accurate(part: PyTree) -> PyTree:
        return part.settled() if isinstance(part, Mixture) else part

    doubled_flow = jax.tree.map(doubled, flow)
    return jax.tree.map(accurate, doubled_flow, is_leaf=lambda part: isinstance(part, Mixture))


def worthwhile(
    key: Key, ratio: LogRatio, selection: Sample, effort: Effort, given: bool = False
) -> tuple[int, int]:
    """Return steps of the chain per recorded draw, and fresh proposals for the certificate.

    Few steps where draws would not repeat, more where they pay; more proposals where the error of
    log Z would exceed `SHARP`, and where reference draws were given. A few proposals beforehand
    tell.
    """
    proposals = effort.certification_draws
    if effort.evaluations is not None:
        return 1, proposals
    proposals += proposals // 2 if given else 0  # a reference run is saved
    _, fresh = ratio.draw(jax.random.fold_in(key, PILOT), PILOT_DRAWS)
    states = selection.log_target - ratio.log_proposal(selection.points)
    steps = steps_worth_taking(chances_to_leave(fresh, states), _WORTHWHILE, effort.steps_per_draw)
    finite = fresh[np.isfinite(fresh)]
    if finite.size == 0:
        return steps, proposals
    weights = np.exp(finite - finite.max())
    needed = (fresh.size * np.sum(weights**2) / np.sum(weights) ** 2 - 1.0) / SHARP**2
    return steps, int(min(max(proposals, needed), effort.sharper * effort.certification_draws))
