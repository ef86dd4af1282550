"""Folding: one operation for target and proposal alike.

For any density p on R^dim the fold is p_F(z) = Σ_g p(g·z) on the fundamental domain D, and it
integrates to one there. If p is invariant that is s·p(z), one evaluation. Folding is linear, so
mixtures need no case of their own, and "unfolded" is the trivial group.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from folt.groups import Group
from folt.types import Density, Distribution, Key, OrbitSummed, Point, Scalar


class Folded(Distribution):
    """The fold of a density over a group, p_F(z) = Σ_g p(g·z).

    Args:
        density: what is folded; a `Distribution` if draws are wanted.
        group: the group G.
        invariant: p(g·z) = p(z) for all g, so that one term stands for all.
    """

    density: Density
    group: Group
    invariant: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.density.dim != self.group.dim:
            raise ValueError(
                f"the density has dimension {self.density.dim}, "
                f"the group acts on dimension {self.group.dim}"
            )
        if isinstance(self.density, OrbitSummed) and self.density.summed_over != self.group:
            raise ValueError(
                f"the density sums itself over {self.density.summed_over}, not over {self.group}"
            )

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return self.group.dim

    @property
    def terms(self) -> int:
        """Density terms that one value costs, for the size of chunks."""
        if self.invariant:
            return 1
        if isinstance(self.density, OrbitSummed):
            return self.density.orbit_cost
        return self.group.order

    def log_terms(self, z: Point) -> Float[Array, " order"]:
        """Return log p(g·z) for every g, in the order of `group.elements`."""
        return jax.vmap(self.density.log_prob)(self.group.orbit(z))

    def log_prob(self, z: Point) -> Scalar:
        """Return log p_F(z), the orbit sum of eq. (q_F); the same at every image of z."""
        if self.invariant or self.group.order == 1:
            return self.density.log_prob(z) + self.group.log_order
        if isinstance(self.density, OrbitSummed):
            return self.density.log_orbit_sum(z)
        return logsumexp(self.log_terms(z))

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Return a draw of p folded into D, with its folded log density."""
        if not isinstance(self.density, Distribution):
            raise TypeError(f"{type(self.density).__name__} cannot be drawn from")
        z = self.group.fold(self.density.sample(key))
        return z, self.log_prob(z)

    def unfold(self, key: Key, z: Point) -> Point:
        """Return an image g·z with probability p(g·z)/p_F(z): the way back to all labels.

        Uniform over the group if p is invariant. Drawing z from p_F and unfolding it is an exact
        draw from p, symmetric or not.
        """
        if self.invariant:
            return self.group.random_image(key, z)
        if isinstance(self.density, OrbitSummed):
            return self.density.draw_image(key, z)
        return self.group.act(self.group.element(jax.random.categorical(key, self.log_terms(z))), z)

    def most_likely_image(self, z: Point) -> Point:
        """Return the image of z with the largest density: the representative in D_p.

        D_p = {z : p(z) ≥ p(g·z) for all g}, ties going to the first element. For a proposal this
        is the domain whose boundary lies where two labellings are equally likely. A density that
        sums itself over the orbit names an image of its own, the same for all of the orbit.
        """
        if isinstance(self.density, OrbitSummed):
            return self.density.likeliest_image(z)
        return self.group.act(self.group.element(jnp.argmax(self.log_terms(z))), z)
