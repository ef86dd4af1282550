"""Descents: many L-BFGS searches for maxima of log π, a fixed number of gradients in all.

A pool of slots takes one gradient each per round; a slot whose search has ended gets the next
starting point. So the cost is known beforehand, whatever the density, and no search waits for
another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from folt.types import HostPoints, HostValues

SLOTS, ROUNDS = 128, 64
"""Searches under way at a time, which is a block of gradients, and rounds in all."""

LAST_STARTS = 20
"""Rounds before the end in which nothing new begins, since it would not come far."""

MEMORY = 8
"""Pairs of steps and gradient changes that a search remembers."""

_LONGEST = 60
"""Rounds after which a search ends where it is."""

CLOSE = 0.05
"""Predicted gain, in nats, at which a search has arrived; Newton steps do the rest."""

_SLOW, _PATIENCE = 0.01, 4
"""Gain of a step, in nats, that counts as slow, and slow steps after which a search ends."""

SHRINK, MOST_FAILURES = 0.3, 6
"""Factor on a step that did not gain, and failures in a row after which a search ends."""

ENOUGH_GAIN = 1e-4
"""Share of the gain that the slope promises which a step must bring (Armijo's condition)."""

_FIRST_LENGTH, _LONGEST_STEP = 0.1, 1.0
"""Length of the first step and of the longest one, in widths of the start and roots of the
dimension."""

_FAR = 16.0
"""Distance from the middle of the start, in its widths and roots of the dimension, at which a
search that still gains goes on with steps so many times longer: four times that of the farthest
starts. One that still gains at so many times that distance has run away."""

_FOLLOWED = 12
"""Searches that go on so; the others are taken to be like them."""

Starts = Callable[[int], tuple[HostPoints, Int[np.ndarray, " n"]]]
"""Gives so many starting points, or those that are left, and for each a number that says where it
comes from."""

Gradients = Callable[[HostPoints], tuple[HostValues, HostPoints]]
"""Log π and its gradient at many points; -inf where it is unusable."""


class Ends(NamedTuple):
    """Where the searches ended.

    Attributes:
        points: the ends.
        values: log densities there.
        sources: where each search came from.
        arrived: whether it arrived; otherwise it was cut short and its end counts as it is.
        gradients: gradients that all of them took.
    """

    points: HostPoints
    values: HostValues
    sources: Int[np.ndarray, " n"]
    arrived: Bool[np.ndarray, " n"]
    gradients: int

    def far(
        self, centre: Float[np.ndarray, " dim"], scale: Float[np.ndarray, " dim"]
    ) -> HostPoints:
        """Ends of searches that left the start behind and had not arrived."""
        away = np.linalg.norm((self.points - centre) / scale, axis=1)
        return self.points[(away > _FAR * math.sqrt(scale.size)) & ~self.arrived]


class Runaways(NamedTuple):
    """Searches that gain without end.

    Attributes:
        searches: how many; an estimate where not all that were far away were followed.
        coordinate: the one along which they went farthest, in widths of the start.
        gradients: gradients that it took to tell.
    """

    searches: int = 0
    coordinate: int = 0
    gradients: int = 0


def runaways(
    value_and_gradient: Gradients,
    ends: Ends,
    centre: Float[np.ndarray, " dim"],
    scale: Float[np.ndarray, " dim"],
) -> Runaways:
    """Return how many searches run away: those that are far go on with longer steps.

    A start near the data is narrow, so a search may leave it behind on its way to where a proper
    density ends; with longer steps it comes to rest there.
    """
    far = ends.far(centre, scale)
    if not len(far):
        return Runaways()
    followed = far[:: -(-len(far) // _FOLLOWED)]
    waiting = [followed]

    def starts(_: int) -> tuple[HostPoints, Int[np.ndarray, " n"]]:
        points = waiting.pop() if waiting else followed[:0]
        return points, np.zeros(len(points), int)

    further = descents(value_and_gradient, starts, _FAR * scale, len(followed))
    gone = further.far(centre, _FAR * scale)
    share = len(gone) / len(followed)
    farthest = np.abs((gone - centre) / scale).sum(axis=0).argmax()
    return Runaways(math.ceil(share * len(far)), int(farthest), further.gradients)


def descents(
    value_and_gradient: Gradients,
    starts: Starts,
    scale: Float[np.ndarray, " dim"],
    slots: int = SLOTS,
    rounds: int = ROUNDS,
) -> Ends:
    """Search for maxima of log π from many starting points.

    Args:
        value_and_gradient: log π and its gradient at many points; -inf where it is unusable.
        starts: hands out starting points.
        scale: width of the start in every coordinate, the unit of all lengths.
        slots: searches under way at a time.
        rounds: gradients per slot.
    """
    pool = _Pool(value_and_gradient, starts, scale, slots)
    for left in range(rounds, 0, -1):
        if not pool.busy.any():
            break
        pool.advance(refill=left > LAST_STARTS)
    return pool.ends()


class _Pool:
    """Searches in lock step; arrays have the slot along their leading axis.

    Lengths are in units of the start's widths: `x` is a point divided by `scale`.
    """

    def __init__(
        self,
        value_and_gradient: Gradients,
        starts: Starts,
        scale: Float[np.ndarray, " dim"],
        slots: int,
    ) -> None:
        self.value_and_gradient, self.starts, self.scale = value_and_gradient, starts, scale
        self.spent, self.found = 0, []  # type: int, list[tuple[np.ndarray, float, int, bool]]
        dim = scale.size
        self.x, self.gradient = np.zeros((slots, dim)), np.zeros((slots, dim))
        self.direction, self.value = np.zeros((slots, dim)), np.full(slots, -np.inf)
        self.source, self.length = np.zeros(slots, int), np.ones(slots)
        self.steps = np.zeros((MEMORY, slots, dim))
        self.changes = np.zeros((MEMORY, slots, dim))
        self.inverse_products = np.zeros((MEMORY, slots))
        self.curvature = np.ones(slots)
        self.pairs, self.age = np.zeros(slots, int), np.zeros(slots, int)
        self.failures, self.slow = np.zeros(slots, int), np.zeros(slots, int)
        self.new, self.busy = np.zeros(slots, bool), np.ones(slots, bool)
        self._begin(np.arange(slots))

    @np.errstate(over="ignore", invalid="ignore")  # gradients may be huge far from the mass
    def advance(self, refill: bool) -> None:
        """One gradient for every search; those that end give way to new ones, or stop."""
        rows = np.flatnonzero(self.busy)
        moves = np.where(self.new[rows], 0.0, self.length[rows])[:, None] * self.direction[rows]
        trial = self.x[rows] + moves
        value, gradient = self.value_and_gradient(trial * self.scale)
        gradient = gradient * self.scale
        self.spent += rows.size
        self.age[rows] += 1
        promised = np.einsum("ij,ij->i", moves, self.gradient[rows])
        gains = value >= self.value[rows] + ENOUGH_GAIN * promised
        taken = np.isfinite(value) & (self.new[rows] | gains)
        outside = self.new[rows] & ~taken
        self._remember(rows[taken], moves[taken], gradient[taken])
        self._count(rows, taken, value)
        kept = rows[taken]
        self.x[kept], self.value[kept], self.gradient[kept] = (
            trial[taken],
            value[taken],
            gradient[taken],
        )
        self.new[kept] = False
        arrived = np.zeros(rows.size, bool)
        arrived[taken] = self._aim(kept)
        over = arrived | (self.failures[rows] > MOST_FAILURES) | (self.slow[rows] >= _PATIENCE)
        over |= self.age[rows] > _LONGEST
        for row, done in zip(rows[over & ~outside], arrived[over & ~outside], strict=True):
            self._record(row, bool(done or self.slow[row] >= _PATIENCE))
        ended = rows[over | outside]
        if refill:
            self._begin(ended)
        else:
            self.busy[ended] = False

    def ends(self) -> Ends:
        """All ends; searches that are still under way count where they are."""
        for row in np.flatnonzero(self.busy & ~self.new & np.isfinite(self.value)):
            self._record(row, False)
        dim = self.scale.size
        points = np.array([one[0] for one in self.found]).reshape(-1, dim) * self.scale
        values = np.array([one[1] for one in self.found], float)
        sources = np.array([one[2] for one in self.found], int)
        arrived = np.array([one[3] for one in self.found], bool)
        return Ends(points, values, sources, arrived, self.spent)

    def _record(self, row: np.intp, arrived: bool) -> None:
        found = (self.x[row].copy(), float(self.value[row]), int(self.source[row]), arrived)
        self.found.append(found)

    def _begin(self, rows: Int[np.ndarray, " n"]) -> None:
        """New searches in these slots."""
        if rows.size == 0:
            return
        points, sources = self.starts(rows.size)
        self.busy[rows[len(points) :]] = False
        rows = rows[: len(points)]
        self.source[rows] = sources
        self.x[rows] = points / self.scale
        for array in (self.steps, self.changes, self.inverse_products):
            array[:, rows] = 0.0
        self.curvature[rows] = self.length[rows] = 1.0
        self.value[rows], self.gradient[rows], self.direction[rows] = -np.inf, 0.0, 0.0
        for counter in (self.pairs, self.age, self.failures, self.slow):
            counter[rows] = 0
        self.new[rows] = True

    def _remember(
        self, rows: Int[np.ndarray, " n"], step: HostPoints, gradient: HostPoints
    ) -> None:
        """Steps and changes of the gradient, where they say something of the curvature."""
        change = self.gradient[rows] - gradient
        product = np.einsum("ij,ij->i", step, change)
        lengths = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
        use = ~self.new[rows] & (product > 1e-10 * lengths)
        rows, step, change, product = rows[use], step[use], change[use], product[use]
        for array in (self.steps, self.changes, self.inverse_products):
            array[1:, rows] = array[:-1, rows]
        self.steps[0, rows], self.changes[0, rows] = step, change
        self.inverse_products[0, rows] = 1.0 / product
        self.curvature[rows] = product / np.einsum("ij,ij->i", change, change)
        self.pairs[rows] += 1

    def _count(self, rows: Int[np.ndarray, " n"], taken: np.ndarray, value: HostValues) -> None:
        """Failures and slow steps in a row, and how long the next step is."""
        moved = taken & ~self.new[rows]
        with np.errstate(invalid="ignore"):
            slow = moved & (value - self.value[rows] < _SLOW)
        self.slow[rows] = np.where(slow, self.slow[rows] + 1, np.where(moved, 0, self.slow[rows]))
        self.failures[rows] = np.where(taken, 0, self.failures[rows] + 1)
        self.length[rows] = np.where(taken, 1.0, SHRINK * self.length[rows])

    def _aim(self, rows: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """The next direction by the two-loop recursion, and whether the search has arrived."""
        if rows.size == 0:
            return np.zeros(0, bool)
        slope = self.gradient[rows]
        direction, shares = slope.copy(), np.zeros((MEMORY, rows.size))
        for k in range(MEMORY):
            along = np.einsum("ij,ij->i", self.steps[k, rows], direction)
            shares[k] = self.inverse_products[k, rows] * along
            direction -= shares[k][:, None] * self.changes[k, rows]
        direction *= self.curvature[rows, None]
        for k in reversed(range(MEMORY)):
            along = np.einsum("ij,ij->i", self.changes[k, rows], direction)
            back = shares[k] - self.inverse_products[k, rows] * along
            direction += self.steps[k, rows] * back[:, None]
        rise = np.einsum("ij,ij->i", direction, slope)
        downhill = ~(rise > 0.0)
        direction[downhill] = slope[downhill]
        rise = np.where(downhill, np.einsum("ij,ij->i", slope, slope), rise)
        first = self.pairs[rows] == 0
        unit = math.sqrt(self.scale.size)
        length = np.maximum(np.linalg.norm(direction, axis=1), np.finfo(float).tiny)
        shorter = np.minimum(1.0, _LONGEST_STEP * unit / length)
        direction *= np.where(first, _FIRST_LENGTH * unit / length, shorter)[:, None]
        self.direction[rows] = direction
        return (0.5 * rise < CLOSE) & ~first
