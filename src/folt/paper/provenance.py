"""Where numbers come from: versions, commit, date, processor."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from folt.store.strict_json import Document

PACKAGES = ("folt", "jax", "jaxlib", "equinox", "blackjax", "numpy", "scipy")


def provenance(command: str, wall_s: float) -> Document:
    """The provenance of a run."""
    return {
        "command": command,
        "wall_s": round(wall_s, 1),
        "versions": versions(),
        "git": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": processor(),
    }


def commit() -> str | None:
    """The commit of the working tree this file belongs to, marked if changed; None elsewhere."""
    here = Path(__file__).resolve()
    try:
        # An installed copy may lie inside a repository of somebody else's.
        _git(here, "ls-files", "--error-unmatch", here.name)
        return _git(here, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def processor() -> str:
    """Number and name of the processors."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else name
    except OSError:
        pass
    return f"{os.cpu_count()} x {name}"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git(here: Path, *words: str) -> str:
    command = ["git", "-C", str(here.parent), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
