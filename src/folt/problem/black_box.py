"""A log density that only a host program can evaluate: NumPy code, a simulator, anything.

It is called with many points at once and never from compiled code, so it may be written in any
way. There is a gradient where a second function gives one; whatever needs one says so.

Processes that evaluate a host function side by side.

A point's value must not depend on which process computes it: every process has the same function
and one thread for its linear algebra, and the values come back in the order of the points.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NoReturn

import numpy as np
from jaxtyping import ArrayLike, Float
from threadpoolctl import threadpool_limits

from folt.store.packages import require
from folt.types import HostPoints, HostValues

_SHARES = 4
"""Pieces per process of work whose calls may differ in length."""

_Evaluate = Callable[[np.ndarray], np.ndarray]

_functions: Sequence[_Evaluate] = ()


class _Workers:
    """A pool that starts with its first work and ends with `close`, or with this process.

    Args:
        functions: each from points (n, dim) to n rows; any that can be sent to a process.
        count: how many processes.
        longest: most points in one piece.

    Raises:
        ValueError: they cannot be sent.
    """

    def __init__(
        self, functions: Sequence[_Evaluate], count: int, longest: int | None = None
    ) -> None:
        self.count, self.longest = count, longest
        self._payload = _sent(functions)
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, points: np.ndarray, number: int = 0) -> np.ndarray:
        """Return the rows of the function of this number at all points, in their order.

        Raises:
            RuntimeError: a process died.
            Exception: whatever the function raises.
        """
        pieces = [points[start:stop] for start, stop in self._cuts(len(points))]
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.count, multiprocessing.get_context("spawn"), _prepare, (self._payload,)
            )
        try:
            return np.concatenate(list(self._pool.map(functools.partial(_piece, number), pieces)))
        except BrokenProcessPool as error:
            self.close()
            raise RuntimeError(
                "a process that evaluates the log density died: the function ended its process, "
                "or the script that started folt lacks `if __name__ == '__main__':` around its work"
            ) from error
        except BaseException:
            self.close()
            raise

    def _cuts(self, count: int) -> list[tuple[int, int]]:
        length = max(1, math.ceil(count / (_SHARES * self.count)))
        if self.longest is not None:
            length = min(max(1, math.ceil(count / self.count)), self.longest)
        starts = range(0, count, length)
        return [(start, min(start + length, count)) for start in starts]

    def close(self) -> None:
        """End the processes; the next work starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _sent(functions: Sequence[_Evaluate]) -> bytes:
    require("workers=", "cloudpickle")
    import cloudpickle

    try:
        return cloudpickle.dumps(functions)
    except Exception as error:
        raise ValueError(
            "with workers=, the function and what it holds go to other processes, and this one "
            f"cannot ({type(error).__name__}: {error}): build connections and models inside it"
        ) from error


def _prepare(payload: bytes) -> None:
    """A new process: it leaves interruptions to the one that started it."""
    global _functions
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _functions = pickle.loads(payload)
    threadpool_limits(limits=1)


def _piece(number: int, points: np.ndarray) -> np.ndarray:
    return _functions[number](points)


Gradient = Callable[[np.ndarray], tuple[ArrayLike, ArrayLike]]
"""From a point, or from many, to log density and gradient."""


@dataclasses.dataclass(frozen=True, eq=False)
class BlackBox:
    """A host function, with its gradient where there is one.

    Args:
        function: from a point (dim,) to a number; from points (n, dim) to n numbers if vectorized.
        vectorized: whether the function takes many points at once.
        batch: most points handed to a vectorized function in one call.
        workers: processes that evaluate it side by side; 1 for this one alone.
        gradient: from a point to its log density and gradient (dim,); from points (n, dim) to n
            numbers and gradients (n, dim) if vectorized. None where there is none.
    """

    function: Callable[[np.ndarray], ArrayLike]
    vectorized: bool = False
    batch: int = 8192
    workers: int = 1
    gradient: Gradient | None = None

    @functools.cached_property
    def pool(self) -> _Workers | None:
        """The processes, where there are several.

        Raises:
            ValueError: the function cannot be sent to another process.
        """
        if self.workers == 1:
            return None
        alone = dataclasses.replace(self, workers=1)
        longest = self.batch if self.vectorized else None
        return _Workers((alone.values, alone._side_by_side), self.workers, longest)

    def __getstate__(self) -> dict[str, object]:
        """Return a copy elsewhere starts processes of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "pool"}

    def close(self) -> None:
        """End the processes; new ones start where more values are asked for."""
        if self.pool is not None:
            self.pool.close()

    def __call__(self, *arguments: object) -> NoReturn:
        """Refuse to be traced: a black box is evaluated on the host."""
        raise ValueError(
            "this log density is a black box, evaluated outside JAX: compiled samplers and "
            "preset='paper' need a log density written in JAX"
        )

    def values(self, points: HostPoints) -> HostValues:
        """The log density at every point; NaN is handed on, for the caller to count.

        Raises:
            ValueError: the function returns something else than one real number per point.
        """
        points = np.array(points, np.float64)  # a copy: the function may write into what it gets
        if self.pool is not None and len(points) > 1:
            return self.pool(points)
        if not self.vectorized:
            return np.array([_number(self.function(point)) for point in points], np.float64)
        starts = range(0, points.shape[0], self.batch)
        # The user's function is never asked for no points: nobody expects that of it.
        return np.concatenate(
            [np.empty(0), *(self._many(points[i : i + self.batch]) for i in starts)]
        )

    def gradients(self, points: HostPoints) -> tuple[HostValues, HostPoints]:
        """Return the log density and its gradient at every point.

        Raises:
            ValueError: there is no gradient, or it has another shape than the point.
        """
        points = np.array(points, np.float64)
        both = self._side_by_side
        if self.pool is not None and len(points) > 1:
            both = functools.partial(self.pool, number=1)
        found = both(points)
        return found[:, 0], found[:, 1:]

    def _side_by_side(self, points: HostPoints) -> Float[np.ndarray, "n more"]:
        """Return the log density in the first column, its gradient in the others."""
        if self.gradient is None:
            raise ValueError("this log density has no gradient: give from_callable gradient=")
        count, dim = points.shape
        if self.vectorized:
            starts = range(0, count, self.batch)
            pairs = [self.gradient(points[i : i + self.batch]) for i in starts]
            parts = [(np.asarray(value), np.asarray(slope)) for value, slope in pairs]
        else:
            parts = [
                (np.asarray(value)[None], np.asarray(slope)[None])
                for value, slope in map(self.gradient, points)
            ]
        values = np.concatenate([value for value, _ in parts])
        slopes = np.concatenate([slope for _, slope in parts])
        if values.shape != (count,) or slopes.shape != (count, dim):
            many = f"{count} points" if self.vectorized else "one point"
            raise ValueError(
                f"gradient must return a log density and a gradient of length {dim} for {many}, "
                f"got shapes {parts[0][0].shape[not self.vectorized :]} and "
                f"{parts[0][1].shape[not self.vectorized :]}"
            )
        return np.column_stack([values, slopes]).astype(np.float64)

    def _many(self, points: HostPoints) -> HostValues:
        count = points.shape[0]
        result = np.asarray(self.function(points))
        if result.shape != (count,) or not _is_real(result):
            raise ValueError(
                f"a vectorized log density must return {count} real numbers of shape ({count},) "
                f"for points of shape {points.shape}, got shape {result.shape} and type "
                f"{result.dtype}"
            )
        return result.astype(np.float64)


def _number(value: ArrayLike) -> float:
    array = np.asarray(value)
    if array.shape != () or not _is_real(array):
        raise ValueError(
            "the log density must return one real number for one point, got shape "
            f"{array.shape} and type {array.dtype}; pass vectorized=True if it takes many points"
        )
    return float(array)


def _is_real(array: np.ndarray) -> bool:
    return np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)
