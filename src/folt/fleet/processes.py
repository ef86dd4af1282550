"""Jobs in processes of this machine: a Dask cluster that comes and goes with a run."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from folt.fleet.on_dask import OnDask, quiet, require_packable
from folt.fleet.runners import Lost
from folt.fleet.work import Ended, Ticket

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",  # by which XLA sizes its pool
    "FOLT_THREADS": "1",
}
"""Settings of a worker with one core: set before it starts, for libraries read them then."""


PATIENCE = 120.0
"""Seconds without any process after which they are begun anew."""


class Processes(OnDask):
    """Runs jobs in processes of this machine, one thread each.

    They start when there is something to do and end with the run. In a `with` of its own the runner
    keeps them for several runs, and what they have compiled.

    Args:
        workers: how many; as many as there are cores if None.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self._cluster: Any = None
        self._entered = 0
        self._futures = {}

    @property
    def slots(self) -> int:
        """One per process, so that a process that dies is blamed on the job it had."""
        return self.workers

    def require(self, tickets: Sequence[Ticket]) -> None:
        """Refuse jobs that cannot travel; processes start when there is something to do."""
        _require_main()
        require_packable(tickets)

    def __enter__(self) -> Processes:
        if self._entered == 0:
            self._begin()
        self._entered += 1
        return self

    def _begin(self) -> None:
        import dask
        from distributed import Client, LocalCluster

        environment = {**ONE_THREAD, **_inherited()}
        settings = {
            "distributed.nanny.pre-spawn-environ": environment,
            "distributed.scheduler.allowed-failures": 0,
            "distributed.scheduler.worker-saturation": 1.0,
        }
        self._seen = time.monotonic()
        with dask.config.set(settings), _told(environment):
            self._cluster = LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # no fixed port is taken
                worker_dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            self.client = Client(self._cluster, set_as_default=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._entered -= 1
        if not self._entered:
            self._end(at_once=kind is not None)

    def _end(self, at_once: bool) -> None:
        with quiet(), contextlib.suppress(Exception):
            if at_once:
                _end_processes(self._cluster)
            self.client.close(timeout=2)
            self._cluster.close(timeout=5)

    def wait(self, seconds: float) -> list[tuple[int, list[Ended] | Lost]]:
        """What ended since; where no process has come back for long, all of them are begun anew."""
        ended = super().wait(seconds)
        if ended or self.client.nthreads():
            self._seen = time.monotonic()
        elif time.monotonic() > self._seen + PATIENCE:
            ended = [(number, Lost("its worker died")) for number, *_ in self._futures.values()]
            self._futures.clear()
            self._end(at_once=True)
            self._begin()
        return ended

    def _restart(self, address: str) -> None:
        """End a process; another takes its place. Waits until nothing more is sent to it."""
        for nanny in self._cluster.workers.values():
            if nanny.worker_address == address:
                with contextlib.suppress(OSError):
                    os.kill(nanny.pid, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while address in self.client.nthreads() and time.monotonic() < end:
            time.sleep(0.05)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _told(environment: dict[str, str]) -> Iterator[None]:
    """Variables as they are to be in the workers: Dask lets those of this process win."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
    import multiprocessing

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ValueError(
            "fit_many was called while a worker imported the script: put the call under "
            'if __name__ == "__main__":'
        )


def _end_processes(cluster: Any) -> None:
    """Kill the processes of a local cluster: nobody waits for what they are doing."""
    for nanny in cluster.workers.values():
        with contextlib.suppress(Exception):
            nanny.process.process._process.kill()
