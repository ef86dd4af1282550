"""PyMC models: compiled to JAX without their transforms, in folt's coordinates instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from folt._types import Distribution, Key, Point, Scalar, in_float64
from folt.coordinates import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Identity,
    Laplace,
    Logistic,
    LogNormal,
    Normal,
    Prior,
    PriorNormal,
    Uniform,
)
from folt.interop.sites import Exchangeable, SimplexRows, Site, Sites, arrange, known_coordinate
from folt.problem import Problem, WithData

try:
    import pymc
    from pymc.model.transform.conditioning import remove_value_transforms
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.traversal import ancestors
except ImportError as error:  # pragma: no cover
    raise ImportError("from_pymc needs PyMC: pip install 'folt[pymc]'") from error

Bounds = tuple[np.ndarray | None, np.ndarray | None]


def from_pymc(model: pymc.Model, *, exchangeable: Exchangeable = "auto") -> Problem:
    """A PyMC model as a problem, with the symmetry it has.

    Every free variable gets coordinates in which relabelling is orthogonal, in place of PyMC's
    transforms: prior-normal ones where its prior is independent and has known quantiles, centred
    log-ratios for a simplex, logarithm, logit or identity otherwise. `pm.Data` containers become
    the problem's data, so that other values of equal shape do not compile again
    (`problem.with_data`).

    Args:
        model: the model; discrete variables must be marginalised.
        exchangeable: names of the variables whose first axis is permuted together (transition
            matrices on both sides), which is then verified; "auto" looks for them; [] for none.

    Returns:
        A problem whose `constrain` gives free and deterministic variables, with pointwise
        log-likelihood. Replicates are PyMC's own: `pm.sample_posterior_predictive(fit.to_arviz())`.

    Raises:
        ValueError: a discrete free variable, unknown or unequal variables, NaN among the
            observations.
        SymmetryError: variables declared exchangeable that are not.
    """
    if not isinstance(model, pymc.Model):
        raise ValueError(f"expected a pymc.Model, got {type(model).__name__}")
    return _from_pymc(model, exchangeable, _jaxify())


def _jaxify() -> Callable[..., Any]:
    """PyMC's compiler to JAX; importing it must not change JAX's precision for everyone."""
    before = jax.config.values["jax_enable_x64"]
    from pymc.sampling.jax import get_jaxified_graph

    jax.config.update("jax_enable_x64", before)
    return get_jaxified_graph


@in_float64
def _from_pymc(
    model: pymc.Model, exchangeable: Exchangeable, jaxify: Callable[..., Any]
) -> Problem:
    _require_model(model)
    free = {variable.name for variable in model.free_RVs}
    sites = {variable.name: _site(model, variable, free) for variable in model.free_RVs}
    own = [variable for variable in model.free_RVs if sites[variable.name] is not None]
    plain = remove_value_transforms(model, own) if own else model
    described = [
        sites[variable.name] or _transformed(plain, variable) for variable in plain.free_RVs
    ]
    graph = Graph.of(plain, jaxify)
    data = graph.data()
    found = arrange(described, exchangeable, lambda laid: GraphDensity(graph, laid), data)
    density = GraphDensity(graph, found.sites)
    known = all(_is_known(each.coordinate) for each in found.sites.maps)
    axes = {name: tuple(map(str, dims)) for name, dims in model.named_vars_to_dims.items()}
    return Problem(
        density,
        found.group,
        data=data,
        prior=GraphPrior(density, data) if known else None,
        names=found.sites.names(),
        constrain=WithData(GraphValues(density)),
        unconstrain=WithData(GraphPoint(density)),
        pointwise=GraphTerms(density) if graph.observed else None,
        dims={**found.dims, **{name: dims for name, dims in axes.items() if None not in dims}},
    )


class Graph:
    """A model without transforms as functions in JAX; compared by identity, never a pytree.

    Attributes:
        inputs: names of the free variables, in the order of the functions' arguments.
        observed: names of the observed variables.
    """

    def __init__(self, model: pymc.Model, jaxify: Callable[..., Any]) -> None:
        values = {variable.name: model.rvs_to_values[variable] for variable in model.free_RVs}
        self.inputs = tuple(values)
        self.observed = tuple(variable.name for variable in model.observed_RVs)
        self._shared = {variable.name: variable for variable in model.data_vars}
        stand_ins = {variable: variable.type() for variable in self._shared.values()}
        arguments = [*values.values(), *stand_ins.values()]

        def compiled(outputs: list[Any]) -> Callable[..., Any]:
            return jaxify(arguments, clone_replace(outputs, stand_ins))

        self.log_joint = compiled([model.logp()])
        self.log_prior = compiled([model.logp(vars=model.free_RVs)])
        self.terms = (
            compiled(model.logp(vars=model.observed_RVs, sum=False)) if (self.observed) else None
        )
        shown = [*model.free_RVs, *model.deterministics]
        self.shown = tuple(variable.name for variable in shown)
        self.values = compiled(model.replace_rvs_by_values(shown))
        self._kept = tuple(v.name for v in model.free_RVs if model.rvs_to_transforms[v] is not None)
        self._forward = self._transforms(model, stand_ins, jaxify) if self._kept else None

    def _transforms(
        self, model: pymc.Model, stand_ins: dict[Any, Any], jaxify: Callable[..., Any]
    ) -> Callable[..., Any]:
        """PyMC's transforms of the variables that keep them, as functions of all variables."""
        given = {variable: variable.type() for variable in model.free_RVs}
        kept = [variable for variable in model.free_RVs if variable.name in self._kept]
        outputs = [
            model.rvs_to_transforms[variable].forward(variable, *variable.owner.inputs)
            for variable in kept
        ]
        return jaxify(
            [*given.values(), *stand_ins.values()], clone_replace(outputs, {**given, **stand_ins})
        )

    def transformed(self, values: dict[str, Array], data: dict[str, Array] | None) -> Any:
        """Values by name, those that keep PyMC's transform in its coordinates."""
        if self._forward is None:
            return values
        moved = self._forward(*self.arguments(values, data))
        return {**values, **dict(zip(self._kept, moved, strict=True))}

    @classmethod
    def of(cls, model: pymc.Model, jaxify: Callable[..., Any]) -> Graph:
        """The functions of a model."""
        return cls(model, jaxify)

    def data(self) -> dict[str, np.ndarray] | None:
        """The values of the `pm.Data` containers, by name."""
        found = {name: np.asarray(each.get_value()) for name, each in self._shared.items()}
        return found or None

    def arguments(self, values: dict[str, Array], data: dict[str, Array] | None) -> list[Array]:
        """Arguments of the functions: values by name, then data by name."""
        given = [values[name] for name in self.inputs]
        return given + [jnp.asarray((data or {})[name]) for name in self._shared]


class GraphDensity(eqx.Module):
    """Log joint density of a model plus the log Jacobian of the coordinates."""

    graph: Graph = eqx.field(static=True)
    sites: Sites

    def __call__(self, x: Point, data: Any = None) -> Scalar:
        """Log density at one point."""
        return self.graph.log_joint(*self.arguments(x, data))[0] + self.sites.log_slope(x)

    def arguments(self, x: Point, data: Any) -> list[Array]:
        """What the compiled functions of the graph are called with."""
        return self.graph.arguments(self.sites.push(x), data)


class GraphPrior(Distribution):
    """The prior of a model all of whose priors are known and independent."""

    density: GraphDensity
    data: Any

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.density.sites.dim

    def log_prob(self, x: Point) -> Scalar:
        """Log densities of the free variables plus the log Jacobian."""
        arguments = self.density.arguments(x, self.data)
        return self.density.graph.log_prior(*arguments)[0] + self.density.sites.log_slope(x)

    def sample_and_log_prob(self, key: Key) -> tuple[Point, Scalar]:
        """Every variable drawn in its coordinates."""
        x = jnp.concatenate(list(self.density.sites.sample_known(key).values()))
        return x, self.log_prob(x)


class GraphValues(eqx.Module):
    """Free and deterministic variables at a point."""

    density: GraphDensity

    def __call__(self, x: Point, data: Any = None) -> dict[str, Array]:
        """Values by name."""
        graph = self.density.graph
        values = graph.values(*self.density.arguments(x, data))
        return dict(zip(graph.shown, map(jnp.asarray, values), strict=True))


class GraphPoint(eqx.Module):
    """The point at values of the free variables."""

    density: GraphDensity

    def __call__(self, values: dict[str, Array], data: Any = None) -> Point:
        """Values in PyMC's own transform where folt has no coordinate for them."""
        graph = self.density.graph
        return self.density.sites.pull(graph.transformed(values, data))


class GraphTerms(eqx.Module):
    """Log-likelihood terms of the observed variables."""

    density: GraphDensity

    def __call__(self, x: Point, data: Any = None) -> dict[str, Array]:
        """One array of terms per observed variable."""
        graph = self.density.graph
        assert graph.terms is not None
        return dict(zip(graph.observed, graph.terms(*self.density.arguments(x, data)), strict=True))


def _require_model(model: pymc.Model) -> None:
    for variable in model.free_RVs:
        if np.dtype(variable.dtype).kind != "f":
            raise ValueError(
                f"the variable {variable.name!r} is discrete: marginalise it, for a mixture with "
                "pm.Mixture"
            )
    for variable in model.observed_RVs:
        given = model.rvs_to_values[variable]
        value = np.asarray(given.get_value() if hasattr(given, "get_value") else given.eval())
        if value.dtype.kind == "f" and np.isnan(value).any():
            raise ValueError(
                f"the observed variable {variable.name!r} has {int(np.isnan(value).sum())} NaN: "
                "leave out missing observations or make them variables"
            )


def _site(model: pymc.Model, variable: Any, free: set[str]) -> Site | None:
    """A free variable as folt sees it; None for a support without a coordinate of folt's."""
    transform = model.rvs_to_transforms[variable]
    kind = type(transform).__name__
    shape = tuple(int(length) for length in variable.shape.eval())
    if kind == "SimplexTransform":
        axes, inner = tuple(range(len(shape) - 1)), (*shape[:-1], shape[-1] - 1)
        alpha = _parameters(variable, free)
        dirichlet = alpha is not None and type(variable.owner.op).__name__ == "DirichletRV"
        concentration = np.broadcast_to(alpha[0], shape) if alpha and dirichlet else None
        return Site(variable.name, inner, SimplexRows(shape[-1], concentration), True, axes, False)
    bounds = _bounds(kind, transform, variable, free)
    if bounds is None:
        return None
    coordinate = known_coordinate(shape, *bounds, known_prior(variable, shape, free))
    axes = tuple(range(len(shape)))
    return Site(variable.name, shape, coordinate, False, axes, bounds == (None, None))


def _transformed(model: pymc.Model, variable: Any) -> Site:
    """A variable that keeps PyMC's own transform; its labels, if any, are not permuted."""
    value = model.rvs_to_values[variable]
    shape = np.shape(model.initial_point()[value.name])
    return Site(variable.name, tuple(shape), Identity(), False, (), False)


def _bounds(kind: str, transform: Any, variable: Any, free: set[str]) -> Bounds | None:
    """Lower and upper bound of real values, as PyMC's transform knows them."""
    if transform is None:
        return None, None
    if kind in ("LogTransform", "LogExpM1"):
        return np.asarray(0.0), None
    if kind == "LogOddsTransform":
        return np.asarray(0.0), np.asarray(1.0)
    if kind not in ("Interval", "IntervalTransform"):
        return None
    low, high = (
        _constant(bound, variable, free) for bound in transform.args_fn(*variable.owner.inputs)
    )
    return low, high


def _constant(bound: Any, variable: Any, free: set[str]) -> np.ndarray | None:
    if bound is None:
        return None
    if not hasattr(bound, "eval"):
        return np.asarray(bound, float)
    if _depends(bound, free):
        raise ValueError(
            f"the support of the variable {variable.name!r} depends on other variables: write it "
            "as a fixed-support variable and transform it"
        )
    return np.asarray(bound.eval(), float)


def _depends(expression: Any, free: set[str]) -> bool:
    return any(each.name in free for each in ancestors([expression]))


KNOWN: dict[str, Callable[..., Prior]] = {
    "NormalRV": Normal,
    "LogNormalRV": LogNormal,
    "UniformRV": Uniform,
    "HalfNormalRV": lambda loc, scale: HalfNormal(scale, loc),
    "HalfCauchyRV": lambda loc, scale: HalfCauchy(scale, loc),
    "ExponentialRV": Exponential,
    "LaplaceRV": Laplace,
    "LogisticRV": Logistic,
    "CauchyRV": Cauchy,
    "GumbelRV": Gumbel,
}
"""Priors whose quantiles folt knows exactly, with their parameters as PyTensor orders them."""


def known_prior(variable: Any, shape: tuple[int, ...], free: set[str]) -> Prior | None:
    """The prior of a variable for prior-normal coordinates; None if it is not known."""
    make = KNOWN.get(type(variable.owner.op).__name__)
    parameters = _parameters(variable, free)
    if make is None or parameters is None:
        return None
    return make(*(np.broadcast_to(value, shape) for value in parameters))


def _parameters(variable: Any, free: set[str]) -> list[np.ndarray] | None:
    """Parameters of a distribution as numbers; None if they depend on other variables."""
    operation = variable.owner.op
    if not hasattr(operation, "dist_params"):
        return None
    expressions = operation.dist_params(variable.owner)
    if any(_depends(expression, free) for expression in expressions):
        return None
    return [np.asarray(expression.eval(), float) for expression in expressions]


def _is_known(coordinate: Any) -> bool:
    return isinstance(coordinate, PriorNormal) or (
        getattr(coordinate, "concentration", None) is not None
    )
