"""PyMC models: compiled to JAX without their transforms, in folt's coordinates instead."""

from __future__ import annotations

import jax
import pymc
from pymc.model.transform.conditioning import remove_value_transforms
from pytensor.graph.basic import Variable

from folt.interop.arrange import Exchangeable, arrange, problem_of, warn_without_data
from folt.interop.pymc_graph import Graph, Jaxify
from folt.interop.pymc_sites import require_model, transformed_site, variable_site
from folt.problem import Problem
from folt.problem.named_values import Naming, SortKey
from folt.types import in_float64


def from_pymc(
    model: pymc.Model,
    *,
    exchangeable: Exchangeable = "auto",
    allow_rotation: bool = False,
    keep_order: bool = True,
    sort_by: str | SortKey | None = None,
    sign: str | None = None,
) -> Problem:
    """A PyMC model as a problem, with the symmetry it has.

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
        log-likelihood. Replicates are PyMC's own: `pm.sample_posterior_predictive(fit.to_arviz())`.
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
    """PyMC's compiler to JAX; importing it must not change JAX's precision for everyone."""
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
    graph = Graph(plain, jaxify)
    data = graph.data()
    found = arrange(described, exchangeable, graph, data, allow_rotation, "pymc")
    known = all(each.known for each in found.sites.maps)
    axes = {
        name: tuple(None if axis is None else str(axis) for axis in dims)
        for name, dims in model.named_vars_to_dims.items()
    }
    used = {axis for names in axes.values() for axis in names}
    labels = {axis: own for axis, own in model.coords.items() if axis in used and own is not None}
    mixed = graph if graph.mixture is not None else None
    return problem_of(
        graph,
        found,
        data,
        proper=known,
        dims=axes,
        coords=labels,
        components=mixed,
        naming=naming,
    )


def _without_transforms(model: pymc.Model, variables: list[Variable]) -> pymc.Model:
    """A copy of the model without some transforms; PyMC copies none that has starting values."""
    starts = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(starts))
        return remove_value_transforms(model, variables)
    finally:
        model.rvs_to_initial_values.update(starts)
