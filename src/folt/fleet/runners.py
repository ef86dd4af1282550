"""Where jobs run: the protocol, and the runner that stays in this process.

Another engine is one class with these methods; resume, retries, rows and the page come with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from folt.fleet.identity import is_future
from folt.fleet.work import Ended, SharedPlace, Ticket, perform


class Lost(NamedTuple):
    """Jobs of which nothing more will be heard, and why."""

    reason: str


class Runner(Protocol):
    """Takes jobs a few at a time and says how they ended.

    Attributes:
        slots: how many calls of `submit` may be under way at once.
        aside: whether jobs run in other processes, so that several can be sent in one call, time
            limits can be kept, and fits stay silent.
    """

    aside: bool

    @property
    def slots(self) -> int:
        """How many calls of `submit` may be under way at once."""

    def require(self, tickets: Sequence[Ticket]) -> None:
        """Refuse what cannot run here, before anything is written.

        Raises:
            ValueError: naming the job.
        """

    def __enter__(self) -> Runner:
        """Begin: start workers, or greet those that are there."""

    def __exit__(self, *error: object) -> None:
        """End at once, whatever is under way."""

    def submit(self, number: int, tickets: Sequence[Ticket], place: SharedPlace) -> None:
        """Send jobs on their way, one after the other on one worker."""

    def wait(self, seconds: float) -> list[tuple[int, list[Ended] | Lost]]:
        """What ended since, by the number it was sent under; waits so long if nothing has."""


def require_at_hand(tickets: Sequence[Ticket]) -> None:
    """Refuse data that lie on the workers of a cluster.

    Raises:
        ValueError: naming the job.
    """
    for ticket in tickets:
        if is_future(ticket.job.data):
            raise ValueError(f"job {ticket.job.name!r}: a future of Dask needs client=")


class Here:
    """Runs jobs in this process, one after the other."""

    aside = False
    slots = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Sequence[Ticket], SharedPlace]] = deque()

    def require(self, tickets: Sequence[Ticket]) -> None:
        """Anything can run here that does not lie elsewhere."""
        require_at_hand(tickets)

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()

    def submit(self, number: int, tickets: Sequence[Ticket], place: SharedPlace) -> None:
        """Remember the jobs; they run when their result is waited for."""
        self._waiting.append((number, tickets, place))

    def wait(self, seconds: float) -> list[tuple[int, list[Ended] | Lost]]:
        """Run the next jobs."""
        del seconds
        if not self._waiting:
            return []
        number, tickets, place = self._waiting.popleft()
        return [(number, perform(tickets, place))]
