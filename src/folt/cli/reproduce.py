"""`folt reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from folt.cli.fleet import Scheduler, Workers, chosen_runner
from folt.cli.terminal import (
    EffortName,
    EffortOption,
    Json,
    Out,
    Quiet,
    Seed,
    console,
    print_json,
    wrote,
)

REPRODUCE_EXAMPLES = """\
folt reproduce all --quick --out look
folt reproduce label-switching --seeds 1 --workers 4 --out results
folt reproduce modal --data typhoon_psd.csv --preset paper --out results"""


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
    preset: Annotated[str, typer.Option(help="Protocol: default or paper.")] = "default",
    effort: EffortOption = EffortName.thorough,
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
    """
    from folt.paper import tables_named
    from folt.sampling.options import require_preset

    tables = tables_named(name)
    require_preset(preset)
    from folt.paper.rows import ReproductionSettings
    from folt.paper.runner import reproduce as run_tables

    settings = ReproductionSettings(
        preset=cast(Literal["default", "paper"], preset),
        quick=quick,
        seed=seed,
        seeds=seeds if seeds is not None else 1 if quick else 3,
        identity_orbit=identity_orbit,
        data=data,
        effort=effort.value,
    )
    runner = chosen_runner(workers, scheduler, here=True)
    files = run_tables(tables, settings, out, runner=runner, show=not quiet)
    if as_json:
        print_json("reproduce", files, {"tables": [table.name for table in tables]})
    elif not quiet:
        wrote(console(), files)
