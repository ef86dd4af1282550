"""`folt reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from folt.commands.terminal import Quiet, Seed, folder, remember_compilations


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="banana, dimension, label-switching, baselines, bayes-mixture, modal, "
            "conditions, schematic, or all of them: all.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder; rows that are there stay.")] = Path("results"),
    preset: Annotated[str, typer.Option(help="Protocol: default or paper.")] = "default",
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
    quiet: Quiet = False,
) -> None:
    """Run a table of the paper; write its rows, ours beside the published figures, and figures."""
    from folt.experiments import tables_named
    from folt.presets import preset_named

    tables = tables_named(name)
    preset_named(preset)
    remember_compilations()
    from folt.experiments.runner import reproduce as run_tables
    from folt.experiments.settings import Settings

    settings = Settings(
        preset=cast(Literal["default", "paper"], preset),
        quick=quick,
        seed=seed,
        seeds=seeds if seeds is not None else 1 if quick else 3,
        identity_orbit=identity_orbit,
        data=data,
    )
    with folder(out):
        files = run_tables(tables, settings, out, show=not quiet)
    if not quiet:
        typer.echo("\n".join(f"Wrote {path}" for path in files))
