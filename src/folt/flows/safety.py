"""Tail safety: a small share of a wide distribution beside the fitted one."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from folt._types import Distribution, Key, Point, Scalar


class Safety(Distribution):
    """The mixture (1-λ)·main + λ·guard.

    Where the main part forgets a tail, the log ratio h = log π - log q stays below
    log π - log guard - log λ. The price is at most a share λ of the acceptance rate and of the
    spectral gap, since the density never falls below (1-λ)·main. Folding is linear, so the fold
    of a safety mixture is the safety mixture of the folds.

    Args:
        main: the fitted proposal.
        guard: a distribution with tails at least as heavy as the target's.
        weight: λ, strictly between 0 and 1.
    """

    main: Distribution
    guard: Distribution
    weight: float = eqx.field(static=True, default=0.02)

    def __check_init__(self) -> None:
        if self.main.dim != self.guard.dim:
            raise ValueError(
                f"main has dimension {self.main.dim}, the guard has dimension {self.guard.dim}"
            )
        if not 0 < self.weight < 1:
            raise ValueError(f"the weight must lie strictly between 0 and 1, got {self.weight}")

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.main.dim

    def log_prob(self, x: Point) -> Scalar:
        """The density log((1-λ)·main(x) + λ·guard(x))."""
        main = jnp.log1p(-self.weight) + self.main.log_prob(x)
        return jnp.logaddexp(main, jnp.log(self.weight) + self.guard.log_prob(x))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density under the whole mixture."""
        choice_key, main_key, guard_key = jax.random.split(key, 3)
        guarded = jax.random.bernoulli(choice_key, self.weight)
        x = jnp.where(guarded, self.guard.sample(guard_key), self.main.sample(main_key))
        return x, self.log_prob(x)
