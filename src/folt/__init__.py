"""folt: draws, certificates and evidence for posteriors that repeat under relabelling."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from folt import coordinates, fleet, groups, models, proposals, reference, training, types
    from folt.fit import Fit
    from folt.fit.comparison import compare
    from folt.fit.file import load
    from folt.fleet.calibration import calibrate
    from folt.interop.callable import from_callable
    from folt.interop.numpyro import from_numpyro
    from folt.interop.pymc import from_pymc
    from folt.interop.relabelling import relabel
    from folt.interop.stan import from_stan
    from folt.problem import Problem
    from folt.problem.symmetry import RotationError, SymmetryError
    from folt.sampling import certify, sample
    from folt.sampling.checks import check
    from folt.symmetry import detect
    from folt.training.effort import Effort

    __version__: str

_NAMES = {
    "Effort": "folt.training.effort",
    "Fit": "folt.fit",
    "Problem": "folt.problem",
    "RotationError": "folt.problem.symmetry",
    "SymmetryError": "folt.problem.symmetry",
    "calibrate": "folt.fleet.calibration",
    "certify": "folt.sampling",
    "check": "folt.sampling.checks",
    "compare": "folt.fit.comparison",
    "detect": "folt.symmetry",
    "from_callable": "folt.interop.callable",
    "from_numpyro": "folt.interop.numpyro",
    "from_pymc": "folt.interop.pymc",
    "from_stan": "folt.interop.stan",
    "load": "folt.fit.file",
    "relabel": "folt.interop.relabelling",
    "sample": "folt.sampling",
}
_FRONT_ENDS = {"from_numpyro": "numpyro", "from_pymc": "pymc"}
_ROOMS = ("coordinates", "fleet", "groups", "models", "proposals", "reference", "training", "types")

__all__ = [
    "Effort",
    "Fit",
    "Problem",
    "RotationError",
    "SymmetryError",
    "calibrate",
    "certify",
    "check",
    "compare",
    "coordinates",
    "detect",
    "fleet",
    "from_callable",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "groups",
    "load",
    "models",
    "proposals",
    "reference",
    "relabel",
    "sample",
    "training",
    "types",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that `folt --help` does not wait for JAX."""
    if name == "__version__":
        from importlib.metadata import version

        return version("folt")
    if name in _FRONT_ENDS:
        from folt.store.packages import require

        require(name, _FRONT_ENDS[name])
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"folt.{name}")
    raise AttributeError(f"module 'folt' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what can be asked for, imported or not."""
    return sorted({*__all__, "__version__"})
