"""Loops that numba compiles at their first call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """The function, compiled when it is first called and kept on disk where that is possible."""
    function = inspect.unwrap(function)  # what checks shapes is not for numba
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder in which a compiled function could be kept
        return njit(nogil=True)(function)
