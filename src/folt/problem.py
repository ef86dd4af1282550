"""The problem: a log density on R^dim together with the symmetry it has.

Every front-end produces a `Problem`; everything else consumes one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from folt._types import Density, Distribution, Key, Point, Scalar
from folt.fold import Folded
from folt.groups import Group


class Problem(Density):
    """A log density on R^dim, its symmetry group, and the way back to the user's parameters.

    Args:
        log_density: `log_density(x)`, or `log_density(x, data)` if data is given; need not be
            normalised. A callable `eqx.Module` may carry its own arrays.
        symmetry: the group G that acts on R^dim.
        data: array leaves handed to `log_density`, so that a new data set of equal shape does
            not compile again.
        invariant: whether log_density(g·x) = log_density(x) for all g. False is the broken
            symmetry mode: folding then sums over the orbit and stays exact.
        prior: a `Distribution` in the problem's coordinates; lets the reference run temper from
            the prior and the tail safety cover it.
        sampler: `sampler(key)`, an exact draw of the density, where one exists.
        names: one name per coordinate.
        constrain: from a point to `{name: value}` in the user's parameters.
    """

    log_density: Callable[..., Scalar]
    group: Group
    data: Any = None
    invariant: bool = eqx.field(static=True, default=True)
    prior: Distribution | None = None
    sampler: Callable[[Key], Point] | None = None
    names: tuple[str, ...] = eqx.field(static=True, default=())
    constrain: Callable[[Point], dict[str, Array]] | None = None

    def __init__(
        self,
        log_density: Callable[..., Scalar],
        symmetry: Group,
        *,
        data: Any = None,
        invariant: bool = True,
        prior: Distribution | None = None,
        sampler: Callable[[Key], Point] | None = None,
        names: Sequence[str] | None = None,
        constrain: Callable[[Point], dict[str, Array]] | None = None,
    ):
        if not callable(log_density):
            raise ValueError(f"log_density must be callable, got {type(log_density).__name__}")
        if not isinstance(symmetry, Group):
            raise ValueError(
                f"symmetry must be a folt group such as folt.groups.Permutation(3, 2), "
                f"got {type(symmetry).__name__}"
            )
        if prior is not None and prior.dim != symmetry.dim:
            raise ValueError(f"prior has dimension {prior.dim}, the group acts on {symmetry.dim}")
        if names is not None and len(names) != symmetry.dim:
            raise ValueError(f"expected {symmetry.dim} names, one per coordinate, got {len(names)}")
        self.log_density = log_density
        self.group = symmetry
        self.data = data
        self.invariant = invariant
        self.prior = prior
        self.sampler = sampler
        self.names = tuple(names) if names is not None else _numbered(symmetry.dim)
        self.constrain = constrain

    @property
    def dim(self) -> int:
        """Dimension of the space the group acts on."""
        return self.group.dim

    def log_prob(self, x: Point) -> Scalar:
        """Log density at x, unnormalised, on all of R^dim."""
        value = self.log_density(x) if self.data is None else self.log_density(x, self.data)
        return jnp.asarray(value, x.dtype)

    def folded(self) -> Folded:
        """The folded target π_F on the fundamental domain."""
        return Folded(self, self.group, self.invariant)

    def parameters(self, x: Point) -> dict[str, Array]:
        """The user's parameters at x; the coordinates by name where nothing else was given."""
        if self.constrain is None:
            return dict(zip(self.names, jnp.unstack(x), strict=True))
        return self.constrain(x)

    def with_data(self, data: Any) -> Problem:
        """The same problem for another data set; equal shapes do not compile again."""
        old, new = (str(jax.tree.structure(tree)) for tree in (self.data, data))
        if old != new:
            raise ValueError(f"the new data must have the structure {old}, got {new}")
        return eqx.tree_at(lambda p: p.data, self, data)


def _numbered(dim: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(dim))
