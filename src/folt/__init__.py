"""folt: exact draws, certificates and evidence for posteriors that repeat under relabelling."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from folt import groups
from folt.problem import Problem
from folt.symmetry import SymmetryError, check

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.report.store import load
    from folt.sampling import sample

__version__ = _version("folt")

_LATER = {
    "Fit": "folt.fit",
    "load": "folt.report.store",
    "sample": "folt.sampling",
}

__all__ = ["Fit", "Problem", "SymmetryError", "check", "groups", "load", "sample"]


def __getattr__(name: str) -> Any:
    """What needs the heavier libraries is imported when it is first asked for."""
    import importlib

    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in ("models", "flows", "reference", "coordinates", "training"):
        return importlib.import_module(f"folt.{name}")
    raise AttributeError(f"module 'folt' has no attribute {name!r}")
