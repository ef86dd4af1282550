"""A fit as ArviZ has it: InferenceData before its version 1, a DataTree of xarray since."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.fit.predictions import replicates
from folt.fit.thinning import log_likelihoods
from folt.problem.named_values import fitting_coords, matching_dims
from folt.store.private import imported_arviz
from folt.store.strict_json import Document

if TYPE_CHECKING:
    import xarray

    from folt.fit.fit import Fit


def to_inference_data(
    fit: Fit, *, log_likelihood: bool = True, posterior_predictive: bool = False, seed: int = 0
) -> Any:
    """Posterior in the user's parameters, with statistics of the chain and of the observations.

    Labels are those of the fit, sorted or likeliest under the proposal; their axis is named
    as the model names it, else `component`, and has the model's labels as places in the order that
    its attribute `folt_order` tells. The certificate and the evidence are
    attributes of the posterior: numbers where netCDF allows them, one JSON string for the whole.

    Args:
        fit: the fit.
        log_likelihood: add the terms that `arviz.loo` needs, if the fit's problem has them; where
            they would be more than eight million, those of evenly spaced draws.
        posterior_predictive: add one replicate of the observations per draw.
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
    if posterior_predictive:
        groups["posterior_predictive"] = replicates(fit, seed)
    constant = _named_data(fit)
    if constant:
        groups["constant_data"] = constant
    with warnings.catch_warnings():
        # ArviZ takes more chains than draws for axes that were mistaken for each other.
        warnings.filterwarnings("ignore", "More chains", UserWarning)
        data = _made(arviz, groups, _axes(fit, groups))
    data["posterior"].attrs.update(attributes(fit))
    say_order(data["posterior"], fit)
    if terms is not None:
        data["log_likelihood"].coords["draw"] = terms.at
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
        name: np.shape(value)[0 if group == "constant_data" else 2 :]
        for group, arrays in groups.items()
        for name, value in arrays.items()
    }
    given = dict(fit.problem.coords) if fit.problem is not None else {}
    dims = matching_dims(fit.dims, shapes)
    coords = fitting_coords({**given, **fit.coords}, dims, shapes)
    return {"dims": {name: list(axes) for name, axes in dims.items()}, "coords": coords}


def _named_data(fit: Fit) -> dict[str, np.ndarray] | None:
    """Data that have names, such as the containers of a PyMC model.

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
    """What netCDF can hold of the verdict."""
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
