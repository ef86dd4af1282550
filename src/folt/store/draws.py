"""Draws that somebody has already, in whatever form: one way in, `{name: (chain, draw, ...)}`.

Draws as CmdStan writes them: a CSV file for every chain, a column for every entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    import xarray


LOG_DENSITY = "lp__"
"""Stan's log density of its unconstrained parameters, up to a constant."""


def declared_entries(names: Sequence[str]) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
    """The entries of every declared name: place among all entries, and index counted from zero.

    Indices that are no numbers, such as those of complex values, count the entries one by one.
    """
    found: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for place, name in enumerate(names):
        stem, *index = name.split(".")
        found.setdefault(stem, []).append((place, tuple(index)))
    parsed: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for stem, entries in found.items():
        if all(part.isdigit() for _, index in entries for part in index):
            parsed[stem] = [(p, tuple(int(part) - 1 for part in index)) for p, index in entries]
        else:
            parsed[stem] = [(place, (number,)) for number, (place, _) in enumerate(entries)]
    return parsed


def shape_of(indices: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of an array with these indices."""
    return tuple(1 + max(axis) for axis in zip(*indices, strict=True))


def by_name(names: Sequence[str], rows: Float[np.ndarray, "*lead n"]) -> dict[str, np.ndarray]:
    """Return arrays (..., own shape) by declared name, from entries along the last axis."""
    found = {}
    for stem, entries in declared_entries(names).items():
        indices = [index for _, index in entries]
        values = np.empty((*rows.shape[:-1], *shape_of(indices)))
        for place, index in entries:
            values[(..., *index)] = rows[..., place]  # type: ignore[index]
        found[stem] = values
    return found


def csv_files(path: Path) -> list[Path]:
    """Return the CSV files that a path means: a file, a folder, or a pattern such as out_*.csv."""
    if path.is_dir():
        return sorted(path.glob("*.csv"))
    if path.suffix == ".csv" and not path.is_file() and any(c in path.name for c in "*?["):
        return sorted(path.parent.glob(path.name))
    return [path] if path.suffix == ".csv" else []


def draws_of_chains(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Draws by name, (chain, draw, ...), and `lp__`; other columns of the sampler are left out.

    Raises:
        ValueError: a file that CmdStan did not write, or chains that do not fit together.
    """
    chains = [_chain(path) for path in paths]
    names, first = chains[0]
    for path, (others, rows) in zip(paths, chains, strict=True):
        if others != names:
            raise ValueError(f"expected the columns of {paths[0]} in {path}, got others")
        if len(rows) != len(first):
            raise ValueError(
                f"expected chains of equal length, got {len(first)} draws in {paths[0]} and "
                f"{len(rows)} in {path}"
            )
    kept = [n for n, name in enumerate(names) if not name.endswith("__") or name == LOG_DENSITY]
    return by_name([names[n] for n in kept], np.stack([rows[:, kept] for _, rows in chains]))


def _chain(path: Path) -> tuple[list[str], Float[np.ndarray, "draw column"]]:
    """The columns of a file, and its draws without those of the warm-up."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    comments = "\n".join(line for line in lines if line.startswith("#"))
    rows = [line for line in lines if line and not line.startswith("#")]
    if not rows or LOG_DENSITY not in rows[0].split(","):
        raise ValueError(
            f"expected a CSV file of draws that CmdStan wrote, with a column {LOG_DENSITY}, "
            f"got {path}"
        )
    try:
        numbers = np.array([line.split(",") for line in rows[1:]], np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} is not whole, or holds something else than numbers: {error}"
        ) from error
    if re.search(r"save_warmup = (1|true)", comments):
        warmup, thin = (
            int(found[1]) if (found := re.search(rf"{word} = (\d+)", comments)) else default
            for word, default in (("num_warmup", 0), ("thin", 1))
        )
        numbers = numbers[-(-warmup // thin) :]
    if not len(numbers):
        raise ValueError(f"expected draws in {path}, found none")
    return rows[0].split(","), numbers


FORMS = (
    "ArviZ InferenceData, an xarray DataTree or Dataset, the path of a netCDF file or of CmdStan's "
    "CSV files (a folder, a pattern such as out_*.csv, or a list), "
    "{name: array}, or a NumPyro MCMC that has run"
)

GROUPED = (
    "take mcmc.get_samples(group_by_chain=True), or say how many chains stand one after the other: "
)

_NUMBERS = "fiu"
"""Kinds of arrays that are draws of numbers."""


def draws_by_name(given: Any, chains: int | None = None) -> dict[str, np.ndarray]:
    """Return draws by name, with the axes chain and draw in front.

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
        arrays = _arrays(given)
        return arrays if chains is None else {n: split(v, chains, n) for n, v in arrays.items()}
    if hasattr(given, "get_samples"):
        return _of_sampler(given)
    posterior = _posterior(given)
    if _is_plain(posterior):
        return _arrays(posterior)
    return _of_dataset(posterior)


def _arrays(given: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    return {str(name): np.asarray(value) for name, value in given.items()}


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
    """Return chains one after the other along the first axis, as (chain, draw, ...)."""
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
    """Return the posterior within what was given, or the thing itself where it is a Dataset."""
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
    """Return its numeric variables, chain and draw first."""
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
        if {"chain", "draw"} <= set(variable.dims) and variable.dtype.kind in _NUMBERS:
            found[str(name)] = np.asarray(variable.transpose("chain", "draw", ...).values)
    return found


def _of_sampler(sampler: Any) -> dict[str, np.ndarray]:
    """Return the draws of a NumPyro MCMC, every chain by itself."""
    try:
        drawn = sampler.get_samples(group_by_chain=True)
    except (AssertionError, AttributeError, TypeError) as error:
        raise ValueError(
            f"expected {type(sampler).__name__} to have run and to return its draws by chain"
        ) from error
    return _arrays(drawn)


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
