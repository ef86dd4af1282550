"""Processes that evaluate a host function side by side.

A point's value must not depend on which process computes it: every process has the same function
and one thread for its linear algebra, and the values come back in the order of the points.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from threadpoolctl import threadpool_limits

SHARES = 4
"""Pieces per process of work whose calls may differ in length."""

Evaluate = Callable[[np.ndarray], np.ndarray]

_functions: Sequence[Evaluate] = ()


class Workers:
    """A pool that starts with its first work and ends with `close`, or with this process.

    Args:
        functions: each from points (n, dim) to n rows; any that can be sent to a process.
        count: how many processes.
        longest: most points in one piece.

    Raises:
        ValueError: they cannot be sent.
    """

    def __init__(
        self, functions: Sequence[Evaluate], count: int, longest: int | None = None
    ) -> None:
        self.count, self.longest = count, longest
        self._payload = _sent(functions)
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, points: np.ndarray, number: int = 0) -> np.ndarray:
        """The rows of the function of this number at all points, in their order.

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
        length = max(1, math.ceil(count / (SHARES * self.count)))
        if self.longest is not None:
            length = min(max(1, math.ceil(count / self.count)), self.longest)
        starts = range(0, count, length)
        return [(start, min(start + length, count)) for start in starts]

    def close(self) -> None:
        """End the processes; the next work starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def _sent(functions: Sequence[Evaluate]) -> bytes:
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
