"""netCDF files made in memory, and sealed: their last line is a digest of all that stands before.

The seal is read before anything else is, so that a damaged file never reaches the HDF5 library.
Readers of netCDF do not look behind the end of the data, where it stands.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import h5netcdf
import xarray
from xarray.backends import H5NetCDFStore

from folt.store import digest
from folt.store.strict_json import Document

ENGINE: Literal["h5netcdf"] = "h5netcdf"

_SEAL = re.compile(rb"\nfolt fit, format (\d{4}), sha256 ([0-9a-f]{64})\n")
_LENGTH = len(b"\nfolt fit, format 0000, sha256 " + b"0" * 64 + b"\n")
_HDF5 = b"\x89HDF\r\n\x1a\n"


def netcdf_bytes(groups: Mapping[str, xarray.Dataset]) -> bytes:
    """A netCDF file with these groups, every array with checksums of its own."""
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
    """The file with its seal behind it."""
    return data + f"\nfolt fit, format {version:04d}, sha256 {digest(data)}\n".encode()


def unsealed(path: Path, version: int) -> bytes:
    """The contents of a sealed file that is as it was written.

    Raises:
        ValueError: nothing there, another format, or a file that was changed; in one sentence.
    """
    path = Path(path)
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
    """Why a file may be without a seal."""
    if whole.startswith(_HDF5):
        return (
            "it was cut short, changed by another program, or made by a folt that did not seal "
            "its files; arviz.from_netcdf may read its draws"
        )
    return "expected netCDF that folt wrote, got something else"


def read_group(data: bytes, group: str) -> xarray.Dataset:
    """One group of a netCDF file, read into memory."""
    return xarray.load_dataset(io.BytesIO(data), group=group, engine=ENGINE)


def group_names(data: bytes) -> list[str]:
    """The groups of a file."""
    with h5netcdf.File(io.BytesIO(data), "r") as file:
        return list(file.groups)
