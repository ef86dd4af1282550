"""Fit files: netCDF, written whole or not at all, sealed, no pickle.

The file is an ArviZ file (groups `posterior`, `sample_stats` and, where the model has them, the
pointwise terms `log_likelihood`) with one more group, `folt`, that holds what ArviZ has no place
for: draws in the problem's coordinates, the proposal, the reference's raw chains, the sections of
the report.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path

import numpy as np
import xarray

from folt.certificate.certificate import Certificate
from folt.certificate.conditions import RULES
from folt.certificate.learnt import Digests, Learnt
from folt.fit.arviz import Keep, attributes, log_likelihoods, say_order, thinned_fit
from folt.fit.fit import Fit, ReferenceSummary
from folt.fit.replicates import OfSomeDraws
from folt.fit.section import Section, require_harmless
from folt.fit.serial import (
    NotStorableError,
    group_names,
    netcdf_bytes,
    pack,
    read_group,
    require_consistent,
    sealed,
    unpack,
    unsealed,
)
from folt.problem import Problem
from folt.problem.ratio import LogRatio, Target
from folt.problem.requirements import require_made
from folt.store import write_whole
from folt.store.strict_json import Document
from folt.types import in_float64

FIT_FORMAT = 2

PLAIN = ("wall", "evaluations", "labels", "whole_orbit", "provenance")
"""Fields of a fit that JSON holds as they are."""

LEARNT = ("exact", "rounded")
"""Kinds of digests of the draws that a proposal has learnt from."""

_SAME, _SAME_SHARE = 1e-2, 1e-6
"""Change of a log density, in nats and as a share of its size, that another machine or another
order of sums may cause, in single precision as well; other data change it by far more."""

ORDER = "folt_parameters"
"""Attribute of the posterior with the names of the parameters in order; HDF5 sorts by alphabet."""

RAW = "raw_posterior_"
"""Begins the names of the reference's raw chains in the user's parameters."""


def save(fit: Fit, path: Path, keep: Keep = None) -> Path:
    """Write a fit; an existing file is replaced only by a complete one.

    Raises:
        WriteError: the path cannot be written.
        ValueError: `keep` is neither "all" nor a number of draws.
    """
    return write_whole(Path(path), to_bytes(fit, keep))


def to_bytes(fit: Fit, keep: Keep = None) -> bytes:
    """The file of a fit, made in memory: a full disk cannot damage what is being made."""
    fit = thinned_fit(fit, keep)
    groups = {"posterior": _posterior(fit), "sample_stats": _sample_stats(fit), "folt": _own(fit)}
    terms = log_likelihoods(fit, np.float32)
    if terms is not None:
        groups["log_likelihood"] = _log_likelihood(terms)
    return sealed(netcdf_bytes(groups), FIT_FORMAT)


@in_float64
def load(path: str | Path, problem: Problem | None = None) -> Fit:
    """Read a fit that is as it was written; its verdict is that of the numbers in it.

    Args:
        path: a file that `Fit.save` wrote.
        problem: the problem, if the fit is to be extended; functions are not stored.

    Raises:
        ValueError: the file is missing, damaged, of another format, or holds what no fit holds, or
            the problem is none or another one than that of the fit.
    """
    path = Path(path)
    if problem is not None:
        require_made(problem)
    data = unsealed(path, FIT_FORMAT)
    try:
        fit, said_then = _read(data)
        require_consistent(fit)
        name = fit.certificate.status.name
        if said_then["rules"] == RULES and said_then["name"] != name:
            raise ValueError(f"its verdict is {said_then['name']!r}, its numbers give {name!r}")
    except Exception as error:  # whatever a forged file makes of its parts
        said = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise ValueError(f"{path} is not a fit file that can be relied on: {said}") from error
    if problem is not None:
        _require_same(fit, problem)
    if said_then["rules"] != RULES:
        warnings.warn(
            f"{path} was certified under rules {said_then['rules']} and called "
            f"{said_then['name']!r}; by today's rules, {RULES}, it is {name!r}",
            stacklevel=3,
        )
    return dataclasses.replace(fit, problem=problem)


def _require_same(fit: Fit, problem: Problem) -> None:
    """Refuse a problem that is not the one the fit was made of.

    The ratio of the densities of target and proposal is kept with every draw, so that two draws
    tell other data or another prior.
    """
    if problem.dim != fit.group.dim:
        raise ValueError(
            f"expected a problem of dimension {fit.group.dim} for this fit, "
            f"got dimension {problem.dim}"
        )
    for what, own, given in (
        ("coordinates", ", ".join(fit.names), ", ".join(problem.names)),
        ("a group", type(fit.group).__name__, type(problem.group).__name__),
        ("a group of order", fit.group.order, problem.group.order),
    ):
        if own != given:
            raise ValueError(f"expected a problem with {what} {own} for this fit, got {given}")
    if fit.proposal is None or not fit.whole_orbit:
        return
    points = np.stack([fit.draws[0, 0], fit.draws[-1, -1]])
    stored = np.array([fit.log_ratio[0, 0], fit.log_ratio[-1, -1]])
    with problem.evaluating():
        values = problem.log_folds(points)
        found = LogRatio(Target(problem), fit.proposal, fit.group).at(points, values)
    if not np.all(np.abs(found - stored) <= _SAME + _SAME_SHARE * np.abs(values)):
        change = float(np.max(np.abs(found - stored)))
        raise ValueError(
            f"expected the problem that this fit was made of, got one whose log density at its "
            f"draws differs by {change:.3g}: other data, another prior or another constant"
        )


def _read(data: bytes) -> tuple[Fit, Document]:
    """Return the fit in a file, and the verdict that the file states."""
    own, posterior, stats = (read_group(data, g) for g in ("folt", "posterior", "sample_stats"))
    meta = json.loads(_text(own["meta"]))
    arrays = [own[f"array_{i}"].values for i in range(meta["arrays"])]
    certificate = unpack(meta["certificate"], [])
    fit = Fit(
        draws=own["draws"].values,
        log_ratio=stats["log_ratio"].values,
        accepted=stats["accepted"].values.astype(bool),
        posterior={name: posterior[name].values for name in _in_order(posterior)},
        certificate=Certificate.from_dict(certificate),
        names=tuple(meta["names"]),
        group=unpack(meta["group"], arrays),
        proposal=unpack(meta["proposal"], arrays),
        problem=None,
        reference=_reference(own),
        **{name: meta[name] for name in PLAIN},
        dims={name: tuple(axes) for name, axes in meta["dims"].items()},
        coords={
            str(axis): labels.values
            for axis, labels in posterior.coords.items()
            if axis not in ("chain", "draw")
        },
        exchanged={name: tuple(axes) for name, axes in meta.get("exchanged", {}).items()},
        labelled=tuple(meta.get("labelled", ())),
        sections=tuple(
            Section(title, text, require_harmless(_text(own[f"section_{k}"])))
            for k, (title, text) in enumerate(meta["sections"])
        ),
        log_likelihood=_terms(data),
        learnt=_learnt(own, meta),
    )
    return fit, certificate["status"]


def _terms(data: bytes) -> OfSomeDraws | None:
    """Return the pointwise log likelihoods of a file, where it has any."""
    if "log_likelihood" not in group_names(data):
        return None
    group = read_group(data, "log_likelihood")
    return OfSomeDraws({str(name): group[name].values for name in group}, group["draw"].values)


def _in_order(posterior: xarray.Dataset) -> list[str]:
    """Return names of the parameters in the order of the model, which files have kept since 0.1."""
    names = [str(name) for name in posterior.data_vars]
    order = str(posterior.attrs.get(ORDER, "")).split("\n")
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def _posterior(fit: Fit) -> xarray.Dataset:
    variables = {}
    for name, value in fit.posterior.items():
        extra = fit.dims.get(name) or [f"{name}_dim_{i}" for i in range(value.ndim - 2)]
        variables[name] = (["chain", "draw", *extra], value)
    data = xarray.Dataset(variables, coords={**_coordinates(fit), **fit.coords})
    order = {ORDER: "\n".join(fit.posterior)}
    return say_order(data.assign_attrs({**attributes(fit), **order}), fit)


def _sample_stats(fit: Fit) -> xarray.Dataset:
    variables = {
        "log_ratio": (["chain", "draw"], fit.log_ratio),
        "accepted": (["chain", "draw"], fit.accepted.astype(np.int8)),
    }
    return xarray.Dataset(variables, coords=_coordinates(fit))


def _log_likelihood(terms: OfSomeDraws) -> xarray.Dataset:
    variables = {
        name: (
            ["chain", "draw", *(f"{name}_dim_{i}" for i in range(values.ndim - 2))],
            values.astype(np.float32, copy=False),
        )
        for name, values in terms.values.items()
    }
    chains = len(next(iter(terms.values.values())))
    return xarray.Dataset(variables, coords={"chain": np.arange(chains), "draw": terms.at})


def _coordinates(fit: Fit) -> dict[str, np.ndarray]:
    return {"chain": np.arange(fit.draws.shape[0]), "draw": np.arange(fit.draws.shape[1])}


def _own(fit: Fit) -> xarray.Dataset:
    arrays: list[np.ndarray] = []
    try:
        proposal = pack(fit.proposal, arrays)
    except NotStorableError:
        proposal, arrays = None, []
    group = pack(fit.group, arrays)
    variables: Document = {"draws": (["chain", "draw", "coordinate"], fit.draws)}
    for i, array in enumerate(arrays):
        variables[f"array_{i}"] = ([f"axis_{i}_{j}" for j in range(array.ndim)], array)
    if fit.reference.raw is not None:
        variables["raw"] = (["raw_chain", "raw_draw", "coordinate"], fit.reference.raw)
    for name, value in (fit.reference.raw_posterior or {}).items():
        extra = [f"{name}_dim_{i}" for i in range(value.ndim - 2)]
        variables[f"{RAW}{name}"] = (["raw_chain", "raw_draw", *extra], value)
    for k, section in enumerate(fit.sections):
        variables[f"section_{k}"] = _letters(section.drawing(f"section-{k}"), f"section_{k}")
    if fit.learnt is not None:
        for kind in LEARNT:
            values = getattr(fit.learnt, kind).values
            variables[f"learnt_{kind}"] = ([f"learnt_{kind}_number"], values)
    meta = {
        "arrays": len(arrays),
        "names": fit.names,
        "group": group,
        "proposal": proposal,
        "certificate": pack(fit.certificate.tree(), []),
        **{name: getattr(fit, name) for name in PLAIN},
        "dims": fit.dims,
        "exchanged": fit.exchanged,
        "labelled": fit.labelled,
        "sections": [(section.title, section.text) for section in fit.sections],
        "learnt": fit.learnt
        and {
            **{kind: getattr(fit.learnt, kind).limit for kind in LEARNT},
            "draws": fit.learnt.draws,
        },
    }
    variables["meta"] = _letters(json.dumps(meta, allow_nan=False), "meta")
    return xarray.Dataset(variables, attrs={"format": FIT_FORMAT})


def _learnt(own: xarray.Dataset, meta: Document) -> Learnt | None:
    """Return what the proposal has learnt from; None where the file is older than such digests."""
    if meta.get("learnt") is None:
        return None
    parts = {}
    for kind in LEARNT:
        values, limit = own[f"learnt_{kind}"].values.astype(np.uint64), meta["learnt"][kind]
        if np.any(values[1:] <= values[:-1]) or np.any(values > np.uint64(limit)):
            raise ValueError("its digests of draws are not in order")
        parts[kind] = Digests(values, limit)
    return Learnt(**parts, draws=meta["learnt"]["draws"])


def _letters(text: str, name: str) -> tuple[list[str], np.ndarray]:
    """Return text as an array: attributes of netCDF are short."""
    return [f"{name}_letter"], np.frombuffer(text.encode(), np.uint8)


def _text(letters: xarray.DataArray) -> str:
    return letters.values.astype(np.uint8).tobytes().decode()


def _reference(own: xarray.Dataset) -> ReferenceSummary:
    raw = own["raw"].values if "raw" in own else None
    kept = {
        str(name).removeprefix(RAW): own[name].values
        for name in own.data_vars
        if str(name).startswith(RAW)
    }
    return ReferenceSummary(raw=raw, raw_posterior=kept or None)
