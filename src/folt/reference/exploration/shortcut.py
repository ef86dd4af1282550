"""A shorter ladder, from the one mode that is known, and the gate that it stands behind.

From the prior to a posterior of twenty and more dimensions a ladder takes thirty to seventy rungs,
from a mode two to ten. But it looks for nothing: what the descents missed stays missing. So it is
climbed only where everything that was tried says that there is one mode, a thin ladder from the
start included; whatever is unclear gets the whole ladder.
"""

from __future__ import annotations

import numpy as np

from folt.groups import Trivial
from folt.problem.orbits import Action, action_of
from folt.reference.exploration.chamber import Chamber
from folt.reference.exploration.explored import Explored
from folt.reference.exploration.facts import ROUGH
from folt.reference.exploration.modes import Modes
from folt.reference.exploration.start import UnionStart
from folt.reference.host_tempering import Ladder, Mover, Start, temper
from folt.reference.landscape import Landscape
from folt.types import Key, Progress

THIN, THIN_SHARE = 128, 0.4
"""Particles of the ladder from the start that must agree, and the effective share that its rungs
keep."""

THIN_LADDERS = 16
"""Thin ladders that cost as much as a whole one, which has eight times the particles and twice the
rungs: descents and screening are funded as if it had been climbed."""

INFLATION, KNOWN = 1.44, 0.9
"""Factor on the covariance of the mode from which a shorter ladder begins, and its share there; the
rest is at the start."""

FEWEST_HITS, MOST_ASTRAY = 5, 0.03
"""Descents that must have reached the mode, and the share of all that may have ended elsewhere with
a log density near the best."""

LEAST_EFFECTIVE = 0.005
"""Effective share of the importance sampling around the mode."""

INSIDE, EVIDENCE = 0.95, 1.0
"""Share of the thin ladder's particles that must lie at the mode, and by how many nats its log Z
may exceed that of the mode."""

MOST_OTHERS = 0.01
"""Share of the last particles that may descend from the start instead of the mode."""


def one_mode(found: Explored, action: Action) -> bool:
    """Whether descents and a thin ladder say that there is one mode, without an objection."""
    modes, masses = found.modes, found.masses
    if modes is None or masses is None or modes.count > 1 or len(masses.points) == 0:
        return False
    weights, dim = masses.belongings.sum(axis=1), modes.points.shape[1]
    inside = modes.distances(action, found.ladder.walk.points)[:, 0] < 2.0 * dim + 30.0
    return bool(
        modes.peaked[0]
        and modes.runaways == 0
        and modes.hits[0].sum() >= FEWEST_HITS
        and modes.scattered <= ROUGH
        and modes.astray <= MOST_ASTRAY * modes.descents
        and np.sum(weights**2) * LEAST_EFFECTIVE * len(weights) <= 1.0
        and inside.mean() >= INSIDE
        and found.ladder.log_evidence <= masses.log_evidence + EVIDENCE
    )


def from_one_mode(
    key: Key,
    landscape: Landscape,
    start: Start,
    action: Action,
    modes: Modes,
    particles: int,
    mover: Mover,
    share: float,
    progress: Progress,
) -> Ladder | None:
    """A ladder from around the one mode, under one labelling; None where others climb it too.

    Args:
        key: randomness.
        landscape: log π_F.
        start: where the whole ladder would begin, and a tenth of this one does.
        action: the group.
        modes: the mode.
        particles: how many.
        mover: how they move.
        share: effective share that every rung keeps.
        progress: told how far it is.
    """
    chamber = Chamber.at_heaviest(landscape, action, modes)
    known = chamber.components(modes, np.ones(modes.count)).wider(INFLATION)
    union = UnionStart(start, known, KNOWN)
    # The part of π_F under one labelling integrates to Z, whatever the group.
    one = action_of(Trivial(action.group.dim))
    ladder = temper(key, chamber, union, one, particles, mover, share, progress)
    others = ~union.from_known(key, particles)[ladder.origins]
    if others.mean() > MOST_OTHERS:
        return None
    walk = ladder.walk
    log_target = walk.log_target - chamber.log_shares(walk.points)
    return ladder._replace(walk=walk._replace(log_target=log_target))
