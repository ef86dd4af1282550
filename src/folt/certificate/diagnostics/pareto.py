"""The tail of importance weights: how heavy it is, and what it adds to their mean."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_GRID = 60
"""Points of the first, coarse search for the likeliest tail; none of them is zero."""

_FEWEST = 5
"""Fewest weights to which a tail is fitted."""


@dataclasses.dataclass(frozen=True)
class ParetoTail:
    """A generalised Pareto law fitted to the largest weights.

    Attributes:
        shape: k̂. Moments of the weights above 1/k̂ are infinite: the variance from ½, the mean from
            1. Minus infinity if the largest weights are all alike, infinity if there are too few.
        scale: of the excess over the threshold.
        threshold: the weight above which the tail begins.
        count: weights in the tail.
    """

    shape: float
    scale: float
    threshold: float
    count: int

    @property
    def mean(self) -> float:
        """Mean of a weight in the tail, u + σ/(1 - k); infinite from k = 1 on."""
        if self.shape >= 1.0:
            return math.inf
        return self.threshold + self.scale / (1.0 - self.shape)

    @property
    def mean_variance(self) -> float:
        """Variance of the estimated `mean`, from the errors of the fitted shape and scale.

        Maximum likelihood gives (k, σ) the covariance (1+k)/m · [[1+k, -σ], [-σ, 2σ²]].
        """
        if not -0.5 < self.shape < 1.0:
            return math.inf if self.shape >= 1.0 else 0.0
        by_shape, by_scale = self.scale / (1.0 - self.shape) ** 2, 1.0 / (1.0 - self.shape)
        shape, both, scale = 1.0 + self.shape, -self.scale, 2.0 * self.scale**2
        form = shape * by_shape**2 + 2.0 * both * by_shape * by_scale + scale * by_scale**2
        return (1.0 + self.shape) / self.count * form


def pareto_tail(weights: Float[np.ndarray, " n"]) -> ParetoTail:
    """Fit the largest min(n/5, 3√n) weights by maximum likelihood.

    Args:
        weights: on any scale; a largest weight of about one keeps the arithmetic harmless.
    """
    count = int(min(weights.size // 5, 3 * math.sqrt(weights.size)))
    if count < _FEWEST:
        return ParetoTail(math.inf, math.nan, math.nan, count)
    ordered = np.sort(weights)
    threshold = float(ordered[-count - 1])
    excess = ordered[-count:] - threshold
    if excess[-1] <= 1e-12 * ordered[-1]:
        return ParetoTail(-math.inf, 0.0, threshold, count)
    unit = float(excess.mean())
    shape, scale = _most_likely(excess / unit)
    return ParetoTail(shape, scale * unit, threshold, count)


def _most_likely(excess: np.ndarray) -> tuple[float, float]:
    """Shape and scale of the likeliest generalised Pareto law, by a search in one dimension.

    Given θ = k/σ the likeliest shape is k(θ) = mean log(1 + θx), which leaves the likelihood
    -log(k(θ)/θ) - k(θ) - 1 per draw to be maximised over θ > -1/max x.
    """
    largest = float(excess[-1])

    def rate(s: np.ndarray | float) -> np.ndarray:
        return np.asarray(np.expm1(s) / largest)

    def loss(s: np.ndarray | float) -> np.ndarray:
        theta = rate(s)
        shape = np.log1p(theta[..., None] * excess).mean(axis=-1)
        return np.log(shape / theta) + shape

    grid = np.linspace(-2.0, 25.0, _GRID)
    best = grid[int(np.argmin(loss(grid)))]
    width = grid[1] - grid[0]
    theta = rate(_lowest(lambda s: float(loss(s)), best - width, best + width))
    shape = float(np.log1p(theta * excess).mean())
    return shape, shape / float(theta)


def _lowest(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where a loss with one valley is lowest, by golden section.

    SciPy's minimisers would do; importing them takes a third of a second.
    """
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - golden * (high - low), low + golden * (high - low)
    below, above = loss(left), loss(right)
    while high - low > 1e-6:
        if below < above:
            high, right, above = right, left, below
            left = high - golden * (high - low)
            below = loss(left)
        else:
            low, left, below = left, right, above
            right = low + golden * (high - low)
            above = loss(right)
    return 0.5 * (low + high)
