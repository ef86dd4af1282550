"""What ArviZ calls otherwise since its version 1."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from folt.store.private import imported_arviz

arviz = imported_arviz()

OLD = int(arviz.__version__.split(".")[0]) < 1


class LeftOut(NamedTuple):
    """The leave-one-out estimate and its effective number of parameters."""

    elpd: float
    p: float


def left_out(data: Any) -> LeftOut:
    """Call `arviz.loo`, whatever it thinks of the tail: fits in tests are short."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter", UserWarning)
        found = arviz.loo(data)
    names = ("elpd_loo", "p_loo") if OLD else ("elpd", "p")
    return LeftOut(*(float(getattr(found, name)) for name in names))


def from_dict(**groups: dict[str, np.ndarray]) -> Any:
    """Groups as keywords until ArviZ 1, as one mapping since."""
    return arviz.from_dict(**groups) if OLD else arviz.from_dict(groups)


def panels_of_trace(data: Any, name: str) -> int:
    """Count the panels of a plot of densities and traces of one variable."""
    if OLD:
        return int(np.size(arviz.plot_trace(data, var_names=[name])))
    return len(arviz.plot_trace_dist(data, var_names=[name]).viz["figure"].item().axes)
