"""Skewness and tails of every coordinate, around another distribution."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from folt.types import Distribution, Key, Point, Scalar


class SinhArcsinh(Distribution):
    """A distribution pushed through x_i = c_i + s_i·sinh((arcsinh y_i + e_i)/t_i).

    Where a posterior has many dimensions, one Gaussian with such margins accepts what would take a
    mixture of many: e bends a margin to one side, t < 1 makes its tails heavier (Jones and Pewsey,
    2009). The identity is c = 0, s = t = 1, e = 0.

    Args:
        base: the distribution of y.
        centre: c.
        log_scale: log s.
        skew: e.
        log_tail: log t.
    """

    base: Distribution
    centre: Float[Array, " dim"]
    log_scale: Float[Array, " dim"]
    skew: Float[Array, " dim"]
    log_tail: Float[Array, " dim"]

    def __check_init__(self) -> None:
        for name in ("centre", "log_scale", "skew", "log_tail"):
            if getattr(self, name).shape != (self.base.dim,):
                raise ValueError(
                    f"expected {name} of shape {(self.base.dim,)}, got {getattr(self, name).shape}"
                )

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.base.dim

    def push(self, y: Point) -> Point:
        """From the base's space to the data."""
        bent = (jnp.arcsinh(y) + self.skew) / jnp.exp(self.log_tail)
        return self.centre + jnp.exp(self.log_scale) * jnp.sinh(bent)

    def pull(self, x: Point) -> Point:
        """From the data to the base's space: y = sinh(t·arcsinh((x - c)/s) - e)."""
        return jnp.sinh(self._bent(x))

    def log_det(self, x: Point) -> Scalar:
        """Log of Π dy_i/dx_i at x."""
        standard = (x - self.centre) / jnp.exp(self.log_scale)
        bent = jnp.abs(self._bent(x))
        log_cosh = bent + jnp.log1p(jnp.exp(-2 * bent)) - jnp.log(2.0)
        slopes = self.log_tail - self.log_scale + log_cosh - jnp.log(jnp.hypot(1.0, standard))
        return jnp.sum(slopes)

    def log_prob(self, x: Point) -> Scalar:
        """Log density of the base at pull(x), plus log_det(x)."""
        return self.base.log_prob(self.pull(x)) + self.log_det(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """One draw and its log density."""
        x = self.push(self.base.sample(key))
        return x, self.log_prob(x)

    def _bent(self, x: Point) -> Point:
        standard = (x - self.centre) / jnp.exp(self.log_scale)
        return jnp.exp(self.log_tail) * jnp.arcsinh(standard) - self.skew
