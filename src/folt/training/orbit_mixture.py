"""The default proposal: an orbit mixture by expectation-maximisation, polished by regression.

Sizes are tried from one component upwards and the first that is good enough on held-out draws is
kept, otherwise the best: one Gaussian is exact for Gaussian targets and costs a second.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from folt._types import Key, Points
from folt.batching import map_points
from folt.flows import Mixture
from folt.fold import Folded
from folt.groups import Group
from folt.training.orbit_em import fit_orbit_mixture
from folt.training.regression import Arena, Progress, Setting, regress

PARAMETERS = 1400
"""Parameters of the largest mixture: what one dense Gauss-Newton step solves in a tenth of a second."""


def largest_size(dim: int) -> int:
    """Components of the largest mixture in this dimension, between 2 and 48."""
    per_component = 1 + dim + dim * (dim + 1) // 2
    return max(2, min(48, PARAMETERS // per_component))


@dataclasses.dataclass(frozen=True)
class OrbitMixture:
    """Trainer: orbit EM from several labellings, then log-ratio regression.

    Args:
        sizes: numbers of components to try in turn; by dimension if empty.
        labellings: starting labellings of the draws, the sorted one among them.
        degrees: degrees of freedom of the components; infinite for Gaussians.
        flat: held-out standard deviation of h at which no larger size is tried.
        single: how the regression of one component runs.
        full: how the regression of the larger sizes runs.
    """

    sizes: tuple[int, ...] = ()
    labellings: int = 3
    degrees: float = float("inf")
    flat: float = 0.01
    single: Setting = Setting(rounds=8, fresh=2048, memory=1, inner_steps=3, patience=3)
    full: Setting = Setting()

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
        label_key, *size_keys = jax.random.split(key, 8)
        if start is not None:
            return regress(size_keys[0], start, arena, self.full, progress)[0]
        sizes = self.sizes or (1, largest_size(arena.group.dim))
        single = self._best_labelling(label_key, arena)
        points = relabelled(single, arena.group, arena.training.points)
        best, best_loss = single, jnp.inf
        for size_key, size in zip(size_keys, sizes, strict=False):
            em_key, regression_key = jax.random.split(size_key)
            mixture = single
            if size > 1:
                count = min(size, points.shape[0] // 4)
                mixture = fit_orbit_mixture(
                    em_key, arena.group, points, count, degrees=self.degrees
                )[0]
            setting = self.full if size > 1 else self.single
            mixture, loss = regress(regression_key, mixture, arena, setting, progress)
            if loss < best_loss:
                best, best_loss = mixture, loss
            if jnp.sqrt(2 * best_loss) < self.flat:
                break
        return best

    def _best_labelling(self, key: Key, arena: Arena) -> Mixture:
        """One component fitted from several labellings; the likeliest on held-out draws."""
        points = arena.training.points
        fits = []
        for number, start_key in enumerate(jax.random.split(key, self.labellings)):
            labelled = points if number == 0 else nearest_images(start_key, arena.group, points)
            mixture = fit_orbit_mixture(start_key, arena.group, labelled, 1, degrees=self.degrees)[0]
            folded = Folded(mixture, arena.group)
            held_out = map_points(
                Folded.log_prob, folded, arena.selection.points, terms=arena.group.order
            )
            fits.append((float(jnp.mean(held_out)), mixture))
        return max(fits, key=lambda fit: fit[0])[1]


def relabelled(mixture: Mixture, group: Group, points: Points) -> Points:
    """Every draw under the label that the mixture finds likeliest."""
    folded = Folded(mixture, group)
    return map_points(Folded.most_likely_image, folded, points, terms=group.order)


def nearest_images(key: Key, group: Group, points: Points) -> Points:
    """Every draw under the label nearest to a randomly chosen image of a random draw."""
    index_key, image_key = jax.random.split(key)
    pivot = points[jax.random.randint(index_key, (), 0, points.shape[0])]
    pivot = group.random_image(image_key, pivot)
    return map_points(_nearest, (group, pivot), points, terms=group.order)


def _nearest(context: tuple[Group, Points], x: Points) -> Points:
    group, pivot = context
    images = group.orbit(x)
    return images[jnp.argmin(jnp.sum((images - pivot) ** 2, axis=-1))]
