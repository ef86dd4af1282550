"""What a hidden state emits: normal values, or counts."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from folt.coordinates import Normal
from folt.models.gaussian import gaussian_terms
from folt.models.poisson import poisson_terms


class Emission(eqx.Module):
    """How an observation depends on the hidden state."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of coordinates per state."""

    @abstractmethod
    def constrain(self, rows: Float[Array, "m size"]) -> dict[str, Array]:
        """Return the user's parameters of every state."""

    @abstractmethod
    def unconstrain(self, values: dict[str, Array]) -> Float[Array, "m size"]:
        """Return the coordinates of these parameters."""

    @abstractmethod
    def terms(self, rows: Float[Array, "m size"], data: Float[Array, " t"]) -> Float[Array, "m t"]:
        """Return the log density of every observation in every state."""


class GaussianEmission(Emission):
    """N(μ_k, σ_k²) with normal priors of μ_k and log σ_k."""

    mu: Normal
    log_sigma: Normal

    @property
    def size(self) -> int:
        """Two coordinates: mean and log standard deviation."""
        return 2

    def constrain(self, rows: Float[Array, "m size"]) -> dict[str, Array]:
        """Return the means and standard deviations of the states."""
        sigma = jnp.exp(self.log_sigma.from_normal(rows[:, 1]))
        return {"mu": self.mu.from_normal(rows[:, 0]), "sigma": sigma}

    def unconstrain(self, values: dict[str, Array]) -> Float[Array, "m size"]:
        """Of means and standard deviations."""
        log_sigma = self.log_sigma.to_normal(jnp.log(values["sigma"]))
        return jnp.stack([self.mu.to_normal(values["mu"]), log_sigma], axis=1)

    def terms(self, rows: Float[Array, "m size"], data: Float[Array, " t"]) -> Float[Array, "m t"]:
        """Return the log densities log N(y_t; μ_k, σ_k²)."""
        mu, log_sigma = self.mu.from_normal(rows[:, 0]), self.log_sigma.from_normal(rows[:, 1])
        return gaussian_terms(mu, log_sigma, data)


class PoissonEmission(Emission):
    """Poisson(λ_k) with a normal prior of log λ_k."""

    log_rate: Normal

    @property
    def size(self) -> int:
        """One coordinate: the log rate."""
        return 1

    def constrain(self, rows: Float[Array, "m size"]) -> dict[str, Array]:
        """Return the rates of the states."""
        return {"rate": jnp.exp(self.log_rate.from_normal(rows[:, 0]))}

    def unconstrain(self, values: dict[str, Array]) -> Float[Array, "m size"]:
        """Return the coordinates of given rates."""
        return self.log_rate.to_normal(jnp.log(values["rate"]))[:, None]

    def terms(self, rows: Float[Array, "m size"], data: Float[Array, " t"]) -> Float[Array, "m t"]:
        """Return the log probabilities log Poisson(y_t; λ_k)."""
        return poisson_terms(self.log_rate.from_normal(rows[:, 0]), data)
