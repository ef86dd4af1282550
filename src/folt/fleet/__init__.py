"""Many fits: jobs, where they run, what is kept, and calibration, which is a fleet too.

`fit_many` runs jobs on processes of this machine or on a Dask cluster. A job is finished when its
row is written, and what is finished is not done again. This module imports neither JAX nor Dask:
a worker whose jobs need neither starts at once.
"""

from typing import TYPE_CHECKING, Any

from folt.fleet.job import Job
from folt.fleet.many import fit_many
from folt.fleet.runners import Here, Runner

if TYPE_CHECKING:
    from folt.fleet.calibration import Calibration, Study
    from folt.fleet.processes import Processes
    from folt.fleet.simulation import FromPrior, Simulated

_LATER = {
    "Calibration": "folt.fleet.calibration",
    "FromPrior": "folt.fleet.simulation",
    "Processes": "folt.fleet.processes",
    "Simulated": "folt.fleet.simulation",
    "Study": "folt.fleet.calibration",
}

__all__ = [
    "Calibration",
    "FromPrior",
    "Here",
    "Job",
    "Processes",
    "Runner",
    "Simulated",
    "Study",
    "fit_many",
]


def __getattr__(name: str) -> Any:
    """Import on first use what a worker may not need."""
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'folt.fleet' has no attribute {name!r}")
