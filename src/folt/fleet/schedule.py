"""Which job is next: those that are ready, those that wait for a start, those that failed once.

The folder of a fleet: whose it is, what is finished in it, and what was changed since.
"""

from __future__ import annotations

import collections
import functools
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from folt.fleet.identity import look_again
from folt.fleet.job import JOB_FORMAT, Job
from folt.fleet.rows import Row
from folt.fleet.runners import Lost
from folt.fleet.work import FIT, ROW, Ended, Fault, Ticket
from folt.store import Entry, Store, fingerprint
from folt.store.files import make_part
from folt.store.strict_json import Document, plain

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
        """Return the next call, or None if nothing is ready.

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
            alone = job.run is None or job.name in self._alone
            if alone and tickets:
                break
            tickets.append(self._ticket(self._ready.popleft()))
            if alone:
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
        """Return how jobs ended for good; those that are tried again are not among them."""
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
        """Return what is known of jobs whose worker is gone: some may have finished before."""
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
    """Return the row of a job that is finished in just this way, its files as they were written."""
    note = entry.read()
    if note is None or not isinstance(note.result, dict) or note.result.get("error"):
        return None
    if fingerprint(note.request) != fingerprint(request) or entry.damaged():
        return None
    return note.result


def requests_of(jobs: Sequence[Job]) -> dict[str, Document]:
    """Return what each job asks for; one that starts from another asks for that one too."""
    look_again()
    plainly = {job.name: plain(job.request()) for job in jobs}
    by_name = {job.name: job for job in jobs}

    def whole(name: str) -> Document:
        start = by_name[name].start
        return plainly[name] if start is None else {**plainly[name], "start": [start, mark(start)]}

    @functools.cache
    def mark(name: str) -> str:
        return fingerprint(whole(name))

    return {job.name: whole(job.name) for job in jobs}


def opened(
    store: Store,
    jobs: Sequence[Job],
    requests: dict[str, Document],
    command: str,
    resume: bool,
    changed: str,
) -> dict[str, Row]:
    """The rows of jobs that are finished, after what earlier runs left half-done is tidied up.

    Raises:
        ValueError: the folder is that of something else, or a job is there with other settings.
    """
    whole = store.entry()
    names = [job.name for job in jobs]
    _require_own(whole, command, names if changed == "refuse" else None, store.folder)
    done: dict[str, Row] = {}
    for name in names:
        if not os.path.lexists(store.folder / name):
            continue
        make_part(store.folder / name)
        entry = store.entry(f"{name}/{ROW}")
        if not resume:
            continue
        row = finished_row(entry, requests[name])
        if row is not None:
            done[name] = row
        elif changed == "refuse":
            _require_unchanged(entry, name, requests[name])
    whole.replace({"command": command, "format": JOB_FORMAT}, {}, {"jobs": names})
    return done


def _require_own(whole: Entry, command: str, names: Sequence[str] | None, folder: Path) -> None:
    """Refuse the folder of another command, or of a fleet that has no job of these names."""
    note = whole.read()
    if note is None:
        return
    there = note.request.get("command")
    if there != command:
        raise ValueError(
            f"{folder} holds a result of folt {there}: give another folder, or remove that one"
        )
    known = note.result["jobs"] if isinstance(note.result, dict) else []
    if names is not None and known and not set(known) & set(names):
        raise ValueError(
            f"{folder} holds another fleet, of {len(known)} jobs such as {known[0]!r}: give "
            "another folder, or remove that one"
        )


def _require_unchanged(entry: Entry, name: str, request: Document) -> None:
    """Refuse a job that was finished with other settings; one that failed may be changed."""
    note, differing = entry.read(), entry.difference(request)
    if note is None or differing is None or (note.result or {}).get("error"):
        return
    part, then, now = _inmost(*differing)
    said = f"was finished with {part} = {then}, now it is {now}"
    if part.endswith(".text"):
        changed = part.removesuffix(".text").replace(".uses.", ", which uses ")
        said = f"was finished before the text of a function was changed ({changed})"
    raise ValueError(
        f"job {name!r} {said}: give another folder, or make everything anew with resume=False "
        "(--no-resume)"
    )


def _inmost(part: str, then: object, now: object) -> tuple[str, str, str]:
    """Return the first difference within a difference, so that one setting is named and not all."""
    while isinstance(then, dict) and isinstance(now, dict):
        keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
        part, then, now = f"{part}.{keys[0]}", then.get(keys[0]), now.get(keys[0])
    return part, str(then)[:60], str(now)[:60]
