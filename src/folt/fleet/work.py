"""What happens where a job runs: build, fit, write the fit, and the row last.

Only names, settings and small rows travel. Nothing heavy is imported before a job needs it.

Jobs on their way to another process: packed here, unpacked and performed there.
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from folt.fleet.identity import is_future
from folt.fleet.job import Job
from folt.fleet.rows import Row, fit_row, require_row
from folt.store import Entry
from folt.store.files import make_part
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.problem import Problem


ROW, FIT, PAGE = "row.json", "fit.nc", "report.html"

TRACE = "error.txt"
"""Where the whole of what went wrong is written."""

TOKEN = ".folt-run"
"""Name of the file that says which run of a fleet the folder belongs to just now."""


class Fault(StrEnum):
    """Why a job did not come to its end."""

    RAISED = "raised"
    TIMED_OUT = "timed out"
    LOST = "lost with its worker"


class SharedPlace(NamedTuple):
    """What the jobs of a run share.

    Attributes:
        out: the folder, by its absolute path.
        token: of this run; whoever finds another one there has been left behind and writes nothing.
        versions: of Python, folt and JAX, as the client has them.
        timeout: seconds that a job may take.
        progress: whether a fit says how far it is.
    """

    out: str
    token: str
    versions: Mapping[str, str]
    timeout: float | None = None
    progress: bool = False


class Ticket(NamedTuple):
    """A job on its way: what is asked for, and the fit to start from."""

    job: Job
    request: Document
    start: str | None = None


class Ended(NamedTuple):
    """How a job ended: with a row, or with what went wrong in a line and in full."""

    name: str
    row: Row | None
    seconds: float
    fault: Fault | None = None
    error: str = ""
    trace: str = ""


class TimedOutError(Exception):
    """A job took longer than it may."""


class FailedJobsError(RuntimeError):
    """Jobs failed without which there is no result; what is finished stays, with what went wrong.

    Attributes:
        is_failure: true, because nothing was wrong with what was asked for.
    """

    is_failure = True


def perform(tickets: Sequence[Ticket], place: SharedPlace) -> list[Ended]:
    """Run jobs one after the other; what goes wrong with one is no concern of the next."""
    return [_performed(ticket, place) for ticket in tickets]


def _performed(ticket: Ticket, place: SharedPlace) -> Ended:
    begun, name = time.perf_counter(), ticket.job.name
    try:
        require_place(place)
        row = _in_time(functools.partial(_written, ticket, place, begun), place.timeout)
        return Ended(name, row, time.perf_counter() - begun)
    except BaseException as error:
        main = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and main:
            raise  # Ctrl-C; on a worker jobs run in threads, where only a job itself can raise it
        fault = Fault.TIMED_OUT if isinstance(error, TimedOutError) else Fault.RAISED
        trace = _trace()
        return Ended(name, None, time.perf_counter() - begun, fault, said(error), trace)


def _trace() -> str:
    try:
        return traceback.format_exc()
    except Exception:  # of an error that cannot even be printed
        return ""


def _written(ticket: Ticket, place: SharedPlace, begun: float) -> Row:
    """Compute, then write everything, the row last."""
    files, row = _computed(ticket, place.progress)
    row["seconds"] = round(time.perf_counter() - begun, 3)
    entry = Entry(Path(place.out) / ticket.job.name / ROW)
    require_place(place)
    make_part(entry.place)
    entry.replace(ticket.request, files, row)
    return row


def _computed(ticket: Ticket, progress: bool) -> tuple[dict[str, bytes], Row]:
    job = ticket.job
    if job.run is not None:
        return {}, require_row(job.run() if job.data is None else job.run(job.data))
    problem = _problem(job)
    start = _start(ticket, problem)
    fit = _fitted(job, problem, start, progress)
    warm = start is not None and fit.provenance.get("started_from") != "nothing"
    row = require_row({**fit_row(fit), "started_from": job.start if warm else None})
    # A fit that is finished is kept, whatever fails of what is said or drawn of it.
    try:
        more = {} if job.describe is None else require_row(job.describe(fit))
        return _files(job, fit), require_row({**row, **more})
    except Exception as error:
        from folt.fit.file import to_bytes

        kept = {FIT: to_bytes(fit), TRACE: traceback.format_exc().encode()}
        return kept, {**row, "error": f"the fit is kept, but its row or page failed: {said(error)}"}


def _problem(job: Job) -> Problem:
    from folt.problem import Problem
    from folt.types import in_float64

    if isinstance(job.build, Problem):
        return job.build
    assert callable(job.build)
    made = in_float64(job.build)(*(() if job.data is None else (job.data,)))
    if not isinstance(made, Problem):
        raise ValueError(f"expected build to return a folt.Problem, got {type(made).__name__}")
    return made


def _start(ticket: Ticket, problem: Problem) -> Fit | None:
    """Return the fit to start from, if it is there and can be used."""
    if ticket.start is None:
        return None
    from folt.fit.file import load

    try:
        start = load(ticket.start)
    except ValueError:
        return None
    return start if may_start(start, problem) else None


def may_start(start: Fit, problem: Problem) -> bool:
    """Whether a fit can be a start: usable, of the same symmetry, and its proposal at hand."""
    usable = start.certificate.status.outcome.usable
    return usable and start.flow is not None and bool(start.group == problem.group)


def _fitted(job: Job, problem: Problem, start: Fit | None, progress: bool) -> Fit:
    """Return the fit, from its start where that leads to a usable one, otherwise from nothing."""
    from folt.sampling import sample

    if job.fit is not None:
        return job.fit(problem, start, progress)
    fit = sample(problem, **{"progress": progress, **job.options}, start=start)
    if start is not None and not fit.certificate.status.outcome.usable:
        fit = sample(problem, **{"progress": progress, **job.options})
        fit.provenance["started_from"] = "nothing"
    return fit


def _files(job: Job, fit: Fit) -> dict[str, bytes]:
    """Return what is written of a fit: its file, and what else is asked for."""
    from folt.fit.file import to_bytes

    more = {} if job.files is None else dict(job.files(fit))
    if job.report and PAGE not in more:
        from folt.report.page import page

        more[PAGE] = page(fit).encode()
    return more if FIT in more else {FIT: to_bytes(fit), **more}


def _in_time(call: Callable[[], Row], timeout: float | None) -> Row:
    """Call, and stop waiting when the time is over; whoever runs the worker then ends it.

    Raises:
        TimedOutError: it took too long.
    """
    if timeout is None:
        return call()
    ended: list[Row | BaseException] = []

    def run() -> None:
        try:
            ended.append(call())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True, name="folt job")
    thread.start()
    thread.join(timeout)
    if not ended:
        raise TimedOutError(f"took longer than {timeout:g} s")
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]


def require_place(place: SharedPlace) -> None:
    """Refuse to work for a run that has ended, in a folder out of sight, or with other software.

    Raises:
        ValueError: saying which.
    """
    try:
        token = (Path(place.out) / TOKEN).read_text(encoding="utf-8")
    except OSError:
        token = ""
    if token != place.token:
        raise ValueError(
            f"the worker on {platform.node()} finds nothing of this run in {place.out}: expected a "
            "folder that the client and all workers share"
        )
    differing = difference(place.versions, versions())
    if differing:
        raise ValueError(f"the worker on {platform.node()} has {differing}")


@functools.cache
def versions() -> dict[str, str]:
    """Return versions that have to agree: what is pickled here is unpickled there."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name, package in (("folt", "folt"), ("JAX", "jax")):
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def difference(expected: Mapping[str, str], got: Mapping[str, str]) -> str:
    """Return what differs between two lists of versions, in words; empty where nothing does."""
    return ", ".join(
        f"{name} {got.get(name, 'none')} where the client has {here}"
        for name, here in expected.items()
        if got.get(name) != here
    )


def said(error: BaseException) -> str:
    """Return what went wrong, in one line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # some errors cannot even say what is wrong
        words = ""
    name = type(error).__name__
    plainly = isinstance(error, TimedOutError) or (isinstance(error, ValueError) and words)
    return (words if plainly else f"{name}: {words}" if words else name)[:500]


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
    import cloudpickle

    try:
        return cloudpickle.dumps(light), given
    except Exception as error:
        raise ValueError(
            f"job {tickets[0].job.name!r} cannot be sent to a worker: {said(error)}; build the "
            "problem there, from data that can be sent"
        ) from error


def performed(
    names: Sequence[str], jobs: bytes, place: SharedPlace, given: Sequence[object] | None = None
) -> list[Ended]:
    """Unpack jobs where they are to run, and run them.

    Args:
        names: of the jobs.
        jobs: the tickets as bytes.
        place: what the jobs of the run share.
        given: data that came by another way, in the place of those in the tickets.
    """
    try:
        import cloudpickle

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
