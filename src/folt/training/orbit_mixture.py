"""The default trainer: a mixture that is trained only while that pays.

One component first, from draws and gradients. A step of the chain costs microseconds and a round of
training a fraction of a second, so training stops where a little more acceptance would cost more
than a few more steps per draw; where a flat h is what is asked for, it goes on with more components
(`refinement`). What it spends is counted, never timed: the same seed gives the same proposal.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from folt.proposals import SinhArcsinh
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.sums import MOST_TERMS, ListedSum, OrbitPart, components_of, parts_of
from folt.proposals.warped import WarpedComponents
from folt.training.effort import Effort
from folt.training.gauss_newton import MOST_PARAMETERS, parameters_per_component, stepped
from folt.training.margins import FittedMargins
from folt.training.orbit_em import (
    as_student,
    candidate_images,
    core_of,
    fit_components,
    score_regression,
    with_tails,
)
from folt.training.refinement import Refinement
from folt.training.task import (
    WIDTH,
    Bench,
    JudgedProposal,
    TrainingTask,
    as_distribution,
    as_mixture,
    stage,
)
from folt.types import Distribution, Key, Progress, Trainer, host_generator

_PARAMETERS = 560
"""Parameters of a mixture whose Gauss-Newton steps are cheap. Where two components have more, from
23 dimensions on, margins around one take the place of a mixture: a mixture of regressions (d = 20)
accepts .77 with two components and .74 with margins, latent classes (d = 26) .69 and .76."""

DRAWS_PER_COMPONENT = 64
"""Training draws that each component must have."""

_LARGEST = 12
"""Most components."""

LEAST_DAMPING, EXACT_DAMPING = 0.1, 1e-6
"""Smallest damping of the steps, of a mixture and of a component that may be exact."""

_WORTHWHILE, _EXACT_WORTHWHILE = 0.02, 0.002
"""Gain in autocorrelation time that a round must bring, likewise."""

WIDER, WIDER_SHARE = 2.5, 0.05
"""Factor on the covariances of the tails' components, and their share of the mixture."""

TAILED = 5.0
"""Degrees of freedom of the components where draws have heavier tails than Gaussians."""

LEAST_MODE = 0.003
"""Share of the mass that a mode must have for a component of its own."""

LABELLED_TERMS = 48_000
"""Draws times images from which the first labelling is found."""

SCORED, SCORED_PER_DIMENSION = 1_024, 32
"""Draws whose gradients are taken: at least so many, or so many per dimension."""

CERTAIN = 0.99
"""Share of its labelling above which a draw says what one component looks like: where two images
are about as likely, the gradient is that of their sum."""

_FLAT, _FLATTER, _LESS_ROUGH = 0.015, 0.004, 0.9
"""Spread of h at which nothing more is asked; where a flat h is what is asked for, since γ is .99
only below .005; and the share of the spread that a round must leave at most to count as a gain."""

POLISHING = 3
"""Rounds in which a large mixture is moved from an earlier fit to new draws."""


@dataclasses.dataclass(frozen=True)
class OrbitMixture:
    """Trainer: one orbit component, a mixture if that accepts too little, rounds while they pay.

    Args:
        size: components of the mixture; as many as the dimension affords if None.
        labellings: starting labellings of the draws, the sorted one among them.
        goal: acceptance at which training stops.
        rounds: most Gauss-Newton rounds per size.
        patience: rounds without a gain in autocorrelation time after which they stop.
        fresh: fresh proposals per round.
        iterations: most steps of expectation and maximisation.
        margins: how margins are fitted around one component, where the dimension affords few; None
            for mixtures everywhere.
        refinement: how a mixture that stays rough goes on with more components, whatever that
            costs; None where a chain with it is good enough.
        beyond: the trainer of what takes the mixture's place where one component accepts too
            little; it gets the key as it is, since nothing of that component is kept.
    """

    size: int | None = None
    labellings: int = 3
    goal: float = 0.93
    rounds: int = 8
    patience: int = 2
    fresh: int = 4096
    iterations: int = 25
    margins: FittedMargins | None = dataclasses.field(default_factory=FittedMargins)
    refinement: Refinement | None = None
    beyond: Trainer | None = None

    @classmethod
    def at(cls, effort: Effort) -> OrbitMixture:
        """The trainer that an effort affords: its rounds, or a flat h whatever the rounds."""
        if effort.rounds is not None:
            return cls(rounds=effort.rounds, fresh=effort.fresh)
        return cls(fresh=effort.fresh, refinement=Refinement())

    def __call__(
        self,
        key: Key,
        task: TrainingTask,
        start: Distribution | None = None,
        progress: Progress | None = None,
    ) -> Distribution:
        """Return the mixture that training ended with.

        Args:
            key: randomness of starts and fresh draws.
            task: draws, target values, symmetry and safety.
            start: a mixture to polish instead of fitting one, such as an earlier fit's.
            progress: told the fraction done and a message.
        """
        action = action_of(task.group)
        bench = Bench(host_generator(key), task, action, self.fresh)
        if not action.listed:
            return as_mixture(first_component(bench, 1))
        bent = self._bent(bench, start, progress)
        if bent is not None:
            return bent
        earlier = None if start is None else components_of(start)
        if earlier is not None and len(earlier) == 1 and math.isinf(earlier[0].degrees):
            best = self._polished(bench, earlier[0], progress)
            if self.beyond is None or self._enough(best):
                return as_mixture(best.main)
        elif self.beyond is not None and start is not None:
            return self.beyond(key, task, start, progress)
        single = first_component(bench, self.labellings)
        best = bench.judge(single)
        if self._flat < best.spread < promising_spread(task) and _steps_afforded(single):
            best = self._exact_rounds(bench, best)
        if self._enough(best):
            return as_mixture(best.main)
        if self.beyond is not None:
            return self.beyond(key, task, None, progress)
        return as_distribution(self._richer(bench, best, single, progress))

    @property
    def _flat(self) -> float:
        """Spread of h at which nothing more is asked."""
        return _FLAT if self.refinement is None else _FLATTER

    def _enough(self, judged: JudgedProposal[Components]) -> bool:
        """Return whether training ends with a single component."""
        return judged.spread < self._flat or (
            self.refinement is None and judged.accept >= self.goal
        )

    def _bent(
        self, bench: Bench, start: Distribution | None, progress: Progress | None
    ) -> Distribution | None:
        """An earlier component behind margins, polished; None if the start is something else."""
        if self.margins is None or not isinstance(start, SinhArcsinh):
            return None
        parts = parts_of(start)
        if parts is None or not isinstance(parts[0], WarpedComponents):
            return None
        judged = bench.judge(parts[0])
        return as_distribution(self.margins.polished(bench, judged, progress).main)

    def _richer(
        self,
        bench: Bench,
        best: JudgedProposal[Components],
        single: Components,
        progress: Progress | None,
    ) -> OrbitPart:
        """Margins around one component, or a mixture; the component where that is better."""
        modes = _labelled_modes(bench, single)
        each = parameters_per_component(single.dim)
        if self.size is None and self.margins is not None and 2 * each > _PARAMETERS:
            bent = self.margins(bench, single, progress)
            if bent is not None and modes is None:
                return bent.main if bent.time < best.time else best.main
            mixture = self._mixed(bench, best, single, progress)
            return bent.main if bent is not None and bent.time < mixture.time else mixture.main
        return self._mixed(bench, best, single, progress).main

    def _mixed(
        self,
        bench: Bench,
        best: JudgedProposal[Components],
        single: Components,
        progress: Progress | None,
    ) -> JudgedProposal[Components]:
        """Return a mixture, or the single component where that is better."""
        size = self._size(bench)
        if size < 2:
            return best
        first = self._mixture(bench, single, size)
        if self.refinement is None:
            first = self._tailed(bench, single, first)
        tell = stage(progress, 0.0, 0.2 if self.refinement else 1.0)
        if self.refinement is not None:
            mixture = self._rounds(bench, bench.judge(first), tell)
            mixture = mixture if mixture.loss < best.loss else best
            if mixture.spread < self.refinement.rough:
                return mixture
            return self.refinement(bench, mixture, stage(progress, 0.2, 1.0))
        tails = first.wider(WIDER)
        sheltered = bench.sheltered(tails, WIDER_SHARE)
        mixture = self._rounds(sheltered, sheltered.judge(first), tell)
        if mixture.time > best.time:
            return best
        return mixture._replace(main=mixture.main.joined(tails, WIDER_SHARE))

    def _size(self, bench: Bench) -> int:
        """Return components of the mixture, as the dimension and the sum over the group allow."""
        size = self.size or affordable(bench.task.group.dim)
        return min(size, (MOST_TERMS // bench.action.group.order - 1) // 2)

    def _polished(
        self, bench: Bench, main: Components, progress: Progress | None
    ) -> JudgedProposal[Components]:
        """Return an earlier mixture on new draws, by the steps that its size allows."""
        judged = bench.judge(main)
        if _steps_afforded(main):
            return self._rounds(bench, judged, progress)
        how = Refinement(rounds=POLISHING) if self.refinement is None else self.refinement
        return dataclasses.replace(how, components=main.count)(bench, judged, progress)

    def _mixture(self, bench: Bench, single: Components, size: int) -> Components:
        """Expectation-maximisation on the draws as the single component labels them."""
        points = bench.task.training.points
        shares = ListedSum((single,), bench.action).responsibilities(points)
        labelled = bench.action.move(shares.argmax(axis=1), points)
        images = candidate_images(bench.action, points, single)
        modes = _labelled_modes(bench, single)
        wanted = size if modes is None else max(size, modes.count)
        count = max(2, min(wanted, len(points) // DRAWS_PER_COMPONENT))
        return fit_components(
            bench.generator, images, labelled, count, self.iterations, modes=modes
        )

    def _tailed(self, bench: Bench, single: Components, first: Components) -> Components:
        """Student components where held-out draws are likelier so, else the Gaussian ones."""
        held_out = bench.task.selection.points

        def likelihood(main: Components) -> float:
            return float(ListedSum((main,), bench.action).log_sum(held_out).mean())

        before = likelihood(first)
        if likelihood(as_student(first, TAILED)) <= before:
            return first
        images = candidate_images(bench.action, bench.task.training.points, single)
        tailed = with_tails(first, images, TAILED, self.iterations)
        return tailed if likelihood(tailed) > before else first

    def _exact_rounds(
        self, bench: Bench, best: JudgedProposal[Components]
    ) -> JudgedProposal[Components]:
        """Rounds of one component that may be the exact answer, while h becomes much flatter."""
        current, damping, stale = best.main, EXACT_DAMPING, 0
        recent = [best.fresh]
        for _ in range(self.rounds):
            if stale >= self.patience:
                break
            current, damping = stepped(current, bench.pool(current, recent), damping, WIDTH)
            damping = max(damping / 3.0, EXACT_DAMPING)
            found = bench.judge(current)
            recent = [recent[-1], found.fresh]
            if self.refinement is None:
                gained = found.time < best.time - _EXACT_WORTHWHILE
                better = found.time < best.time
            else:
                gained = found.spread < _LESS_ROUGH * best.spread
                better = found.spread < best.spread
            stale = 0 if gained else stale + 1
            best = found if better else best
        return best

    def _rounds(
        self, bench: Bench, best: JudgedProposal[Components], progress: Progress | None
    ) -> JudgedProposal[Components]:
        """Gauss-Newton rounds until the goal, or until they stop to pay."""
        current, damping, stale = best.main, LEAST_DAMPING, 0
        if not _steps_afforded(current):
            return best
        recent = [best.fresh]
        for number in range(self.rounds):
            if (best.accept >= self.goal and self.refinement is None) or stale >= self.patience:
                break
            pool = bench.pool(current, recent)
            candidate, damping = stepped(current, pool, damping, WIDTH)
            found = bench.judge(candidate)
            recent = [recent[-1], found.fresh]
            if found.accept > best.accept - 0.02:
                current, damping = candidate, max(damping / 3.0, LEAST_DAMPING)
            else:
                damping *= 5.0
            stale = 0 if found.time < best.time - _WORTHWHILE else stale + 1
            best = found if found.time < best.time else best
            if progress is not None:
                message = f"{best.main.count} components, acceptance {best.accept:.3f}"
                progress((number + 1) / self.rounds, message)
        return best


def first_component(bench: Bench, labellings: int) -> Components:
    """One component: by score regression where that makes h flatter than the likeliest one."""
    likeliest = _likeliest_component(bench, labellings)
    scored = _scored_component(bench, likeliest)
    if scored is None:
        return likeliest
    selection = bench.task.selection
    spreads = [float(np.std(bench.ratios(each, selection))) for each in (likeliest, scored)]
    return scored if spreads[1] < spreads[0] else likeliest


def _likeliest_component(bench: Bench, labellings: int) -> Components:
    """Expectation-maximisation from several labellings, by likelihood on the selection draws."""
    points = bench.task.training.points
    order = bench.action.group.order
    points = points[:: max(1, len(points) * order // LABELLED_TERMS)]
    images = bench.action.images(points)
    found = []
    for number in range(labellings if order > 1 else 1):
        labelled = points if number == 0 else _nearest(bench.generator, images)
        single = fit_components(bench.generator, images, labelled, 1, 30)
        likelihood = ListedSum((single,), bench.action).log_sum(bench.task.selection.points)
        found.append((float(likelihood.mean()), single))
    return max(found, key=lambda pair: pair[0])[1]


def _scored_component(bench: Bench, pilot: Components) -> Components | None:
    """One component from gradients at draws as the pilot labels them; None where there are none."""
    if bench.task.differentiate is None:
        return None
    points = bench.task.training.points
    points = points[:: max(1, len(points) // max(SCORED, SCORED_PER_DIMENSION * pilot.dim))]
    shares = ListedSum((pilot,), bench.action).responsibilities(points)
    labelled = bench.action.move(shares.argmax(axis=1), points)
    core = core_of(labelled)
    certain = core & (shares.max(axis=1) > CERTAIN)
    core = certain if certain.sum() > len(core) // 2 else core
    _, gradients = bench.task.differentiate(labelled[core])
    return score_regression(labelled[core], gradients)


def promising_spread(task: TrainingTask) -> float:
    """Return the standard deviation of h below which a single component may be the exact answer.

    One that is exact but for the noise of n training draws has sd(h) about sqrt(parameters/n).
    """
    parameters = parameters_per_component(task.group.dim) - 1
    return 0.1 + 1.3 * math.sqrt(parameters / task.training.points.shape[0])


def _steps_afforded(main: Components) -> bool:
    """Return whether dense Gauss-Newton steps of these components are affordable."""
    return main.count * parameters_per_component(main.dim) <= MOST_PARAMETERS


def _labelled_modes(bench: Bench, single: Components) -> Components | None:
    """Known modes of some weight, each at the image that the single component finds likeliest."""
    modes = bench.task.modes
    if modes is None or modes.count < 2:
        return None
    logs = modes.log_weights - np.logaddexp.reduce(modes.log_weights)
    most = len(bench.task.training.points) // DRAWS_PER_COMPONENT
    chosen = np.argsort(-logs, kind="stable")[:most]
    chosen = chosen[logs[chosen] > math.log(LEAST_MODE)]
    means = modes.means[chosen]
    places = ListedSum((single,), bench.action).responsibilities(means).argmax(axis=1)
    factors = modes.factors[chosen] @ bench.action.matrices[places].transpose(0, 2, 1)
    precisions = np.swapaxes(factors, 1, 2) @ factors
    # Lower triangular roots of the same precisions, from the far corner.
    roots = np.linalg.cholesky(precisions[:, ::-1, ::-1])[:, ::-1, ::-1].transpose(0, 2, 1)
    return Components(logs[chosen], bench.action.move(places, means), roots)


def affordable(dim: int) -> int:
    """Components of a mixture in this dimension whose Gauss-Newton steps are cheap, 2 to 12."""
    return max(2, min(_LARGEST, _PARAMETERS // parameters_per_component(dim)))


def _nearest(generator: np.random.Generator, images: np.ndarray) -> np.ndarray:
    """Return every draw under the label nearest to a randomly chosen image of a random draw."""
    count, order, _ = images.shape
    pivot = images[generator.integers(count), generator.integers(order)]
    places = np.sum((images - pivot) ** 2, axis=-1).argmin(axis=1)
    return images[np.arange(count), places]
