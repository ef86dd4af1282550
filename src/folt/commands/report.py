"""`folt report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from folt.commands.terminal import Quiet, console, folder, show


def report(
    fit: Annotated[
        Path,
        typer.Argument(metavar="FIT.nc", help="A fit file that folt wrote.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page; beside the fit if not given.", metavar="FILE")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a saved fit as one HTML page."""
    from folt.report.store import load

    target = out if out is not None else fit.with_suffix(".html")
    if target.is_dir():
        target = target / "report.html"
    loaded = load(fit)
    with folder(target.parent):
        loaded.report(target)
    if not quiet:
        show(console(), loaded, [target])
