"""Many fits: checked before anything runs, each kept as soon as it is finished, none made twice."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from folt.fleet.job import Job, require_jobs
from folt.fleet.rows import INDEX, Bar, Row, RowTable, columns, estimates_in, frame
from folt.fleet.runners import Runner
from folt.fleet.schedule import Schedule, opened, requests_of
from folt.fleet.work import PAGE, ROW, TOKEN, TRACE, Ended, SharedPlace, Ticket, versions
from folt.store import Entry, IncompleteError, Store, WriteError
from folt.store.files import make_part, remove
from folt.store.packages import require
from folt.store.strict_json import Document

if TYPE_CHECKING:
    import pandas

    from folt.report.fleet_page import Front

_TICK = 0.5
"""Seconds after which a wait looks up: for Ctrl-C, for the table, for jobs that take too long."""

_Told = Callable[[str, Row, int, int], None]
"""Called with the name of a job that ended, its row, how many have, and how many there are."""

_After = Callable[[Store, list[Row]], "Front | None"]
"""Writes what the rows say, and returns what stands above them on the page, if anything."""


def fit_many(
    jobs: Iterable[Job],
    out: str | Path,
    *,
    client: Any = None,
    workers: int | None = None,
    runner: Runner | None = None,
    retries: int = 1,
    timeout: float | None = None,
    resume: bool = True,
    progress: bool = True,
) -> pandas.DataFrame:
    """Run many fits, or many calls of a function, and keep every one that is finished.

    Args:
        jobs: what is to be done, made by `folt.fleet.Job`.
        out: folder of the results, which all workers see: `NAME/fit.nc` and `NAME/row.json` per
            job, `table.csv` and `index.html` over all of them.
        client: a client of Dask; without one, processes of this machine, one thread each.
        workers: how many processes; as many as there are cores if None.
        runner: where jobs run, in the place of client and workers; `folt.fleet.Here()` is this
            process.
        retries: how often a job is tried again that raised, took too long or died with its worker.
        timeout: seconds that one job may take.
        resume: False makes finished jobs anew.
        progress: say how far it is on standard error.

    Returns:
        One row per job, in the order of the jobs, as in `table.csv`. A job that failed has its
        error there and no estimates.

    Raises:
        ValueError: jobs that cannot be run or told apart, no worker to be had, or a folder that
            holds something else; nothing is written then.
    """
    chosen = runner_for(client, workers, runner)
    rows = run_jobs(
        list(jobs),
        Path(out),
        chosen,
        retries=retries,
        timeout=timeout,
        resume=resume,
        progress=progress,
    )
    return frame(rows)


def runner_for(client: Any, workers: int | None, runner: Runner | None) -> Runner:
    """Return the runner that is asked for.

    Raises:
        ValueError: more than one is, or what a cluster needs is not installed.
    """
    if sum(part is not None for part in (client, workers, runner)) > 1:
        raise ValueError("expected one of client=, workers= and runner=")
    if runner is not None:
        return runner
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"expected workers to be at least 1, got {workers!r}")
    if client is None:
        from folt.fleet.processes import Processes

        require("a fleet in several processes", "cloudpickle")
        return Processes(workers)
    require("a cluster", "cloudpickle", "distributed")
    from folt.fleet.on_dask import OnDask

    return OnDask(client)


def run_jobs(
    jobs: Sequence[Job],
    out: Path,
    runner: Runner,
    *,
    retries: int = 1,
    timeout: float | None = None,
    resume: bool = True,
    changed: Literal["refuse", "replace"] = "refuse",
    command: str = "fleet",
    progress: bool = True,
    tell: _Told | None = None,
    derived: Sequence[str] = (),
    after: _After | None = None,
) -> list[Row]:
    """Return what `fit_many` does, as plain rows, for commands that have more to say.

    Args:
        jobs: what is to be done.
        out: folder of the results.
        runner: where it is done.
        retries: how often a job is tried again.
        timeout: seconds per job.
        resume: False makes finished jobs anew.
        changed: what becomes of a finished job that asked for something else under this name.
        command: what the folder is a result of.
        progress: say how far it is on standard error.
        tell: told of every job that is finished, those of earlier runs included.
        derived: names of files that `after` writes and that are removed when a job is to be done,
            because they would no longer be true.
        after: writes what else the rows say, at the end or when the run is cut short; what it
            returns stands above them on the page.
    """
    require_jobs(jobs)
    _require_numbers(retries, timeout, runner)
    requests = requests_of(jobs)
    runner.require([Ticket(job, requests[job.name]) for job in jobs])
    with Store(out) as store:
        if (store.folder / TOKEN).exists():  # of a run that was killed
            remove(store.folder / TOKEN)
        done = opened(store, jobs, requests, command, resume, changed)
        table = RowTable(store, [job.name for job in jobs])
        ledger = _Ledger(store, table, requests, tell)
        for name, row in done.items():
            ledger.put(name, row)
        schedule = Schedule(jobs, requests, done, store.folder.absolute(), retries)
        try:
            if not schedule.is_over:
                for name in derived:
                    remove(store.folder / name)
                shown = progress and runner.aside
                with _token(store) as token, runner, Bar(shown, len(jobs)) as bar:
                    folder, told = str(store.folder.absolute()), progress and not runner.aside
                    place = SharedPlace(folder, token, versions(), timeout, told)
                    _course(schedule, runner, place, ledger, bar)
        finally:
            table.write()
            _write_derived(store, table, jobs, after)
    return table.rows()


class _Ledger:
    """Where what became of jobs is written down."""

    def __init__(
        self, store: Store, table: RowTable, requests: dict[str, Document], tell: _Told | None
    ) -> None:
        self._store, self.table, self._requests, self._tell = store, table, requests, tell
        self.ended = self.failed = 0

    def put(self, name: str, row: Row) -> None:
        """A job that is over, now or in an earlier run."""
        self.table.put(name, row)
        self.ended += 1
        self.failed += row.get("error") is not None
        if self._tell is not None:
            self._tell(name, row, self.ended, len(self._requests))

    def end(self, one: Ended) -> None:
        """A job that has just ended; its worker has written the row unless it failed."""
        row = one.row
        if row is None:
            row = {"error": one.error, "seconds": round(one.seconds, 3)}
            entry = Entry(self._store.folder / one.name / ROW)
            make_part(entry.place)
            files = {TRACE: one.trace.encode(errors="replace")} if one.trace else {}
            entry.replace(self._requests[one.name], files, {**row, "fault": one.fault})
        self.put(one.name, row)

    @property
    def words(self) -> str:
        """How many have ended, in words."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.ended} of {len(self._requests)} jobs{failed}"


def _course(
    schedule: Schedule, runner: Runner, place: SharedPlace, ledger: _Ledger, bar: Bar
) -> None:
    """Hand out jobs while there is room, take in what has ended, until nothing is left."""
    while not schedule.is_over:
        slots = runner.slots
        while schedule.under_way < slots:
            call = schedule.take(slots, together=runner.aside)
            if call is None:
                break
            runner.submit(*call, place)
        for number, result in runner.wait(_TICK):
            for one in schedule.ended(number, result):
                ledger.end(one)
        ledger.table.write_now_and_then()
        bar.tell(ledger.ended, ledger.words)


@contextlib.contextmanager
def _token(store: Store) -> Iterator[str]:
    """Mark the folder as that of this run while it lasts."""
    token = uuid.uuid4().hex
    path = store.write(TOKEN, token.encode())
    try:
        yield token
    finally:
        with contextlib.suppress(OSError):
            remove(path)


def _require_numbers(retries: object, timeout: object, runner: Runner) -> None:
    if not isinstance(retries, int) or retries < 0:
        raise ValueError(f"expected retries to be a whole number, 0 or more, got {retries!r}")
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"expected timeout to be a number of seconds, got {timeout!r}")
    if not runner.aside:
        raise ValueError("a timeout needs workers: this process cannot end a job of its own")


def _write_derived(
    store: Store,
    table: RowTable,
    jobs: Sequence[Job],
    after: _After | None,
) -> None:
    """Write what is read off the table, which is written already: nothing is lost if this fails.

    Raises:
        IncompleteError: a page or a picture could not be made.
        WriteError: it could not be written.
    """
    try:
        from folt.report.fleet_page import fleet_page

        rows = table.rows()
        front = None if after is None else after(store, rows)
        names, ended = columns(rows), [row for row in rows if row["error"] is None]
        pages = all(job.report for job in jobs) or (
            bool(ended) and all((store.folder / row["job"] / PAGE).is_file() for row in ended)
        )
        page = fleet_page(rows, names, estimates_in(names), len(jobs), pages, front)
        store.write(INDEX, page.encode(errors="replace"))
    except WriteError:
        raise
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise IncompleteError(
            f"the jobs and their table are in {store.folder}, but a page or a picture of them "
            f"could not be made: {what[:500]}"
        ) from error
