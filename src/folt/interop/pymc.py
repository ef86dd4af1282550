"""PyMC models: compiled to JAX without their transforms, in folt's coordinates instead.

A PyMC model as functions of the values of its free variables.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
import pymc
import pytensor
from jaxtyping import Array, PyTree
from pymc.model.transform.conditioning import remove_value_transforms
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.utils import rewrite_graph

from folt.interop.arrange import Exchangeable, arrange, problem_of, warn_without_data
from folt.interop.model import SiteValues, UnsummedTerms
from folt.interop.pymc_sites import require_model, transformed_site, variable_site
from folt.problem import Problem
from folt.problem.named_values import Naming, SortKey
from folt.types import Key, in_float64

ONE_AT_A_TIME = threading.RLock()
"""PyTensor rewrites graphs with global state, and folt compiles in several threads."""


Compiled = Callable[..., list[Array]]
"""Variables of the model by position, in; arrays, out."""

MIXTURES = ("MixtureRV", "MarginalMixtureRV")
"""What PyMC calls the operation of a mixture, now and before."""

Jaxify = Callable[[list[Variable], list[Variable]], Compiled]
"""PyMC's translation of a graph, from inputs to outputs, into JAX."""


@jax.tree_util.register_static
class Graph:
    """A model without transforms as functions in JAX; compared by identity, without leaves.

    PyMC rewrites a graph before it becomes JAX, which takes longer than everything else in a
    front-end: each function is made when it is first needed.

    Attributes:
        observed: names of the observed variables.
        mixture: the observed variable that is a mixture, if there is just one.
    """

    def __init__(self, model: pymc.Model, jaxify: Jaxify, order: Sequence[str] = ()) -> None:
        values = {variable.name: model.rvs_to_values[variable] for variable in model.free_RVs}
        self._inputs = tuple(values)
        self.observed = tuple(variable.name for variable in model.observed_RVs)
        self._potentials = tuple(variable.name for variable in model.potentials)
        self._shown = tuple(v.name for v in [*model.free_RVs, *model.deterministics])
        self._order = order
        mixed = [v for v in model.observed_RVs if type(v.owner.op).__name__ in MIXTURES]
        self.mixture = mixed[0] if len(mixed) == 1 else None
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
    def _logs(self) -> Compiled:
        """Unsummed log densities of free and observed variables and of potentials."""
        return self._compiled(self._model.logp(sum=False))

    @functools.cached_property
    def _values(self) -> Compiled:
        """The values of free and deterministic variables."""
        shown = [*self._model.free_RVs, *self._model.deterministics]
        return self._compiled(self._model.replace_rvs_by_values(shown))

    @functools.cached_property
    def _observations(self) -> Compiled:
        """The values of the observed variables, which are constants or containers."""
        return self._compiled([self._model.rvs_to_values[v] for v in self._model.observed_RVs])

    @functools.cached_property
    def _components(self) -> Compiled:
        """Log weight plus log density of every component at the observations of the mixture."""
        variable = self.mixture
        assert variable is not None
        _, weights, *components = variable.owner.inputs
        value = self._model.rvs_to_values[variable]
        axis = -variable.owner.op.ndim_supp - 1
        if len(components) == 1:
            logs = pymc.logp(components[0], pytensor.tensor.expand_dims(value, axis))
        else:
            logs = pytensor.tensor.stack([pymc.logp(each, value) for each in components], axis=-1)
        terms = logs + pytensor.tensor.log(weights)
        # Weights are broadcast to the shape of a draw of the components: without the draw.
        (shaped,) = self._model.replace_rvs_by_values([terms])
        rewritten = rewrite_graph(shaped, include=("ShapeOpt", "canonicalize"))
        return self._compiled([cast(Variable, rewritten)])

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

    def log_terms(self, values: SiteValues, data: PyTree) -> UnsummedTerms:
        """Return the log density, variable by variable."""
        logs = iter(self._logs(*self._called(values, data)))
        names = (self._inputs, self.observed, self._potentials)
        return UnsummedTerms(*({name: next(logs) for name in each} for each in names))

    def component_terms(self, values: SiteValues, data: PyTree) -> Array:
        """Return the log weight plus log density of the mixture, (observation, component)."""
        (terms,) = self._components(*self._called(values, data))
        return jnp.reshape(terms, (-1, jnp.shape(terms)[-1]))

    def shown(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return free and deterministic variables."""
        found = self._values(*self._called(values, data))
        values = dict(zip(self._shown, map(jnp.asarray, found), strict=True))
        # PyMC's copy without transforms lists variables otherwise than the model does.
        return {name: values[name] for name in self._order if name in values} | values

    def observations(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return the values of the observed variables."""
        found = self._observations(*self._called(values, data)) if self.observed else ()
        return dict(zip(self.observed, map(jnp.asarray, found), strict=True))

    def completed(self, key: Key, values: SiteValues, data: PyTree) -> SiteValues:
        """Return the values: folt draws from a prior only where all of it is known."""
        return values

    def transformed(self, values: SiteValues, data: PyTree) -> SiteValues:
        """Return values by name, those that keep PyMC's transform in its coordinates."""
        if not self._kept:
            return values
        moved = self._forward(*self._called(values, data))
        return {**values, **dict(zip(self._kept, moved, strict=True))}

    def data(self) -> dict[str, np.ndarray] | None:
        """Return the values of the `pm.Data` containers, by name."""
        found = {name: np.asarray(each.get_value()) for name, each in self._shared.items()}
        return found or None

    def _called(self, values: SiteValues, data: PyTree) -> list[Array]:
        """Return the arguments of the functions: values by name, then data by name."""
        given = [values[name] for name in self._inputs]
        return given + [jnp.asarray((data or {})[name]) for name in self._shared]


def from_pymc(
    model: pymc.Model,
    *,
    exchangeable: Exchangeable = "auto",
    allow_rotation: bool = False,
    keep_order: bool = True,
    sort_by: str | SortKey | None = None,
    sign: str | None = None,
) -> Problem:
    """Return a PyMC model as a problem, with the symmetry it has.

    Every free variable gets coordinates in which relabelling is orthogonal, in place of PyMC's
    transforms: prior-normal ones where its prior is independent and has known quantiles, centred
    scores for a simplex, logarithm, scores between bounds or identity otherwise. Five or more
    exchangeable weights of a mixture get a free total, which leaves the evidence as it is.
    `pm.Data` containers become the problem's data, so that other values of equal shape do not
    compile again (`problem.with_data`).

    Args:
        model: the model; discrete variables must be marginalised.
        exchangeable: names of the variables whose first axis is permuted together (transition
            matrices on both sides), which is then verified; `{name: slice}` where only some
            entries are alike; "auto" looks for them; [] for none.
        allow_rotation: leave rotations of labels into each other in the posterior, such as those of
            a factor model with Gaussian loadings, and fold signed permutations alone; by default
            they are divided out.
        keep_order: False takes variables with PyMC's `ordered` transform as plain vectors, whose
            symmetry is then folded; the evidence grows by the factor m! that the order took away.
        sort_by: what labels are sorted by instead of the order of the fold: the name of a
            variable with one number per label, or a function as for `Fit.relabelled`.
        sign: "largest", or a coordinate such as "loadings[0,1]" that is made positive, where signs
            may be flipped.

    Returns:
        A problem whose `constrain` gives free and deterministic variables, with pointwise
        log-likelihood. Replicates are PyMC's own: `pm.sample_posterior_predictive(posterior)`
        with every fiftieth draw,
        `posterior = fit.to_arviz(log_likelihood=False).sel(draw=slice(None, None, 50))`.
        `symmetry_found` holds what was tried, what was found and what nearly held.

    Warns:
        UserWarning: nothing is folded although the model has repeated structure.

    Raises:
        ValueError: a discrete free variable, unknown or unequal variables, NaN among the
            observations.
        SymmetryError: variables declared exchangeable that are not.
        RotationError: a continuous rotation symmetry that cannot be divided out.
    """
    if not isinstance(model, pymc.Model):
        raise ValueError(f"expected a pymc.Model, got {type(model).__name__}")
    naming = Naming(sort_by, sign)
    return _from_pymc(model, exchangeable, allow_rotation, keep_order, naming, _jaxify())


def _jaxify() -> Jaxify:
    """Return PyMC's compiler to JAX; importing it must not change JAX's precision for everyone."""
    before = jax.config.values["jax_enable_x64"]
    from pymc.sampling.jax import get_jaxified_graph

    jax.config.update("jax_enable_x64", before)
    return get_jaxified_graph


@in_float64
def _from_pymc(
    model: pymc.Model,
    exchangeable: Exchangeable,
    allow_rotation: bool,
    keep_order: bool,
    naming: Naming,
    jaxify: Jaxify,
) -> Problem:
    require_model(model)
    free = {variable.name for variable in model.free_RVs}
    sites = {
        variable.name: variable_site(model, variable, free, keep_order)
        for variable in model.free_RVs
    }
    own = [variable for variable in model.free_RVs if sites[variable.name] is not None]
    plain = _without_transforms(model, own) if own else model
    described = [
        sites[variable.name] or transformed_site(plain, variable) for variable in plain.free_RVs
    ]
    if not model.observed_RVs and not model.potentials:
        warn_without_data(described)
    shown = [variable.name for variable in (*model.free_RVs, *model.deterministics)]
    graph = Graph(plain, jaxify, shown)
    data = graph.data()
    found = arrange(described, exchangeable, graph, data, "pymc")
    axes = {
        name: tuple(None if axis is None else str(axis) for axis in dims)
        for name, dims in model.named_vars_to_dims.items()
    }
    used = {axis for names in axes.values() for axis in names}
    labels = {axis: own for axis, own in model.coords.items() if axis in used and own is not None}
    return problem_of(
        graph,
        found,
        data,
        proper=all(each.known for each in found.sites.maps),
        allow_rotation=allow_rotation,
        dims=axes,
        coords=labels,
        components=None if graph.mixture is None else graph,
        naming=naming,
    )


def _without_transforms(model: pymc.Model, variables: list[Variable]) -> pymc.Model:
    """Copy the model without some transforms; PyMC copies none that has starting values."""
    starts = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(starts))
        return remove_value_transforms(model, variables)
    finally:
        model.rvs_to_initial_values.update(starts)
