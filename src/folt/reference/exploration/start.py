"""Where searches begin: a start for a second ladder, and starts of descents."""

from __future__ import annotations

import math

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from folt.problem import Points, Values
from folt.problem.orbits import Components
from folt.problem.orbits.components import log_sum_exp
from folt.reference.host_tempering import Start
from folt.types import Key, host_generator

SHORTEST, LONGEST = -1.0, 2.0
"""Logarithms to base two between which distances of starts from their middle are stretched."""

FROM_RUNGS = 0.25
"""Share of the descents that begin at particles of a ladder."""

STOCK = 1_024
"""Starting points that are drawn at a time."""

KNOWN_SHARE = 0.5
"""Share of a second start that stands at known modes."""


class UnionStart:
    """A share at known modes, the rest from an earlier start.

    Args:
        start: the earlier start.
        known: components at the known modes, normalised.
        share: the share.
    """

    def __init__(self, start: Start, known: Components, share: float = KNOWN_SHARE) -> None:
        self.start, self.known = start, known
        self.share, self.log_rest, self.log_share = share, math.log1p(-share), math.log(share)

    def sample(self, key: Key, count: int) -> Points:
        """So many independent draws, in random order of the two parts."""
        generator = host_generator(key)
        points = self.start.sample(key, count)
        other = np.flatnonzero(generator.uniform(size=count) < self.share)
        points[other] = self.known.sample(generator, other.size)
        return points

    def from_known(self, key: Key, count: int) -> Bool[np.ndarray, " n"]:
        """Which of the draws that this key gives are at known modes."""
        return host_generator(key).uniform(size=count) < self.share

    def log_probs(self, points: Points) -> Values:
        """Its log density at every point."""
        known = log_sum_exp(self.known.log_terms(points))
        return np.logaddexp(self.start.log_probs(points) + self.log_rest, known + self.log_share)

    def with_gradients(self, points: Points) -> tuple[Values, Points]:
        """Its log density and the gradient of that at every point."""
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
