"""The free variables of a PyMC model: supports, priors, and which of them depend on others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors

from folt import coordinates
from folt.interop.coordinates import Beta, Bounds
from folt.interop.sites import (
    Site,
    bounded_site,
    opaque_site,
    require_numbers,
    simplex_site,
    zero_sum_site,
)

PYTHON = Mode(linker="py", optimizer="fast_compile")
"""A few numbers are worth no compiler."""


def _number(expression: Variable) -> np.ndarray:
    """Return the value of an expression without free variables."""
    known = expression.data if isinstance(expression, Constant) else expression.eval(mode=PYTHON)
    return np.asarray(known, float)


def _shape(variable: Any) -> np.ndarray | tuple[int, ...]:
    known = variable.type.shape
    return _number(variable.shape) if None in known else known


def require_model(model: pymc.Model) -> None:
    """Refuse discrete variables, and NaN or masked values among the observations."""
    for variable in model.free_RVs:
        if type(variable.owner.op).__name__ == "PartialObservedRV":
            raise ValueError(
                f"observations of {variable.name.removesuffix('_unobserved')!r} are masked or "
                "missing, and the density of the missing ones is none that folt can take apart: "
                "give the model the observed values alone"
            )
        if np.dtype(variable.dtype).kind != "f":
            raise ValueError(
                f"the variable {variable.name!r} is discrete: marginalise it, for a mixture with "
                "pm.Mixture"
            )
    for variable in model.observed_RVs:
        given = model.rvs_to_values[variable]
        value = given.get_value() if hasattr(given, "get_value") else _number(given)
        require_numbers("variable", variable.name, value)


def variable_site(
    model: pymc.Model, variable: Any, free: set[str], keep_order: bool
) -> Site | None:
    """Return a free variable as folt sees it; None for a support without a coordinate of folt's."""
    transform = model.rvs_to_transforms[variable]
    kind = type(transform).__name__
    shape = tuple(int(length) for length in _shape(variable))
    if kind == "SimplexTransform":
        alpha = _parameters(variable, free)
        dirichlet = alpha is not None and type(variable.owner.op).__name__ == "DirichletRV"
        concentration = np.broadcast_to(alpha[0], shape) if alpha and dirichlet else None
        return simplex_site(variable.name, shape, concentration)
    if kind == "ZeroSumTransform" and tuple(transform.zerosum_axes) == (-1,):
        return zero_sum_site(variable.name, shape)
    plain = kind == "Ordered" and not keep_order
    bounds = (None, None) if plain else _bounds(kind, transform, variable, free)
    if bounds is None:
        return None
    return bounded_site(variable.name, shape, bounds, _known_prior(variable, shape, free))


def transformed_site(model: pymc.Model, variable: Any) -> Site:
    """Return a variable that keeps PyMC's own transform; its labels, if any, are not permuted."""
    value = model.rvs_to_values[variable]
    shape = tuple(np.shape(model.initial_point()[value.name]))
    kind = type(model.rvs_to_transforms[variable]).__name__
    return opaque_site(variable.name, shape, coordinates.Identity(), ordered="Ordered" in kind)


def _bounds(kind: str, transform: Any, variable: Variable, free: set[str]) -> Bounds | None:
    """Return the lower and upper bound of real values, as PyMC's transform knows them."""
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


def _constant(bound: Variable | None, variable: Variable, free: set[str]) -> np.ndarray | None:
    if bound is None:
        return None
    if not hasattr(bound, "eval"):
        return np.asarray(bound, float)
    if _depends(bound, free):
        raise ValueError(
            f"the support of the variable {variable.name!r} depends on other variables: write it "
            "as a fixed-support variable and transform it"
        )
    return _number(bound)


def _depends(expression: Variable, free: set[str]) -> bool:
    return any(each.name in free for each in ancestors([expression]))


_KNOWN: dict[str, Callable[..., coordinates.Prior | Beta]] = {
    "NormalRV": coordinates.Normal,
    "LogNormalRV": coordinates.LogNormal,
    "UniformRV": coordinates.Uniform,
    "HalfNormalRV": lambda loc, scale: coordinates.HalfNormal(scale, loc),
    "HalfCauchyRV": coordinates.HalfCauchy,
    "ExponentialRV": coordinates.Exponential,
    "LaplaceRV": coordinates.Laplace,
    "LogisticRV": coordinates.Logistic,
    "CauchyRV": coordinates.Cauchy,
    "GumbelRV": coordinates.Gumbel,
    "BetaRV": Beta,
}
"""Priors that folt can draw from, but for the last by exact quantiles, with their parameters as
PyTensor orders them."""


def _known_prior(
    variable: Variable, shape: tuple[int, ...], free: set[str]
) -> coordinates.Prior | Beta | None:
    """Return the prior of a variable, where it is known and independent of other variables."""
    make = _KNOWN.get(type(variable.owner.op).__name__)
    parameters = _parameters(variable, free)
    if make is None or parameters is None:
        return None
    return make(*(np.broadcast_to(value, shape) for value in parameters))


def _parameters(variable: Variable, free: set[str]) -> list[np.ndarray] | None:
    """Return parameters of a distribution as numbers; None if they depend on other variables."""
    operation = variable.owner.op
    if not hasattr(operation, "dist_params"):
        return None
    expressions = operation.dist_params(variable.owner)
    if any(_depends(expression, free) for expression in expressions):
        return None
    return [_number(expression) for expression in expressions]
