"""Targets known exactly: normalised, with exact draws, so that every claim can be checked.

Their log evidence is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float

from folt.groups import Permutation, Reflection
from folt.models.independent import LOG_TWO_PI
from folt.models.observations import finite
from folt.problem import Problem
from folt.types import Distribution, Key, Point, Scalar, in_float64

_CENTRES: dict[int, tuple[tuple[float, ...], ...]] = {
    2: ((2.0, 0.5), (5.0, 0.8), (8.0, 0.3), (11.0, 0.6)),
    4: ((2.0, 0.5, 1.0, 0.3), (5.0, 0.8, 0.5, 1.2), (8.0, 0.3, 0.8, 0.7)),
}
"""Block centres of the label-switching targets, by block size."""


class GaussianPair(Distribution):
    """Two mirrored Gaussians, ½N(c·e₁, I) + ½N(-c·e₁, I).

    The log density is log φ_d(x) - c²/2 + log cosh(c·x₁), even in x₁ to the last bit.
    """

    mean: Float[Array | np.ndarray, " dim"]

    def __init__(self, dim: int, offset: float):
        self.mean = np.concatenate([[float(offset)], np.zeros(dim - 1)])

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.mean.shape[0]

    @property
    def offset(self) -> Float[Array | np.ndarray, ""]:
        """Distance c of either mean from the mirror."""
        return self.mean[0]

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at one point."""
        log_cosh = jnp.logaddexp(self.offset * x[0], -self.offset * x[0]) - math.log(2)
        return log_cosh - 0.5 * (jnp.dot(x, x) + self.offset**2 + self.dim * LOG_TWO_PI)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        key_sign, key_noise = jax.random.split(key)
        x = jax.random.normal(key_noise, (self.dim,))
        x = x.at[0].add(self.offset * jax.random.rademacher(key_sign, (), x.dtype))
        return x, self.log_prob(x)


class LabelSwitching(Distribution):
    """Gaussian blocks in unknown order, (1/m!) Σ over permutations g of N(g·centres, I)."""

    centres: Float[Array | np.ndarray, " dim"]
    group: Permutation

    def __init__(self, centres: Float[np.ndarray, "blocks size"], group: Permutation):
        self.centres = centres.reshape(-1)
        self.group = group

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.group.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at one point, summed over the orbit of the centres."""
        squares = jnp.sum(jnp.square(x - self.group.orbit(jnp.asarray(self.centres))), axis=1)
        constant = math.log(self.group.order) + 0.5 * self.dim * LOG_TWO_PI
        return logsumexp(-0.5 * squares) - constant

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        key_label, key_noise = jax.random.split(key)
        centres = self.group.random_image(key_label, jnp.asarray(self.centres))
        x = centres + jax.random.normal(key_noise, (self.dim,))
        return x, self.log_prob(x)


class Banana(Distribution):
    """Two bananas of different curvature on one axis, ½ Σ_a N(x₁; 0, 2²) N(x₂; a·x₁², 0.5²).

    Even in x₁, hence exactly invariant although the two curvatures differ.
    """

    curvatures: Float[Array | np.ndarray, " k"]

    def __init__(self, curvatures: Sequence[float]):
        self.curvatures = np.asarray(curvatures, float)

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return 2

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at one point."""
        terms = jax.vmap(_log_banana, in_axes=(None, 0))(x, jnp.asarray(self.curvatures))
        return logsumexp(terms) - math.log(len(self.curvatures))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        key_label, key_noise = jax.random.split(key)
        curvature = jax.random.choice(key_label, jnp.asarray(self.curvatures))
        x = _bend(jax.random.normal(key_noise, (2,)), curvature, curvature)
        return x, self.log_prob(x)


class BrokenBanana(Distribution):
    """One banana whose two arms bend differently: curvature `right` for x₁ > 0, `left` below.

    N(x₁; 0, 2²) N(x₂; a(x₁)·x₁², 0.5²) with a(x₁) the curvature of that arm: not invariant
    under x₁ → -x₁ unless the curvatures agree.
    """

    right: Float[Array | np.ndarray, ""]
    left: Float[Array | np.ndarray, ""]

    def __init__(self, right: float, left: float):
        self.right, self.left = np.asarray(right, float), np.asarray(left, float)

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return 2

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at one point."""
        return _log_banana(x, jnp.where(x[0] > 0, self.right, self.left))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return one draw and its log density."""
        x = _bend(jax.random.normal(key, (2,)), self.right, self.left)
        return x, self.log_prob(x)


_SPREAD, _WIDTH = 2.0, 0.5
"""Standard deviations of a banana along its axis and across its arms."""


def _log_banana(x: Point, curvature: Float[Array, ""]) -> Scalar:
    along, across = x[0] / _SPREAD, (x[1] - curvature * x[0] ** 2) / _WIDTH
    return -0.5 * (along**2 + across**2) - LOG_TWO_PI - math.log(_SPREAD * _WIDTH)


def _bend(noise: Point, right: ArrayLike, left: ArrayLike) -> Point:
    first = _SPREAD * noise[0]
    curvature = jnp.where(first > 0, right, left)
    return jnp.stack([first, curvature * first**2 + _WIDTH * noise[1]])


@in_float64
def gaussian_pair(dim: int = 2, offset: float = 3.0) -> Problem:
    """Return ½N(c·e₁, I) + ½N(-c·e₁, I) on R^dim with the reflection of its first axis."""
    finite(offset=offset)
    group = Reflection(dim, (0,))
    return _known_exactly(GaussianPair(dim, offset), group)


@in_float64
def label_switching(
    blocks: int = 3,
    size: int = 2,
    centres: ArrayLike | Sequence[Sequence[float]] | None = None,
) -> Problem:
    """Return m Gaussian blocks of p coordinates in every order, with all m! permutations.

    Args:
        blocks: number of blocks, m.
        size: coordinates per block, p.
        centres: block centres; the published ones exist for p = 2, m ≤ 4 and p = 4, m ≤ 3.
    """
    group = Permutation(blocks, size)
    array = np.asarray(_published(blocks, size) if centres is None else centres, float)
    if array.shape != (blocks, size) or not np.all(np.isfinite(array)):
        raise ValueError(
            f"expected finite centres of shape ({blocks}, {size}), got shape {array.shape}"
        )
    return _known_exactly(LabelSwitching(array, group), group)


@in_float64
def banana(a: float = 1.0, b: float = 0.5) -> Problem:
    """Return two bananas of curvature a and b, even in the first axis and thus invariant."""
    finite(a=a, b=b)
    return _known_exactly(Banana((a, b)), Reflection(2, (0,)))


@in_float64
def broken_banana(a: float = 1.0, b: float = 0.5) -> Problem:
    """Return a banana with curvature a for x₁ > 0 and b for x₁ < 0: a symmetry that is broken."""
    finite(a=a, b=b)
    return _known_exactly(BrokenBanana(a, b), Reflection(2, (0,)), invariant=False)


def _published(blocks: int, size: int) -> tuple[tuple[float, ...], ...]:
    known = _CENTRES.get(size, ())
    if len(known) < blocks:
        raise ValueError(
            f"no published centres for {blocks} blocks of size {size}: "
            f"pass centres of shape ({blocks}, {size})"
        )
    return known[:blocks]


def _known_exactly(
    target: Distribution, group: Permutation | Reflection, invariant: bool = True
) -> Problem:
    return Problem(target.log_prob, group, invariant=invariant, sampler=target.sample)
