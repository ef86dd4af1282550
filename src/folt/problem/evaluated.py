"""A density with its symmetry at many points: values, gradients, and the same of its fold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from folt.batching import map_points
from folt.groups import Group
from folt.problem.black_box import BlackBox
from folt.proposals.action import action_of
from folt.types import Density, HostPoints, HostValues, Point, Scalar

VALUES_PER_BLOCK = 1024
GRADIENTS_PER_BLOCK = 128
"""Points per call of the compiled density: larger blocks leave the cache, smaller ones wait."""

VALUES_PER_GRADIENT = 3
"""What a gradient costs, in values: reverse differentiation runs a density forth and back."""

_IMAGES_AT_ONCE = 1 << 16
"""Images of points that are in memory at once."""


class Evaluated(Density):
    """A log density on R^dim with a group, evaluated at many points at once.

    Methods call each other through the class: a method of a module is a module of its own, and to
    make one walks through the whole problem, which took a fifth of a small fit.
    """

    log_density: eqx.AbstractVar[Callable[..., Scalar]]
    group: eqx.AbstractVar[Group]
    invariant: eqx.AbstractVar[bool]

    @property
    def black_box(self) -> BlackBox | None:
        """The host function behind the density, or None where the density is written in JAX."""
        return self.log_density if isinstance(self.log_density, BlackBox) else None

    @property
    def differentiable(self) -> bool:
        """Whether there is a gradient: by JAX, or by a function of the user's own."""
        return self.black_box is None or self.black_box.gradient is not None

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """While values are asked for; the processes of a black box end with it."""
        try:
            yield
        finally:
            if self.black_box is not None:
                self.black_box.close()

    def log_probs(self, points: HostPoints) -> HostValues:
        """Log density at many points: compiled, or by the black box in batches of its own."""
        if self.black_box is not None:
            return self.black_box.values(points)
        return map_points(_value, self, points, length=VALUES_PER_BLOCK)

    def gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log density and its gradient at many points."""
        if self.black_box is not None:
            return self.black_box.gradients(points)
        return map_points(_with_gradient, self, points, length=GRADIENTS_PER_BLOCK)

    def log_folds(self, points: HostPoints) -> HostValues:
        """Return log π_F at many points, s·π or the orbit sum."""
        if self.invariant or self.group.order == 1:
            return type(self).log_probs(self, points) + self.group.log_order
        return logsumexp(type(self).log_orbits(self, points), axis=1)

    def log_orbits(self, points: HostPoints) -> Float[np.ndarray, "n order"]:
        """Return log π(g·z) for every g, at many points."""
        order, action = self.group.order, action_of(self.group)
        length = max(1, _IMAGES_AT_ONCE // order)
        parts = []
        for start in range(0, max(len(points), 1), length):
            images = action.images(points[start : start + length])
            values = type(self).log_probs(self, images.reshape(-1, self.dim))
            parts.append(values.reshape(-1, order))
        return np.concatenate(parts)

    def folded_gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return log π_F and its gradient, Σ_g (π(g·z)/π_F(z))·gᵀ∇log π(g·z)."""
        if self.invariant or self.group.order == 1:
            values, gradients = type(self).gradients(self, points)
            return values + self.group.log_order, gradients
        action, shape = action_of(self.group), (len(points), self.group.order)
        images = action.images(points).reshape(-1, self.dim)
        terms, slopes = type(self).gradients(self, images)
        terms = terms.reshape(shape)
        values = logsumexp(terms, axis=1)
        with np.errstate(invalid="ignore"):  # -inf everywhere: no gradient, and no number
            shares = np.exp(terms - values[:, None])
        slopes = np.where(shares[..., None] > 0.0, slopes.reshape(*shape, self.dim), 0.0)
        return values, np.einsum("ng,ngi,gij->nj", shares, slopes, action.matrices)


def _value(density: Density, x: Point) -> Scalar:
    return density.log_prob(x)


def _with_gradient(density: Density, x: Point) -> tuple[Scalar, Point]:
    return jax.value_and_grad(density.log_prob)(x)
