"""Which job is next: those that are ready, those that wait for a start, those that failed once."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from folt.fleet.job import Job
from folt.fleet.runners import Lost
from folt.fleet.work import FIT, ROW, Ended, Fault, Ticket
from folt.store import Entry, fingerprint
from folt.store.strict_json import Document

TOGETHER = 0.1
"""Seconds of short jobs that are sent in one call, so that sending them does not take longer."""

MOST_TOGETHER = 50


class Schedule:
    """Jobs that are still to do, handed out in their order.

    Args:
        jobs: all jobs of the fleet.
        requests: what each asks for.
        done: names of those that are finished.
        out: where fits are.
        retries: how often a job that failed is tried again.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        requests: Mapping[str, Document],
        done: Iterable[str],
        out: Path,
        retries: int,
    ) -> None:
        self._requests, self._out, self._retries = requests, out, retries
        self._ready: collections.deque[Job] = collections.deque()
        self._waiting: dict[str, list[Job]] = collections.defaultdict(list)
        self._failures: collections.Counter[str] = collections.Counter()
        self._alone: set[str] = set()
        self._under_way: dict[int, list[Ticket]] = {}
        self._recent: collections.deque[float] = collections.deque(maxlen=50)
        self._number = 0
        finished, jobs = set(done), list(jobs)
        for job in jobs:
            if job.name in finished:
                continue
            if job.start is None or job.start in finished:
                self._ready.append(job)
            else:
                self._waiting[job.start].append(job)

    @property
    def under_way(self) -> int:
        """Calls that have not come back."""
        return len(self._under_way)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do or to wait for."""
        return not (self._ready or self._under_way)

    def take(self, slots: int, together: bool) -> tuple[int, list[Ticket]] | None:
        """The next call, or None if nothing is ready.

        Args:
            slots: calls that may be under way; what is left is shared among them.
            together: whether short jobs may be sent in one call.
        """
        if not self._ready:
            return None
        count = self._count(slots) if together else 1
        tickets: list[Ticket] = []
        while self._ready and len(tickets) < count:
            job = self._ready[0]
            if tickets and (job.run is None or job.name in self._alone):
                break
            tickets.append(self._ticket(self._ready.popleft()))
            if job.run is None or job.name in self._alone:
                break
        self._number += 1
        self._under_way[self._number] = tickets
        return self._number, tickets

    def _count(self, slots: int) -> int:
        """Short jobs per call, by how long the last ones took."""
        if len(self._recent) < 2:
            return 1
        usual = max(statistics.fmean(self._recent), 1e-4)
        share = len(self._ready) // (2 * slots) + 1
        return max(1, min(int(TOGETHER / usual), MOST_TOGETHER, share))

    def _ticket(self, job: Job) -> Ticket:
        start = None if job.start is None else str(self._out / job.start / FIT)
        return Ticket(job, self._requests[job.name], start)

    def ended(self, number: int, result: list[Ended] | Lost) -> list[Ended]:
        """How jobs ended for good; those that are tried again are not among them."""
        tickets = {ticket.job.name: ticket for ticket in self._under_way.pop(number)}
        if isinstance(result, Lost):
            result = self._after_loss(tickets, result)
        final = []
        for one in result:
            job = tickets[one.name].job
            if one.row is None and self._failures[one.name] < self._retries:
                self._failures[one.name] += 1
                self._ready.append(job)
                continue
            if job.run is not None:
                self._recent.append(one.seconds)
            # Whatever became of it: those that were to start from it start, warm or not.
            self._ready.extend(self._waiting.pop(one.name, ()))
            final.append(one)
        return final

    def _after_loss(self, tickets: Mapping[str, Ticket], lost: Lost) -> list[Ended]:
        """What is known of jobs whose worker is gone: some may have finished before."""
        known = []
        for name, ticket in tickets.items():
            row = finished_row(Entry(self._out / name / ROW), ticket.request)
            if row is not None:
                known.append(Ended(name, row, row.get("seconds") or 0.0))
            elif len(tickets) == 1:
                known.append(Ended(name, None, 0.0, Fault.LOST, lost.reason))
            else:  # one of them did it; each is tried by itself, and none is blamed yet
                self._alone.add(name)
                self._ready.append(ticket.job)
        return known


def finished_row(entry: Entry, request: Document) -> Document | None:
    """The row of a job that is finished in just this way, its files as they were written."""
    note = entry.read()
    if note is None or not isinstance(note.result, dict) or note.result.get("error"):
        return None
    if fingerprint(note.request) != fingerprint(request) or entry.damaged():
        return None
    return note.result
