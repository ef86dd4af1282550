"""Folders that belong to this user alone, and caches where the user's own cannot be written."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import stat
import tempfile
import warnings
from pathlib import Path
from typing import Any


def user_cache() -> Path | None:
    """Name folt's folder in the user's cache; None for a user without a home."""
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("folt")).expanduser()
    except (OSError, RuntimeError):
        return None


def private_folder(folder: Path) -> Path | None:
    """Make a folder that nobody else can write or exchange, or find the one that is there.

    Returns:
        The folder, or None where it cannot be made or written, is a link, belongs to somebody else,
        or lies where others can put another one in its place.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        above = [part.stat() for part in folder.resolve().parents]
    except OSError:
        return None
    usable = stat.S_ISDIR(found.st_mode) and os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    return folder if usable and _is_own(found) and all(map(_is_safe, above)) else None


def _is_own(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):  # Windows keeps the folders of users apart by itself
        return True
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.geteuid() and not others_write


def _is_safe(found: os.stat_result) -> bool:
    """Whether strangers cannot rename what lies in a folder; the system's temporary one is safe."""
    if not hasattr(os, "geteuid"):
        return True
    strangers_write = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.geteuid()) and not strangers_write


@functools.cache
def caches_can_be_written() -> bool:
    """Let libraries keep their caches in a temporary folder where the user's cannot be written.

    ArviZ and Matplotlib write into the user's cache when they are imported, and ArviZ fails where
    it cannot.

    Returns:
        Whether the user's own cache can be written.
    """
    cache = user_cache()
    with contextlib.suppress(OSError):
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            there = (cache, cache.parent, cache.parent / "arviz")
            if all(os.access(part, os.W_OK | os.X_OK) for part in there if part.exists()):
                return True
    with contextlib.suppress(OSError):
        folder = tempfile.mkdtemp(prefix="folt-cache-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["XDG_CACHE_HOME"] = folder
        os.environ.setdefault("MPLCONFIGDIR", folder)
    return False


def imported_arviz() -> Any:
    """Import ArviZ without what it announces once a day, also where it cannot note the day."""
    caches_can_be_written()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz
