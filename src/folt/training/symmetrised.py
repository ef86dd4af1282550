"""Objectives for any flow: the likelihood of its orbit sum, and the spread of the log ratio.

The symmetrised likelihood is mean log q_F over folded draws, q_F(z) = Σ_g q(g·z). Its gradient is

    ∇ log q_F(z) = Σ_g r_g ∇ log q(g·z),   r_g = q(g·z)/q_F(z),

an average over the group with weights that need no derivative. So one element drawn from r under
the present parameters gives an unbiased gradient: s evaluations of the flow, one differentiated.
The flow may then cross the boundary of the fundamental domain instead of learning a hard edge.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.groups import Group
from folt.problem.fold import Folded
from folt.training.pool import Pool
from folt.types import Distribution, Key, Point, Points, Scalar, Scalars


class SampledOrbit(eqx.Module):
    """Minus the log likelihood of one image of every draw, chosen by its responsibility.

    The value is not that of the symmetrised likelihood; the expected gradient is.
    """

    group: Group

    def __call__(self, flow: Distribution, batch: tuple[Key, Points]) -> Scalar:
        """The loss whose gradient is descended."""
        key, points = batch
        keys = jax.random.split(key, points.shape[0])
        images = jax.vmap(self.image, in_axes=(None, 0, 0))(flow, keys, points)
        return -jnp.mean(jax.vmap(flow.log_prob)(images))

    def image(self, flow: Distribution, key: Key, z: Point) -> Point:
        """An image g·z with probability q(g·z)/q_F(z), the parameters held constant."""
        return Folded(_held(flow), self.group).unfold(key, z)


class WholeOrbit(eqx.Module):
    """Minus the symmetrised log likelihood, every term differentiated."""

    group: Group

    def __call__(self, flow: Distribution, batch: tuple[Key, Points]) -> Scalar:
        """Minus mean log q_F; the key is not used."""
        return -jnp.mean(jax.vmap(Folded(flow, self.group).log_prob)(batch[1]))


class ClippedVariance(eqx.Module):
    """Huber-clipped half variance of h = log π_F - log q_F over a batch of resolved points.

    Args:
        width: where the loss turns from square to linear.
    """

    width: float

    def __call__(self, flow: Distribution, batch: Pool) -> Scalar:
        """The loss about the batch's own centre, which needs no derivative: it is the minimum."""
        images, log_rest, log_target = (jnp.asarray(leaf) for leaf in batch)
        log_terms = jax.vmap(jax.vmap(flow.log_prob))(images)
        h = log_target - jnp.logaddexp(logsumexp(log_terms, axis=1), log_rest)
        size = jnp.abs(h - jax.lax.stop_gradient(self.centre(h)))
        linear = self.width * (size - 0.5 * self.width)
        return jnp.mean(jnp.where(size < self.width, 0.5 * size**2, linear))

    def centre(self, h: Scalars) -> Float[Array, ""]:
        """The mean, weighted so that points beyond the width pull no harder than at it."""
        weights = self.width / jnp.maximum(jnp.abs(h - jnp.median(h)), self.width)
        return weights @ h / jnp.sum(weights)


def _held(flow: Distribution) -> Distribution:
    """The flow as a constant under differentiation."""
    held, rest = eqx.partition(flow, eqx.is_inexact_array)
    return eqx.combine(jax.lax.stop_gradient(held), rest)
