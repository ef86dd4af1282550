"""Jobs on their way to another process: packed here, unpacked and performed there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import cloudpickle

from folt.fleet.identity import is_future
from folt.fleet.job import Job
from folt.fleet.work import Ended, Fault, Place, Ticket, perform, said


def require_packable(tickets: Sequence[Ticket]) -> None:
    """Refuse jobs that cannot be sent.

    Raises:
        ValueError: naming the first.
    """
    for ticket in tickets:
        packed([ticket])


def packed(tickets: Sequence[Ticket]) -> tuple[bytes, list[object]]:
    """Tickets as bytes, and the futures that Dask hands to the worker as values."""
    given = [ticket.job.data if is_future(ticket.job.data) else None for ticket in tickets]
    light = [
        ticket if future is None else ticket._replace(job=_with_data(ticket.job, ()))
        for ticket, future in zip(tickets, given, strict=True)
    ]
    try:
        return cloudpickle.dumps(light), given
    except Exception as error:
        raise ValueError(
            f"job {tickets[0].job.name!r} cannot be sent to a worker: {said(error)}; build the "
            "problem there, from data that can be sent"
        ) from error


def performed(
    names: Sequence[str], jobs: bytes, place: Place, given: Sequence[object] | None = None
) -> list[Ended]:
    """Unpack jobs where they are to run, and run them.

    Args:
        names: of the jobs.
        jobs: the tickets as bytes.
        place: what the jobs of the run share.
        given: data that came by another way, in the place of those in the tickets.
    """
    try:
        tickets = cloudpickle.loads(jobs)
    except BaseException as error:  # an imported module may raise anything
        words = f"cannot be unpacked on the worker: {said(error)}"
        return [Ended(name, None, 0.0, Fault.RAISED, words) for name in names]
    whole = [
        ticket._replace(job=_with_data(ticket.job, data)) if data is not None else ticket
        for ticket, data in zip(tickets, given or [None] * len(tickets), strict=True)
    ]
    return perform(whole, place)


def _with_data(job: Job, data: object) -> Job:
    return dataclasses.replace(job, data=data)
