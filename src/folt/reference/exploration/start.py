"""A start for a second ladder: the first one's, and what is known of the modes by now."""

from __future__ import annotations

import math

import numpy as np

from folt.problem import Points, Values
from folt.problem.orbits import Components
from folt.problem.orbits.components import log_sum_exp
from folt.reference.host_tempering import Start
from folt.types import Key, host_generator

KNOWN_SHARE = 0.5
"""Share of the start that stands at known modes."""


class UnionStart:
    """A share at known modes, the rest from an earlier start.

    Args:
        start: the earlier start.
        known: components at all images of the known modes, normalised.
    """

    def __init__(self, start: Start, known: Components) -> None:
        self.start, self.known = start, known

    def sample(self, key: Key, count: int) -> Points:
        """So many independent draws, in random order of the two parts."""
        generator = host_generator(key)
        points = self.start.sample(key, count)
        other = np.flatnonzero(generator.uniform(size=count) < KNOWN_SHARE)
        points[other] = self.known.sample(generator, other.size)
        return points

    def log_probs(self, points: Points) -> Values:
        """Its log density at every point."""
        known = log_sum_exp(self.known.log_terms(points))
        return np.logaddexp(
            self.start.log_probs(points) + math.log1p(-KNOWN_SHARE), known + math.log(KNOWN_SHARE)
        )

    def with_gradients(self, points: Points) -> tuple[Values, Points]:
        """Its log density and the gradient of that at every point."""
        first, slopes = self.start.with_gradients(points)
        second, own = self.known.with_gradients(points)
        first, second = first + math.log1p(-KNOWN_SHARE), second + math.log(KNOWN_SHARE)
        values = np.logaddexp(first, second)
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(values), np.exp(second - values), 0.0)[:, None]
        slopes = np.where(share < 1.0, slopes, 0.0)
        return values, (1.0 - share) * slopes + share * own
