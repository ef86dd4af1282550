"""Mixture weights with a free total: plain blocks, and a posterior that factorises.

For w ~ Dirichlet(α, ..., α) and N observations of a mixture, let T ~ Gamma(mα + N) be independent
of everything and g = T·w. Given which component every observation came from, the g are then
independent of each other: the posterior is a mixture, over allocations, of products over the
components. Relabelling permutes the g, and the evidence is what it was.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float

from folt.coordinates.gamma import Gamma
from folt.coordinates.simplex import Coordinates, Probabilities, SimplexCoordinate
from folt.coordinates.tails import from_log_tails, log_tails, normal_log_density
from folt.types import Key, Scalar

LARGEST_COUNT = 400
"""Most observations for a concentration other than one: its Gamma quantile is then still exact."""


class AugmentedShares(SimplexCoordinate):
    """Shares w = g/Σg of g_k in their Gamma(α) prior-normal coordinates, with Σg ~ Gamma(mα + N).

    The log prior is log N(x; 0, I) + N log Σg + log Γ(mα) - log Γ(mα + N), which is normalised and
    gives w its Dirichlet prior.

    Args:
        m: number of shares.
        observations: N.
        concentration: α, the same for all shares.
    """

    m: int = eqx.field(static=True)
    observations: int = eqx.field(static=True)
    concentration: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if self.m < 1 or self.observations < 0 or not self.concentration > 0:
            raise ValueError(
                "expected at least one share, no negative number of observations and a positive "
                f"concentration, got {self.m}, {self.observations} and {self.concentration}"
            )
        if self.concentration != 1 and self.observations > LARGEST_COUNT:
            raise ValueError(
                f"expected concentration 1 or at most {LARGEST_COUNT} observations, got "
                f"{self.concentration} and {self.observations}"
            )

    @property
    def length(self) -> int:
        """Number of coordinates, one per share."""
        return self.m

    @property
    def total_shape(self) -> float:
        """The shape mα + N of the total."""
        return self.m * self.concentration + self.observations

    def log_gammas(self, x: Coordinates) -> Float[Array, " m"]:
        """Log g; for α = 1 it is log(-log Φ(-x)), exact however large g is."""
        if self.concentration == 1:
            return jnp.log(-log_tails(x)[1])
        return Gamma(self.concentration).log_from_normal(x)

    def push_log(self, x: Coordinates) -> Probabilities:
        """Log g - log Σ g."""
        return jax.nn.log_softmax(self.log_gammas(x))

    def pull(self, probabilities: Float[ArrayLike, " m"], key: Key | None = None) -> Coordinates:
        """The coordinates with these shares whose total is drawn, or without a key its mean."""
        logs = jnp.log(jnp.asarray(probabilities))
        return self._from_log(logs + self._log_total(key))

    def log_prior(self, x: Coordinates) -> Scalar:
        """The normalised log prior of shares and total."""
        log_total = jax.scipy.special.logsumexp(self.log_gammas(x))
        constant = gammaln(self.m * self.concentration) - gammaln(self.total_shape)
        return jnp.sum(normal_log_density(x)) + self.observations * log_total + constant

    def sample_prior(self, key: Key) -> Coordinates:
        """Shares from their Dirichlet prior, times an independent total."""
        share_key, total_key = jax.random.split(key)
        free = self.log_gammas(jax.random.normal(share_key, (self.m,)))
        return self._from_log(jax.nn.log_softmax(free) + self._log_total(total_key))

    def _log_total(self, key: Key | None) -> Scalar:
        if key is None:
            return jnp.log(self.total_shape)
        return Gamma(self.total_shape).log_from_normal(jax.random.normal(key))

    def _from_log(self, log_gammas: Float[Array, " m"]) -> Coordinates:
        values = jnp.exp(log_gammas)
        if self.concentration == 1:
            return from_log_tails(jnp.log(-jnp.expm1(-values)), -values)
        return Gamma(self.concentration).to_normal(values)
