"""Compiled programs kept between processes, in the user's cache folder.

JAX keeps them: folt says where, how many bytes, and that trouble with the folder is nobody's
business. Whoever has told JAX where to keep its programs, or to keep none, has the last word.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import warnings
from pathlib import Path
from typing import Any

from folt.store.private import caches_can_be_written, private_folder, user_cache

SWITCH = "FOLT_COMPILATION_CACHE"
"""Environment variable: `off` for no cache, a folder for another place."""

OFF = ("off", "0", "no", "false", "none")

MOST_BYTES = 256 * 1024**2
"""Size of the folder above which programs that were used longest ago are removed."""

QUIET = r"Error (reading|writing) persistent compilation cache entry"
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
    warnings.filterwarnings("ignore", message=QUIET)
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
