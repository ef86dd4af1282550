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
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt._types import Distribution, Key, Points, Scalar, Scalars
from folt.batching import map_points
from folt.fold import Folded


class Pool(NamedTuple):
    """Regression points: kept images, frozen remainder of the orbit sum, log target."""

    images: Float[Array, "n kept dim"]
    log_rest: Scalars
    log_target: Scalars

    def log_proposal(self, flow: Distribution) -> Scalars:
        """log q_F at every point, kept images under `flow`, the others frozen."""
        terms = jax.vmap(jax.vmap(flow.log_prob))(self.images)
        return jnp.logaddexp(logsumexp(terms, axis=1), self.log_rest)


class _Resolved(eqx.Module):
    """What resolving one point needs: the folded flow, and the folded guard of the tail safety."""

    flow: Folded
    guard: Folded | None
    guard_odds: Scalar
    kept: int = eqx.field(static=True)


def _resolve(context: _Resolved, z: Array) -> tuple[Array, Scalar]:
    terms = context.flow.log_terms(z)
    order = jnp.argsort(-terms)[: context.kept]
    rest = logsumexp(terms.at[order].set(-jnp.inf))
    if context.guard is not None:
        rest = jnp.logaddexp(rest, context.guard.log_prob(z) + jnp.log(context.guard_odds))
    return context.flow.group.orbit(z)[order], rest


def make_pool(
    flow: Folded,
    guard: Folded | None,
    guard_odds: float,
    points: Points,
    log_target: Scalars,
    kept: int,
) -> Pool:
    """Resolve the orbits of `points` under `flow`.

    Args:
        flow: the proposal before tail safety, folded.
        guard: the safety component r, folded; its share λ/(1-λ)·r_F is constant in training.
        guard_odds: λ/(1-λ).
        points: where to regress.
        log_target: log π_F there.
        kept: images kept per point.
    """
    kept = min(kept, flow.group.order)
    context = _Resolved(flow, guard, jnp.asarray(guard_odds), kept)
    images, rest = map_points(_resolve, context, points, terms=flow.group.order)
    return Pool(images, rest, log_target)


def concatenate(pools: list[Pool]) -> Pool:
    """Several pools as one."""
    return Pool(*(jnp.concatenate(parts) for parts in zip(*pools, strict=True)))


@eqx.filter_jit
def draw_folded(flow: Folded, keys: Key) -> Points:
    """Fresh proposal draws, folded into the domain."""
    return jax.vmap(lambda key: flow.group.fold(flow.density.sample(key)))(keys)  # type: ignore[attr-defined]
