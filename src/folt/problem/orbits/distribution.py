"""Distributions on the host: in NumPy where they are made of Gaussians, compiled elsewhere."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float

from folt.problem.batching import LARGE_CHUNK, map_keys, map_points
from folt.problem.orbits.components import log_sum_of
from folt.problem.orbits.sums import components_of
from folt.types import Density, Distribution, Key, Point, Scalar, host_generator

Points = Float[np.ndarray, "n dim"]


class HostDistribution:
    """A distribution that is asked for many points at once.

    Args:
        distribution: any `Distribution`.
    """

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution
        self.parts = components_of(distribution)

    def log_probs(self, points: Points) -> Float[np.ndarray, " n"]:
        """Its log density at every point."""
        if self.parts is not None:
            return log_sum_of(self.parts, points)
        return map_points(_log_prob, self.distribution, points, length=LARGE_CHUNK)

    def with_gradients(self, points: Points) -> tuple[Float[np.ndarray, " n"], Points]:
        """Its log density and the gradient of that at every point."""
        return map_points(_with_gradient, self.distribution, points, length=LARGE_CHUNK)

    def sample(self, key: Key, count: int) -> Points:
        """So many independent draws."""
        if self.parts is None:
            return map_keys(_sample, self.distribution, key, count, length=LARGE_CHUNK, once=True)
        generator = host_generator(key)
        shares = np.exp([np.logaddexp.reduce(part.log_weights) for part in self.parts])
        counts = generator.multinomial(count, shares / shares.sum())
        drawn = [part.sample(generator, n) for part, n in zip(self.parts, counts, strict=True)]
        return np.concatenate(drawn)


def _log_prob(density: Density, point: Point) -> Scalar:
    return density.log_prob(point)


def _with_gradient(density: Density, point: Point) -> tuple[Scalar, Point]:
    return jax.value_and_grad(density.log_prob)(point)


def _sample(distribution: Distribution, key: Key) -> Point:
    return distribution.sample(key)
