"""A fit as ArviZ has it, and which draws a file holds.

ArviZ has InferenceData before its version 1 and a DataTree of xarray since. A file holds evenly
spaced draws where there are very many. Log-likelihood terms are computed at such draws block by
block, in bounded memory however many draws and observations there are.
"""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from folt.batching import map_points
from folt.fit.replicates import OfSomeDraws, observations, replicates, spaced
from folt.problem import Problem
from folt.problem.named_values import fitting_coords, matching_dims
from folt.store.private import imported_arviz
from folt.store.strict_json import Document
from folt.types import in_float64

if TYPE_CHECKING:
    import xarray

    from folt.fit.fit import Fit


Keep = int | Literal["all"] | None

_ENOUGH = 5_000
"""Draws per chain that a file holds at least of those that nobody asked for. Four chains of so many
give a mean to .7 % of the posterior's deviation and the ends of a 95 % interval to 2 %: fewer than
the digits that anybody reports."""

_GIVEN = ("constant_data", "observed_data")
"""Groups without axes of chains and draws."""

TERMS_AT_ONCE = 1 << 20
"""Terms of the draws that are evaluated together: 8 MB."""


def thinned_fit(fit: Fit, keep: Keep = None) -> Fit:
    """Return the fit with every k-th of its draws, and so with k times as many steps between them.

    The chain that is left is a chain of the same kernel and can be extended; the certificate stays
    that of all draws, whose number `provenance["thinned"]` remembers.

    Args:
        fit: the fit.
        keep: draws that stay on every chain, at least; "all"; or None for all that were asked for
            and `_ENOUGH` of those that were chosen by budget.

    Raises:
        ValueError: `keep` is none of these.
    """
    if keep is None:
        keep = "all" if fit.provenance.get("draws_asked", True) else _ENOUGH
    if keep != "all" and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise ValueError(f"expected keep to be 'all' or a number of draws per chain, got {keep!r}")
    length = fit.draws.shape[1]
    every = 1 if keep == "all" else max(1, length // keep)
    if every == 1:
        return fit
    draws = fit.draws[:, ::every]
    counts = {"kept": draws.shape[0] * draws.shape[1], "of": fit.drawn}
    steps = every * fit.steps_per_draw
    return dataclasses.replace(
        fit,
        draws=draws,
        log_ratio=fit.log_ratio[:, ::every],
        accepted=fit.accepted[:, ::every],
        posterior={name: values[:, ::every] for name, values in fit.posterior.items()},
        log_likelihood=_thinned_terms(fit.log_likelihood, every),
        provenance={**fit.provenance, "steps_per_draw": steps, "thinned": counts},
    )


def log_likelihoods(fit: Fit, precision: type[np.floating] = np.float64) -> OfSomeDraws | None:
    """Return the terms of evenly spaced draws, of all where that makes at most `ENTRIES` of them.

    They are computed where the problem is known, else those of the file; None where there are none.

    Args:
        fit: the fit.
        precision: of terms that are computed. The rounding of single precision is far below what
            `arviz.loo` can resolve.
    """
    if fit.problem is None:
        return fit.log_likelihood
    return None if fit.problem.pointwise is None else _computed(fit, fit.problem, precision)


@in_float64
def _computed(fit: Fit, problem: Problem, precision: type[np.floating]) -> OfSomeDraws:
    """Return terms at as many draws as the bound allows, block by block."""
    shapes = jax.eval_shape(problem.log_likelihoods, fit.draws[0, 0])
    terms = max(1, sum(math.prod(shape.shape) for shape in shapes.values()))
    at = spaced(fit, terms)
    points = fit.draws[:, at].reshape(-1, fit.draws.shape[2])
    found = {
        name: np.empty((len(points), *shape.shape), precision) for name, shape in shapes.items()
    }
    length = int(np.clip(TERMS_AT_ONCE // terms, 1, 1024))
    for start in range(0, len(points), 2 * length):  # two blocks are under way at a time
        block = slice(start, start + 2 * length)
        values = map_points(Problem.log_likelihoods, problem, points[block], length=length)
        for name, value in values.items():
            found[name][block] = value
    lead = (len(fit.draws), at.size)
    return OfSomeDraws(
        {name: value.reshape(*lead, *value.shape[1:]) for name, value in found.items()}, at
    )


def _thinned_terms(terms: OfSomeDraws | None, every: int) -> OfSomeDraws | None:
    """Return those terms of a file whose draws stay."""
    if terms is None:
        return None
    stays = terms.at % every == 0
    if not stays.any():
        return None
    values = {name: value[:, stays] for name, value in terms.values.items()}
    return OfSomeDraws(values, terms.at[stays] // every)


def to_inference_data(
    fit: Fit, *, log_likelihood: bool = True, posterior_predictive: bool = False, seed: int = 0
) -> Any:
    """Posterior in the user's parameters, with statistics of the chain and of the observations.

    Labels are those of the fit, sorted or likeliest under the proposal; their axis is named
    as the model names it, else `component`, and has the model's labels as places in the order that
    its attribute `folt_order` states. The certificate and the evidence are
    attributes of the posterior: numbers where netCDF allows them, one JSON string for the whole.

    Args:
        fit: the fit.
        log_likelihood: add the terms that `arviz.loo` needs, if the fit's problem has them; where
            they would be more than eight million, those of evenly spaced draws.
        posterior_predictive: add one replicate of the observations per draw; where they would be
            more than eight million entries, of evenly spaced draws.
        seed: of the replicates.

    Raises:
        ValueError: replicates were asked for and the fit's problem cannot draw them, or an ArviZ
            is installed that folt does not know.
    """
    arviz = imported_arviz()
    groups: Document = {
        "posterior": {name: np.asarray(value) for name, value in fit.posterior.items()},
        "sample_stats": {
            "log_ratio": fit.log_ratio,
            "accepted": fit.accepted.astype(np.int8),
            "acceptance_rate": fit.accepted.astype(float),
        },
    }
    terms = log_likelihoods(fit) if log_likelihood else None
    if terms is not None:
        groups["log_likelihood"] = terms.values
    made = replicates(fit, seed) if posterior_predictive else None
    if made is not None:
        groups["posterior_predictive"] = made.values
    known = {} if fit.problem is None else observations(fit.problem)
    for group, arrays in (("constant_data", _named_data(fit)), ("observed_data", known)):
        if arrays:
            groups[group] = arrays
    with warnings.catch_warnings():
        # ArviZ takes more chains than draws for axes that were mistaken for each other.
        warnings.filterwarnings("ignore", "More chains|Found chain dimension", UserWarning)
        data = _made(arviz, groups, _axes(fit, groups))
    data["posterior"].attrs.update(attributes(fit))
    say_order(data["posterior"], fit)
    for group, some in (("log_likelihood", terms), ("posterior_predictive", made)):
        if some is not None:
            data[group].coords["draw"] = some.at
    return data


def _made(arviz: Any, groups: Document, axes: Document) -> Any:
    """Groups as keywords until ArviZ 1, as one mapping since."""
    generation = int(arviz.__version__.split(".")[0])
    if generation > 1:
        raise ValueError(f"expected ArviZ 0.23 to 1, got ArviZ {arviz.__version__}")
    if generation < 1:
        return arviz.from_dict(**groups, **axes)
    return arviz.from_dict(groups, **axes)


def _axes(fit: Fit, groups: Document) -> Document:
    """Names and labels of the axes of all arrays, where they fit; numbers where there are none."""
    shapes = {
        name: np.shape(value)[0 if group in _GIVEN else 2 :]
        for group, arrays in groups.items()
        for name, value in arrays.items()
    }
    given = dict(fit.problem.coords) if fit.problem is not None else {}
    dims = matching_dims(fit.dims, shapes)
    coords = fitting_coords({**given, **fit.coords}, dims, shapes)
    return {"dims": {name: list(axes) for name, axes in dims.items()}, "coords": coords}


def _named_data(fit: Fit) -> dict[str, np.ndarray] | None:
    """Return data that have names, such as the containers of a PyMC model.

    PyMC draws anew whatever depends on a container that is not there or has other values.
    """
    data = fit.problem.data if fit.problem is not None else None
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        return None
    if any(not hasattr(value, "shape") for value in data.values()):
        return None
    return {name: np.asarray(value) for name, value in data.items()}


def say_order(posterior: xarray.Dataset, fit: Fit) -> xarray.Dataset:
    """The posterior with a remark at every axis whose labels are places in the folded order."""
    for axis in fit.exchanged_dims:
        if axis in posterior.coords:
            posterior[axis].attrs["folt_order"] = f"exchangeable labels; {fit.order}"
    return posterior


def attributes(fit: Fit) -> Document:
    """Return what netCDF can hold of the verdict."""
    evidence = fit.log_evidence
    return {
        "inference_library": "folt",
        "inference_library_version": fit.provenance["versions"]["folt"],
        "folt_status": fit.certificate.status.name,
        "folt_advice": fit.certificate.status.advice,
        "folt_accept_rate": fit.accept_rate,
        "folt_log_evidence": evidence.value,
        "folt_log_evidence_standard_error": evidence.standard_error,
        "folt_certificate": json.dumps(fit.certificate.to_dict()),
    }
