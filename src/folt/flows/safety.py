"""Tail safety: a small share of a wide distribution beside the fitted one."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from folt.groups import Group
from folt.types import Distribution, Key, OrbitSummed, Point, Scalar


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


class OrbitSafety(Safety, OrbitSummed):
    """Tail safety of a proposal that sums itself over the orbit, with a guard that is invariant.

    r(g·x) = r(x) for all g, so that r_F = s·r without a sum. The guard is taken at its word: a
    multivariate t with group-averaged mean and covariance is invariant by construction.
    """

    main: OrbitSummed

    @property
    def summed_over(self) -> Group:
        """The group whose orbits are summed over."""
        return self.main.summed_over

    @property
    def orbit_cost(self) -> int:
        """That of the main part."""
        return self.main.orbit_cost

    def log_orbit_sum(self, z: Point) -> Scalar:
        """The log of (1-λ)·main_F(z) + λ·s·guard(z)."""
        return jnp.logaddexp(*self._parts(z))

    @property
    def whole(self) -> bool:
        """Whether that of the main part is."""
        return self.main.whole

    def propose(self, key: Key) -> tuple[Point, Bool[Array, ""]]:
        """A draw and whether it counts: the guard's always do, its sum being over all images."""
        choice_key, main_key, guard_key = jax.random.split(key, 3)
        guarded = jax.random.bernoulli(choice_key, self.weight)
        x, alive = self.main.propose(main_key)
        return jnp.where(guarded, self.guard.sample(guard_key), x), guarded | alive

    def draw_image(self, key: Key, z: Point) -> Point:
        """By the main part with its share of the sum, else uniformly."""
        choice_key, main_key, guard_key = jax.random.split(key, 3)
        main, guard = self._parts(z)
        guarded = jax.random.bernoulli(choice_key, jax.nn.sigmoid(guard - main))
        uniform = self.summed_over.random_image(guard_key, z)
        return jnp.where(guarded, uniform, self.main.draw_image(main_key, z))

    def likeliest_image(self, z: Point) -> Point:
        """That of the main part: the guard has no opinion."""
        return self.main.likeliest_image(z)

    def _parts(self, z: Point) -> tuple[Scalar, Scalar]:
        main = jnp.log1p(-self.weight) + self.main.log_orbit_sum(z)
        guard = jnp.log(self.weight) + self.guard.log_prob(z) + self.summed_over.log_order
        return main, guard
