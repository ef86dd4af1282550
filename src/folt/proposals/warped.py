"""Components behind sinh-arcsinh margins, and their sum over a listed group, as NumPy arrays."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from folt.proposals.components import Components
from folt.types import HostPoints


class Margins(NamedTuple):
    """y = sinh(t·arcsinh((x - c)/s) - e) for every coordinate.

    Attributes:
        centre: c.
        log_scale: log s.
        skew: e.
        log_tail: log t.
    """

    centre: Float[np.ndarray, " dim"]
    log_scale: Float[np.ndarray, " dim"]
    skew: Float[np.ndarray, " dim"]
    log_tail: Float[np.ndarray, " dim"]

    def at(self, places: np.ndarray) -> Margins:
        """Return the margins of some coordinates."""
        return Margins(*(part[places] for part in self))

    def push(self, y: np.ndarray) -> np.ndarray:
        """From y to x, coordinates along the last axis."""
        bent = (np.arcsinh(y) + self.skew) * np.exp(-self.log_tail)
        return self.centre + np.exp(self.log_scale) * np.sinh(bent)

    def pull(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From x to y, and log dy/dx of every coordinate."""
        standard = (x - self.centre) * np.exp(-self.log_scale)
        root = np.sqrt(1.0 + standard**2)
        # log(|v| + sqrt(1 + v²)) is arcsinh without its series, and several times faster.
        bent = np.copysign(np.log(np.abs(standard) + root), standard)
        bent *= np.exp(self.log_tail)
        bent -= self.skew
        grown = np.exp(np.minimum(bent, 700.0))
        shrunk = np.exp(np.minimum(-bent, 700.0))
        slopes = np.log((0.5 * grown + 0.5 * shrunk) / root)
        slopes += self.log_tail - self.log_scale
        return 0.5 * (grown - shrunk), slopes


@dataclasses.dataclass(frozen=True, eq=False)
class WarpedComponents:
    """Components of y behind margins x ↦ y.

    Attributes:
        base: the components of y.
        margins: the map of every coordinate.
    """

    base: Components
    margins: Margins

    @property
    def log_weights(self) -> Float[np.ndarray, " components"]:
        """Those of the base."""
        return self.base.log_weights

    @property
    def count(self) -> int:
        """Number of components."""
        return self.base.count

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.base.dim

    def scaled(self, log_share: float) -> WarpedComponents:
        """The same with all weights times a share."""
        return dataclasses.replace(self, base=self.base.scaled(log_share))

    def log_terms(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """Return log w_k + log p_k(x) of every point and component."""
        y, slopes = self.margins.pull(points)
        return self.base.log_terms(y) + slopes.sum(axis=1)[:, None]

    def sample(self, generator: np.random.Generator, count: int) -> HostPoints:
        """Return independent draws of the normalised mixture."""
        return self.margins.push(self.base.sample(generator, count))

    def over(self, matrices: Float[np.ndarray, "order dim dim"]) -> FoldedWarped:
        """Return the sum over all images, element by element."""
        return FoldedWarped(self, matrices)


class FoldedWarped:
    """x ↦ Σ_g p(g·x) of components behind margins.

    An entry of g·x is one of a few: under a permutation of m blocks one of m, whatever the number
    of elements. The margins are computed at these and gathered for every element.

    Args:
        part: the components.
        matrices: those of the group's elements.
    """

    def __init__(
        self, part: WarpedComponents, matrices: Float[np.ndarray, "order dim dim"]
    ) -> None:
        self.part, self.order = part, len(matrices)
        self.count = self.order * part.count
        rows, places, coordinates = [], [], []
        reached = 0
        for coordinate in range(part.dim):
            found, inverse = np.unique(matrices[:, coordinate], axis=0, return_inverse=True)
            rows.append(found)
            places.append(reached + inverse.reshape(-1))
            coordinates += [coordinate] * len(found)
            reached += len(found)
        self.rows = np.concatenate(rows)
        self.places = np.stack(places, axis=1)
        self.margins = part.margins.at(np.array(coordinates))

    @functools.cached_property
    def log_weights(self) -> Float[np.ndarray, " components"]:
        """Weights of all images."""
        return np.tile(self.part.log_weights, self.order)

    def log_terms(self, points: HostPoints) -> Float[np.ndarray, "n components"]:
        """Return log w_k + log p_k(g·x) of every point, element and component."""
        y, slopes = self.margins.pull(points @ self.rows.T)
        images = y[:, self.places].reshape(-1, self.part.dim)
        terms = self.part.base.log_terms(images).reshape(len(points), self.order, -1)
        terms += slopes[:, self.places].sum(axis=-1)[:, :, None]
        return terms.reshape(len(points), self.count)
