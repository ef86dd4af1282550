"""Exploration: where the posterior is, by two searches that are blind in different ways.

Tempered particles lose modes that are light when hot; descents miss modes with small basins. Both
are run, and where the particles have lost what descents found, a second ladder begins from
everything that is known, with more particles and closer rungs.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from folt.problem import GRADIENTS_PER_BLOCK, VALUES_PER_GRADIENT
from folt.proposals.action import Action
from folt.proposals.components import Components
from folt.proposals.sums import summable
from folt.reference.exploration.descents import LAST_STARTS, SLOTS, descents
from folt.reference.exploration.explored import Explored, Masses, masses_of
from folt.reference.exploration.modes import MOST_LOOKED_AT, SCREENED_SOURCE, Modes, modes_of
from folt.reference.exploration.polish import polished
from folt.reference.exploration.start import (
    THIN,
    THIN_LADDERS,
    THIN_SHARE,
    StretchedStarts,
    UnionStart,
    from_one_mode,
    one_mode,
    screened_points,
    unexplained,
)
from folt.reference.host_tempering import Ladder, ParticleMover, Start, TemperedPaths, temper
from folt.reference.landscape import Landscape
from folt.types import HostPoints, Key, Progress, host_generator

SCALE_DRAWS = 1_024
"""Draws of the start from which its middle and widths are read."""

FUNDED, SCREENING = 0.05, 0.1
"""Shares of what was spent before that descents and screening may cost as well: where a ladder is
expensive, so may be the search that controls it."""

SCREENED_PER_GRADIENT = 2
"""Points that are screened at least for each planned gradient of the descents."""

SCREENED_AT_ONCE = 32_768
"""Points that are screened at a time. In sixty dimensions there are two million of them, of which
all at once took five gigabytes."""

SECOND_PARTICLES, SECOND_SHARE = 2, 0.9
"""How many times the particles a second ladder has, and the effective share that its rungs keep."""

LEAST_KNOWN = 0.1
"""Share of a second start's known part that all modes have together, however light they are."""


SOLID = 5
"""Families of the first ladder that must have ended at a mode for tempering to have found it: what
is found five times on average is missed with a chance of e⁻⁵."""


class ExplorationPlan(NamedTuple):
    """What an exploration may cost.

    Attributes:
        particles: particles of the ladder.
        share: effective share of particles that every rung keeps.
        mover: how particles move.
        rounds: gradients per slot of the descents; without a gradient, what they would have cost is
            spent on a polish of particles.
        known: points from which descents begin as well, such as the modes of an earlier fit.
    """

    particles: int
    share: float
    mover: ParticleMover
    rounds: int
    known: HostPoints | None = None


class Explorer:
    """Looks for the modes of π_F by tempering and by descents, and again where they disagree.

    Args:
        key: randomness.
        landscape: log π_F.
        start: where both searches begin.
        action: the group.
        plan: what it may cost.

    Attributes:
        seconds: wall time spent so far, for the timings of a fit.
        screening: descents from points that screening proposes.
        unpromising: most ends of descents far below the best that are looked at for modes.
    """

    screening, unpromising = SLOTS, MOST_LOOKED_AT

    def __init__(
        self, key: Key, landscape: Landscape, start: Start, action: Action, plan: ExplorationPlan
    ) -> None:
        self.keys = [jax.random.fold_in(key, number) for number in range(8)]
        self.landscape, self.start, self.action, self.plan = landscape, start, action, plan
        self.seconds = 0.0

    def first(self, progress: Progress) -> Explored:
        """A ladder from the start, and descents from there and from every rung.

        Where a ladder is long, descents come first: it is short where they find one mode.
        """
        begun, plan, known = time.perf_counter(), self.plan, None
        descending = plan.rounds > 0 and self.landscape.problem.differentiable
        if descending and self.action.listed and isinstance(plan.mover, TemperedPaths):
            found = self._shortened(progress)
            if found.control:
                self.seconds += time.perf_counter() - begun
                return found
            known = found.modes
        ladder = self._ladder(0, self.start, plan.particles, plan.share, progress)
        found = self._searched(2, ladder, known) if descending else self._polished(ladder)
        self.seconds += time.perf_counter() - begun
        return found

    def _shortened(self, progress: Progress) -> Explored:
        """A thin ladder and descents; and from these a shorter ladder, if there is one mode."""
        before = self._spent
        thin = self._ladder(5, self.start, THIN, THIN_SHARE, lambda *_: None)
        whole = THIN_LADDERS * (self._spent - before)
        found = self._searched(6, thin, None, before + whole)
        if found.modes is None or not one_mode(found, self.action):
            return found
        ladder = from_one_mode(
            self.keys[7],
            self.landscape,
            self.start,
            self.action,
            found.modes,
            self.plan.particles,
            self.plan.mover,
            self.plan.share,
            progress,
        )
        return found if ladder is None else dataclasses.replace(found, ladder=ladder, control=THIN)

    def again(self, before: Explored, lost: Int[np.ndarray, " n"], progress: Progress) -> Explored:
        """Another ladder from everything that is known, and as many further descents.

        Args:
            before: what the first search found.
            lost: the modes that its ladder had lost; none where it was too noisy to tell.
            progress: told how far the ladder is.
        """
        begun = time.perf_counter()
        assert before.modes is not None
        assert before.masses is not None
        start = UnionStart(self.start, known_parts(before.modes, before.masses, self.action))
        particles = SECOND_PARTICLES * self.plan.particles
        ladder = self._ladder(3, start, particles, SECOND_SHARE, progress)
        found = self._searched(4, ladder, before.modes)
        barely = _barely_found(before, lost, found.modes, self.action)
        self.seconds += time.perf_counter() - begun
        return dataclasses.replace(found, barely=barely, ladders=2)

    def _ladder(
        self, key: int, start: Start, particles: int, share: float, progress: Progress
    ) -> Ladder:
        parts = (self.keys[key], self.landscape, start, self.action)
        return temper(*parts, particles, self.plan.mover, share, progress)

    def _searched(
        self, key: int, ladder: Ladder, known: Modes | None, funds: float | None = None
    ) -> Explored:
        """Return the modes that descents end in, and their masses; those known before are kept.

        Args:
            key: number of the key.
            ladder: gives a quarter of the starts.
            known: modes found before.
            funds: gradients of which a share pays for the search; those spent so far if None.
        """
        funds = self._spent if funds is None else funds
        generator, action = host_generator(self.keys[key]), self.action
        centre, scale = self._middle_and_widths
        starts = StretchedStarts(self.keys[key], generator, self.start, centre, ladder.rungs)
        starts.first = self.plan.known
        gradients = self.landscape.with_gradients
        rounds = max(self.plan.rounds, round(FUNDED * funds / SLOTS))
        ends = descents(gradients, starts, scale, SLOTS, rounds)
        parts = (gradients, ends, centre, scale, action, known, self._block)
        modes = modes_of(*parts, self.unpromising)
        if modes is None:
            return Explored(ladder, descents=len(ends.values))
        modes = self._screened(starts, modes, funds)
        return self._weighed(generator, ladder, modes)

    def _polished(self, ladder: Ladder) -> Explored:
        """Return the modes that particles lie around, where there is no gradient to descend."""
        budget = self.plan.rounds * SLOTS * VALUES_PER_GRADIENT
        modes = polished(self.landscape, ladder.walk, self.action, budget)
        if modes is None:
            return Explored(ladder)
        found = self._weighed(host_generator(self.keys[2]), ladder, modes)
        return dataclasses.replace(found, polished=True)

    def _weighed(self, generator: np.random.Generator, ladder: Ladder, modes: Modes) -> Explored:
        """Return the modes with their masses and the particles in their reach."""
        masses = masses_of(generator, self.landscape, modes, self.action)
        tempered = modes.within(self.action, ladder.walk.points).mean(axis=0)
        return Explored(ladder, modes, masses, tempered, np.zeros(modes.count, bool))

    def _screened(self, starts: StretchedStarts, modes: Modes, funds: float) -> Modes:
        """The modes, and those that descents from points which they do not explain end in."""
        least = SCREENED_PER_GRADIENT * self.plan.rounds * self.screening
        most = max(least, round(SCREENING * VALUES_PER_GRADIENT * funds))
        chosen = self._unexplained(starts, modes, screened_points(self.action, modes, most))
        centre, scale = self._middle_and_widths
        ends = descents(
            self.landscape.with_gradients,
            lambda count: (chosen[:count], np.full(count, SCREENED_SOURCE)),
            scale,
            len(chosen),
            LAST_STARTS,
        )
        gradients = self.landscape.with_gradients
        parts = (gradients, ends, centre, scale, self.action, modes, self._block)
        found = modes_of(*parts, self.unpromising)
        return modes if found is None else found

    def _unexplained(self, starts: StretchedStarts, modes: Modes, count: int) -> HostPoints:
        """Return of so many starts those that the modes explain least, looked at in pieces."""
        pieces, excesses = [], []
        for piece in np.diff(np.r_[0:count:SCREENED_AT_ONCE, count]):
            points = starts.many(int(piece))
            values = self.landscape(points)
            some, excess = unexplained(self.action, modes, points, values, self.screening)
            pieces.append(some)
            excesses.append(excess)
        order = np.argsort(-np.concatenate(excesses), kind="stable")
        return np.concatenate(pieces)[order[: self.screening]]

    @property
    def _block(self) -> int:
        """Gradients that cost as much as one: compiled code computes whole blocks."""
        return 1 if self.landscape.problem.black_box is not None else GRADIENTS_PER_BLOCK

    @property
    def _spent(self) -> float:
        """Gradients that were spent so far, values counted in part, on one image of the density."""
        spent = self.landscape.gradients + self.landscape.values / VALUES_PER_GRADIENT
        return spent / self.landscape.terms

    @functools.cached_property
    def _middle_and_widths(self) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " dim"]]:
        """Of the start, averaged over the group so that descents commute with it."""
        drawn = self.start.sample(self.keys[1], SCALE_DRAWS)
        covariance = np.cov(drawn.T).reshape(drawn.shape[1], drawn.shape[1])
        variances = np.diagonal(self.action.average(covariance))
        middle = self.action.average_mean(np.median(drawn, axis=0))
        return middle, np.sqrt(np.maximum(variances, np.finfo(float).tiny))


def _barely_found(
    before: Explored, lost: Int[np.ndarray, " n"], modes: Modes | None, action: Action
) -> Bool[np.ndarray, " modes"]:
    """Return which modes the first ladder missed that were found late, or by few descents.

    Where a heavy mode was met by chance, others may have been passed by.
    """
    if modes is None or before.modes is None:
        return np.empty(0, bool)
    distances = before.modes.distances(action, modes.points)
    late = distances.min(axis=1) > modes.points.shape[1]  # beyond the reach of a known mode
    within = modes.within(action, before.ladder.walk.points)
    missed = before.ladder.families(within) < SOLID
    return missed & (late | (np.isin(distances.argmin(axis=1), lost) & ~modes.often()))


def known_parts(modes: Modes, masses: Masses, action: Action) -> Components:
    """Components at all images of the modes where they can be listed, else at one of each."""
    components = modes.components(np.maximum(masses.shares, LEAST_KNOWN / modes.count))
    if not summable(action, modes.count):
        return components
    images = components.over(action.matrices)
    return dataclasses.replace(images, log_weights=images.log_weights - np.log(action.group.order))
