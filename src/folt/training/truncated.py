"""The proposal where labels are too many, or act in too many ways, for a sum over whole orbits.

A mixture fitted by expectation and maximisation over the likeliest images of every draw, polished
by log-ratio regression over the same images (`folt.proposals.TruncatedOrbit`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from folt.batching import map_points
from folt.chains import autocorrelation_time, chances_to_leave
from folt.groups import Group
from folt.groups.permutation import MOST_LABELS, Relabelling, require_labels
from folt.proposals import TruncatedOrbit
from folt.proposals.components import Components, log_sum_exp
from folt.proposals.elliptical import precision_root
from folt.proposals.sums import HostDistribution, components_of
from folt.proposals.truncated import most_arrangements
from folt.training.gauss_newton import KEPT, Pool, stepped
from folt.training.orbit_em import fit_components
from folt.training.orbit_mixture import LEAST_DAMPING, affordable
from folt.training.task import WIDTH, Sample, TrainingTask, as_mixture
from folt.types import HostPoints, Key, Point, Progress, host_generator

LISTED_ONE_BY_ONE = 1_000
"""Most labellings that are gone through one by one where they do not move whole blocks; 6! is
below it."""

_RIDGE = 1e-6
"""Share of the spread over all labels that is added to that of every label."""


def sums_in_part(group: Group, given: object) -> bool:
    """Return whether a proposal is to be summed over the likeliest labellings alone.

    Asked for, or the only way: many labels, or many labellings that do not move whole blocks.
    """
    if isinstance(given, (LikelyOrbits, TruncatedOrbit)):
        return True
    if given is not None or not isinstance(group, Relabelling):
        return False
    if group.block_form is None:
        return group.order > LISTED_ONE_BY_ONE
    return group.labels > MOST_LABELS


def likely_orbits(group: Group, given: object) -> object:
    """Return what was given, or the trainer.

    Raises:
        ValueError: the group is of another kind, or has too many labels.
    """
    if not isinstance(group, Relabelling):
        raise ValueError(
            "sums over the likeliest labellings need a group of all permutations of labels "
            f"(Permutation or Joint), got {type(group).__name__}"
        )
    require_labels("exchangeable labels", group.labels)
    return LikelyOrbits() if given is None else given


class _Judged(NamedTuple):
    """A mixture, the orbits it is summed over, and what a chain with it would do."""

    flow: TruncatedOrbit
    main: Components
    accept: float
    time: float
    fresh: Sample


@dataclasses.dataclass(frozen=True)
class LikelyOrbits:
    """Trainer: labels by assignment, a mixture over the likeliest images, rounds while they pay.

    Args:
        kept: labellings of every point that the sum over its orbit goes through.
        relabellings: times that draws are labelled anew by what every label carries.
        rounds: most Gauss-Newton rounds.
        patience: rounds without a gain after which they stop.
        goal: acceptance at which training stops.
        fresh: fresh proposals per round.
        most: training draws that are used.
    """

    kept: int = 32
    relabellings: int = 8
    rounds: int = 12
    patience: int = 3
    goal: float = 0.93
    fresh: int = 2048
    most: int = 6_000

    def __post_init__(self) -> None:
        if self.kept < 1:
            raise ValueError(f"expected at least one labelling to keep, got {self.kept}")

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: TruncatedOrbit | None = None,
        progress: Progress | None = None,
    ) -> TruncatedOrbit:
        """Return the mixture that training ended with.

        Args:
            key: randomness of starts and fresh draws.
            task: draws, target values, symmetry and safety.
            start: an earlier fit's, whose labels are taken instead of finding some.
            progress: told the fraction done and a message.
        """
        bench = _Bench(host_generator(key), task.invariantly_guarded(), self)
        flow = start if isinstance(start, TruncatedOrbit) else self._labelled(bench)
        best = self._rounds(bench, bench.fitted(flow, 1), progress)
        size = min(affordable(task.group.dim), len(bench.training.points) // 64)
        if best.accept < self.goal and size > 1:
            richer = self._rounds(bench, bench.fitted(best.flow, size), progress)
            best = richer if richer.time < best.time else best
        return best.flow

    def _labelled(self, bench: _Bench) -> TruncatedOrbit:
        """Labels from the sorted draws on, until assignments by what labels carry settle."""
        points = bench.training.points
        flow = bench.about(points)
        for _ in range(self.relabellings):
            moved = bench.images(flow, points)[:, 0]  # the best assignment stands first
            if np.array_equal(moved, points):
                break
            points = moved
            flow = bench.about(points)
        return flow

    def _rounds(self, bench: _Bench, best: _Judged, progress: Progress | None) -> _Judged:
        """Gauss-Newton rounds on the log ratio until the goal, or until they stop to pay."""
        current, damping, stale = best, LEAST_DAMPING, 0
        for number in range(self.rounds):
            if best.accept >= self.goal or stale >= self.patience:
                break
            pool = bench.pool(current)
            main, damping = stepped(current.main, pool, damping, WIDTH)
            found = bench.judge(current.flow, main)
            if found.accept > current.accept - 0.02:
                current, damping = found, max(damping / 3.0, LEAST_DAMPING)
            else:
                damping *= 5.0
            stale = 0 if found.time < best.time else stale + 1
            best = found if found.time < best.time else best
            if progress is not None:
                count = best.main.count
                message = f"{count} components, acceptance {best.accept:.3f}"
                progress((number + 1) / self.rounds, message)
        return best


class _Bench:
    """What training works with: draws, the target, the group and the guard."""

    def __init__(
        self, generator: np.random.Generator, task: TrainingTask, how: LikelyOrbits
    ) -> None:
        self.generator, self.task, self.how = generator, task, how
        group = task.group
        assert isinstance(group, Relabelling), "`likely_orbits` refuses any other"
        self.group = group
        self.kept = min(how.kept, most_arrangements(group.labels))
        every = max(1, len(task.training.points) // how.most)
        self.training = Sample(*(part[::every] for part in task.training))
        self.guard = None if task.guard is None else HostDistribution(task.guard)

    def about(self, points: HostPoints) -> TruncatedOrbit:
        """Return one component and the normals of all labels, from labelled draws."""
        dim = points.shape[1]
        spread = np.cov(points.T).reshape(dim, dim)
        ridge = _RIDGE * np.maximum(points.var(axis=0), 1e-3 * points.var())
        factor = np.asarray(precision_root(spread + np.diag(ridge)))
        single = Components(np.zeros(1), points.mean(axis=0)[None], factor[None])
        return self.with_labels(single, points)

    def with_labels(self, main: Components, points: HostPoints) -> TruncatedOrbit:
        """Return a mixture with the normals of what every label carries in labelled draws."""
        carried = map_points(_carried, self.group, points)
        ridge = np.diag(_RIDGE * carried.var(axis=(0, 1)))
        own = [np.atleast_2d(np.cov(label.T)) + ridge for label in np.moveaxis(carried, 1, 0)]
        factors = [np.asarray(precision_root(each)) for each in own]
        return TruncatedOrbit(
            as_mixture(main),
            self.group,
            jnp.asarray(carried.mean(axis=0)),
            jnp.asarray(np.stack(factors)),
            self.kept,
        )

    def images(self, flow: TruncatedOrbit, points: HostPoints) -> Float[np.ndarray, "n kept dim"]:
        """Return the likeliest images of every point, the best assignment first."""
        return map_points(TruncatedOrbit.likely_images, flow, points, terms=flow.kept)

    def fitted(self, flow: TruncatedOrbit, count: int) -> _Judged:
        """Expectation and maximisation over the likeliest images of the training draws."""
        images = self.images(flow, self.training.points)
        main = components_of(flow.main)
        assert main is not None
        n, kept, dim = images.shape
        terms = log_sum_exp(main[0].log_terms(images.reshape(-1, dim)).reshape(n, kept, -1))
        labelled = images[np.arange(n), terms.argmax(axis=1)]
        found = fit_components(self.generator, images, labelled, count, 30)
        return self.judge(self.with_labels(found, labelled), found)

    def judge(self, flow: TruncatedOrbit, main: Components) -> _Judged:
        """Return a mixture by what a chain with it would do, deaths among it."""
        flow = dataclasses.replace(flow, main=as_mixture(main))
        points = main.sample(self.generator, self.how.fresh)
        alive = map_points(TruncatedOrbit.survives, flow, points, terms=flow.kept)
        log_target = self.task.evaluate(points)
        own = np.where(alive, log_target - self.log_sum(flow, main, points), -np.inf)
        selected = self.task.selection
        reference = selected.log_target - self.log_sum(flow, main, selected.points)
        chances = chances_to_leave(own, reference)
        inside = np.isfinite(log_target)
        fresh = Sample(points[inside], log_target[inside])
        accept, time = float(chances.mean()), autocorrelation_time(chances)
        return _Judged(flow, main, accept, time, fresh)

    def pool(self, judged: _Judged) -> Pool:
        """Training draws and recent proposals with the images that matter most."""
        parts = (self.training, judged.fresh)
        points = np.concatenate([part.points for part in parts])
        images, terms = self._terms(judged.flow, judged.main, points)
        kept = min(KEPT, images.shape[1])
        order = np.argsort(-terms, axis=1, kind="stable")
        chosen = np.take_along_axis(images, order[:, :kept, None], axis=1)
        rest = np.take_along_axis(terms, order[:, kept:], axis=1)
        log_rest = log_sum_exp(rest) if rest.shape[1] else np.full(len(points), -np.inf)
        log_rest = np.logaddexp(log_rest, self._log_guard(points))
        return Pool(chosen, log_rest, np.concatenate([part.log_target for part in parts]))

    def log_sum(self, flow: TruncatedOrbit, main: Components, points: HostPoints) -> np.ndarray:
        """Return the log of what lives, main part and guard, up to the share of the main part."""
        _, terms = self._terms(flow, main, points)
        return np.logaddexp(log_sum_exp(terms), self._log_guard(points))

    def _terms(
        self, flow: TruncatedOrbit, main: Components, points: HostPoints
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the images of every point that are summed over, and the log density of each."""
        images = self.images(flow, points)
        n, kept, dim = images.shape
        logs = main.log_terms(images.reshape(-1, dim)).reshape(n, kept, -1)
        return images, log_sum_exp(logs)

    def _log_guard(self, points: HostPoints) -> np.ndarray:
        """Return the log of λ/(1-λ)·s·r, r being the same at every image."""
        if self.guard is None:
            return np.full(len(points), -np.inf)
        odds = math.log(self.task.guard_weight / (1.0 - self.task.guard_weight))
        return odds + self.group.log_order + self.guard.log_probs(points)


def _carried(group: Relabelling, point: Point) -> Float[Array, "m features"]:
    return group.carried(point)
