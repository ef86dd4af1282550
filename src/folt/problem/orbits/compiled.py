"""Loops that numba compiles at their first call.

numba itself is imported then too: it takes a seventh of the time in which folt is imported, and
most fits need none of these loops.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()
_loops: list[Loop] = []


class Loop:
    """A function that numba compiles when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = inspect.unwrap(function)  # what checks shapes is not for numba
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """The compiled function's value."""
        if self.compiled is None:
            with _lock:
                _hand_over()
        assert self.compiled is not None
        return self.compiled(*arguments)


def compiled(function: Callable[..., Any]) -> Any:
    """The function, compiled when it is first called and kept on disk where that is possible."""
    loop = Loop(function)
    _loops.append(loop)
    return loop


def _hand_over() -> None:
    """Give all loops to numba, and to each other: they call one another by their names."""
    made = {loop: _given(loop.function) for loop in _loops}
    for loop in made:
        names = loop.function.__globals__
        found = {name: one for name, one in names.items() if isinstance(one, Loop)}
        names.update({name: made.get(one, one.compiled) for name, one in found.items()})
    for loop, function in made.items():  # last: other threads may call a loop from here on
        loop.compiled = function
    _loops.clear()


def _given(function: Callable[..., Any]) -> Callable[..., Any]:
    from numba import njit

    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder in which a compiled function could be kept
        return njit(nogil=True)(function)
