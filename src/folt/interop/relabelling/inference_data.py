"""Posterior files in ArviZ's layout: read group by group, relabelled, written whole."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray

from folt.interop.relabelling.methods import Relabeller
from folt.interop.relabelling.relabel import Relabelled, relabel, whole_numbers
from folt.store.strict_json import Document

Groups = dict[str, xarray.Dataset]
"""The groups of a file, `posterior` among them."""


def read_posterior(path: Path) -> Groups:
    """Return the file in memory, closed again so that it can be replaced.

    Raises:
        ValueError: nothing there, or nothing with a posterior.
    """
    if not os.path.isfile(path):
        raise ValueError(f"expected a netCDF file with a posterior, found nothing at {path}")
    try:
        opened = xarray.open_groups(path, engine="h5netcdf", phony_dims="access")
        groups = {name.strip("/"): group.load() for name, group in opened.items() if name != "/"}
        for group in opened.values():
            group.close()
    except Exception as error:  # whatever libraries make of a file that is damaged or forged
        raise ValueError(
            f"{path} cannot be read as ArviZ netCDF: {type(error).__name__}: {error}"
        ) from error
    if "posterior" not in groups:
        raise ValueError(f"{path} has no posterior group")
    return groups


def relabel_posterior(
    data: Groups,
    variables: Sequence[str],
    *,
    method: Relabeller | None = None,
    sort_by: str | None = None,
    square: Sequence[str] = (),
    probabilities: str | None = None,
    allocations: str | None = None,
) -> tuple[Groups, Relabelled]:
    """Return a copy of the data with these variables relabelled, everything else as it was.

    Args:
        data: with a posterior whose variables are (chain, draw, component, ...).
        variables: names to permute together.
        method: how; see `relabel`.
        sort_by: variable to sort by.
        square: matrices permuted on both sides.
        probabilities: name of the allocation probabilities (chain, draw, observation, component);
            they are relabelled too.
        allocations: name of the allocations (chain, draw, observation), numbered from zero; they
            are relabelled too.
    """
    posterior = data["posterior"]
    names = [*dict.fromkeys([*variables, *square])]
    extra = [name for name in (probabilities, allocations) if name is not None]
    for name in [*names, *extra]:
        if name not in posterior:
            raise ValueError(
                f"no variable {name!r}: the posterior has {', '.join(map(str, posterior))}"
            )
    done = relabel(
        {name: posterior[name].values for name in names},
        method=method,
        sort_by=sort_by,
        square=square,
        probabilities=None if probabilities is None else posterior[probabilities].values,
        allocations=None if allocations is None else whole_numbers(posterior[allocations].values),
    )
    copy = {name: group.copy(deep=name == "posterior") for name, group in data.items()}
    for name in names:
        copy["posterior"][name].values = done.draws[name]
    if probabilities is not None:
        order = done.permutations[:, :, None, :]
        values = posterior[probabilities].values
        copy["posterior"][probabilities].values = np.take_along_axis(values, order, axis=3)
    if allocations is not None:
        ranks = np.argsort(done.permutations, axis=2)
        values = posterior[allocations].values
        copy["posterior"][allocations].values = np.take_along_axis(
            ranks, whole_numbers(values), axis=2
        )
    copy["posterior"].attrs["folt_relabelled"] = json.dumps(relabelling_account(done))
    return copy, done


def relabelling_account(done: Relabelled) -> Document:
    """Return what was done, as plain values."""
    return {
        "method": done.method,
        "rounds": done.rounds,
        "settled": done.settled,
        "moved": done.moved,
        "health": [_finite(dataclasses.asdict(row)) for row in done.health],
    }


def _finite(row: Document) -> Document:
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}
