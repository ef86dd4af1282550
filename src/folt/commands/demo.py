"""`folt demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from folt.commands.terminal import Quiet, Seed, console, folder, remember_compilations, show


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fold, sample and certify a three-component mixture; write the fit, a report and figures."""
    with folder(out):
        if not quiet:
            typer.echo("A mixture of three Gaussians, 500 observations, 3! = 6 equal labellings.\n")
        remember_compilations()
        from folt.demo import run as run_demo

        result = run_demo(out, seed, progress=not quiet)
    if not quiet:
        show(console(), result.fit, list(result.files.values()))
        typer.echo(
            f"\nOpen {result.files['report']} in a browser. Then write a folt.Problem of your own "
            "in model.py and run\n  folt sample model.py:problem --out results"
        )
