"""Points on which the log ratio is regressed, with their orbit already resolved.

Of the s orbit terms of q_F(z) only a few carry weight. A pool keeps, for every point, the few
images with the largest density under the proposal that made the pool, and freezes the rest of the
orbit sum as a constant. Training then costs a few terms per point whatever the size of the group.
Certificates never use this: they sum the whole orbit.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.training.candidates import candidates, price
from folt.types import Distribution, Key, Point, Scalar


class Pool(NamedTuple):
    """Regression points: kept images, frozen remainder of the orbit sum, log target."""

    images: Float[np.ndarray, "n kept dim"]
    log_rest: Float[np.ndarray, " n"]
    log_target: Float[np.ndarray, " n"]

    def residuals(self, flow: Distribution) -> Float[np.ndarray, " n"]:
        """H at every point: kept images under `flow`, the other terms frozen."""
        log_flow = map_points(_log_proposal, flow, (self.images, self.log_rest))
        return self.log_target - log_flow

    def some(self, count: int, seed: int) -> Pool:
        """A random part of the pool, of at most `count` points."""
        rows = np.random.default_rng(seed).permutation(self.log_target.size)[:count]
        return Pool(*(leaf[rows] for leaf in self))

    def single(self) -> Pool:
        """In single precision; the log target is centred first, which keeps what varies."""
        centred = self.log_target - np.median(self.log_target)
        return Pool(*(leaf.astype(np.float32) for leaf in (self.images, self.log_rest, centred)))

    def inside(self) -> Pool:
        """The points at which the target does not vanish."""
        rows = np.isfinite(self.log_target)
        return Pool(*(leaf[rows] for leaf in self))


def _log_proposal(flow: Distribution, point: tuple[Array, Array]) -> Scalar:
    images, log_rest = point
    return jnp.logaddexp(logsumexp(jax.vmap(flow.log_prob)(images)), log_rest)


class Resolver(eqx.Module):
    """What resolving one point needs.

    Args:
        flow: the proposal before tail safety, folded.
        guard: the safety component r, folded; its share λ/(1-λ)·r_F is constant in training.
        guard_odds: λ/(1-λ).
        pilot: names the images worth looking at where the group is large; None looks at all.
        kept: images kept per point.
    """

    flow: Folded
    guard: Folded | None
    guard_odds: float
    pilot: Distribution | None
    kept: int = eqx.field(static=True)

    def resolve(self, z: Point) -> tuple[Float[Array, "kept dim"], Scalar]:
        """The images of z that matter, and the log of the rest of the sum."""
        images = candidates(self.flow.group, self.pilot, z)
        terms = jax.vmap(self.flow.density.log_prob)(images)
        kept = min(self.kept, images.shape[0])
        order = jnp.argsort(-terms)[:kept]
        rest = logsumexp(terms.at[order].set(-jnp.inf))
        if self.guard is not None:
            rest = jnp.logaddexp(rest, self.guard.log_prob(z) + jnp.log(self.guard_odds))
        return images[order], rest

    def pool(self, points: np.ndarray, log_target: np.ndarray) -> Pool:
        """Many points with their likeliest images, as a pool."""
        terms = price(self.flow.group, self.pilot)
        images, rest = map_points(Resolver.resolve, self, points, terms=terms)
        return Pool(images, rest, log_target)


def concatenate(pools: list[Pool]) -> Pool:
    """Several pools, one after the other, as one."""
    return Pool(*(np.concatenate(parts) for parts in zip(*pools, strict=True)))


def draw_folded(key: Key, flow: Folded, count: int) -> Float[np.ndarray, "count dim"]:
    """Fresh proposal draws, folded into the domain."""
    return map_keys(_draw_folded, flow, key, count)


def _draw_folded(flow: Folded, key: Key) -> Point:
    return flow.group.fold(flow.density.sample(key))  # type: ignore[attr-defined]
