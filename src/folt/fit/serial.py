"""What a fit file is made of: netCDF in memory, a seal, and objects without a pickle.

`pack` and `unpack` turn folt's groups and proposals into JSON and arrays and back. The last line of
a file is a digest of all that stands before. This seal is read first, so that a damaged file never
reaches the HDF5 library; readers of netCDF ignore what follows the data. `require_consistent`
refuses numbers that no fit can hold.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeGuard

import equinox as eqx
import h5netcdf
import jax.numpy as jnp
import numpy as np
import xarray
from jaxtyping import PyTree
from xarray.backends import H5NetCDFStore

import folt.groups
import folt.proposals
from folt.store import digest
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from folt.fit.fit import Fit


ENGINE: Literal["h5netcdf"] = "h5netcdf"

_SEAL = re.compile(rb"\nfolt fit, format (\d{4}), sha256 ([0-9a-f]{64})\n")
_LENGTH = len(b"\nfolt fit, format 0000, sha256 " + b"0" * 64 + b"\n")
_HDF5 = b"\x89HDF\r\n\x1a\n"


def netcdf_bytes(groups: Mapping[str, xarray.Dataset]) -> bytes:
    """Return a netCDF file with these groups, every array with checksums of its own."""
    stream = io.BytesIO()
    with h5netcdf.File(stream, "w") as file:
        for name, dataset in groups.items():
            dataset.dump_to_store(H5NetCDFStore(file, group=name), encoding=_checksums(dataset))
    return stream.getvalue()


def _checksums(dataset: xarray.Dataset) -> dict[str, Document]:
    """HDF5 computes them by chunk; words, and an array without entries, have none."""
    return {
        str(name): {"fletcher32": True, "chunksizes": values.shape}
        for name, values in dataset.variables.items()
        if values.ndim and values.size and values.nbytes < 2**32 and values.dtype.kind not in "UO"
    }


def sealed(data: bytes, version: int) -> bytes:
    """Return the file with its seal behind it."""
    return data + f"\nfolt fit, format {version:04d}, sha256 {digest(data)}\n".encode()


def unsealed(path: Path, version: int) -> bytes:
    """Return the contents of a sealed file that is as it was written.

    Raises:
        ValueError: nothing there, another format, or a file that was changed; in one sentence.
    """
    path = Path(path)
    if os.path.isdir(path):
        raise ValueError(f"expected a fit file, got the folder {path}: give one of its files")
    if not os.path.isfile(path):
        raise ValueError(f"expected a fit file, found nothing at {path}")
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    seal = _SEAL.fullmatch(whole[-_LENGTH:])
    if seal is None:
        raise ValueError(f"{path} is not a fit file that can be relied on: {_unsealed(whole)}")
    if int(seal[1]) != version:
        which = "a newer" if int(seal[1]) > version else "an older"
        raise ValueError(
            f"{path} is a fit file of format {int(seal[1])} by {which} folt, expected format "
            f"{version}: arviz.from_netcdf reads its draws"
        )
    if digest(whole[:-_LENGTH]) != seal[2].decode():
        raise ValueError(
            f"{path} was damaged or changed after folt wrote it: its digest is not that of its "
            "contents; restore it from a copy or fit again"
        )
    return whole[:-_LENGTH]


def _unsealed(whole: bytes) -> str:
    """Return why a file may be without a seal."""
    if whole.startswith(_HDF5):
        return (
            "it was cut short, changed by another program, or made by a folt that did not seal "
            "its files; arviz.from_netcdf may read its draws"
        )
    return "expected netCDF that folt wrote, got something else"


def read_group(data: bytes, group: str) -> xarray.Dataset:
    """Return one group of a netCDF file, read into memory."""
    return xarray.load_dataset(io.BytesIO(data), group=group, engine=ENGINE)


def group_names(data: bytes) -> list[str]:
    """Return the groups of a file."""
    with h5netcdf.File(io.BytesIO(data), "r") as file:
        return list(file.groups)


_PAPER = "folt.paper.flow"
ROOMS = (folt.groups.__name__, folt.proposals.__name__, _PAPER)
"""Only classes defined in these modules are stored and built."""


def _known() -> dict[str, type[object]]:
    """Return folt's own groups, their parts and proposals by name, as far as they are imported."""
    found: dict[str, type[object]] = {}
    queue: list[type[object]] = [eqx.Module, folt.groups.Part]
    while queue:
        for kind in queue.pop().__subclasses__():
            queue.append(kind)
            if kind.__module__.startswith(ROOMS):
                found[kind.__name__] = kind
    return found


class NotStorableError(TypeError):
    """An object that is not one of folt's own groups or proposals."""


def pack(module: PyTree, arrays: list[np.ndarray]) -> PyTree:
    """A JSON tree; arrays are appended to `arrays` and named by position.

    Numbers that are not finite keep their value, although JSON has no word for them.

    Raises:
        NotStorableError: for anything but folt's groups, proposals, arrays, dictionaries and plain
            values.
    """
    if dataclasses.is_dataclass(module) and not isinstance(module, type):
        kind = type(module).__name__
        if _known().get(kind) is not type(module):
            raise NotStorableError(f"{kind} is not one of folt's own groups or proposals")
        fields = dataclasses.fields(module)
        return {"kind": kind, **{f.name: pack(getattr(module, f.name), arrays) for f in fields}}
    if isinstance(module, dict):
        return {"items": {str(key): pack(value, arrays) for key, value in module.items()}}
    if isinstance(module, np.generic):
        return pack(module.item(), arrays)
    if isinstance(module, (tuple, list)):
        return [pack(item, arrays) for item in module]
    if isinstance(module, float):
        return module if math.isfinite(module) else {"number": repr(module)}
    if module is None or isinstance(module, (bool, int, str)):
        return module
    if eqx.is_array_like(module):
        arrays.append(np.asarray(module))
        return {"array": len(arrays) - 1}
    raise NotStorableError(f"cannot store a {type(module).__name__}")


def unpack(tree: PyTree, arrays: list[np.ndarray]) -> PyTree:
    """The inverse of `pack`; sequences come back as tuples."""
    if isinstance(tree, list):
        return tuple(unpack(item, arrays) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "kind" not in tree:
        return _plain(tree, arrays)
    if tree["kind"] not in _known():
        importlib.import_module(_PAPER)  # above this room, for whoever used it
    kind = _known()[tree["kind"]]
    # Fields are set directly: some classes are built from other arguments than they hold.
    module = object.__new__(kind)
    for name, value in tree.items():
        if name != "kind":
            object.__setattr__(module, name, unpack(value, arrays))
    return module


def _plain(tree: Document, arrays: list[np.ndarray]) -> PyTree:
    """Return an array, a number that is not finite, or a dictionary."""
    if "array" in tree:
        return jnp.asarray(arrays[tree["array"]])
    if "number" in tree:
        return float(tree["number"])
    return {key: unpack(value, arrays) for key, value in tree["items"].items()}


_SHARES = (
    "gamma",
    "core_gap",
    "accept_rate",
    "confidence",
    "p_value",
    "weight",
    "acceptance_cost",
    "switch_rate",
    "ambiguity",
    "mixed",
)
"""Numbers of a certificate between 0 and 1."""

NEVER_NEGATIVE = (
    "standard_error",
    "osc",
    "full_osc",
    "gap_upper",
    "gap_upper_error",
    "burn_in",
    "refreshed_limit",
    "refreshed_rhat",
    "refreshed_ess",
    "ess",
    "tail_ess",
    "batch_means_ess",
    "ess_log_ratio",
    "effective",
    "rhat",
    "rhat_log_ratio",
    "defect",
    "n",
    "draws",
    "order",
    "refreshed",
    "not_a_number",
    "infinite",
)
"""Numbers of a certificate from 0 upwards, infinity included."""

_ROUNDING = 1e-9
"""How far beyond its bounds a share may lie that was rounded."""


def require_consistent(fit: Fit) -> None:
    """Refuse a fit whose parts do not fit together or hold numbers that cannot be.

    Raises:
        ValueError: naming the first of them.
    """
    lead = fit.draws.shape[:2]
    _require(fit.draws.ndim == 3 and fit.draws.size > 0, "draws have the shape", fit.draws.shape)
    _require(fit.draws.shape[2] == fit.group.dim, "draws have the shape", fit.draws.shape)
    _require(len(fit.names) == fit.group.dim, "the number of names is", len(fit.names))
    for name, values in {"log_ratio": fit.log_ratio, "accepted": fit.accepted}.items():
        _require(values.shape == lead, f"{name} has the shape", values.shape)
    for name, values in fit.posterior.items():
        _require(values.shape[:2] == lead, f"{name} has the shape", values.shape)
    _require(bool(np.isfinite(fit.draws).all()), "draws are", "not finite")
    _require(not np.isnan(fit.log_ratio).any(), "log ratios are", "not numbers")
    for name, seconds in fit.wall.items():
        _require(_number(seconds) and seconds >= 0, f"wall[{name!r}] is", seconds)
    for name, count in fit.evaluations.items():
        _require(_number(count) and count >= 0, f"evaluations[{name!r}] is", count)
    for path, value in _leaves(fit.certificate.tree()):
        _require(_is_possible(path[-1], value), f"{'.'.join(path)} of the certificate is", value)


def _require(holds: bool, what: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{what} {value}, which no fit has")


def _is_possible(name: str, value: object) -> bool:
    if not _number(value) or math.isnan(value):
        return True
    if name in _SHARES:
        return -_ROUNDING <= value <= 1.0 + _ROUNDING
    return name not in NEVER_NEGATIVE or value >= 0


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, str(key)))
    else:
        yield path, tree
