"""Do labels switch in draws that nobody folded?

If two labels are alike, the difference of their entries is symmetric about zero; if they are also
well apart, it has one mode on either side and a valley between them. Two effects that merely look
alike have a difference with a single mode.

The valley is tested on either side of zero by itself. A density with one mode falls from zero
outwards on at least one side. There, of the draws below any fixed one, at least half are expected
within half its distance from zero, whatever the density: a binomial count says how surprising
fewer are. Both sides must be surprising, so that for independent draws with one mode, wherever it
is, the chance of an alarm is at most `FALSE_ALARM` over all pairs together.

A relabelling takes modes to modes of equal height. Where the heavy modes on the two sides of zero
are known and differ in height, the posterior has two modes and no labels.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence

import numpy as np

from folt.certificate.diagnostics.chains import effective_size

FALSE_ALARM = 1e-3
"""Chance of an alarm, over all pairs of a fit, where every difference has one mode."""

ASYMMETRY = 0.1
"""Largest distance between the distributions of a difference and of its negative."""

HEIGHT = 1.0
"""Nats by which modes on the two sides of zero differ at least, if they are no relabellings of each
other, not even nearly."""

HEAVY = 0.05
"""Share of the posterior from which on a mode is asked for its height."""

QUANTILES = (0.25, 0.5, 0.75)
"""Draws of one side, by rank, within whose distance the inner half is counted."""

_FEWEST = 40
"""Independent draws below which nothing is said."""

MOST_PAIRS = 500
"""Pairs of entries that are looked at; of more, those whose names differ by a number."""


@dataclasses.dataclass(frozen=True)
class Switching:
    """The pair of entries whose labels look most like switching.

    Attributes:
        first: name of one entry.
        second: name of the other.
        p_value: chance of such a valley at zero in a difference with one mode, all pairs counted.
        asymmetry: largest distance between the distributions of the difference and its negative.
        pairs: number of pairs that were tested.
        draws: independent draws that each test rests on.
        height: least difference in log density of two modes on opposite sides of zero; zero where
            they are not known.
    """

    first: str
    second: str
    p_value: float
    asymmetry: float
    pairs: int
    draws: int
    height: float = 0.0

    @property
    def suspected(self) -> bool:
        """Whether the labels seem to switch: a valley at zero in a symmetric difference."""
        allowed = ASYMMETRY + 1.6 / np.sqrt(max(self.draws, 1))
        alike = self.asymmetry <= allowed and self.height <= HEIGHT
        return bool(self.p_value <= FALSE_ALARM and alike)


@dataclasses.dataclass(frozen=True)
class Heights:
    """The known modes of a density.

    Attributes:
        points: where they are.
        values: log density there.
        masses: their shares of the posterior.
    """

    points: np.ndarray
    values: np.ndarray
    masses: np.ndarray

    def apart(self, pair: tuple[int, int]) -> float:
        """Return how unlike in height the heavy modes on the two sides of a pair's tie are."""
        heavy = self.masses >= HEAVY
        sides = self.points[:, pair[0]] - self.points[:, pair[1]] > 0.0
        first, second = self.values[heavy & sides], self.values[heavy & ~sides]
        return float(np.abs(first[:, None] - second).min()) if len(first) and len(second) else 0.0


def switching(
    draws: np.ndarray, names: Sequence[str], modes: Heights | None = None
) -> Switching | None:
    """Return the pair whose labels look most like switching; None where nothing can be said.

    Args:
        draws: chains (chain, draw, dim), thinned here to their effective size.
        names: one name per coordinate; in many dimensions only entries whose names differ in
            numbers alone are compared.
        modes: the modes that are known, if any.
    """
    draws = np.asarray(draws, float)
    pairs = _pairs(names)
    used = sorted({place for pair in pairs for place in pair})
    if not pairs or not np.isfinite(draws).all():
        return None
    effective = min(effective_size(draws[..., place]) for place in used)
    count = draws.shape[0] * draws.shape[1]
    if effective < _FEWEST:
        return None
    stride = max(int(np.ceil(count / effective)), 1)
    thinned = draws[:, ::stride].reshape(-1, draws.shape[-1])
    return min(
        (_judged(thinned, names, pair, len(pairs), modes) for pair in pairs),
        key=lambda found: (not found.suspected, found.p_value),
    )


def _pairs(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of entries to compare: all if there are few, else those of one name."""
    every = list(itertools.combinations(range(len(names)), 2))
    if len(every) <= MOST_PAIRS:
        return every
    stems = [re.sub(r"\d+", "#", name) for name in names]
    return [(i, j) for i, j in every if stems[i] == stems[j]][:MOST_PAIRS]


def _judged(
    draws: np.ndarray,
    names: Sequence[str],
    pair: tuple[int, int],
    count: int,
    modes: Heights | None,
) -> Switching:
    difference = draws[:, pair[0]] - draws[:, pair[1]]
    sides = difference[difference > 0], -difference[difference < 0]
    p_value = min(1.0, count * max(valley(side) for side in sides))
    asymmetry = _distance(difference, -difference)
    first, second = (names[place] for place in pair)
    height = 0.0 if modes is None else modes.apart(pair)
    return Switching(first, second, p_value, asymmetry, count, len(draws), height)


def valley(distances: np.ndarray) -> float:
    """p-value of "the density of these distances from zero nowhere rises".

    Given the draw of a certain rank, those below it are independent on the interval up to it, and
    a falling density puts each of them into the inner half with probability at least one half.
    """
    from scipy.stats import binom

    ordered = np.sort(distances)
    smallest = 1.0
    for quantile in QUANTILES:
        below = int(quantile * len(ordered))
        if below < 1 or below >= len(ordered):
            continue
        inner = int(np.searchsorted(ordered[:below], 0.5 * ordered[below], side="right"))
        smallest = min(smallest, float(binom.cdf(inner, below, 0.5)))
    return min(1.0, len(QUANTILES) * smallest)


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference of two empirical distribution functions."""
    one, other = np.sort(one), np.sort(other)
    places = np.concatenate([one, other])
    first = np.searchsorted(one, places, side="right") / len(one)
    second = np.searchsorted(other, places, side="right") / len(other)
    return float(np.abs(first - second).max())
