"""A density at random points and at their images: how much it changes.

The density is evaluated in blocks of one size, so that a single program is compiled. It may come
in terms, one per prior and one for the likelihood: then each has to stay what it is to its own
rounding, and a small difference between priors does not drown in a large likelihood.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from folt.types import HostPoints

TermValues = Float[np.ndarray, "n terms"]

TOLERANCE = 1e-9
"""Largest change of a sum of terms, relative to one plus their sizes, that counts as rounding.

Stricter than the check of a declared symmetry: one that is overlooked costs time, one that is
imagined would cost correctness."""

_POINTS = 16
"""Points at which a transformation is tried: one that fails is caught at the first that is generic,
and sixteen leave room for points at which the density hardly depends on what moves."""

_CANDIDATES = 96
"""Normal points of which the likeliest are taken."""

FEWEST_POINTS = 3
"""Fewer points at which the density is finite are too few to conclude from."""

BLOCK = 128
"""Points that are evaluated at once: the candidates fit into one block."""


@dataclasses.dataclass(frozen=True)
class Change:
    """How much a transformation changes a density at the worst of several points.

    Attributes:
        defect: largest relative change of the log density, of its prior or of its likelihood.
        likelihood: the same of the likelihood alone; equal to `defect` where terms are unknown.
        blame: name of the term that changes most.
    """

    defect: float
    likelihood: float
    blame: str

    @property
    def holds(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.defect <= TOLERANCE


class Probe:
    """Log densities in terms, at points and images.

    Args:
        evaluate: from points (n, dim) to terms (n, terms); always called with `BLOCK` points.
        terms: names of the terms, the likelihood, or the whole density, last.
        centre: a point near which the density is worth looking at, alike for equal labels.
        spread: how far to go from there, per coordinate.
        seed: chooses the points.
        points: where to look, instead of the likeliest of normal points around the centre.
    """

    def __init__(
        self,
        evaluate: Callable[[HostPoints], TermValues],
        terms: tuple[str, ...],
        centre: np.ndarray,
        spread: np.ndarray,
        seed: int = 0,
        points: HostPoints | None = None,
    ) -> None:
        self._evaluate, self.terms = evaluate, terms
        self.likelihood_alone = False
        self.centre, self.spread = centre, spread
        self.generator = np.random.default_rng(seed)
        self.evaluations = 0
        self.points = self._likely_points() if points is None else np.asarray(points, np.float64)
        self.values = self.evaluate(self.points)
        if not np.all(np.isfinite(self.values.sum(axis=1))):
            raise ValueError("expected points at which the log density is finite")

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.centre.size

    def evaluate(self, points: HostPoints) -> TermValues:
        """Return all terms at all points, block by block."""
        count = len(points)
        self.evaluations += count
        rows = np.arange(-(-count // BLOCK) * BLOCK).clip(max=count - 1)
        blocks = points[rows].reshape(-1, BLOCK, points.shape[1])
        return np.concatenate([self._evaluate(block) for block in blocks])[:count]

    def changes(self, images: list[HostPoints]) -> list[Change]:
        """Return how much the density changes from the points to each list of images."""
        if not images:
            return []
        moved = self.evaluate(np.concatenate(images)).reshape(len(images), *self.values.shape)
        return [self.change(self.values, each) for each in moved]

    def change(self, before: TermValues, after: TermValues) -> Change:
        """Return the worst change over points."""
        with np.errstate(invalid="ignore"):
            steps = np.abs(after - before) / (1.0 + np.abs(before))
            sums = [float(self._each(before, after, part).max()) for part in self._sums()]
        worst = np.where(np.isfinite(steps), steps, np.inf).max(axis=0)
        return Change(max(sums), sums[-1], self.terms[int(np.argmax(worst))])

    def differ(self, before: HostPoints, after: HostPoints) -> np.ndarray:
        """Return the relative change between the points of every pair."""
        if not len(before):
            return np.zeros(0)
        values = self.evaluate(np.concatenate([before, after]))
        one, other = values[: len(before)], values[len(before) :]
        return np.max([self._each(one, other, part) for part in self._sums()], axis=0)

    def of_likelihood(self) -> Probe:
        """Return the same probe with an eye for the likelihood alone."""
        other = copy.copy(self)
        other.likelihood_alone = True
        return other

    def _sums(self) -> tuple[slice, ...]:
        """Return terms that are taken together: all, the priors, the likelihood."""
        if self.likelihood_alone:
            return (slice(-1, None),)
        if len(self.terms) == 1:
            return (slice(None),)
        return slice(None), slice(0, -1), slice(-1, None)

    @staticmethod
    def _each(before: TermValues, after: TermValues, part: slice) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            one, other = before[:, part].sum(axis=1), after[:, part].sum(axis=1)
            relative = np.abs(other - one) / (1.0 + np.abs(before[:, part]).sum(axis=1))
        outside = ~np.isfinite(one) & ~np.isfinite(other)  # on both sides, which is no change
        if outside.all():  # and where all are, nothing was compared
            return np.full(len(one), np.inf)
        return np.where(outside, 0.0, np.where(np.isfinite(relative), relative, np.inf))

    def _likely_points(self) -> HostPoints:
        """Return the likeliest of normal points of several scales.

        Where the log density is not huge, a small difference between labels does not drown in it.
        """
        scales = np.repeat([1.0, 1.0, 0.3, 3.0], _CANDIDATES // 4)
        steps = scales[:, None] * self.generator.normal(size=(_CANDIDATES, self.dim))
        candidates = self.centre + self.spread * steps
        values = self.evaluate(candidates).sum(axis=1)
        values = np.where(np.isfinite(values), values, -np.inf)
        best = np.argsort(-values, kind="stable")[:_POINTS]
        best = best[np.isfinite(values[best])]
        if best.size < FEWEST_POINTS:
            raise ValueError(
                f"the log density is finite at only {best.size} of {_CANDIDATES} normal points: "
                "pass points=... inside its support"
            )
        return candidates[best]
