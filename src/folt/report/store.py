"""Fit files: netCDF by way of xarray, written whole or not at all, no pickle.

The file is an ArviZ file (groups `posterior` and `sample_stats`) with one more group, `folt`,
that holds what ArviZ has no place for: draws in the problem's coordinates, the proposal, the
reference's raw chains.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray

from folt._types import in_float64
from folt.certificate.certificate import Certificate
from folt.fit import Fit, ReferenceSummary
from folt.problem import Problem
from folt.report.arviz import attributes
from folt.report.files import whole_file
from folt.serial import NotStorableError, pack, unpack

ENGINE: Literal["h5netcdf"] = "h5netcdf"
FORMAT = 1

RAW = "raw_posterior_"
"""Begins the names of the reference's raw chains in the user's parameters."""


def save(fit: Fit, path: Path) -> Path:
    """Write a fit; an existing file is replaced only by a complete one.

    Raises:
        ValueError: the path cannot be written.
    """
    path = Path(path)
    datasets = {
        "posterior": _posterior(fit),
        "sample_stats": _sample_stats(fit),
        "folt": _own(fit),
    }
    with whole_file(path) as temporary:
        for position, (group, dataset) in enumerate(datasets.items()):
            dataset.to_netcdf(temporary, mode="a" if position else "w", group=group, engine=ENGINE)
    return path


@in_float64
def load(path: str | Path, problem: Problem | None = None) -> Fit:
    """Read a fit.

    Args:
        path: a file that `Fit.save` wrote.
        problem: the problem, if the fit is to be extended; functions are not stored.

    Raises:
        ValueError: the file is missing or was not written by folt.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"expected a fit file, found nothing at {path}")
    try:
        own = xarray.load_dataset(path, group="folt", engine=ENGINE)
        posterior = xarray.load_dataset(path, group="posterior", engine=ENGINE)
        stats = xarray.load_dataset(path, group="sample_stats", engine=ENGINE)
        meta = json.loads(own.attrs["meta"])
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a fit file that folt wrote: {error}") from error
    if meta["format"] != FORMAT:
        raise ValueError(f"expected a fit file of format {FORMAT}, got format {meta['format']}")
    if problem is not None and problem.dim != own["draws"].shape[-1]:
        raise ValueError(
            f"expected a problem of dimension {own['draws'].shape[-1]} for this fit, "
            f"got dimension {problem.dim}"
        )
    arrays = [own[f"array_{i}"].values for i in range(meta["arrays"])]
    return Fit(
        draws=own["draws"].values,
        log_ratio=stats["log_ratio"].values,
        accepted=stats["accepted"].values.astype(bool),
        posterior={str(name): posterior[name].values for name in posterior.data_vars},
        certificate=Certificate.from_dict(unpack(meta["certificate"], [])),
        names=tuple(meta["names"]),
        group=unpack(meta["group"], arrays),
        proposal=unpack(meta["proposal"], arrays),
        problem=problem,
        reference=_reference(own),
        wall=meta["wall"],
        evaluations=meta["evaluations"],
        labels=meta["labels"],
        whole_orbit=meta["whole_orbit"],
        provenance=meta["provenance"],
        dims={name: tuple(axes) for name, axes in meta.get("dims", {}).items()},
    )


def _posterior(fit: Fit) -> xarray.Dataset:
    variables = {}
    for name, value in fit.posterior.items():
        extra = fit.dims.get(name) or [f"{name}_dim_{i}" for i in range(value.ndim - 2)]
        variables[name] = (["chain", "draw", *extra], value)
    return xarray.Dataset(variables, coords=_coordinates(fit), attrs=attributes(fit))


def _sample_stats(fit: Fit) -> xarray.Dataset:
    variables = {
        "log_ratio": (["chain", "draw"], fit.log_ratio),
        "accepted": (["chain", "draw"], fit.accepted.astype(np.int8)),
    }
    return xarray.Dataset(variables, coords=_coordinates(fit))


def _coordinates(fit: Fit) -> dict[str, np.ndarray]:
    return {"chain": np.arange(fit.draws.shape[0]), "draw": np.arange(fit.draws.shape[1])}


def _own(fit: Fit) -> xarray.Dataset:
    arrays: list[np.ndarray] = []
    try:
        proposal = pack(fit.proposal, arrays)
    except NotStorableError:
        proposal, arrays = None, []
    group = pack(fit.group, arrays)
    variables: dict[str, Any] = {"draws": (["chain", "draw", "coordinate"], fit.draws)}
    for i, array in enumerate(arrays):
        variables[f"array_{i}"] = ([f"axis_{i}_{j}" for j in range(array.ndim)], array)
    if fit.reference.raw is not None:
        variables["raw"] = (["raw_chain", "raw_draw", "coordinate"], fit.reference.raw)
    for name, value in (fit.reference.raw_posterior or {}).items():
        extra = [f"{name}_dim_{i}" for i in range(value.ndim - 2)]
        variables[f"{RAW}{name}"] = (["raw_chain", "raw_draw", *extra], value)
    meta = {
        "format": FORMAT,
        "arrays": len(arrays),
        "names": fit.names,
        "group": group,
        "proposal": proposal,
        "certificate": pack(fit.certificate.tree(), []),
        "wall": fit.wall,
        "evaluations": fit.evaluations,
        "labels": fit.labels,
        "whole_orbit": fit.whole_orbit,
        "provenance": fit.provenance,
        "dims": fit.dims,
    }
    return xarray.Dataset(variables, attrs={"meta": json.dumps(meta, allow_nan=False)})


def _reference(own: xarray.Dataset) -> ReferenceSummary:
    raw = own["raw"].values if "raw" in own else None
    kept = {
        str(name).removeprefix(RAW): own[name].values
        for name in own.data_vars
        if str(name).startswith(RAW)
    }
    return ReferenceSummary(raw=raw, raw_posterior=kept or None)
