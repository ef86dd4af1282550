"""`folt fleet`.

`folt calibrate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.terminal import EffortName, Json, Out, Quiet, Seed, console, print_json, wrote
from folt.cli.user_code import in_user_code, things_at

if TYPE_CHECKING:
    from folt.fleet import Job, Runner
    from folt.fleet.calibration import Calibration, Study
    from folt.fleet.rows import Row


FLEET_EXAMPLES = """\
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
        chosen_runner(workers, scheduler),
        retries=retries,
        timeout=timeout,
        resume=resume,
        progress=not quiet,
    )
    files = [out / "table.csv", out / "index.html"]
    if as_json:
        print_json("fleet", files, {**_counts(rows), "rows": rows})
    elif not quiet:
        typer.echo(words(rows))
        wrote(console(), files)


def jobs_at(place: str) -> list[Job]:
    """Return the jobs that a place such as `jobs.py:jobs` names.

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


def chosen_runner(workers: int | None, scheduler: str | None, *, here: bool = False) -> Runner:
    """Return the runner that the options ask for.

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
    """Return a cluster that runs already."""
    from folt.fleet.on_dask import AtAddress
    from folt.store.packages import require

    require("a cluster", "cloudpickle", "distributed")

    return AtAddress(address)


def _counts(rows: list[Row]) -> dict[str, int]:
    """Return how many jobs there were, how many failed, how many started warm."""
    return {
        "jobs": len(rows),
        "failed": sum(row["error"] is not None for row in rows),
        "warm": sum(row.get("started_from") is not None for row in rows),
    }


def words(rows: list[Row]) -> str:
    """Return the same in a line, and the first error."""
    found = _counts(rows)
    line = f"{found['jobs']} jobs, {found['failed']} failed, {found['warm']} started warm."
    first = next((row for row in rows if row["error"] is not None), None)
    return line if first is None else f"{line} The first: {first['job']}: {first['error']}"


CALIBRATE_EXAMPLES = """\
folt calibrate model.py:study --out calibration
folt calibrate model.py:study --simulations 500 --workers 8 --out calibration"""


def calibrate_command(
    study: Annotated[
        str,
        typer.Argument(
            metavar="MODEL:STUDY",
            help="A folt.fleet.Study, or a function without arguments that returns one: "
            "model.py:study or package.module:make.",
            show_default=False,
        ),
    ],
    out: Out = Path("folt-calibration"),
    simulations: Annotated[
        int | None, typer.Option(help="How many; what the study says if not given.", min=2)
    ] = None,
    seed: Seed = 0,
    effort: Annotated[
        EffortName | None,
        typer.Option("--effort", help="What a fit may cost; what the study says if not given."),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that one simulation may take.", min=0.001)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a model with its sampler by simulation: are intervals as wide as they should be?

    Finished simulations are kept: repeat the command to go on after an interruption. The JSON
    document is calibration.json.
    """
    from folt.fleet.calibration import calibrate as run_calibration

    found = _asked(study_at(study), simulations, effort)
    result = run_calibration(
        found.simulate,
        found.fit,
        found.parameters,
        found.simulations,
        out=out,
        seed=seed,
        title=found.title or study,
        runner=chosen_runner(workers, scheduler),
        timeout=timeout,
        progress=not quiet,
    )
    files = [out / name for name in ("calibration.html", "calibration.json", "table.csv")]
    if as_json:
        print_json("calibrate", files, result.to_dict())
    elif not quiet:
        _show(result)
        wrote(console(), files)


def study_at(place: str) -> Study:
    """Return the study that a place such as `model.py:study` names.

    Raises:
        ValueError: nothing there, or no study.
    """
    from folt.fleet.calibration import Study

    found = things_at(place, "a study")
    if not isinstance(found, Study):
        raise ValueError(
            f"expected {place} to be a folt.fleet.Study or a function without arguments that "
            f"returns one, got {type(found).__name__}"
        )
    return found


def _asked(study: Study, simulations: int | None, effort: EffortName | None) -> Study:
    """Return the study with what the command line says instead."""
    if effort is not None:
        if not isinstance(study.fit, Mapping):
            raise ValueError("--effort goes with a study whose fit= are options of folt.sample")
        study = dataclasses.replace(study, fit={**study.fit, "effort": effort.chosen()})
    return study if simulations is None else dataclasses.replace(study, simulations=simulations)


def _show(found: Calibration) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("quantity")
    for heading in ("p, ranks", "in the band", "50 %", "90 %", "95 %"):
        table.add_column(heading, justify="right")
    for one in found.quantities:
        shares = [f"{100 * share:.1f}" for share in one.coverage.values()]
        inside = "yes" if one.uniformity.inside else "no"
        table.add_row(one.name, f"{one.uniformity.p_value:.3f}", inside, *shares)
    screen = console()
    screen.print(f"{found.finished} simulations, {found.failed} failed.\n")
    screen.print(table, "")
    if found.evidence is not None:
        ratio = found.evidence
        screen.print(
            f"Mean ratio of evidence {ratio.mean:.3f} ± {ratio.standard_error:.3f}, "
            f"{ratio.score:.1f} standard errors from one.\n"
        )
