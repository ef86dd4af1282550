"""`folt fleet` and `folt calibrate`: many fits of your own, and whether they are calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.user_code import in_user_code, things_at
from folt.terminal import (
    EffortName,
    Json,
    Out,
    Quiet,
    Scheduler,
    Seed,
    Workers,
    chosen_runner,
    console,
    plain_table,
    print_json,
    wrote,
)

if TYPE_CHECKING:
    from folt.fleet.calibration import Calibration


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

    Examples:
        folt fleet jobs.py:jobs --out results
        folt fleet jobs.py:jobs --out results --workers 8 --timeout 600
        folt fleet jobs.py:jobs --out /shared/results --scheduler tcp://10.0.0.1:8786
    """
    from folt.fleet import Job
    from folt.fleet.many import run_jobs

    found = things_at(jobs, "a list of jobs")
    if isinstance(found, Job | str | dict) or not isinstance(found, Iterable):
        raise ValueError(
            f"expected {jobs} to be a list of folt.fleet.Job or a function without arguments that "
            f"returns one, got {type(found).__name__}"
        )
    source = jobs.rpartition(":")[0]
    rows = run_jobs(
        in_user_code(f"the jobs of {jobs}", source, lambda: list(found)),
        out,
        chosen_runner(workers, scheduler),
        retries=retries,
        timeout=timeout,
        resume=resume,
        progress=not quiet,
    )
    files = [out / "table.csv", out / "index.html"]
    failed = [row for row in rows if row["error"] is not None]
    warm = sum(row.get("started_from") is not None for row in rows)
    if as_json:
        counts = {"jobs": len(rows), "failed": len(failed), "warm": warm}
        print_json("fleet", files, {**counts, "rows": rows})
    elif not quiet:
        line = f"{len(rows)} jobs, {len(failed)} failed, {warm} started warm."
        first = f" The first: {failed[0]['job']}: {failed[0]['error']}" if failed else ""
        typer.echo(line + first)
        wrote(files)


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

    Examples:
        folt calibrate model.py:study --out calibration
        folt calibrate model.py:study --simulations 500 --workers 8 --out calibration
    """
    from folt.fleet.calibration import Study, calibrate
    from folt.training.effort import EFFORTS

    found = things_at(study, "a study")
    if not isinstance(found, Study):
        raise ValueError(
            f"expected {study} to be a folt.fleet.Study or a function without arguments that "
            f"returns one, got {type(found).__name__}"
        )
    fit = found.fit
    if effort is not None:
        if not isinstance(fit, Mapping):
            raise ValueError("--effort goes with a study whose fit= are options of folt.sample")
        fit = {**fit, "effort": EFFORTS[effort]()}
    result = calibrate(
        found.simulate,
        fit,
        found.parameters,
        found.simulations if simulations is None else simulations,
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
        wrote(files)


def _show(found: Calibration) -> None:
    """Print a line per quantity, and how far the evidence is from the truth."""
    table = plain_table(["quantity"], ["p, ranks", "in the band", "50 %", "90 %", "95 %"])
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
