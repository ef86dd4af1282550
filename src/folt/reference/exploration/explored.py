"""What an exploration found, for the chains that follow and for the certificate.

What modes weigh, by importance sampling from heavy-tailed components at all of them.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp, softmax

from folt.certificate.cautions import Caution, Concern
from folt.certificate.exploration import (
    DIFFERENCE,
    FEWEST_ANCESTORS,
    RATIO,
    ExplorationFacts,
    ModeFacts,
)
from folt.proposals.action import Action
from folt.proposals.components import Components, HasTerms, log_sum_exp
from folt.proposals.sums import ListedSum, summable
from folt.reference.exploration.modes import Modes, PerMode
from folt.reference.host_tempering import Ladder
from folt.reference.landscape import Landscape
from folt.types import HostPoints

_DRAWS_PER_MODE, _FEWEST_DRAWS = 64, 512
"""Draws of the importance sampling, for each mode and in all."""


@dataclasses.dataclass(frozen=True, eq=False)
class Masses:
    """Shares of the modes, and the weighted draws that told.

    Attributes:
        shares: estimated share of every mode of the mass around all of them.
        log_evidence: estimated log of the mass around all of them; NaN where Laplace's estimates
            stand alone.
        points: draws around the modes; none where Laplace's estimates stand alone.
        belongings: how much of each draw's weight belongs to each mode, summing to one in all.
    """

    shares: PerMode
    log_evidence: float
    points: HostPoints
    belongings: Float[np.ndarray, "n modes"]

    def around(
        self, generator: np.random.Generator, mode: int, count: int
    ) -> Float[np.ndarray, "count dim"]:
        """So many draws around one mode, in proportion to their weights."""
        weights = self.belongings[:, mode]
        return self.points[generator.choice(len(weights), count, p=weights / weights.sum())]


def masses_of(
    generator: np.random.Generator, landscape: Landscape, modes: Modes, action: Action
) -> Masses:
    """Return the masses of modes, all images together.

    A mixture of t components, half of its weight by Laplace's masses and half evenly, is summed
    over the orbit; groups too large for that leave Laplace's masses as they are.
    """
    laplace, dim = softmax(modes.log_masses), modes.points.shape[1]
    if not summable(action, modes.count):
        return Masses(laplace, math.nan, np.empty((0, dim)), np.empty((0, modes.count)))
    total = ListedSum((modes.components(0.5 * laplace + 0.5 / modes.count),), action)
    points = total.sample(generator, max(_FEWEST_DRAWS, _DRAWS_PER_MODE * modes.count))
    log_weights = landscape(points) - total.log_sum(points)
    log_evidence = float(logsumexp(log_weights)) - math.log(len(points))
    if not math.isfinite(log_evidence):
        return Masses(laplace, math.nan, np.empty((0, dim)), np.empty((0, modes.count)))
    belongings = softmax(log_weights)[:, None] * _responsibilities(total, points)
    return Masses(belongings.sum(axis=0), log_evidence, points, belongings)


def _responsibilities(total: ListedSum, points: HostPoints) -> Float[np.ndarray, "n modes"]:
    """Return shares of the modes in the density at every point, all images of a mode together."""
    order = len(total.action.matrices)

    def of(components: HasTerms) -> Float[np.ndarray, "n modes"]:
        terms = components.log_terms(points).reshape(len(points), order, -1)
        return log_sum_exp(np.ascontiguousarray(terms.transpose(0, 2, 1)))

    return softmax(of(total.folded[0]), axis=1)


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
        descents: descents made where none arrived at a maximum.
        control: particles of a ladder from the start that agreed with the descents, where the last
            ladder began at the mode.
        rows: rows of the data with which the search began; zero for all.
        polished: whether the modes are those of polished particles, for want of a gradient.
    """

    ladder: Ladder
    modes: Modes | None = None
    masses: Masses | None = None
    tempered: PerMode = dataclasses.field(default_factory=lambda: np.empty(0))
    barely: Bool[np.ndarray, " modes"] = dataclasses.field(default_factory=_nothing)
    ladders: int = 1
    descents: int = 0
    control: int = 0
    rows: int = 0
    polished: bool = False

    @property
    def lost(self) -> Int[np.ndarray, " n"]:
        """The modes that the particles lost, by the masses; none of what they themselves found."""
        if self.masses is None or self.polished:
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
        found, ancestors = [], self.ladder.ancestors
        if self.modes is not None and self.modes.runaways:
            counts = {"runaways": self.modes.runaways, "descents": self.modes.descents}
            found.append(Caution.of(Concern.RUNAWAYS, **counts, coordinate=self.modes.runaway))
        if ancestors < FEWEST_ANCESTORS:
            counts = {"ancestors": ancestors, "particles": len(self.ladder.walk.points)}
            found.append(Caution.of(Concern.FEW_ANCESTORS, **counts, fewest=FEWEST_ANCESTORS))
        return tuple(found)

    def facts(self, reference: PerMode) -> ExplorationFacts:
        """Return the numbers for the certificate.

        Args:
            reference: share of the reference draws within the reach of each mode.
        """
        found, ladder = self.modes, self.ladder
        counts = (len(ladder.walk.points), ladder.ancestors, len(ladder.rungs), self.ladders)
        effective = ladder.effective_ancestors
        if found is None or self.masses is None:
            return ExplorationFacts(self.descents, (), 0, *counts, effective_ancestors=effective)
        columns = zip(
            self.absolute.tolist(),
            found.hits.sum(axis=1).tolist(),
            self.tempered.tolist(),
            reference.tolist(),
            found.peaked.tolist(),
            self.barely.tolist(),
            np.sqrt(reference * (1.0 - reference) / effective).tolist(),
            strict=True,
        )
        modes = [ModeFacts(*column) for column in columns]
        if self.polished:
            facts = ExplorationFacts(0, tuple(modes), 0, *counts, polished=found.descents)
            return dataclasses.replace(facts, effective_ancestors=effective)
        # A ladder that is too noisy to contradict does not confirm either.
        rare = [mode.short and not often for mode, often in zip(modes, found.often(), strict=True)]
        return ExplorationFacts(
            found.descents,
            tuple(
                dataclasses.replace(mode, barely=bool(mode.barely or alone))
                for mode, alone in zip(modes, rare, strict=True)
            ),
            found.once,
            *counts,
            found.gradients,
            found.runaways,
            found.arrived,
            found.scattered,
            self.control,
            rows=self.rows,
            effective_ancestors=effective,
        )
