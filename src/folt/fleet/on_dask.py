"""Jobs on a Dask cluster of the user's own: by its client, or by the address of its scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from folt.fleet.runners import Lost
from folt.fleet.work import (
    Ended,
    Fault,
    SharedPlace,
    Ticket,
    difference,
    packed,
    performed,
    require_packable,
    said,
    versions,
)

GREETING = 10.0
"""Seconds that a scheduler has to answer."""

JOINING = 60.0
"""Seconds that a cluster without workers has to bring one."""

_GRACE = 30.0
"""Seconds beyond its own that a worker has to report that a job took too long."""

SPARE = 8
"""Calls under way on a cluster of others, at least: one that grows on demand has to see demand."""


class OnDask:
    """Runs jobs on the workers of a Dask client, which stays open.

    Args:
        client: a `distributed.Client`.
    """

    aside = True

    def __init__(self, client: Any) -> None:
        if not hasattr(client, "submit") or not hasattr(client, "scheduler_info"):
            raise ValueError(f"expected a client of Dask, got {type(client).__name__}")
        self.client = client
        self._futures: dict[Any, tuple[int, float, SharedPlace, int]] = {}

    @property
    def slots(self) -> int:
        """Twice as many as threads, so that no worker waits for the client."""
        return max(SPARE, 2 * sum(self.client.nthreads().values()))

    def require(self, tickets: Sequence[Ticket]) -> None:
        """Refuse jobs that cannot travel, and a cluster that cannot take them."""
        require_packable(tickets)
        self._greet()

    def __enter__(self) -> OnDask:
        return self

    def _greet(self) -> None:
        """Refuse a cluster without workers, or with workers of other versions."""
        try:
            self.client.wait_for_workers(1, timeout=JOINING)
            found = self.client.run(versions)
        except Exception as error:
            raise ValueError(f"no worker of the Dask cluster can be used: {said(error)}") from error
        for address, theirs in found.items():
            differing = difference(versions(), theirs)
            if differing:
                raise ValueError(
                    f"the worker {address} has {differing}: expected the same versions"
                )

    def __exit__(self, *error: object) -> None:
        if self._futures:
            with contextlib.suppress(Exception):
                self.client.cancel(list(self._futures), force=True)
        self._futures.clear()

    def submit(self, number: int, tickets: Sequence[Ticket], place: SharedPlace) -> None:
        """Send the jobs as bytes; data that lie on the workers already are named, not sent."""
        jobs, given = packed(tickets)
        future = self.client.submit(
            on_worker,
            [ticket.job.name for ticket in tickets],
            jobs,
            place,
            given,
            key=f"folt-{place.token}-{number}",
            pure=False,
        )
        self._futures[future] = (number, time.monotonic(), place, len(tickets))

    def wait(self, seconds: float) -> list[tuple[int, list[Ended] | Lost]]:
        """Return what ended since."""
        from distributed import wait

        if not self._futures:
            return []
        with self.client.as_current(), contextlib.suppress(TimeoutError):
            wait(list(self._futures), timeout=seconds, return_when="FIRST_COMPLETED")
        ended: list[tuple[int, list[Ended] | Lost]] = []
        for future in [future for future in self._futures if future.done()]:
            number = self._futures.pop(future)[0]
            ended.append((number, self._result(future)))
            future.release()
        return ended + self._overdue()

    def _result(self, future: Any) -> list[Ended] | Lost:
        try:
            address, result = future.result()
        except Exception as error:
            return Lost(_lost(error))
        if any(one.fault is Fault.TIMED_OUT for one in result):
            self._restart(address)  # what took too long is still running there
        return result

    def _restart(self, address: str) -> None:
        with contextlib.suppress(Exception):
            self.client.restart_workers([address], timeout=_GRACE)

    def _overdue(self) -> list[tuple[int, list[Ended] | Lost]]:
        """Return jobs whose worker is too busy even to say that they take too long."""
        found: list[tuple[int, list[Ended] | Lost]] = []
        for future, (number, begun, place, count) in list(self._futures.items()):
            if place.timeout is None or time.monotonic() < begun + place.timeout * count + _GRACE:
                continue
            for address, keys in self.client.processing().items():
                if future.key in keys:
                    del self._futures[future]
                    self._restart(address)
                    found.append((number, Lost(f"took longer than {place.timeout:g} s")))
        return found


class AtAddress(OnDask):
    """Runs jobs on the cluster whose scheduler has this address, such as tcp://10.0.0.1:8786."""

    def __init__(self, address: str) -> None:
        from distributed import Client
        from distributed.comm import get_address_host_port

        if not address.strip():
            raise ValueError("expected the address of a Dask scheduler such as tcp://host:8786")
        try:
            with quiet():
                asyncio.run(_greeted(address, *get_address_host_port(address)))
                client = Client(address, timeout=GREETING, set_as_default=False)
        except Exception as error:
            raise ValueError(
                f"no Dask scheduler answers at {address!r}: expected an address such as "
                f"tcp://host:8786; {said(error)}"
            ) from error
        super().__init__(client)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        with contextlib.suppress(Exception):
            self.client.close(timeout=5)


async def _greeted(address: str, host: str, port: int) -> None:
    """Refuse an address where no scheduler answers: a client of Dask takes long, and longer to end.

    Raises:
        Exception: with why; at once where nobody listens or certificates are missing.
    """
    from distributed.comm import connect
    from distributed.security import Security

    with socket.create_connection((host, port), timeout=GREETING):
        pass
    certificates = Security().get_connection_args("client")
    greeting = connect(address, timeout=GREETING, deserialize=False, **certificates)
    comm = await asyncio.wait_for(greeting, GREETING)
    comm.abort()


def on_worker(
    names: list[str], jobs: bytes, place: SharedPlace, given: list[object]
) -> tuple[str, list[Ended]]:
    """Unpack jobs where they are to run, run them, and say where that was."""
    from distributed import get_worker

    return get_worker().address, performed(names, jobs, place, given)


def _lost(error: Exception) -> str:
    """Return why nothing came back, in words."""
    if type(error).__name__ == "KilledWorker":
        return "its worker died: it was killed, ran out of memory, or the job ended the process"
    return f"its worker was lost: {said(error)}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what Dask says about connections that end, which is meant to happen here."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
