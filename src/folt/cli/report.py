"""`folt report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from folt.cli.terminal import Json, Quiet, console, fit_fields, folder, print_json, show

EXAMPLES = """\
folt report demo/fit.nc
folt report fit.nc --out pages/mixture.html
folt report fit.nc --json > result.json"""

PAGES = (".html", ".htm")


def report(
    fit: Annotated[
        Path,
        typer.Argument(metavar="FIT.nc", help="A fit file that folt wrote.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            parser=folder,
            metavar="PATH",
            help="The page, or a folder for it; beside the fit if not given.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(hidden=True, min=0)] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a saved fit as one HTML page.

    The JSON document holds what every fit has: verdict, estimates, log_evidence, certificate,
    warnings, wall_s, evaluations.
    """
    # A report draws nothing; every command takes a seed, so that scripts need no exception.
    del seed
    from folt.fit.file import load
    from folt.store.files import make_folder, remove_empty

    target = page_at(out, fit)
    loaded = load(fit)
    made = make_folder(target.parent)
    try:
        loaded.report(target)
    finally:
        remove_empty(made)
    if as_json:
        print_json("report", [target], fit_fields(loaded))
    elif not quiet:
        show(console(), loaded, [target])


def page_at(out: Path | None, fit: Path) -> Path:
    """Where the page goes: a file if its name says so, otherwise into a folder."""
    if out is None:
        return fit.with_suffix(".html")
    if out.suffix.lower() in PAGES and not out.is_dir():
        return out
    return out / "report.html"
