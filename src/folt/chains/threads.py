"""One thread for the linear algebra of the host.

Its matrices are small: a second thread mostly spins, which doubles the CPU time of a fit, and the
order of its sums could depend on the number of threads. Chunks run side by side instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
R = TypeVar("R")


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with one BLAS thread; the setting from before comes back afterwards."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return wrapped
