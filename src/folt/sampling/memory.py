"""Memory that draws need, and memory that there is."""

from __future__ import annotations

import os
from pathlib import Path

COPIES = 6
"""Arrays of the size of the draws that live at once: draws, proposals, parameters, their copies."""


def require_memory(chains: int, draws: int, width: int) -> int:
    """Bytes that so many numbers per draw will need, refused where they are not free.

    Raises:
        ValueError: with what is needed and what is free.
    """
    needed = 8 * COPIES * chains * draws * width
    free = free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"{chains} chains of {draws} draws need about {in_bytes(needed)} of memory, and "
            f"{in_bytes(free)} are free: expected fewer draws"
        )
    return needed


def free_memory() -> int | None:
    """Bytes of memory that this process can still have; None where the system does not say."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        found.append(1024 * sizes["MemAvailable"])
    except (OSError, ValueError, IndexError, KeyError):
        try:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return None
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        found.append(limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(min(found), 0)


def in_bytes(count: float) -> str:
    """A number of bytes with its unit."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:,.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
        count /= 1000
    return f"{count} bytes"
