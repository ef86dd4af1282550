"""Do labels switch in draws that nobody folded?

If two labels are alike, the difference of their entries is symmetric about zero; if they are also
well apart, it has one mode on either side and a valley between them. Two effects that merely look
alike have a difference with a single mode.

The valley is tested on either side of zero by itself. A density with one mode falls from zero
outwards on at least one side. There, of the draws below any fixed one, at least half are expected
within half its distance from zero, whatever the density: a binomial count says how surprising
fewer are. Both sides must be surprising, so that for independent draws with one mode, wherever it
is, the chance of an alarm is at most `FALSE_ALARM` over all pairs together.

A relabelling takes every mode to one of equal height on the other side of zero. Where modes on both
sides are known and much of the posterior lies at some without an equal across, it has several modes
and no labels.
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
"""Nats by which a mode differs from all on the other side of zero, if none is its relabelling, not
even nearly."""

UNMATCHED = 0.2
"""Share of the posterior at modes without an equal across the tie from which on labels are not
suspected. Searches miss some images: of a mixture of three components that was not folded, up to
.17 stood without one."""

KNOWN = 0.05
"""Share of the posterior that modes must have on either side of a tie to be compared."""

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
        unmatched: share of the posterior at modes without one of equal height on the other side of
            zero; zero where modes are not known on both sides.
    """

    first: str
    second: str
    p_value: float
    asymmetry: float
    pairs: int
    draws: int
    unmatched: float = 0.0

    @property
    def suspected(self) -> bool:
        """Whether the labels seem to switch: a valley at zero in a symmetric difference."""
        allowed = ASYMMETRY + 1.6 / np.sqrt(max(self.draws, 1))
        alike = self.asymmetry <= allowed and self.unmatched < UNMATCHED
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

    def unmatched(self, pair: tuple[int, int]) -> float:
        """Return the share of modes without one of equal height beyond a pair's tie."""
        above = self.points[:, pair[0]] - self.points[:, pair[1]] > 0.0
        shares = self.masses / self.masses.sum()
        if min(shares[above].sum(), shares[~above].sum()) < KNOWN:
            return 0.0
        apart = np.abs(self.values[:, None] - self.values)
        equal = (apart <= HEIGHT) & (above[:, None] != above)
        return float(shares[~equal.any(axis=1)].sum())


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
    unmatched = 0.0 if modes is None else modes.unmatched(pair)
    return Switching(first, second, p_value, asymmetry, count, len(draws), unmatched)


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
