"""Folders that belong to this user alone, and caches where the user's own cannot be written.

Compiled programs kept between processes, in the user's cache folder.

JAX keeps them: folt says where, how many bytes, and that trouble with the folder is nobody's
business. Whoever has told JAX where to keep its programs, or to keep none, has the last word.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import platform
import shutil
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from folt.store.packages import require

CACHES = {"win32": ("LOCALAPPDATA", "AppData/Local"), "darwin": ("", "Library/Caches")}
"""The variable that names a user's cache and its place below the home, by system."""


def user_cache() -> Path | None:
    """Name folt's folder in the user's cache; None for a user without a home."""
    variable, below = CACHES.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    try:
        return Path(os.environ.get(variable) or Path.home() / below).expanduser() / "folt"
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
    require("a fit as ArviZ has it", "arviz")
    caches_can_be_written()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


SWITCH = "FOLT_COMPILATION_CACHE"
"""Environment variable: `off` for no cache, a folder for another place."""

OFF = ("off", "0", "no", "false", "none")

MOST_BYTES = 256 * 1024**2
"""Size of the folder above which programs that were used longest ago are removed."""

_QUIET = r"Error (reading|writing) persistent compilation cache entry"
"""What JAX warns of where the folder fails; the program is then compiled."""


@functools.cache
def remember_compilations() -> Path | None:
    """Let this process keep compiled programs and use those of earlier ones.

    Returns:
        The folder; None where the user has a cache, wants none, or the folder cannot be written or
        is not the user's own.
    """
    import jax

    caches_can_be_written()
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir or not settings.jax_enable_compilation_cache:
        return None
    folder = _folder()
    # A compiled program is code: one is only loaded from where nobody else can have put it.
    if folder is None or private_folder(folder) is None:
        return None
    _tidy(folder)
    warnings.filterwarnings("ignore", message=_QUIET)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


def _folder() -> Path | None:
    """Where the programs of this kind of machine are kept, if anywhere."""
    asked = os.environ.get(SWITCH, "").strip()
    if asked.lower() in OFF:
        return None
    cache = user_cache()
    if asked:
        return Path(asked) / _machine()
    return None if cache is None else cache / "jax" / _machine()


def _machine() -> str:
    """What machine code depends on: a folder shared by unlike machines keeps theirs apart."""
    words = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        words += sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def _tidy(folder: Path) -> None:
    """Remove what a process that was killed in the middle of writing left behind.

    JAX writes a program and then the time of its last use, under the lock: a program without a
    time, or a time without a program, is half a write, and would disturb every later one.
    """
    from filelock import FileLock, Timeout

    with contextlib.suppress(OSError, Timeout), FileLock(folder / ".lockfile", timeout=0.0):
        programs, times = (
            {path.name.removesuffix(end): path for path in folder.glob(f"*{end}")}
            for end in ("-cache", "-atime")
        )
        for name in programs.keys() ^ times.keys():
            programs.get(name, times.get(name, folder)).unlink()
        for name in programs.keys() & times.keys():
            if times[name].stat().st_size != 8:  # bytes of a time
                programs[name].unlink()
                times[name].unlink()
