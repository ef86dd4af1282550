"""Weights of a mixture with a free total: relabelling permutes plain blocks."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from folt.coordinates import AugmentedShares
from folt.coordinates.tails import Leaf
from folt.interop.coordinates import SimplexRows
from folt.types import Key, Scalar


class FreeTotal(eqx.Module):
    """Probabilities w as normal scores of T·w, with T ~ Gamma(mα + N) independent of all else.

    Whatever the density of w is, p(w) exp(log_slope) is a density of the m coordinates under which
    w keeps it: T integrates to one. So the evidence stays what it was for any N and any prior. With
    N observations of a mixture and a Dirichlet(α) prior the posterior, given which component every
    observation came from, is a product over the components, which is what a class chain proposes.

    Args:
        weights: the same probabilities without a total, which know their prior.
        observations: N.
    """

    weights: SimplexRows
    shares: AugmentedShares

    def __init__(self, weights: SimplexRows, observations: int):
        self.weights = weights
        # In normal scores of exponential variables, whatever α is: only the total knows it.
        alpha = 1.0 if weights.concentration is None else float(np.mean(weights.concentration))
        more = round(weights.length * (alpha - 1.0))
        self.shares = AugmentedShares(weights.length, max(observations + more, 0))

    @property
    def concentration(self) -> Leaf | None:
        """That of the Dirichlet prior, where it is known."""
        return self.weights.concentration

    def push(self, x: Float[Array, " m"]) -> Float[Array, " m"]:
        """The probabilities, never exactly zero."""
        values = self.shares.push(x)
        return jnp.maximum(values, jnp.finfo(values.dtype).tiny)

    def pull(self, value: Float[Array, " m"], key: Key | None = None) -> Float[Array, " m"]:
        """The coordinates of probabilities times a total: drawn with the key, or its mean."""
        return self.shares.pull(value, key)

    def sample(self, key: Key) -> Float[Array, " m"]:
        """Coordinates of a draw of the Dirichlet prior and of the total."""
        own, total = jax.random.split(key)
        return self.pull(self.weights.push(self.weights.sample(own).reshape(-1)), total)

    def log_slope(self, x: Float[Array, " m"]) -> Scalar:
        """Log density of T plus log |d(w_1, ..., w_{m-1}, T)/dx|."""
        return self.shares.log_prior(x) - gammaln(float(self.shares.m))
