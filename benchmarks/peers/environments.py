"""Environments for tools that folt does not depend on, made once in the user's cache folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs

from benchmarks.record import ROOT

EXTRA: dict[str, tuple[str, ...]] = {
    "smc": ("blackjax==1.7.1",),
    "nutpie": ("nutpie==0.16.8",),
    "flowmc": ("flowMC==0.6.4",),
    "pocomc": ("torch==2.13.0", "pocomc==1.2.6"),
    "dynesty": ("dynesty==3.1.0",),
    "pyoma": ("pyoma-2==1.4.3",),
}
"""What each tool needs beside folt; a tool without an entry is in folt's own environment."""

WITHOUT_FOLT = frozenset({"pyoma"})
"""Tools that are handed files, and need no folt beside them."""


def python_for(tool: str) -> str:
    """The interpreter that has folt and the tool; its environment is made where it is missing.

    Raises:
        subprocess.CalledProcessError: the packages could not be installed.
    """
    if tool not in EXTRA:
        return sys.executable
    folder = Path(platformdirs.user_cache_dir("folt")) / "peers" / tool
    python, made = folder / "bin" / "python", folder / "made"
    wanted = " ".join(EXTRA[tool])
    if not made.is_file() or made.read_text(encoding="utf-8") != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        folt = () if tool in WITHOUT_FOLT else (f"{ROOT}[numpyro]",)
        _run(str(python), "-m", "pip", "install", "--quiet", *folt, *EXTRA[tool])
        made.write_text(wanted, encoding="utf-8")
    return str(python)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
