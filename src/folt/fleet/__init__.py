"""Many fits: jobs, where they run, what is kept, and calibration, which is a fleet too.

`fit_many` runs jobs on processes of this machine or on a Dask cluster. A job is finished when its
row is written, and what is finished is not done again. This module imports neither JAX nor Dask:
a worker whose jobs need neither starts at once.
"""

from folt.fleet.job import Job
from folt.fleet.many import fit_many
from folt.fleet.runners import Here, Runner

__all__ = ["Here", "Job", "Runner", "fit_many"]
