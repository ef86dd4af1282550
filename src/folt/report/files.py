"""Files that are complete or not there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary neighbour of `path` to write to, moved there when the block ends well.

    Whatever interrupts the block, an old file stays as it was and nothing half-written is left.

    Raises:
        ValueError: the path cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ValueError(
            f"cannot write {path}: expected a writable folder, got '{error.strerror}'"
        ) from error
    os.close(handle)
    try:
        yield Path(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        raise ValueError(
            f"cannot write {path}: expected a writable file, got '{error.strerror or error}'"
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> Path:
    """Write bytes to a file, all of them or none."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)
    return path


def fingerprint(*arrays: Any) -> str:
    """What data are recognised by when a run that was interrupted goes on."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(repr((values.shape, str(values.dtype))).encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
