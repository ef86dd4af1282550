"""Exploration: where the posterior is, by two searches that are blind in different ways.

Tempered particles lose modes that are light when hot; descents miss modes with small basins. Both
are run, and where the particles have lost what descents found, a second ladder begins from
everything that is known, with more particles and closer rungs.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from folt.problem import Points, Values
from folt.problem.orbits import Action, Components
from folt.reference.exploration.descents import SLOTS, descents
from folt.reference.exploration.facts import DIFFERENCE, RATIO, ExplorationFacts, ModeFacts
from folt.reference.exploration.masses import Masses, masses_of, summable
from folt.reference.exploration.modes import Modes, modes_of
from folt.reference.exploration.start import UnionStart
from folt.reference.host_tempering import Ladder, Mover, Start, temper
from folt.reference.landscape import Landscape
from folt.reference.supplied import part_of
from folt.types import Key, Progress, host_generator

SHORTEST, LONGEST = -1.0, 2.0
"""Logarithms to base two between which distances of starts from their middle are stretched."""

FROM_RUNGS = 0.25
"""Share of the descents that begin at particles of a ladder."""

SCALE_DRAWS = 1_024
"""Draws of the start from which its middle and widths are read."""

STOCK = 1_024
"""Starting points that are drawn at a time."""

SECOND_PARTICLES, SECOND_SHARE = 2, 0.9
"""How many times the particles a second ladder has, and the effective share that its rungs keep."""

TOLD = 0.7
"""Share of the progress that the first ladder takes."""


@dataclasses.dataclass(frozen=True, eq=False)
class Explored:
    """What was found, for the chains that follow.

    Attributes:
        ladder: the particles of the last ladder.
        modes: the modes; None where there is no gradient or no descent arrived anywhere.
        masses: what they weigh; None likewise.
        tempered: share of the particles within the reach of each mode.
        new: whether only the second search found a mode.
        ladders: how many ladders were climbed.
    """

    ladder: Ladder
    modes: Modes | None = None
    masses: Masses | None = None
    tempered: Values = dataclasses.field(default_factory=lambda: np.empty(0))
    new: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, bool))
    ladders: int = 1

    @property
    def lost(self) -> Int[np.ndarray, " n"]:
        """The modes that the particles lost, by the masses."""
        if self.masses is None:
            return np.empty(0, int)
        mass, share = self.absolute, self.tempered
        return np.flatnonzero((mass - share > DIFFERENCE) & (share < mass / RATIO))

    @property
    def absolute(self) -> Values:
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

    def facts(self, reference: Values) -> ExplorationFacts:
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
            self.new.tolist(),
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
        second: whether a second ladder may be climbed.
    """

    particles: int
    share: float
    mover: Mover
    rounds: int
    second: bool = True


def explore(
    key: Key, landscape: Landscape, start: Start, action: Action, plan: Plan, progress: Progress
) -> Explored:
    """Find the modes of π_F by tempering and by descents."""
    keys = [jax.random.fold_in(key, number) for number in range(6)]
    tell = part_of(progress, 0.0, TOLD if plan.rounds else 1.0)
    ladder = temper(
        keys[0], landscape, start, action, plan.particles, plan.mover, plan.share, tell
    )
    if not plan.rounds:
        return Explored(ladder)
    search = _Search(landscape, start, action, plan.rounds, start.sample(keys[1], SCALE_DRAWS))
    first = search(keys[2], ladder, None)
    if not plan.second or first.lost.size == 0:
        return first
    known = _known(first, action)
    particles = SECOND_PARTICLES * plan.particles
    again = temper(
        keys[3],
        landscape,
        UnionStart(start, known),
        action,
        particles,
        plan.mover,
        SECOND_SHARE,
        part_of(progress, TOLD, 1.0),
    )
    return dataclasses.replace(search(keys[4], again, first.modes), ladders=2)


def _known(explored: Explored, action: Action) -> Components:
    """Components at all images of the modes where they can be listed, else at one of each."""
    assert explored.modes is not None and explored.masses is not None
    weights = np.maximum(explored.masses.shares, 0.1 / explored.modes.count)
    components = explored.modes.components(weights)
    if not summable(action, explored.modes.count):
        return components
    images = components.over(action.matrices)
    return dataclasses.replace(
        images, log_weights=images.log_weights - np.log(action.group.order)
    )


class _Search:
    """Descents and what they end in, from a start with a middle and widths."""

    def __init__(
        self, landscape: Landscape, start: Start, action: Action, rounds: int, drawn: Points
    ) -> None:
        self.landscape, self.start, self.action, self.rounds = landscape, start, action, rounds
        # Averaged over the group, so that descents commute with it.
        self.centre = action.average_mean(np.median(drawn, axis=0))
        variances = np.diagonal(action.average(np.cov(drawn.T).reshape(2 * (drawn.shape[1],))))
        self.scale = np.sqrt(np.maximum(variances, np.finfo(float).tiny))

    def __call__(self, key: Key, ladder: Ladder, known: Modes | None) -> Explored:
        """The modes and their masses; those known before are kept."""
        generator = host_generator(key)
        stretched = _Stretched(key, generator, self.start, self.centre, ladder.rungs)
        gradients = self.landscape.with_gradients
        ends = descents(gradients, stretched, self.scale, SLOTS, self.rounds)
        points = None if known is None else known.points
        modes = modes_of(gradients, ends, self.centre, self.scale, self.action, points)
        if modes is None:
            return Explored(ladder)
        masses = masses_of(generator, self.landscape, modes, self.action)
        tempered = modes.shares(self.action, ladder.walk.points)
        new = np.zeros(modes.count, bool)
        if known is not None:
            # What lies in the reach of a known mode is no news.
            new = known.distances(self.action, modes.points).min(axis=1) > modes.points.shape[1]
        return Explored(ladder, modes, masses, tempered, new)


class _Stretched:
    """Starts of descents: three of four from the start, farther out or farther in, one of four
    from a rung of the ladder."""

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

    def __call__(self, count: int) -> tuple[Points, Int[np.ndarray, " n"]]:
        """So many starts, and whether each is from a rung."""
        if len(self.stock) < count:
            fresh = self.start.sample(jax.random.fold_in(self.key, self.drawn), STOCK)
            factors = 2.0 ** self.generator.uniform(SHORTEST, LONGEST, size=(STOCK, 1))
            self.stock, self.drawn = self.centre + (fresh - self.centre) * factors, self.drawn + 1
        points, self.stock = self.stock[:count].copy(), self.stock[count:]
        from_rung = self.generator.uniform(size=count) < FROM_RUNGS
        chosen = self.generator.integers(len(self.rungs), size=int(from_rung.sum()))
        points[from_rung] = self.rungs[chosen]
        return points, from_rung.astype(int)
