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

from folt.problem import Points
from folt.problem.orbits import Action, Components
from folt.reference.cautions import Caution, Concern
from folt.reference.exploration.descents import LAST_STARTS, SLOTS, descents
from folt.reference.exploration.facts import (
    DIFFERENCE,
    FEWEST_ANCESTORS,
    RATIO,
    ExplorationFacts,
    ModeFacts,
)
from folt.reference.exploration.masses import Masses, masses_of, summable
from folt.reference.exploration.modes import SCREENED_SOURCE, Modes, PerMode, modes_of
from folt.reference.exploration.screening import screened_points, unexplained
from folt.reference.exploration.start import UnionStart
from folt.reference.host_tempering import Ladder, Mover, Start, temper
from folt.reference.landscape import Landscape
from folt.types import Key, Progress, host_generator

SHORTEST, LONGEST = -1.0, 2.0
"""Logarithms to base two between which distances of starts from their middle are stretched."""

FROM_RUNGS = 0.25
"""Share of the descents that begin at particles of a ladder."""

SCALE_DRAWS = 1_024
"""Draws of the start from which its middle and widths are read."""

STOCK = 1_024
"""Starting points that are drawn at a time."""

FUNDED, SCREENING = 0.05, 0.1
"""Shares of what was spent before that descents and screening may cost as well: where a ladder is
expensive, so may be the search that controls it."""

VALUES_PER_GRADIENT = 3.0
"""What a gradient costs, in values."""

SCREENED_PER_GRADIENT = 2
"""Points that are screened at least for each planned gradient of the descents."""

SECOND_PARTICLES, SECOND_SHARE = 2, 0.9
"""How many times the particles a second ladder has, and the effective share that its rungs keep."""

LEAST_KNOWN = 0.1
"""Share of a second start's known part that all modes have together, however light they are."""


SOLID = 5
"""Descents that must have reached a mode which tempering lost for it not to be met by chance."""

MANY_DIMENSIONS = 20
"""Dimensions from which on no number of descents makes up for a mode that tempering lost: basins
shrink with a power of the dimension. Of random mixtures in 8 to 16 dimensions none of those whose
first ladder had lost a mode was incomplete in the end, in 20 to 36 every third was."""


def _nothing() -> Bool[np.ndarray, " modes"]:
    return np.empty(0, bool)


@dataclasses.dataclass(frozen=True, eq=False)
class Explored:
    """What was found, for the chains that follow.

    Attributes:
        ladder: the particles of the last ladder.
        modes: the modes; None where there is no gradient or no descent arrived anywhere.
        masses: what they weigh; None likewise.
        tempered: share of the particles within the reach of each mode.
        barely: whether a mode was found late, or hardly found.
        ladders: how many ladders were climbed.
    """

    ladder: Ladder
    modes: Modes | None = None
    masses: Masses | None = None
    tempered: PerMode = dataclasses.field(default_factory=lambda: np.empty(0))
    barely: Bool[np.ndarray, " modes"] = dataclasses.field(default_factory=_nothing)
    ladders: int = 1

    @property
    def lost(self) -> Int[np.ndarray, " n"]:
        """The modes that the particles lost, by the masses."""
        if self.masses is None:
            return np.empty(0, int)
        mass, share = self.absolute, self.tempered
        return np.flatnonzero((mass - share > DIFFERENCE) & (share < mass / RATIO))

    @property
    def absolute(self) -> PerMode:
        """Masses of the modes as shares of all that is known, what the particles found included."""
        if self.masses is None:
            return np.empty(0)
        own = self.masses.log_evidence
        if not np.isfinite(own):
            return self.masses.shares
        known = float(np.exp(min(own - self.ladder.log_evidence, 0.0)))
        # The evidence of a ladder is rough: where its particles are at known modes, these are all.
        return self.masses.shares * max(known, min(1.0, float(self.tempered.sum())))

    @property
    def components(self) -> Components | None:
        """Components at the modes, weighted by their masses."""
        if self.modes is None or self.masses is None:
            return None
        return self.modes.components(np.maximum(self.masses.shares, np.finfo(float).tiny))

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What a user should know of the search."""
        found, (walk, _, _, ancestors) = [], self.ladder
        if self.modes is not None and self.modes.runaways:
            counts = {"runaways": self.modes.runaways, "descents": self.modes.descents}
            found.append(Caution.of(Concern.RUNAWAYS, **counts, coordinate=self.modes.runaway))
        if ancestors < FEWEST_ANCESTORS:
            counts = {"ancestors": ancestors, "particles": len(walk.points)}
            found.append(Caution.of(Concern.FEW_ANCESTORS, **counts, fewest=FEWEST_ANCESTORS))
        return tuple(found)

    def facts(self, reference: PerMode) -> ExplorationFacts:
        """The numbers for the certificate.

        Args:
            reference: share of the reference draws within the reach of each mode.
        """
        ladder = (len(self.ladder.walk.points), self.ladder.ancestors, len(self.ladder.rungs))
        if self.modes is None or self.masses is None:
            return ExplorationFacts(0, (), 0, *ladder, self.ladders)
        columns = zip(
            self.absolute.tolist(),
            self.modes.hits.sum(axis=1).tolist(),
            self.tempered.tolist(),
            reference.tolist(),
            self.modes.peaked.tolist(),
            self.barely.tolist(),
            strict=True,
        )
        return ExplorationFacts(
            self.modes.descents,
            tuple(ModeFacts(*column) for column in columns),
            self.modes.once,
            *ladder,
            self.ladders,
            self.modes.gradients,
            self.modes.runaways,
        )


class Plan(NamedTuple):
    """What an exploration may cost.

    Attributes:
        particles: particles of the ladder.
        share: effective share of particles that every rung keeps.
        mover: how particles move.
        rounds: gradients per slot of the descents; none without a gradient.
        known: points from which descents begin as well, such as the modes of an earlier fit.
    """

    particles: int
    share: float
    mover: Mover
    rounds: int
    known: Points | None = None


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
    """

    def __init__(
        self, key: Key, landscape: Landscape, start: Start, action: Action, plan: Plan
    ) -> None:
        self.keys = [jax.random.fold_in(key, number) for number in range(5)]
        self.landscape, self.start, self.action, self.plan = landscape, start, action, plan
        self.seconds = 0.0

    def first(self, progress: Progress) -> Explored:
        """A ladder from the start, and descents from there and from every rung."""
        begun, plan = time.perf_counter(), self.plan
        ladder = self._ladder(0, self.start, plan.particles, plan.share, progress)
        found = self._searched(2, ladder, None) if plan.rounds else Explored(ladder)
        self.seconds += time.perf_counter() - begun
        return found

    def again(self, before: Explored, lost: Int[np.ndarray, " n"], progress: Progress) -> Explored:
        """Another ladder from everything that is known, and as many further descents.

        Args:
            before: what the first search found.
            lost: the modes that its ladder had lost.
            progress: told how far the ladder is.
        """
        begun = time.perf_counter()
        assert before.modes is not None
        assert before.masses is not None
        start = UnionStart(self.start, _known(before.modes, before.masses, self.action))
        particles = SECOND_PARTICLES * self.plan.particles
        ladder = self._ladder(3, start, particles, SECOND_SHARE, progress)
        found = self._searched(4, ladder, before.modes)
        barely = _barely_found(before.modes, lost, found.modes, self.action)
        self.seconds += time.perf_counter() - begun
        return dataclasses.replace(found, barely=barely, ladders=2)

    def _ladder(
        self, key: int, start: Start, particles: int, share: float, progress: Progress
    ) -> Ladder:
        parts = (self.keys[key], self.landscape, start, self.action)
        return temper(*parts, particles, self.plan.mover, share, progress)

    def _searched(self, key: int, ladder: Ladder, known: Modes | None) -> Explored:
        """The modes that descents end in, and their masses; those known before are kept."""
        generator, action = host_generator(self.keys[key]), self.action
        centre, scale = self._middle_and_widths
        starts = _Stretched(self.keys[key], generator, self.start, centre, ladder.rungs)
        starts.first = self.plan.known
        gradients = self.landscape.with_gradients
        rounds = max(self.plan.rounds, round(FUNDED * self._spent / SLOTS))
        ends = descents(gradients, starts, scale, SLOTS, rounds)
        modes = modes_of(gradients, ends, centre, scale, action, known)
        if modes is None:
            return Explored(ladder)
        modes = self._screened(starts, modes)
        masses = masses_of(generator, self.landscape, modes, action)
        tempered = modes.shares(action, ladder.walk.points)
        return Explored(ladder, modes, masses, tempered, np.zeros(modes.count, bool))

    def _screened(self, starts: _Stretched, modes: Modes) -> Modes:
        """The modes, and those that descents from points which they do not explain end in."""
        least = SCREENED_PER_GRADIENT * self.plan.rounds * SLOTS
        most = max(least, round(SCREENING * VALUES_PER_GRADIENT * self._spent))
        points = starts.many(screened_points(self.action, modes, most))
        chosen = unexplained(self.action, modes, points, self.landscape(points), SLOTS)
        centre, scale = self._middle_and_widths
        ends = descents(
            self.landscape.with_gradients,
            lambda count: (chosen[:count], np.full(count, SCREENED_SOURCE)),
            scale,
            len(chosen),
            LAST_STARTS,
        )
        found = modes_of(self.landscape.with_gradients, ends, centre, scale, self.action, modes)
        return modes if found is None else found

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
    before: Modes, lost: Int[np.ndarray, " n"], modes: Modes | None, action: Action
) -> Bool[np.ndarray, " modes"]:
    """Which modes were found late, or by too few descents after tempering had lost them.

    Where a heavy mode was met by chance, others may have been passed by.
    """
    if modes is None:
        return np.empty(0, bool)
    distances = before.distances(action, modes.points)
    nearest = distances.argmin(axis=1)
    late = distances.min(axis=1) > modes.points.shape[1]  # beyond the reach of a known mode
    few = before.hits.sum(axis=1)[nearest] < SOLID
    by_chance = few | (modes.points.shape[1] >= MANY_DIMENSIONS)
    return late | (np.isin(nearest, lost) & by_chance)


def _known(modes: Modes, masses: Masses, action: Action) -> Components:
    """Components at all images of the modes where they can be listed, else at one of each."""
    components = modes.components(np.maximum(masses.shares, LEAST_KNOWN / modes.count))
    if not summable(action, modes.count):
        return components
    images = components.over(action.matrices)
    return dataclasses.replace(images, log_weights=images.log_weights - np.log(action.group.order))


class _Stretched:
    """Hands out starts of descents, three of four from the start and one of four from a rung.

    Those from the start are moved farther out or farther in.
    """

    def __init__(
        self,
        key: Key,
        generator: np.random.Generator,
        start: Start,
        centre: Float[np.ndarray, " dim"],
        rungs: Float[np.ndarray, "rung some dim"],
    ) -> None:
        self.key, self.generator, self.start, self.centre = key, generator, start, centre
        self.rungs = rungs.reshape(-1, rungs.shape[-1])
        self.stock, self.drawn = np.empty((0, centre.size)), 0
        self.first: Points | None = None

    def __call__(self, count: int) -> tuple[Points, Int[np.ndarray, " n"]]:
        """So many starts, and whether each is from a rung."""
        if len(self.stock) < count:
            self.stock = self.many(STOCK)
        points, self.stock = self.stock[:count].copy(), self.stock[count:]
        from_rung = self.generator.uniform(size=count) < FROM_RUNGS
        chosen = self.generator.integers(len(self.rungs), size=int(from_rung.sum()))
        points[from_rung] = self.rungs[chosen]
        if self.first is not None:
            some = self.first[:count]
            points[: len(some)], from_rung[: len(some)], self.first = some, True, None
        return points, from_rung.astype(int)

    def many(self, count: int) -> Points:
        """So many draws of the start, moved farther out or farther in."""
        fresh = self.start.sample(jax.random.fold_in(self.key, self.drawn), count)
        self.drawn += 1
        factors = 2.0 ** self.generator.uniform(SHORTEST, LONGEST, size=(count, 1))
        return self.centre + (fresh - self.centre) * factors
