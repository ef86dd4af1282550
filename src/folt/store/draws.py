"""Draws that somebody has already, in whatever form: one way in, `{name: (chain, draw, ...)}`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.store.cmdstan import LOG_DENSITY, csv_files, draws_of_chains

if TYPE_CHECKING:
    import xarray

FORMS = (
    "ArviZ InferenceData, an xarray DataTree or Dataset, the path of a netCDF file or of CmdStan's "
    "CSV files (a folder, a pattern such as out_*.csv, or a list), "
    "{name: array}, or a NumPyro MCMC that has run"
)

GROUPED = (
    "take mcmc.get_samples(group_by_chain=True), or say how many chains stand one after the other: "
)

NUMBERS = "fiu"
"""Kinds of arrays that are draws of numbers."""


def draws_by_name(given: Any, chains: int | None = None) -> dict[str, np.ndarray]:
    """Draws by name, with the axes chain and draw in front.

    Args:
        given: InferenceData, a DataTree or a Dataset, the path of a netCDF file with a posterior,
            of CmdStan's CSV files (a folder, a pattern, or a list of files), a NumPyro MCMC,
            anything with a `posterior`, or `{name: array}`, which is taken as it stands unless
            `chains` is given.
        chains: number of chains that stand one after the other along the first axis of a dict.

    Raises:
        ValueError: nothing of that kind, or draws that the chains do not divide.
    """
    if isinstance(given, (list, tuple)) and given:
        return draws_of_chains([Path(path) for path in given])
    if isinstance(given, (str, os.PathLike)):
        files = csv_files(Path(given))
        return draws_of_chains(files) if files else _of_dataset(_posterior_file(Path(given)))
    if _is_plain(given):
        arrays = {str(name): np.asarray(value) for name, value in given.items()}
        return arrays if chains is None else {n: split(v, chains, n) for n, v in arrays.items()}
    if hasattr(given, "get_samples"):
        return _of_sampler(given)
    posterior = _posterior(given)
    if _is_plain(posterior):
        return {str(name): np.asarray(value) for name, value in posterior.items()}
    return _of_dataset(posterior)


def log_densities(path: Path) -> np.ndarray | None:
    """Stan's log density at every draw, (chain, draw), where the files of the draws have it."""
    import xarray

    files = csv_files(path)
    if files:
        return draws_of_chains(files)[LOG_DENSITY]
    try:
        with xarray.open_dataset(path, group="sample_stats", engine="h5netcdf") as dataset:
            return np.asarray(dataset["lp"].transpose("chain", "draw").values)
    except (OSError, ValueError, KeyError):
        return None


def split(values: np.ndarray, chains: int, name: str = "the draws") -> np.ndarray:
    """Chains one after the other along the first axis, as (chain, draw, ...)."""
    values = np.asarray(values)
    if values.ndim < 1 or chains < 1 or len(values) % chains or len(values) == 0:
        raise ValueError(
            f"expected {name} to hold {chains} chains of equal length one after the other, got "
            f"shape {values.shape}"
        )
    return values.reshape(chains, -1, *values.shape[1:])


def _is_plain(given: object) -> bool:
    """Arrays by name; InferenceData, a DataTree and a Dataset are mappings too."""
    other = any(hasattr(given, name) for name in ("data_vars", "children", "groups"))
    return isinstance(given, Mapping) and not other


def _posterior(given: Any) -> Any:
    """The posterior within what was given, or the thing itself where it is a Dataset."""
    if hasattr(given, "children"):  # a DataTree
        if "posterior" not in given.children:
            if {"chain", "draw"} <= set(given.dims):
                return given.to_dataset()
            raise ValueError(f"expected a group 'posterior', got {', '.join(given.children)}")
        return given["posterior"].to_dataset()
    if hasattr(given, "data_vars"):
        return given
    if hasattr(given, "posterior"):
        return given.posterior
    if callable(getattr(given, "groups", None)):  # InferenceData without a posterior
        raise ValueError(f"expected a group 'posterior', got {', '.join(given.groups())}")
    raise ValueError(f"expected {FORMS}, got {type(given).__name__}")


def _of_dataset(dataset: xarray.Dataset) -> dict[str, np.ndarray]:
    """Its numeric variables, chain and draw first."""
    missing = {"chain", "draw"} - set(map(str, dataset.dims))
    if missing:
        raise ValueError(
            f"expected draws with the dimensions chain and draw, got none called "
            f"{' or '.join(sorted(missing))} among {', '.join(map(str, dataset.dims))}"
        )
    if 0 in (dataset.sizes["chain"], dataset.sizes["draw"]):
        lengths = f"{dataset.sizes['chain']} chains of {dataset.sizes['draw']}"
        raise ValueError(f"expected draws, got {lengths}: the sampler kept none")
    found = {}
    for name, variable in dataset.data_vars.items():
        if {"chain", "draw"} <= set(variable.dims) and variable.dtype.kind in NUMBERS:
            found[str(name)] = np.asarray(variable.transpose("chain", "draw", ...).values)
    return found


def _of_sampler(sampler: Any) -> dict[str, np.ndarray]:
    """The draws of a NumPyro MCMC, every chain by itself."""
    try:
        drawn = sampler.get_samples(group_by_chain=True)
    except (AssertionError, AttributeError, TypeError) as error:
        raise ValueError(
            f"expected {type(sampler).__name__} to have run and to return its draws by chain"
        ) from error
    return {str(name): np.asarray(value) for name, value in drawn.items()}


def _posterior_file(path: Path) -> xarray.Dataset:
    """The posterior of a netCDF file, in memory: its group of that name, or all of it."""
    import xarray

    if not os.path.isfile(path):
        raise ValueError(f"expected a netCDF file with a posterior, found nothing at {path}")
    first = ""
    for group in ("posterior", None):
        try:
            with xarray.open_dataset(
                path, group=group, engine="h5netcdf", phony_dims="access"
            ) as dataset:
                if group is not None or {"chain", "draw"} <= set(dataset.dims):
                    return dataset.load()
        except Exception as error:  # whatever libraries make of a file that is damaged or forged
            first = first or f"{type(error).__name__}: {error}"
            if group is None:
                raise ValueError(f"{path} cannot be read as netCDF: {first}") from error
    raise ValueError(f"{path} has no group 'posterior' that can be read: {first}")
