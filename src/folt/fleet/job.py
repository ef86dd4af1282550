"""A job: a name, how its problem is built where it runs, and how it is fitted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from folt.fleet.identity import identity
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from folt.fit import Fit
    from folt.problem import Problem

JOB_FORMAT = 1
"""Of rows; another one is not taken for finished."""

JOB_NAME = re.compile(r"\w[\w .+=,@-]{0,119}")
_LONGEST = 200
"""Bytes of a name: systems of files take 255, and ours for a moment carry more than the name."""

_RESERVED = frozenset({"table.csv", "index.html", "settings.json"})


@dataclasses.dataclass(frozen=True)
class Job:
    """One of many fits, or one of many calls of a function.

    Attributes:
        name: of its folder and its row; unlike every other.
        build: makes the `Problem` on the worker, from `data` if there are any. A `Problem` is taken
            as well, and then travels to the worker.
        data: handed to `build` or `run`: a value, a path, or a future of Dask. What a path or a
            future stands for does not pass through the client.
        options: of `folt.sample`.
        run: any function that returns a row, a flat dictionary, in the place of a fit; it is given
            `data` if there are any.
        start: name of the job whose fit this one starts from, fixed beforehand so that results do
            not depend on who is ready first.
        fit: `fit(problem, start, progress)` makes the fit, in the place of `folt.sample` with
            `options`; `start` is a fit to begin from, or None.
        describe: what else stands in the row of a fit, as a flat dictionary.
        files: what else is written beside a fit, contents by name.
        report: whether the page of the fit is written too.
    """

    name: str
    build: Callable[..., Problem] | Problem | None = None
    data: PyTree = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    run: Callable[..., Mapping[str, object]] | None = None
    start: str | None = None
    fit: Callable[[Problem, Fit | None, bool], Fit] | None = None
    describe: Callable[[Fit], Mapping[str, object]] | None = None
    files: Callable[[Fit], Mapping[str, bytes]] | None = None
    report: bool = False

    def request(self) -> Document:
        """Return what is asked for, as plain values; nothing is built.

        Raises:
            ValueError: some part cannot be recognised again; with which.
        """
        tree: Document = {"command": "job", "format": JOB_FORMAT, "name": self.name}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("name", "start") or value is None:
                continue
            try:
                tree[field.name] = identity(value)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"job {self.name!r}, {field.name}: {error}") from error
        return tree


def require_jobs(jobs: Sequence[object]) -> None:
    """Refuse jobs that cannot all be run or told apart.

    Raises:
        ValueError: naming the job.
    """
    if not jobs:
        raise ValueError("expected at least one job, got none")
    known: dict[str, Job] = {}
    for position, job in enumerate(jobs):
        if not isinstance(job, Job):
            raise ValueError(
                f"expected jobs made by folt.fleet.Job, got {type(job).__name__} at position "
                f"{position}"
            )
        _require_name(job.name)
        if job.name.casefold() in known:
            raise ValueError(f"expected a name of its own for every job, got {job.name!r} twice")
        _require_work(job)
        known[job.name.casefold()] = job
    by_name = {job.name: job for job in known.values()}
    for job in known.values():
        if job.start is not None:
            _require_start(job, by_name)


def _require_name(name: object) -> None:
    usable = isinstance(name, str) and JOB_NAME.fullmatch(name) and name == name.strip(" .")
    if usable and len(str(name).encode()) > _LONGEST:
        raise ValueError(f"expected names of jobs of at most {_LONGEST} bytes, got {name!r}")
    if not usable or str(name).casefold() in _RESERVED:
        raise ValueError(
            "expected names of jobs that can be names of folders (letters, digits and _ . + - =), "
            f"got {name!r}"
        )


def _require_work(job: Job) -> None:
    if (job.build is None) == (job.run is None):
        raise ValueError(f"job {job.name!r}: expected build= or run=, one of them")
    if job.run is not None:
        beside = [
            name for name in ("options", "start", "fit", "describe", "files") if getattr(job, name)
        ]
        if beside or job.report:
            raise ValueError(
                f"job {job.name!r}: {', '.join(beside) or 'report'} goes with build=, not with run="
            )
    for name in ("run", "fit", "describe", "files"):
        if getattr(job, name) is not None and not callable(getattr(job, name)):
            raise ValueError(f"job {job.name!r}: expected {name} to be a function")
    if job.fit is not None and job.options:
        raise ValueError(f"job {job.name!r}: options are those of folt.sample: give them to fit=")
    if not isinstance(job.options, Mapping):
        raise ValueError(f"job {job.name!r}: expected options as a dictionary")
    if "start" in job.options:
        raise ValueError(f"job {job.name!r}: name the job to start from as start=, not in options")


def _require_start(job: Job, jobs: Mapping[str, Job]) -> None:
    """Refuse a start that is no fit of this fleet, or that leads back to where it came from."""
    seen = [job.name]
    parent: str | None = job.start
    while parent is not None:
        if parent not in jobs or jobs[parent].run is not None:
            raise ValueError(
                f"job {seen[-1]!r} starts from {parent!r}, which is no fit of this fleet"
            )
        if parent in seen:
            raise ValueError(f"job {job.name!r} starts from itself, by way of {parent!r}")
        seen.append(parent)
        parent = jobs[parent].start
