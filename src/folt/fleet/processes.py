"""Jobs in processes of this machine, which come and go with a run.

They are reached by pipes that they inherit: nothing listens on the network, so no other user of the
machine can send them work.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from folt.fleet.runners import Lost, require_at_hand
from folt.fleet.work import Ended, Fault, SharedPlace, Ticket, packed, performed, require_packable

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",  # by which XLA sizes its pool
    "FOLT_THREADS": "1",
}
"""Settings of a worker with one core: set before it starts, for libraries read them then."""

_GRACE = 30.0
"""Seconds beyond its own that a worker has to report that a job took too long."""

DIED = "its worker died{}: it was killed, ran out of memory, or the job ended the process"


class _Call(NamedTuple):
    """What a worker is doing: the number it was sent under, and when it has to be back."""

    number: int
    end: float
    place: SharedPlace


class _Worker:
    """A process and the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.call: _Call | None = None
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _environment({**ONE_THREAD, **_inherited()}), _deaf():
            self.process.start()
        theirs.close()

    def end(self) -> None:
        """Kill the process: nobody waits for what it is doing."""
        with contextlib.suppress(ValueError):
            self.process.kill()
            self.process.join()
        self.pipe.close()


class Processes:
    """Runs jobs in processes of this machine, one thread each.

    They start when there is something to do and end with the run. In a `with` of its own the runner
    keeps them for several runs, and what they have compiled.

    Args:
        workers: how many; as many as there are cores if None.
    """

    aside = True

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self._running: list[_Worker] = []
        self._entered = 0

    @property
    def slots(self) -> int:
        """One per process, so that a process that dies is blamed on the job it had."""
        return self.workers

    def require(self, tickets: Sequence[Ticket]) -> None:
        """Refuse jobs that cannot travel; processes start when there is something to do."""
        _require_main()
        require_at_hand(tickets)
        require_packable(tickets)

    def __enter__(self) -> Processes:
        self._entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._entered -= 1
        busy = [one for one in self._running if one.call is not None]
        for worker in busy if self._entered else list(self._running):
            self._running.remove(worker)
            worker.end()

    def submit(self, number: int, tickets: Sequence[Ticket], place: SharedPlace) -> None:
        """Send the jobs to a process that has nothing to do, a new one if there is none."""
        jobs, _ = packed(tickets)
        worker = self._idle()
        seconds = float("inf") if place.timeout is None else place.timeout * len(tickets) + _GRACE
        worker.call = _Call(number, time.monotonic() + seconds, place)
        with contextlib.suppress(OSError):  # one that died meanwhile is found by `wait`
            worker.pipe.send(([ticket.job.name for ticket in tickets], jobs, place))

    def _idle(self) -> _Worker:
        """Return a process without work: one that is still alive, or a new one."""
        for worker in [one for one in self._running if one.call is None]:
            if worker.process.is_alive():
                return worker
            self._drop(worker)
        self._running.append(_Worker())
        return self._running[-1]

    def wait(self, seconds: float) -> list[tuple[int, list[Ended] | Lost]]:
        """Return what ended since."""
        busy = [one for one in self._running if one.call is not None]
        if busy:
            wait([one.pipe for one in busy], timeout=seconds)
        ended = [self._ended(one, one.call) for one in busy if one.call is not None]
        return [one for one in ended if one is not None]

    def _ended(self, worker: _Worker, call: _Call) -> tuple[int, list[Ended] | Lost] | None:
        """Take in what a process sent, or that it is gone or too busy even to say that it is late.

        A process that a job has forked keeps the pipe open, so the worker itself is looked at too.
        """
        alive = worker.process.is_alive()
        try:
            result = worker.pipe.recv() if worker.pipe.poll() else None
        except (EOFError, OSError):
            result, alive = None, False
        if result is not None:
            worker.call = None
            if any(one.fault is Fault.TIMED_OUT for one in result):
                self._drop(worker)  # what took too long is still running there
            return call.number, result
        if alive and time.monotonic() < call.end:
            return None
        code = worker.process.exitcode
        self._drop(worker)
        if alive:
            return call.number, Lost(f"took longer than {call.place.timeout} s")
        return call.number, Lost(DIED.format("" if code is None else f" with exit code {code}"))

    def _drop(self, worker: _Worker) -> None:
        """End a process; the next jobs start another."""
        worker.call = None
        self._running.remove(worker)
        worker.end()


def _serve(pipe: Connection) -> None:
    """Run in a process: perform what comes through the pipe until its other end is closed.

    Jobs run in a thread, so that a process whose client was killed ends at once. What they print
    goes to standard error: standard output is the client's, for results.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to answer
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    waiting: list[Any] = []
    ready = threading.Semaphore(0)
    threading.Thread(target=_work, args=(pipe, waiting, ready), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            waiting.append(pipe.recv())
            ready.release()
    os._exit(0)


def _work(pipe: Connection, waiting: list[Any], ready: threading.Semaphore) -> None:
    """Perform what waits; a thread that fails takes its process along, which the client sees."""
    with contextlib.suppress(BaseException):
        while ready.acquire():
            pipe.send(performed(*waiting.pop(0)))
    os._exit(1)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Variables as they are to be in a process that starts meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Without Ctrl-C for a process that starts meanwhile, until it has said that by itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _inherited() -> dict[str, str]:
    """Settings of JAX that workers share with this process: its compilations, its flags."""
    found = {}
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    found["XLA_FLAGS"] = flags
    jax = sys.modules.get("jax")
    folder = None if jax is None else jax.config.jax_compilation_cache_dir
    if folder:
        found |= {
            "JAX_COMPILATION_CACHE_DIR": str(folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    return found


def _require_main() -> None:
    """Refuse to start processes from within one that is being started."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ValueError(
            "fit_many was called while a worker imported the script: put the call under "
            'if __name__ == "__main__":'
        )
