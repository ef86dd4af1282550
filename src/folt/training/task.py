"""What a trainer is given: symmetry, target, tail safety, the draws.

The guard of the tail safety: a wide multivariate t around the training draws.

Around their images, where the proposal sums itself over the orbit.

What proposals are tried with in training, and what a trial tells.

A proposal is judged by the chain that it would make: by h at selection draws, which training does
not fit, and at fresh proposals of its own, where mass that leaked into nowhere is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, NamedTuple

import jax
import numpy as np
from scipy.special import chdtri, gammaln

from folt.chains import autocorrelation_time, chances_to_leave
from folt.groups import Group
from folt.proposals import Mixture, SinhArcsinh, StudentT
from folt.proposals.action import Action, action_of
from folt.proposals.components import Components
from folt.proposals.elliptical import require_positive_definite
from folt.proposals.sums import ListedSum, OrbitPart, components_of
from folt.proposals.warped import WarpedComponents
from folt.training.gauss_newton import Main, Pool, huber_mean, resolve
from folt.types import Density, Distribution, Progress

GUARD_DEGREES = 5.0
"""Degrees of freedom of the tail safety: heavier tails than posteriors have, a finite variance."""


def guard_of(points: np.ndarray, weight: float) -> StudentT:
    """Return the guard for draws (n, dim) and a share λ of the proposal.

    Heavy enough to dominate any Gaussian tail, and so wide that λ·r stays below half a percent
    of the proposal on all but 3 % of a Gaussian of the same moments.

    Raises:
        ValueError: the covariance of the draws is degenerate.
    """
    dim = points.shape[1]
    covariance = np.cov(points.T).reshape(dim, dim)
    return _student(points.mean(axis=0), covariance, guard_stretch(dim, weight))


def invariant_guard(group: Group, points: np.ndarray) -> StudentT:
    """A multivariate t with the moments of all images of the draws: the same at every image."""
    action = action_of(group)
    mean = action.average_mean(points.mean(axis=0))
    centred = points - mean
    return _student(mean, action.average(centred.T @ centred / len(points)))


def _student(mean: np.ndarray, covariance: np.ndarray, stretch: float = 1.0) -> StudentT:
    require_positive_definite(covariance)
    factor = np.linalg.inv(np.linalg.cholesky(covariance)) / stretch
    return StudentT(jax.device_put(mean), jax.device_put(factor), GUARD_DEGREES)


def guard_stretch(dim: int, weight: float, share: float = 0.005, tail: float = 0.03) -> float:
    """Return the factor τ by which the guard is wider than the draws.

    The root of λ·t_ν(u/τ)/τ^dim = share·N(u) at the edge |u|² of all but `tail` of a Gaussian.
    """
    squared = float(chdtri(dim, tail))
    log_normal = -0.5 * squared - 0.5 * dim * math.log(2 * math.pi)
    half = 0.5 * (GUARD_DEGREES + dim)
    log_peak = float(gammaln(half) - gammaln(0.5 * GUARD_DEGREES))
    log_peak -= 0.5 * dim * math.log(GUARD_DEGREES * math.pi)

    def excess(log_stretch: float) -> float:
        radial = math.log1p(squared / math.exp(2 * log_stretch) / GUARD_DEGREES)
        log_student = log_peak - half * radial - dim * log_stretch
        return math.log(weight / share) + log_student - log_normal

    return math.exp(_root(excess, 0.0, 20.0)) if excess(0.0) > 0 else 1.0


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls from above zero to below crosses it, by halving.

    SciPy's root finders would do; importing them takes a third of a second.
    """
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


_Evaluate = Callable[[np.ndarray], np.ndarray]
Differentiate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Sample(NamedTuple):
    """Reference draws with their log target log π_F."""

    points: np.ndarray
    log_target: np.ndarray


class TrainingTask(NamedTuple):
    """What stays fixed during training.

    Attributes:
        group: the symmetry.
        target: π_F as a density, for objectives that differentiate it by themselves.
        guard: the tail safety that is added afterwards; None for none.
        guard_weight: its share λ of the proposal.
        evaluate: log π_F at many points; what it computes is counted.
        training: draws to learn from.
        selection: draws to choose among trained proposals by.
        visited: points that the reference run has valued on its way, whatever their law.
        modes: components at the modes that it found.
        differentiate: log π_F and its gradient at many points, counted as well; None where the
            density has no gradient.
    """

    group: Group
    target: Density
    guard: Distribution | None
    guard_weight: float
    evaluate: _Evaluate
    training: Sample
    selection: Sample
    visited: Sample | None = None
    modes: Components | None = None
    differentiate: Differentiate | None = None

    def invariantly_guarded(self) -> TrainingTask:
        """Return the same task for a proposal that sums itself over the orbit."""
        if self.guard is None:
            return self
        return self._replace(guard=invariant_guard(self.group, self.training.points))


def stage(progress: Progress | None, first: float, last: float) -> Progress:
    """Progress within one stage, told as progress of the whole."""

    def tell(fraction: float, message: str) -> None:
        if progress is not None:
            progress(first + (last - first) * fraction, message)

    return tell


WIDTH = 0.2
"""Where the Huber loss of the regression turns from square to linear."""

LEAST_CHANCE = 0.04
"""Chance to leave below which selection draws count alike: one of them would decide otherwise."""


DEEPEST, GUARDED = 3.0, 3.0
"""Nats below the middle of h from which on fresh proposals count alike: at most one in twenty
is accepted. And standard deviations of the number of guard draws beyond it that are left out as the
guard's. Those may lie ten thousand nats down, which hid all that a mixture had gained."""


class JudgedProposal(NamedTuple, Generic[Main]):
    """A proposal, what a chain with it would do, and the fresh proposals that told.

    Attributes:
        main: the proposal without its guard.
        accept: acceptance rate.
        time: autocorrelation time of the chain.
        spread: standard deviation of h over the selection draws.
        loss: Huber loss of h around its median over selection draws, over these and over fresh
            proposals but the guard's, half each.
        fresh: proposals inside the support with their log π_F.
    """

    main: Main
    accept: float
    time: float
    spread: float
    loss: float
    fresh: Sample


class Bench:
    """What training works with: draws, the target, the group on the host, the guard.

    Args:
        generator: randomness of fresh proposals.
        task: draws, target values, symmetry and safety.
        action: the group on the host.
        fresh: fresh proposals of every trial.
    """

    def __init__(
        self, generator: np.random.Generator, task: TrainingTask, action: Action, fresh: int
    ) -> None:
        self.generator, self.task, self.action, self.fresh = generator, task, action, fresh
        self.guard: ListedSum | None = None
        if task.guard is not None:
            odds = math.log(task.guard_weight / (1.0 - task.guard_weight))
            parts = components_of(task.guard) or ()
            self.guard = ListedSum(tuple(part.scaled(odds) for part in parts), action)

    def sheltered(self, tails: Components, share: float) -> Bench:
        """The same bench with components that stay as they are, for a share of the mixture."""
        bench = Bench(self.generator, self.task, self.action, self.fresh)
        odds = math.log(share / (1.0 - share))
        frozen = tails.scaled(odds)
        # The odds of the guard are against the mixture as a whole.
        parts = () if self.guard is None else self.guard.parts
        whole = -math.log1p(-share)
        raised = (part.scaled(whole) for part in parts)
        bench.guard = ListedSum((frozen, *raised), self.action)
        return bench

    def ratios(self, main: OrbitPart, sample: Sample) -> np.ndarray:
        """Return the log ratio h at points whose log π_F is known."""
        return sample.log_target - self._whole(main).log_sum(sample.points)

    def judge(self, main: Main) -> JudgedProposal[Main]:
        """Judge a proposal by what a chain with it would do."""
        proposal = self._whole(main)
        points = proposal.sample(self.generator, self.fresh)
        log_target = self.task.evaluate(points)
        inside = np.isfinite(log_target)
        own = np.where(inside, log_target - proposal.log_sum(points), -np.inf)
        reference = self.ratios(main, self.task.selection)
        chances = chances_to_leave(own, reference)
        middle = np.median(reference)
        fresh = np.maximum(np.sort(own[inside])[self._guarded :] - middle, -DEEPEST)
        losses = [huber_mean(h, WIDTH) for h in (reference - middle, fresh) if h.size]
        return JudgedProposal(
            main,
            float(chances.mean()),
            autocorrelation_time(np.maximum(chances, LEAST_CHANCE)),
            float(np.std(reference)),
            float(np.mean(losses)) if inside.any() else math.inf,
            Sample(points[inside], log_target[inside]),
        )

    @property
    def _guarded(self) -> int:
        """Fresh proposals that may be the guard's: the lowest of them are left out of the loss."""
        if self.task.guard is None:
            return 0
        mean = self.task.guard_weight * self.fresh
        return math.ceil(mean + GUARDED * math.sqrt(mean))

    def pool(self, main: OrbitPart, recent: list[Sample]) -> Pool:
        """Training draws, points visited before and recent proposals, resolved under a mixture."""
        visited = () if self.task.visited is None else (self.task.visited,)
        return self.resolved(main, [self.task.training, *visited, *recent])

    def resolved(self, main: OrbitPart, samples: list[Sample]) -> Pool:
        """Return points with the images that matter under a mixture."""
        return resolve(
            ListedSum((main,), self.action),
            self.guard,
            np.concatenate([sample.points for sample in samples]),
            np.concatenate([sample.log_target for sample in samples]),
        )

    def _whole(self, main: OrbitPart) -> ListedSum:
        """Return the proposal with its guard, up to the share of the main part."""
        guard = () if self.guard is None else self.guard.parts
        return ListedSum((main, *guard), self.action)


def as_mixture(main: Components) -> Mixture:
    """Return the distribution that a fit keeps."""
    weights, means, factors = map(jax.device_put, (main.log_weights, main.means, main.factors))
    return Mixture(weights, means, factors, main.degrees).settled()


def as_distribution(main: OrbitPart) -> Distribution:
    """Return the distribution that a fit keeps, of components behind margins or not."""
    if isinstance(main, WarpedComponents):
        return SinhArcsinh(as_mixture(main.base), *map(jax.device_put, main.margins))
    return as_mixture(main)
