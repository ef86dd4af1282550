"""`folt fleet`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.terminal import Json, Out, Quiet, console, print_json, wrote
from folt.cli.user_code import in_user_code, things_at

if TYPE_CHECKING:
    from folt.fleet import Job, Runner
    from folt.fleet.rows import Row

EXAMPLES = """\
folt fleet jobs.py:jobs --out results
folt fleet jobs.py:jobs --out results --workers 8 --timeout 600
folt fleet jobs.py:jobs --out /shared/results --scheduler tcp://10.0.0.1:8786"""

Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes on this machine, one thread each.", min=1),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="Address of a Dask cluster instead.", metavar="ADDRESS"),
]


def fleet(
    jobs: Annotated[
        str,
        typer.Argument(
            metavar="FILE:JOBS",
            help="A list of folt.fleet.Job, or a function without arguments that returns one: "
            "jobs.py:jobs or package.module:make.",
            show_default=False,
        ),
    ],
    out: Out = Path("folt-fleet"),
    workers: Workers = None,
    scheduler: Scheduler = None,
    retries: Annotated[int, typer.Option(help="Times a failed job is tried again.", min=0)] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that one job may take.", min=0.001)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Keep what is finished, or make it anew.")
    ] = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Many fits of your own on all cores or on a cluster; what is finished is not done again.

    The JSON document has jobs, failed, warm and rows; table.csv has the rows too.
    """
    from folt.fleet.many import run_jobs

    found = jobs_at(jobs)
    rows = run_jobs(
        found,
        out,
        runner_for(workers, scheduler),
        retries=retries,
        timeout=timeout,
        resume=resume,
        progress=not quiet,
    )
    files = [out / "table.csv", out / "index.html"]
    if as_json:
        print_json("fleet", files, {**counts(rows), "rows": rows})
    elif not quiet:
        typer.echo(words(rows))
        wrote(console(), files)


def jobs_at(place: str) -> list[Job]:
    """The jobs that a place such as `jobs.py:jobs` names.

    Raises:
        ValueError: nothing there, or no list of jobs.
    """
    from folt.fleet import Job

    found = things_at(place, "a list of jobs")
    if isinstance(found, Job | str | dict) or not isinstance(found, Iterable):
        raise ValueError(
            f"expected {place} to be a list of folt.fleet.Job or a function without arguments that "
            f"returns one, got {type(found).__name__}"
        )
    source = place.rpartition(":")[0]
    return in_user_code(f"the jobs of {place}", source, lambda: list(found))


def runner_for(workers: int | None, scheduler: str | None, *, here: bool = False) -> Runner:
    """The runner that the options ask for.

    Args:
        workers: processes of this machine.
        scheduler: address of a cluster.
        here: whether without either everything stays in this process.

    Raises:
        ValueError: both are given, nobody answers there, or Dask is not installed.
    """
    from folt.fleet import Here
    from folt.fleet.many import runner_for as chosen

    if workers is not None and scheduler is not None:
        raise ValueError("expected --workers or --scheduler, one of them")
    if scheduler is not None:
        return at_address(scheduler)
    return Here() if here and workers is None else chosen(None, workers, None)


def at_address(address: str) -> Runner:
    """A cluster that runs already."""
    from folt.fleet.on_dask import AtAddress
    from folt.store.packages import require

    require("a cluster", "cloudpickle", "distributed")

    return AtAddress(address)


def counts(rows: list[Row]) -> dict[str, int]:
    """How many jobs there were, how many failed, how many started warm."""
    return {
        "jobs": len(rows),
        "failed": sum(row["error"] is not None for row in rows),
        "warm": sum(row.get("started_from") is not None for row in rows),
    }


def words(rows: list[Row]) -> str:
    """The same in a line, and the first error."""
    found = counts(rows)
    line = f"{found['jobs']} jobs, {found['failed']} failed, {found['warm']} started warm."
    first = next((row for row in rows if row["error"] is not None), None)
    return line if first is None else f"{line} The first: {first['job']}: {first['error']}"
