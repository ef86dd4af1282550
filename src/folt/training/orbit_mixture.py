"""The default proposal: an orbit mixture by expectation-maximisation, polished by regression.

Sizes are tried from one component upwards and the first that is good enough on held-out draws is
kept, otherwise the best: one Gaussian is exact for Gaussian targets and costs a second. Doubling
splits what is there and goes on, where more time may be spent.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from folt._types import Distribution, Key, Point, host_generator
from folt.batching import map_points
from folt.flows import Mixture
from folt.fold import Folded
from folt.groups import Group
from folt.training.orbit_em import fit_orbit_mixture
from folt.training.regression import (
    FULL,
    SINGLE,
    Arena,
    Judgement,
    Progress,
    Setting,
    regress,
)

PARAMETERS = 1400
"""Parameters of the largest mixture, so that a dense Gauss-Newton step stays cheap."""


def largest_size(dim: int) -> int:
    """Components of the largest mixture in this dimension, between 2 and 48."""
    per_component = 1 + dim + dim * (dim + 1) // 2
    return max(2, min(48, PARAMETERS // per_component))


@dataclasses.dataclass(frozen=True)
class OrbitMixture:
    """Trainer: orbit EM from several labellings, then log-ratio regression.

    Args:
        size: components of the first mixture, fitted by expectation-maximisation; by dimension
            if None.
        doublings: how often every component is split in two and the mixture polished again,
            while h is not flat enough.
        labellings: starting labellings of the draws, the sorted one among them.
        degrees: degrees of freedom of the components; infinite for Gaussians.
        flat: judged spread of h at which no larger size is tried.
        single: how the regression of one component runs.
        full: how the regression of the larger sizes runs.
    """

    size: int | None = None
    doublings: int = 0
    labellings: int = 3
    degrees: float = float("inf")
    flat: float = 0.015
    single: Setting = SINGLE
    full: Setting = FULL

    def __call__(
        self, key: Key, arena: Arena, start: Mixture | None = None, progress: Progress | None = None
    ) -> Mixture:
        """The fitted mixture.

        Args:
            key: randomness of starts and fresh draws.
            arena: draws, target values, symmetry and safety.
            start: a mixture to polish instead of fitting one, such as an earlier fit's.
            progress: told the fraction done and a message.
        """
        label_key, *size_keys = _branches(key, 5 + self.doublings)
        if start is not None:
            return regress(size_keys[0], start, arena, self.full, progress)[0]
        single, spread = self._best_labelling(label_key, arena)
        best, found = single, Judgement(math.inf, math.inf)
        if spread < promising_spread(arena):
            best, found = regress(size_keys[0], single, arena, self.single, progress)
        if found.spread < self.flat:
            return best
        mixture = self._first_mixture(size_keys[1], arena, single)
        for doubling in range(self.doublings + 1):
            if doubling > 0:
                mixture = doubled(size_keys[2], best)
            mixture, judged = regress(size_keys[3 + doubling], mixture, arena, self.full, progress)
            if judged.loss < found.loss:
                best, found = mixture, judged
            if found.spread < self.full.flat:
                break
        return best

    def _first_mixture(self, key: Key, arena: Arena, single: Mixture) -> Mixture:
        """Expectation-maximisation on the draws as the single component labels them."""
        points = relabelled(single, arena.group, arena.training.points)
        size = min(self.size or largest_size(arena.group.dim), points.shape[0] // 4)
        return fit_orbit_mixture(key, arena.group, points, size, degrees=self.degrees)[0]

    def _best_labelling(self, key: Key, arena: Arena) -> tuple[Mixture, float]:
        """One component from several labellings: the likeliest on held-out draws, and sd of h."""
        points, (held_out, log_target) = arena.training.points, arena.selection
        fits = []
        for number, start_key in enumerate(_branches(key, self.labellings)):
            labelled = points if number == 0 else nearest_images(start_key, arena.group, points)
            mixture, _ = fit_orbit_mixture(
                start_key, arena.group, labelled, 1, degrees=self.degrees
            )
            folded = Folded(mixture, arena.group)
            log_flow = map_points(Folded.log_prob, folded, held_out, terms=arena.group.order)
            fits.append((log_flow.mean(), np.std(log_target - log_flow), mixture))
        _, spread, mixture = max(fits, key=lambda fit: fit[0])
        return mixture, float(spread)


def doubled(key: Key, mixture: Mixture, offset: float = 0.6) -> Mixture:
    """Every component split in two along a random direction, its first two moments kept.

    The halves sit at ±offset along a unit vector d of the component's own coordinates, with
    covariance I - offset²·ddᵀ there.
    """
    count, dim = mixture.means.shape
    directions = host_generator(key).normal(size=(count, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    roots = np.linalg.inv(np.asarray(mixture.factors))
    pushed = np.einsum("kij,kj->ki", roots, directions)
    shifts = offset * pushed
    covariances = roots @ roots.transpose(0, 2, 1)
    covariances -= offset**2 * pushed[:, :, None] * pushed[:, None, :]
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    log_weights, means = np.asarray(mixture.log_weights), np.asarray(mixture.means)
    return Mixture(
        jnp.asarray(np.tile(log_weights - math.log(2), 2)),
        jnp.asarray(np.concatenate([means + shifts, means - shifts])),
        jnp.asarray(np.tile(factors, (2, 1, 1))),
        mixture.degrees,
    )


def promising_spread(arena: Arena) -> float:
    """Standard deviation of h below which a single component may be the exact answer.

    One that is exact but for the noise of n training draws has sd(h) about sqrt(parameters/n).
    """
    dim = arena.group.dim
    parameters = dim + dim * (dim + 1) // 2
    return 0.1 + 1.3 * math.sqrt(parameters / arena.training.points.shape[0])


def _branches(key: Key, count: int) -> list[Key]:
    """Keys folded in one by one: compiled once, whatever their number."""
    return [jax.random.fold_in(key, number) for number in range(count)]


def relabelled(flow: Distribution, group: Group, points: np.ndarray) -> np.ndarray:
    """Every draw under the label that a proposal finds likeliest."""
    folded = Folded(flow, group)
    return map_points(Folded.most_likely_image, folded, points, terms=group.order)


def nearest_images(key: Key, group: Group, points: np.ndarray) -> np.ndarray:
    """Every draw under the label nearest to a randomly chosen image of a random draw."""
    generator = host_generator(key)
    pivot = points[generator.integers(points.shape[0])]
    chosen = group.element(int(generator.integers(group.order)))
    pivot = np.asarray(group.act(chosen, jnp.asarray(pivot)))
    return map_points(_nearest, (group, pivot), points, terms=group.order)


def _nearest(context: tuple[Group, Point], x: Point) -> Point:
    group, pivot = context
    images = group.orbit(x)
    return images[jnp.argmin(jnp.sum((images - pivot) ** 2, axis=-1))]
