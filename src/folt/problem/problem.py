"""The problem: a log density on R^dim together with the symmetry it has.

Every front-end produces a `Problem`; everything else consumes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PyTree

from folt.batching import LARGE_CHUNK, map_keys
from folt.groups import Group
from folt.problem.cards import Card, problem_card
from folt.problem.evaluated import Evaluated
from folt.problem.named_values import (
    Coords,
    Naming,
    by_draw,
    own_shapes,
    parameters_at,
    points_at,
    require_inside,
    require_lengths,
    takes_key,
)
from folt.problem.quotient import (
    HostLifted,
    HostPulled,
    Lifted,
    Pulled,
    PulledPrior,
    Quotient,
    on_quotient,
    quotient_of,
)
from folt.proposals.fold import Folded
from folt.types import Distribution, HostPoints, Key, Point, Scalar, Upper, in_float64

AnyPoint = Float[Array, " dim"] | Float[np.ndarray, " dim"]
"""A point of JAX or, where a black box makes or takes it, of NumPy."""


class WithData(eqx.Module):
    """A function that takes the problem's data as its second argument, where others do not."""

    function: Callable[..., PyTree]


class Problem(Evaluated):
    """A log density on R^dim, its symmetry group, and the way back to the user's parameters.

    Args:
        log_density: `log_density(x)`, or `log_density(x, data)` if data is given; need not be
            normalised. A callable `eqx.Module` may carry its own arrays.
        symmetry: the group G that acts on R^dim. A `folt.groups.Rotation`, alone or in a product,
            is divided out: the problem has the coordinates of the quotient, while the functions
            and names given here are those of the whole points.
        data: array leaves handed to `log_density`, so that a new data set of equal shape does
            not compile again.
        invariant: whether log_density(g·x) = log_density(x) for all g. False is the broken
            symmetry mode: folding then sums over the orbit, and the chain leaves the density
            invariant all the same.
        prior: a `Distribution` in the problem's coordinates; lets the reference run temper from
            the prior and the tail safety cover it.
        start: a `Distribution` in the problem's coordinates from which tempering and descents begin
            instead of the prior: near the data, say. It claims nothing and changes no answer, only
            where modes are looked for.
        sampler: `sampler(key)`, an exact draw of the density, where one exists.
        names: one name per coordinate.
        constrain: from a point to `{name: value}` in the user's parameters; wrapped as
            `WithData(function)` where it needs the data too.
        unconstrain: its inverse, from `{name: value}` to a point, so that draws made elsewhere can
            be used; wrapped likewise. A function with an argument `key` draws with it the
            coordinates that the parameters say nothing about.
        pointwise: from a point (and data) to `{name: log-likelihood terms}` of the observations.
        predictive: from a key and a point (and data) to `{name: replicated observations}`.
        log_terms: from a point (and data) to an array (observation, component): the log weight of
            a component plus its log density at an observation, up to a constant per observation.
            Memberships are computed from them.
        dims: names of the axes of parameters and observations, `{name: (axis, ...)}`.
        coords: labels along named axes, `{axis: labels}`. Along an axis that relabelling permutes
            they name positions of the order that the fit sorts by, not identities.
        symmetry_found: what a search for the symmetry tried and found, where there was one, a
            `folt.symmetry.SymmetryFound`.
        allow_rotation: take a density whose signed columns may even be rotated into each other, a
            continuous symmetry that no finite group folds away; it is refused otherwise.
        proportional: whether the log density lacks a constant that nobody knows, so that log Z is
            one up to a constant, and not to be compared with others.
        sort_by: what fits sort labels by instead of the order of the fold: a parameter with one
            number per label, or a function as for `Fit.relabelled`.
        sign: "largest", or a coordinate that fits make positive, where signs may be flipped.
        generated: from points (n, dim) and a seed to further quantities, `{name: (n, ...)}`, for
            `Fit.generated`.
        independent_rows: whether the log density is a prior plus a sum over the rows of the data,
            the leading axis of its arrays, and defined for some of them too. Where there are very
            many, the search for modes then begins with a few thousand of them.
    """

    log_density: Callable[..., Scalar]
    group: Group
    data: PyTree = None
    invariant: bool = eqx.field(static=True, default=True)
    prior: Distribution | None = None
    start: Distribution | None = None
    sampler: Callable[[Key], Point] | None = None
    names: tuple[str, ...] = eqx.field(static=True, default=())
    constrain: Callable[..., dict[str, Array]] | WithData | None = None
    inverse: Callable[..., Point] | WithData | None = None
    pointwise: Callable[..., dict[str, Array]] | None = None
    predictive: Callable[..., dict[str, Array]] | None = None
    log_terms: Callable[..., Array] | None = None
    dims: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True, default=())
    coords: Coords = eqx.field(static=True, default=Coords())
    symmetry_found: Upper = eqx.field(static=True, default=None)
    naming: Naming = eqx.field(static=True, default=Naming())
    allow_rotation: bool = eqx.field(static=True, default=False)
    proportional: bool = eqx.field(static=True, default=False)
    generated: Callable[[HostPoints, int], dict[str, np.ndarray]] | None = None
    quotient: Quotient | None = None
    independent_rows: bool = eqx.field(static=True, default=False)

    def __init__(
        self,
        log_density: Callable[..., Scalar],
        symmetry: Group,
        *,
        data: PyTree = None,
        invariant: bool = True,
        prior: Distribution | None = None,
        start: Distribution | None = None,
        sampler: Callable[[Key], Point] | None = None,
        names: Sequence[str] | None = None,
        constrain: Callable[..., dict[str, Array]] | WithData | None = None,
        unconstrain: Callable[..., Point] | WithData | None = None,
        pointwise: Callable[..., dict[str, Array]] | None = None,
        predictive: Callable[..., dict[str, Array]] | None = None,
        log_terms: Callable[..., Array] | None = None,
        dims: Mapping[str, str | Sequence[str]] | None = None,
        coords: Mapping[str, Iterable[Any]] | None = None,
        symmetry_found: Upper = None,
        allow_rotation: bool = False,
        proportional: bool = False,
        sort_by: str | Callable[..., Any] | None = None,
        sign: str | None = None,
        generated: Callable[[HostPoints, int], dict[str, np.ndarray]] | None = None,
        independent_rows: bool = False,
    ):
        if isinstance(symmetry, Group) and callable(log_density):
            self.quotient = quotient_of(symmetry, log_density, data)
        else:
            self.quotient = None
        if self.quotient is not None:
            if prior is not None and prior.dim != self.quotient.rest.dim:
                prior = PulledPrior(prior, self.quotient)
            whole = _numbered(self.quotient.whole) if names is None else names
            if len(whole) != self.quotient.whole:
                raise ValueError(
                    f"expected {self.quotient.whole} names, one per coordinate, got {len(whole)}"
                )
            names = self.quotient.names(whole)
            if constrain is None:
                constrain, unconstrain = _ByName(tuple(whole)), _FromNames(tuple(whole))
            constrain = _lifted(constrain, self.quotient)
            unconstrain = _pulled(unconstrain, self.quotient)
            pointwise = None if pointwise is None else Lifted(pointwise, self.quotient)
            predictive = None if predictive is None else Lifted(predictive, self.quotient, 1)
            log_terms = None if log_terms is None else Lifted(log_terms, self.quotient)
            generated = None if generated is None else HostLifted(generated, self.quotient).many
            symmetry, log_density = self.quotient.rest, on_quotient(log_density, self.quotient)
        if not callable(log_density):
            raise ValueError(f"log_density must be callable, got {type(log_density).__name__}")
        if not isinstance(symmetry, Group):
            raise ValueError(
                f"symmetry must be a folt group such as folt.groups.Permutation(3, 2), "
                f"got {type(symmetry).__name__}"
            )
        for name, law in (("prior", prior), ("start", start)):
            if law is not None and not isinstance(law, Distribution):
                raise ValueError(f"{name} must be a Distribution, got {type(law).__name__}")
            if law is not None and law.dim != symmetry.dim:
                raise ValueError(
                    f"{name} has dimension {law.dim}, the group acts on {symmetry.dim}"
                )
        if names is not None and len(names) != symmetry.dim:
            raise ValueError(f"expected {symmetry.dim} names, one per coordinate, got {len(names)}")
        if names is not None:
            _require_distinct(names)
        self.log_density = log_density
        self.group = symmetry
        _require_arrays(data)
        self.data = _own(data)
        self.invariant = invariant
        self.prior = prior
        self.start = start
        self.sampler = sampler
        self.names = tuple(names) if names is not None else _numbered(symmetry.dim)
        self.constrain = constrain
        self.inverse = unconstrain
        self.pointwise = pointwise
        self.predictive = predictive
        self.log_terms = log_terms
        self.dims = tuple(
            (name, (axes,) if isinstance(axes, str) else tuple(axes))
            for name, axes in (dims or {}).items()
        )
        self.coords = Coords(coords)
        self.symmetry_found = symmetry_found
        self.naming = Naming(sort_by, sign)
        self.allow_rotation = allow_rotation
        self.proportional = proportional
        self.generated = generated
        self.independent_rows = independent_rows
        if independent_rows and len({np.shape(leaf)[:1] for leaf in jax.tree.leaves(data)}) != 1:
            raise ValueError("expected data whose arrays have equally many rows, got others")
        if self.coords:
            require_lengths(self)

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()

    def _card(self) -> Card:
        return problem_card(self)

    @property
    def dim(self) -> int:
        """Dimension of the space the group acts on."""
        return self.group.dim

    def log_prob(self, x: Point) -> Scalar:
        """Return the log density at x, unnormalised, on all of R^dim."""
        log_density, data = _in_precision((self.log_density, self.data))
        value = log_density(x) if data is None else log_density(x, data)
        return jnp.asarray(value, x.dtype)

    def folded(self) -> Folded:
        """Return the folded target π_F on the fundamental domain."""
        return Folded(self, self.group, self.invariant)

    def exact_draws(self, key: Key, count: int) -> HostPoints:
        """Return independent draws of the exact sampler.

        Raises:
            ValueError: the problem has none.
        """
        if self.sampler is None:
            raise ValueError("expected a problem with an exact sampler, got one without")
        return map_keys(_exact_draw, self.sampler, key, count, length=LARGE_CHUNK, once=True)

    def parameters(self, points: ArrayLike) -> dict[str, PyTree]:
        """Return the user's parameters at one point (dim,), or at many (..., dim).

        The coordinates by name where nothing else was given. Values are NumPy arrays in double
        precision, at many points with the same leading axes; of a point that JAX traces they are
        what it traces.
        """
        if isinstance(points, jax.core.Tracer):
            return self._parameters(points)
        if np.ndim(points) == 1:
            with jax.enable_x64(True):
                alone = self._parameters(np.asarray(points, np.float64))
                return jax.tree.map(np.asarray, alone)
        many = np.asarray(points, np.float64)
        flat = parameters_at(self, many.reshape(-1, self.dim))
        return {
            name: np.asarray(value).reshape(*many.shape[:-1], *np.shape(value)[1:])
            for name, value in flat.items()
        }

    def _parameters(self, x: AnyPoint) -> dict[str, Array]:
        if self.constrain is None:
            return dict(zip(self.names, jnp.unstack(jnp.asarray(x)), strict=True))
        constrain, data = _in_precision((self.constrain, self.data))
        return constrain.function(x, data) if isinstance(constrain, WithData) else constrain(x)

    @in_float64
    def unconstrain(
        self, values: Mapping[str, ArrayLike], key: Key | None = None
    ) -> Float[np.ndarray, "*lead dim"]:
        """Return the points whose parameters are these values: the inverse of `parameters`.

        Args:
            values: `{name: (..., own shape)}` with the same leading axes throughout. What follows
                from other parameters may be left out, other names are ignored, and an array may
                stand for its entries: `mu` for `mu[0]`, `mu[1]`.
            key: of the coordinates that the parameters do not determine, where there are any.

        Raises:
            ValueError: the problem has no inverse, a parameter is missing or has another shape,
                or a value does not lie inside the support.
        """
        if self.constrain is not None and self.inverse is None:
            raise ValueError(
                "this problem does not say how its parameters become points: give it unconstrain=, "
                "the inverse of constrain="
            )
        lead, flat = by_draw(own_shapes(self), values)
        try:
            points = points_at(self, flat, key)
        except KeyError as error:
            known = own_shapes(self)
            if error.args[0] not in known or error.args[0] in flat:
                raise
            raise ValueError(
                f"no parameter {error.args[0]!r} among the values, which have "
                f"{', '.join(values) or 'none'}: the problem's parameters are {', '.join(known)}"
            ) from error
        require_inside(points, self.names)
        return points.reshape(*lead, self.dim)

    def _point(self, values: dict[str, Array], key: Key | None) -> AnyPoint:
        if self.inverse is None:
            return jnp.stack([values[name] for name in self.names])
        wrapped = isinstance(self.inverse, WithData)
        function = self.inverse.function if isinstance(self.inverse, WithData) else self.inverse
        keyed = {"key": key} if takes_key(function) else {}
        return function(values, self.data, **keyed) if wrapped else function(values, **keyed)

    @property
    def whole_parameters(self) -> Callable[[Point], dict[str, Array]]:
        """The user's function of whole points, where rotations were divided out."""
        found = self.constrain
        if isinstance(found, WithData):
            return _AtData(found.function.function, self.data)  # type: ignore[attr-defined]
        return found.function  # type: ignore[union-attr]

    def log_likelihoods(self, x: Point) -> dict[str, Array]:
        """Return the log-likelihood terms at x, one array per group of observations."""
        if self.pointwise is None:
            raise ValueError("this problem does not say what its log-likelihood terms are")
        return self.pointwise(x) if self.data is None else self.pointwise(x, self.data)

    def replicates(self, key: Key, x: Point) -> dict[str, Array]:
        """New observations from the model at x: a posterior predictive draw if x is a draw."""
        if self.predictive is None:
            raise ValueError("this problem does not say how observations are drawn")
        return self.predictive(key, x) if self.data is None else self.predictive(key, x, self.data)

    def with_data(self, data: PyTree) -> Problem:
        """Return the same problem for another data set; equal shapes do not compile again."""
        old, new = (str(jax.tree.structure(tree)) for tree in (self.data, data))
        if old != new:
            raise ValueError(f"the new data must have the structure {old}, got {new}")
        return eqx.tree_at(lambda p: p.data, self, _own(data))

    @property
    def rows(self) -> int:
        """Independent rows of the data; one where nothing is known of any."""
        return np.shape(jax.tree.leaves(self.data)[0])[0] if self.independent_rows else 1

    def subset(self, rows: Int[np.ndarray, " n"]) -> Problem:
        """Return the same problem with these rows of the data alone, under the same prior."""
        return self.with_data(jax.tree.map(lambda leaf: leaf[rows], self.data))


class _ByName(eqx.Module):
    """The coordinates of a whole point by name."""

    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, x: Point) -> dict[str, Array]:
        return dict(zip(self.names, jnp.unstack(x), strict=True))


class _AtData(eqx.Module):
    """A function of a point and data, at the data."""

    function: Callable[..., dict[str, Array]]
    data: PyTree

    def __call__(self, x: Point) -> dict[str, Array]:
        return self.function(x, self.data)


class _FromNames(eqx.Module):
    """Its inverse."""

    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, values: dict[str, Array]) -> Point:
        return jnp.stack([jnp.asarray(values[name]) for name in self.names])


def _lifted(constrain: Callable | WithData, quotient: Quotient) -> Callable | WithData:
    if isinstance(constrain, WithData):
        return WithData(Lifted(constrain.function, quotient))
    if hasattr(constrain, "many"):
        return HostLifted(constrain, quotient)
    return Lifted(constrain, quotient)


def _pulled(
    unconstrain: Callable | WithData | None, quotient: Quotient
) -> Callable | WithData | None:
    if unconstrain is None:
        return None
    if isinstance(unconstrain, WithData):
        return WithData(Pulled(unconstrain.function, quotient))
    if hasattr(unconstrain, "many"):
        return HostPulled(unconstrain, quotient)
    return Pulled(unconstrain, quotient)


def _exact_draw(sampler: Callable[[Key], Point], key: Key) -> Point:
    return sampler(key)


def _require_distinct(names: Sequence[str]) -> None:
    """Refuse names of which one would stand for two coordinates."""
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"expected names to be words, got {name!r} at position {place}")
        if name in names[:place]:
            raise ValueError(f"expected a name of its own for every coordinate, got {name!r} twice")


def _require_arrays(data: PyTree) -> None:
    """Refuse data that JAX cannot hold: tables and columns of pandas, words."""
    for leaf in jax.tree.leaves(data):
        if type(leaf).__module__.partition(".")[0] == "pandas":
            kind = type(leaf).__name__
            raise ValueError(
                f"expected data as arrays, got a pandas {kind}: give its to_numpy(), or its "
                "columns by name, {'x': frame['x'].to_numpy()}"
            )
        if isinstance(leaf, str) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "US"):
            raise ValueError("expected data as arrays of numbers, got words")


def _own(data: PyTree) -> PyTree:
    """NumPy arrays copied: JAX knows a buffer by the array it came from, whatever its precision."""
    return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, data)


def _in_precision(module: PyTree) -> PyTree:
    """What is evaluated; in single precision its copy, whose buffers the original never meets."""
    return module if jax.config.read("jax_enable_x64") else _own(module)


def _numbered(dim: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(dim))
