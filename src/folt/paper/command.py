"""`folt reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from folt.terminal import (
    Effort,
    Json,
    Out,
    Preset,
    Quiet,
    Scheduler,
    Seed,
    Workers,
    chosen_runner,
    print_json,
    wrote,
)


def reproduce_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="banana, dimension, label-switching, baselines, bayes-mixture, modal, "
            "conditions, schematic, or all of them: all.",
            show_default=False,
        ),
    ],
    out: Out = Path("results"),
    preset: Preset = "default",
    effort: Effort = "thorough",
    seed: Seed = 0,
    seeds: Annotated[
        int | None, typer.Option(help="Runs of every folded case [3, or 1 if quick].", min=1)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few cases and draws: a look.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="A measured spectrum for modal: columns frequency_hz,psd."),
    ] = None,
    identity_orbit: Annotated[
        bool,
        typer.Option("--identity-orbit", help="Truncate the orbit, as the published tables do."),
    ] = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a table of the paper; write its rows, ours beside the published figures, and figures.

    Finished rows are kept: repeat the command to go on after an interruption. The JSON document
    names the files; the rows are in NAME.json.

    Examples:
        folt reproduce all --quick --out look
        folt reproduce label-switching --seeds 1 --workers 4 --out results
        folt reproduce modal --data typhoon_psd.csv --preset paper --out results
    """
    from folt.paper import tables_named
    from folt.paper.rows import ReproductionSettings
    from folt.paper.runner import reproduce

    tables = tables_named(name)

    settings = ReproductionSettings(
        preset=preset,
        quick=quick,
        seed=seed,
        seeds=seeds if seeds is not None else 1 if quick else 3,
        identity_orbit=identity_orbit,
        data=data,
        effort=effort,
    )
    runner = chosen_runner(workers, scheduler, here=True)
    files = reproduce(tables, settings, out, runner=runner, show=not quiet)
    if as_json:
        print_json("reproduce", files, {"tables": [table.name for table in tables]})
    elif not quiet:
        wrote(files)
