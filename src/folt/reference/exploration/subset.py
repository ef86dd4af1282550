"""Very many observations: the search begins with some of them.

A ladder from the prior to the posterior of a million observations is long, and every step of it
pays for all of them. The posterior of a few thousand is wider, has its modes near those of the
whole and costs little, so it is explored first. From what was found there, and from the start,
descents look for the modes of the whole; a short ladder that begins around these ends in particles
of the whole.

The subset is a start and claims nothing: modes and masses are those of the whole data, descents are
counted on them, and a mode that only the whole data show must be met often by descents.
"""

from __future__ import annotations

import dataclasses
import math
import time

import jax
import numpy as np
from jaxtyping import Bool

from folt.problem import Problem
from folt.proposals.action import Action
from folt.reference.exploration.descents import SLOTS
from folt.reference.exploration.explored import Explored
from folt.reference.exploration.explorer import ExplorationPlan, Explorer, known_parts
from folt.reference.exploration.modes import Modes
from folt.reference.exploration.start import UnionStart
from folt.reference.host_tempering import Start
from folt.reference.landscape import Landscape
from folt.types import Key, Progress, host_generator

ROWS = 2_048
"""Rows of the data with which the search begins: their values take 9 µs for three normals, while
ladders and descents of a fit have some 400 000."""

MANY = 4
"""Subsets that the data must have for one to be worth it."""

PARTICLES, SHARE = 256, 0.5
"""Particles of the short ladder, which looks for nothing, and what its rungs keep."""

_INFLATION, _KNOWN = 1.44, 0.9
"""Factor on the covariances of the modes from which the short ladder begins, and its share there;
the rest is at the start."""

_SLACK = 2.0
"""Factor on the reach of a mode of the subset within which one of the whole is no surprise: the two
are a standard deviation of the subset's posterior apart."""

_RUNGS_SHARE = 0.6
"""Share of the exploration's progress that the subset takes."""


def has_subset(problem: Problem) -> bool:
    """Return whether a search of this problem begins with a part of its data."""
    return problem.differentiable and problem.rows >= MANY * ROWS


class SubsetExplorer(Explorer):
    """Explores the posterior of some rows, and that of all from what it found.

    Args:
        key: randomness.
        landscape: log π_F of all rows.
        start: where searches begin.
        action: the group.
        plan: what the exploration of the subset may cost.
    """

    screening, unpromising = SLOTS // 4, 4
    _block = 1  # a gradient of all rows fills the machine: none is computed in vain

    def __init__(
        self, key: Key, landscape: Landscape, start: Start, action: Action, plan: ExplorationPlan
    ) -> None:
        short = plan._replace(particles=min(plan.particles, PARTICLES), share=SHARE)
        super().__init__(key, landscape, start, action, short)
        keys = [jax.random.fold_in(key, number) for number in (8, 9)]
        problem = landscape.problem
        rows = host_generator(keys[0]).choice(problem.rows, ROWS, replace=False)
        few = Landscape(problem.subset(np.sort(rows)))
        self.few = Explorer(keys[1], few, start, action, plan)

    def first(self, progress: Progress) -> Explored:
        """Explore the subset; then descents on all rows, and a short ladder from their modes."""
        few = self._subset_explored(lambda done, said: progress(_RUNGS_SHARE * done, said))
        begun = time.perf_counter()
        if few.modes is None:
            return super().first(progress)
        known = [] if self.plan.known is None else [self.plan.known]
        self.plan = self.plan._replace(known=np.concatenate([few.modes.points, *known]))
        found = self._searched(2, few.ladder, None)
        if found.modes is None or found.masses is None:
            return super().first(progress)
        around = known_parts(found.modes, found.masses, self.action).wider(_INFLATION)
        start = UnionStart(self.start, around, _KNOWN)
        ladder = self._ladder(0, start, self.plan.particles, self.plan.share, progress)
        self.seconds += time.perf_counter() - begun
        return dataclasses.replace(
            found,
            ladder=ladder,
            tempered=found.modes.within(self.action, ladder.walk.points).mean(axis=0),
            barely=_inherited(few, found.modes, self.action),
            control=len(few.ladder.walk.points),
            rows=ROWS,
        )

    def _subset_explored(self, progress: Progress) -> Explored:
        """Return what the subset shows, counted in evaluations of all rows."""
        found = self.few.first(progress)
        lost = found.lost
        if lost.size:
            found = self.few.again(found, lost, progress)
        self.seconds += self.few.seconds
        few, share = self.few.landscape, ROWS / self.landscape.problem.rows
        self.landscape.values += math.ceil(share * few.values)
        self.landscape.gradients += math.ceil(share * few.gradients)
        return found


def _inherited(few: Explored, modes: Modes, action: Action) -> Bool[np.ndarray, " modes"]:
    """Return which modes of the whole were barely found in the subset, or not there and barely."""
    assert few.modes is not None
    distances, dim = few.modes.distances(action, modes.points), modes.points.shape[1]
    reach = _SLACK * (dim + 4.0 * math.sqrt(2.0 * dim))
    surprising = distances.min(axis=1) > reach
    return (surprising & ~modes.often()) | (few.barely[distances.argmin(axis=1)] & ~surprising)
