"""Where searches begin: a start for a second ladder, and starts of descents.

Screening: which starting points do the known modes not explain?

A narrow mode may attract one start in ten thousand, far too few to meet by descents. But where it
does, the density is larger than the known modes make it at that distance from them, and that takes
one value to see instead of a whole descent. Points are compared with others equally far from the
known modes, so that tails that are not Gaussian do not drown what is sought.

A shorter ladder, from the one mode that is known, and the gate that it stands behind.

From the prior to a posterior of twenty and more dimensions a ladder takes thirty to seventy rungs,
from a mode two to ten. But it looks for nothing: what the descents missed stays missing. So it is
climbed only where everything that was tried says that there is one mode, a thin ladder from the
start included; whatever is unclear gets the whole ladder.
"""

from __future__ import annotations

import math

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from folt.certificate.exploration import ROUGH
from folt.groups import Trivial
from folt.proposals.action import Action, action_of
from folt.proposals.components import Components, log_sum_exp
from folt.reference.exploration.chamber import Chamber
from folt.reference.exploration.explored import Explored
from folt.reference.exploration.modes import Modes
from folt.reference.host_tempering import Ladder, ParticleMover, Start, temper
from folt.reference.landscape import Landscape
from folt.types import HostPoints, HostValues, Key, Progress, host_generator

_FEWEST = 0.125
"""Share of the points that is left where distances to all images of the modes are many."""

CHEAP_IMAGES = 8
"""Images of modes, all together, whose distances cost less than the values."""

PER_BIN = 128
"""Points of about equal distance from the known modes that are compared with each other."""


def screened_points(action: Action, modes: Modes, most: int) -> int:
    """Return how many points are worth screening of so many."""
    images = modes.count * (action.group.order if action.listed else CHEAP_IMAGES)
    share = max(_FEWEST, CHEAP_IMAGES / max(images, CHEAP_IMAGES))
    return round(most * share)


@np.errstate(over="ignore", invalid="ignore")  # as in modes that are very narrow
def unexplained(
    action: Action, modes: Modes, points: HostPoints, values: HostValues, count: int
) -> tuple[Float[np.ndarray, "chosen dim"], Float[np.ndarray, " chosen"]]:
    """Return the points whose density the known modes explain least, and by how many nats.

    Args:
        action: the group.
        modes: the modes that are known.
        points: candidates.
        values: log π_F there.
        count: how many are wanted at most.
    """
    inside = np.isfinite(values)
    points, values = points[inside], values[inside]
    squares = modes.distances(action, points)
    explained = logsumexp(modes.values - 0.5 * squares, axis=1)
    order = np.argsort(squares.min(axis=1), kind="stable")
    excess = (values - explained)[order]
    bins = np.array_split(excess, max(1, len(excess) // PER_BIN))
    excess = np.concatenate([part - np.median(part) for part in bins])
    least = np.argsort(-excess, kind="stable")[:count]
    return points[order[least]], excess[least]


SHORTEST, _LONGEST = -1.0, 2.0
"""Logarithms to base two between which distances of starts from their middle are stretched."""

FROM_RUNGS = 0.25
"""Share of the descents that begin at particles of a ladder."""

STOCK = 1_024
"""Starting points that are drawn at a time."""

_KNOWN_SHARE = 0.5
"""Share of a second start that stands at known modes."""


class UnionStart:
    """A share at known modes, the rest from an earlier start.

    Args:
        start: the earlier start.
        known: components at the known modes, normalised.
        share: the share.
    """

    def __init__(self, start: Start, known: Components, share: float = _KNOWN_SHARE) -> None:
        self.start, self.known = start, known
        self.share, self.log_rest, self.log_share = share, math.log1p(-share), math.log(share)

    def sample(self, key: Key, count: int) -> HostPoints:
        """So many independent draws, in random order of the two parts."""
        generator = host_generator(key)
        points = self.start.sample(key, count)
        other = np.flatnonzero(generator.uniform(size=count) < self.share)
        points[other] = self.known.sample(generator, other.size)
        return points

    def from_known(self, key: Key, count: int) -> Bool[np.ndarray, " n"]:
        """Return which of the draws that this key gives are at known modes."""
        return host_generator(key).uniform(size=count) < self.share

    def log_probs(self, points: HostPoints) -> HostValues:
        """Return its log density at every point."""
        known = log_sum_exp(self.known.log_terms(points))
        return np.logaddexp(self.start.log_probs(points) + self.log_rest, known + self.log_share)

    def with_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return its log density and the gradient of that at every point."""
        first, slopes = self.start.with_gradients(points)
        second, own = self.known.with_gradients(points)
        first, second = first + self.log_rest, second + self.log_share
        values = np.logaddexp(first, second)
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(values), np.exp(second - values), 0.0)[:, None]
        slopes = np.where(share < 1.0, slopes, 0.0)
        return values, (1.0 - share) * slopes + share * own


class StretchedStarts:
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
        self.first: HostPoints | None = None

    def __call__(self, count: int) -> tuple[HostPoints, Int[np.ndarray, " n"]]:
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

    def many(self, count: int) -> HostPoints:
        """So many draws of the start, moved farther out or farther in."""
        fresh = self.start.sample(jax.random.fold_in(self.key, self.drawn), count)
        self.drawn += 1
        factors = 2.0 ** self.generator.uniform(SHORTEST, _LONGEST, size=(count, 1))
        return self.centre + (fresh - self.centre) * factors


THIN, THIN_SHARE = 128, 0.4
"""Particles of the ladder from the start that must agree, and the effective share that its rungs
keep."""

THIN_LADDERS = 16
"""Thin ladders that cost as much as a whole one, which has eight times the particles and twice the
rungs: descents and screening are funded as if it had been climbed."""

_INFLATION, _KNOWN = 1.44, 0.9
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
    mover: ParticleMover,
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
    known = chamber.components(modes, np.ones(modes.count)).wider(_INFLATION)
    union = UnionStart(start, known, _KNOWN)
    # The part of π_F under one labelling integrates to Z, whatever the group.
    one = action_of(Trivial(action.group.dim))
    ladder = temper(key, chamber, union, one, particles, mover, share, progress)
    others = ~union.from_known(key, particles)[ladder.origins]
    if others.mean() > MOST_OTHERS:
        return None
    walk = ladder.walk
    log_target = walk.log_target - chamber.log_shares(walk.points)
    return ladder._replace(walk=walk._replace(log_target=log_target))
