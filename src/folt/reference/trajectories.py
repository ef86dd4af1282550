"""Paths of Hamiltonian chains: how long they are, and how they are followed.

NUTS picks its path per chain, so that under `vmap` every chain waits for the longest one;
`JitteredHmc` draws one number of leapfrog steps per iteration for all chains and nobody waits.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from folt.reference.leap import PathState, choose
from folt.types import Density, Key, Points, Scalar, Scalars


class Moved(NamedTuple):
    """What one iteration did: new states, acceptance probabilities, gradients per chain."""

    states: PathState
    acceptance: Scalars
    gradients: Int[Array, ""]


class Trajectory(eqx.Module):
    """How a Hamiltonian chain chooses the length of its path."""

    @abstractmethod
    def move(
        self,
        key: Key,
        states: PathState,
        target: Density,
        step_size: Scalar,
        covariance: Float[Array, "dim dim"],
    ) -> Moved:
        """One transition of every chain; leaves the target invariant."""


class JitteredHmc(Trajectory):
    """HMC whose number of leapfrog steps is drawn once per iteration for all chains.

    With step size ε the number is uniform on 1..2L-1, L = ⌈length/ε⌉, so that its mean is L and a
    resonance with the period of some direction does not last. The draw does not depend on the
    states, so every iteration leaves π invariant.

    Args:
        length: mean length of a path in whitened units; π/2 is a quarter of a period, after
            which a Gaussian has forgotten where it was.
        longest: largest L.
    """

    length: float = eqx.field(static=True, default=math.pi / 2)
    longest: int = eqx.field(static=True, default=64)

    def move(
        self,
        key: Key,
        states: PathState,
        target: Density,
        step_size: Scalar,
        covariance: Float[Array, "dim dim"],
    ) -> Moved:
        """One HMC transition of every chain with a common number of leapfrog steps."""
        count_key, momentum_key, accept_key = jax.random.split(key, 3)
        mean = jnp.clip(jnp.ceil(self.length / step_size), 1, self.longest).astype(jnp.int32)
        steps = jax.random.randint(count_key, (), 1, 2 * mean)
        chains = states.logdensity.shape[0]
        momentum = sample_momenta(momentum_key, states.position, covariance)
        end, end_momentum = leapfrog(target, states, momentum, step_size, covariance, steps)
        gain = end.logdensity - states.logdensity
        gain -= _kinetic(end_momentum, covariance) - _kinetic(momentum, covariance)
        log_ratio = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
        uniform = jax.random.uniform(accept_key, (chains,), log_ratio.dtype)
        accept = jnp.log(uniform) < log_ratio
        states = choose(accept, end, states)
        return Moved(states, jnp.exp(jnp.minimum(log_ratio, 0.0)), steps * chains)


def sample_momenta(key: Key, like: Points, covariance: Float[Array, "dim dim"]) -> Points:
    """Momenta p ~ N(0, Σ̄⁻¹), one per chain: p = R⁻ᵀξ with Σ̄ = R·Rᵀ."""
    root = jnp.linalg.cholesky(covariance)
    noise = jax.random.normal(key, like.shape, like.dtype)
    return solve_triangular(root, noise.T, lower=True, trans="T").T


def _kinetic(momentum: Points, covariance: Float[Array, "dim dim"]) -> Scalars:
    """The kinetic energy ½ pᵀΣ̄p of every chain."""
    return 0.5 * jnp.sum((momentum @ covariance) * momentum, axis=1)


def leapfrog(
    target: Density,
    states: PathState,
    momentum: Points,
    step_size: Scalar,
    covariance: Float[Array, "dim dim"],
    steps: Int[Array, ""],
) -> tuple[PathState, Points]:
    """All chains along their paths: half a kick, a drift by ε·Σ̄p, half a kick, `steps` times."""
    value_and_gradient = jax.vmap(jax.value_and_grad(target.log_prob))

    def step(_: Array, carry: tuple[PathState, Points]) -> tuple[PathState, Points]:
        states, momentum = carry
        momentum = momentum + 0.5 * step_size * states.logdensity_grad
        position = states.position + step_size * momentum @ covariance
        value, gradient = value_and_gradient(position)
        momentum = momentum + 0.5 * step_size * gradient
        return PathState(position, value, gradient), momentum

    return jax.lax.fori_loop(0, steps, step, (states, momentum))


class Nuts(Trajectory):
    """The no-U-turn sampler, one path length per chain.

    Args:
        doublings: largest number of times a path doubles.
    """

    doublings: int = eqx.field(static=True, default=7)

    def move(
        self,
        key: Key,
        states: PathState,
        target: Density,
        step_size: Scalar,
        covariance: Float[Array, "dim dim"],
    ) -> Moved:
        """One NUTS transition of every chain."""
        import blackjax
        from blackjax.mcmc.hmc import HMCState
        from blackjax.mcmc.metrics import gaussian_euclidean

        kernel = blackjax.nuts.build_kernel()
        metric = gaussian_euclidean(covariance)
        chains = states.logdensity.shape[0]

        def one(chain_key: Key, state: PathState) -> tuple[PathState, Scalar, Array]:
            state, info = kernel(
                chain_key, HMCState(*state), target.log_prob, step_size, metric, self.doublings
            )
            return PathState(*state), info.acceptance_rate, info.num_integration_steps

        states, acceptance, steps = jax.vmap(one)(jax.random.split(key, chains), states)
        return Moved(states, acceptance, jnp.sum(steps))
