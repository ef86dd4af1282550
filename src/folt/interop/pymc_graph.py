"""A PyMC model as functions of a point: density, prior, values, terms."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from folt.interop.sites import Sites, uneven_sum
from folt.types import Distribution, Key, Point, Scalar

try:
    import pymc
    from pytensor.graph.basic import Variable
    from pytensor.graph.replace import clone_replace
except ImportError as error:  # pragma: no cover
    raise ImportError("from_pymc needs PyMC: pip install 'folt[pymc]'") from error


ONE_AT_A_TIME = threading.RLock()
"""PyTensor rewrites graphs with global state, and folt compiles in several threads."""


Compiled = Callable[..., list[Array]]
"""Variables of the model by position, in; arrays, out."""

Jaxify = Callable[[list[Variable], list[Variable]], Compiled]
"""PyMC's translation of a graph, from inputs to outputs, into JAX."""


class Graph:
    """A model without transforms as functions in JAX; compared by identity, never a pytree.

    PyMC rewrites a graph before it becomes JAX, which takes longer than everything else in a
    front-end: each function is made when it is first needed.

    Attributes:
        inputs: names of the free variables, in the order of the functions' arguments.
        observed: names of the observed variables.
        shown: names of the free and deterministic variables.
    """

    def __init__(self, model: pymc.Model, jaxify: Jaxify) -> None:
        values = {variable.name: model.rvs_to_values[variable] for variable in model.free_RVs}
        self.inputs = tuple(values)
        self.observed = tuple(variable.name for variable in model.observed_RVs)
        self.shown = tuple(v.name for v in [*model.free_RVs, *model.deterministics])
        self._model, self._jaxify = model, jaxify
        self._shared = {variable.name: variable for variable in model.data_vars}
        self._stand_ins = {variable: variable.type() for variable in self._shared.values()}
        self._kept = tuple(v.name for v in model.free_RVs if model.rvs_to_transforms[v] is not None)
        self._arguments = [*values.values(), *self._stand_ins.values()]

    def _compiled(
        self,
        outputs: list[Variable],
        arguments: list[Variable] | None = None,
        replaced: dict[Variable, Variable] | None = None,
    ) -> Compiled:
        # Constants must not belong to whatever is being traced when a function is first needed.
        with ONE_AT_A_TIME, jax.ensure_compile_time_eval():
            graph = clone_replace(outputs, replaced or self._stand_ins)
            return self._jaxify(arguments or self._arguments, graph)

    @functools.cached_property
    def log_terms(self) -> Compiled:
        """Log density of every free variable, of everything, and the log-likelihood terms."""
        priors = self._model.logp(vars=self._model.free_RVs, sum=False)
        observed = self._model.observed_RVs
        terms = self._model.logp(vars=observed, sum=False) if observed else []
        return self._compiled([*(each.sum() for each in priors), self._model.logp(), *terms])

    @functools.cached_property
    def log_joint(self) -> Compiled:
        """The log joint density of the model."""
        return self._compiled([self._model.logp()])

    @functools.cached_property
    def log_prior(self) -> Compiled:
        """Log density of all free variables."""
        return self._compiled([self._model.logp(vars=self._model.free_RVs)])

    @functools.cached_property
    def terms(self) -> Compiled:
        """Log-likelihood terms of the observed variables."""
        return self._compiled(self._model.logp(vars=self._model.observed_RVs, sum=False))

    @functools.cached_property
    def values(self) -> Compiled:
        """The values of free and deterministic variables."""
        shown = [*self._model.free_RVs, *self._model.deterministics]
        return self._compiled(self._model.replace_rvs_by_values(shown))

    @functools.cached_property
    def _forward(self) -> Compiled:
        """PyMC's transforms of the variables that keep them, as functions of all variables."""
        model = self._model
        given = {variable: variable.type() for variable in model.free_RVs}
        outputs = [
            model.rvs_to_transforms[variable].forward(variable, *variable.owner.inputs)
            for variable in model.free_RVs
            if variable.name in self._kept
        ]
        arguments = [*given.values(), *self._stand_ins.values()]
        return self._compiled(outputs, arguments, {**given, **self._stand_ins})

    def transformed(
        self, values: dict[str, Array], data: dict[str, Array] | None
    ) -> dict[str, Array]:
        """Values by name, those that keep PyMC's transform in its coordinates."""
        if not self._kept:
            return values
        moved = self._forward(*self.arguments(values, data))
        return {**values, **dict(zip(self._kept, moved, strict=True))}

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

    def __call__(self, x: Point, data: PyTree = None) -> Scalar:
        """Log density at one point."""
        return self.graph.log_joint(*self.arguments(x, data))[0] + self.sites.log_slope(x)

    def terms(self, x: Point, data: PyTree = None, uneven: bool = False) -> Float[Array, " terms"]:
        """Log density of every free variable in its coordinates, then that of all the rest.

        With `uneven` the terms of an observed variable are summed with unequal weights.
        """
        count = len(self.graph.inputs)
        found = self.graph.log_terms(*self.arguments(x, data))
        priors, total, terms = found[:count], found[count], found[count + 1 :]
        slopes = self.sites.log_slopes(x)
        own = dict(zip(self.graph.inputs, priors, strict=True))
        rest = total - sum(priors, jnp.zeros(()))
        if uneven:
            rest += sum((uneven_sum(each) - jnp.sum(each) for each in terms), jnp.zeros(()))
        return jnp.stack([*(own[name] + slope for name, slope in slopes.items()), rest])

    def arguments(self, x: Point, data: PyTree) -> list[Array]:
        """What the compiled functions of the graph are called with."""
        return self.graph.arguments(self.sites.push(x), data)


class GraphPrior(Distribution):
    """The prior of a model all of whose priors are known and independent."""

    density: GraphDensity
    data: PyTree

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
        x = self.density.sites.joined(list(self.density.sites.sample_known(key).values()))
        return x, self.log_prob(x)


class GraphValues(eqx.Module):
    """Free and deterministic variables at a point."""

    density: GraphDensity

    def __call__(self, x: Point, data: PyTree = None) -> dict[str, Array]:
        """The values of the parameters at x, by name."""
        graph = self.density.graph
        values = graph.values(*self.density.arguments(x, data))
        return dict(zip(graph.shown, map(jnp.asarray, values), strict=True))


class GraphPoint(eqx.Module):
    """The point at values of the free variables."""

    density: GraphDensity

    def __call__(self, values: dict[str, Array], data: PyTree = None) -> Point:
        """Values in PyMC's own transform where folt has no coordinate for them."""
        graph = self.density.graph
        return self.density.sites.pull(graph.transformed(values, data))


class GraphTerms(eqx.Module):
    """Log-likelihood terms of the observed variables."""

    density: GraphDensity

    def __call__(self, x: Point, data: PyTree = None) -> dict[str, Array]:
        """One array of terms per observed variable."""
        graph = self.density.graph
        return dict(zip(graph.observed, graph.terms(*self.density.arguments(x, data)), strict=True))
