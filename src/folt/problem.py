"""The problem: a log density on R^dim together with the symmetry it has.

Every front-end produces a `Problem`; everything else consumes one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

from folt._types import Density, Distribution, Key, Point, Scalar
from folt.batching import map_points
from folt.black_box import BlackBox
from folt.fold import Folded
from folt.groups import Group

Points = Float[np.ndarray, "n dim"]
Values = Float[np.ndarray, " n"]


class WithData(eqx.Module):
    """A function of a point and of the problem's data, where others take the point alone."""

    function: Callable[..., dict[str, Array]]


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
        constrain: from a point to `{name: value}` in the user's parameters; wrapped as
            `WithData(function)` where it needs the data too.
        pointwise: from a point (and data) to `{name: log-likelihood terms}` of the observations.
        predictive: from a key and a point (and data) to `{name: replicated observations}`.
        dims: names of the axes of parameters and observations, `{name: (axis, ...)}`.
    """

    log_density: Callable[..., Scalar]
    group: Group
    data: Any = None
    invariant: bool = eqx.field(static=True, default=True)
    prior: Distribution | None = None
    sampler: Callable[[Key], Point] | None = None
    names: tuple[str, ...] = eqx.field(static=True, default=())
    constrain: Callable[[Point], dict[str, Array]] | WithData | None = None
    pointwise: Callable[..., dict[str, Array]] | None = None
    predictive: Callable[..., dict[str, Array]] | None = None
    dims: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True, default=())

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
        constrain: Callable[[Point], dict[str, Array]] | WithData | None = None,
        pointwise: Callable[..., dict[str, Array]] | None = None,
        predictive: Callable[..., dict[str, Array]] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
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
        self.pointwise = pointwise
        self.predictive = predictive
        self.dims = tuple((name, tuple(axes)) for name, axes in (dims or {}).items())

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

    @property
    def black_box(self) -> BlackBox | None:
        """The host function behind the density, or None where the density is written in JAX."""
        return self.log_density if isinstance(self.log_density, BlackBox) else None

    def log_probs(self, points: Points) -> Values:
        """Log density at many points: compiled, or by the black box in batches of its own."""
        if self.black_box is not None:
            return self.black_box.values(points)
        return map_points(Problem.log_prob, self, points)

    def log_folds(self, points: Points) -> Values:
        """Log π_F at many points, s·π or the orbit sum."""
        order = self.group.order
        terms = 1 if self.invariant else order
        if self.black_box is None:
            return map_points(Folded.log_prob, self.folded(), points, terms=terms)
        if terms == 1:
            return self.log_probs(points) + math.log(order)
        return logsumexp(self.log_orbits(points), axis=1)

    def log_orbits(self, points: Points) -> Float[np.ndarray, "n order"]:
        """Log π(g·z) for every g, at many points."""
        order = self.group.order
        if self.black_box is None:
            return map_points(Folded.log_terms, self.folded(), points, terms=order)
        images = map_points(Group.orbit, self.group, points, terms=order)
        return self.log_probs(images.reshape(-1, self.dim)).reshape(-1, order)

    def parameters(self, x: Point) -> dict[str, Array]:
        """The user's parameters at x; the coordinates by name where nothing else was given."""
        if self.constrain is None:
            return dict(zip(self.names, jnp.unstack(x), strict=True))
        if isinstance(self.constrain, WithData):
            return self.constrain.function(x, self.data)
        return self.constrain(x)

    def log_likelihoods(self, x: Point) -> dict[str, Array]:
        """The log-likelihood terms at x, one array per group of observations."""
        if self.pointwise is None:
            raise ValueError("this problem does not say what its log-likelihood terms are")
        return self.pointwise(x) if self.data is None else self.pointwise(x, self.data)

    def replicates(self, key: Key, x: Point) -> dict[str, Array]:
        """New observations from the model at x: a posterior predictive draw if x is a draw."""
        if self.predictive is None:
            raise ValueError("this problem does not say how observations are drawn")
        return self.predictive(key, x) if self.data is None else self.predictive(key, x, self.data)

    def with_data(self, data: Any) -> Problem:
        """The same problem for another data set; equal shapes do not compile again."""
        old, new = (str(jax.tree.structure(tree)) for tree in (self.data, data))
        if old != new:
            raise ValueError(f"the new data must have the structure {old}, got {new}")
        return eqx.tree_at(lambda p: p.data, self, data)


def _numbered(dim: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(dim))
