"""`folt report`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from folt.terminal import Json, Quiet, folder, print_fit, print_json


def report(
    fit: Annotated[
        Path,
        typer.Argument(
            metavar="FIT.nc",
            help="A fit file that folt wrote; with --all, the folder of a fleet or comparison.",
            show_default=False,
        ),
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Write the pages of all fits of a folder.")
    ] = False,
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
    """Write the report of a saved fit as one HTML page, or those of all fits of a folder.

    With --all every fit gets its page beside it, and the links of the folder's index.html lead
    there; pages that are newer than their fits stay as they are.

    The JSON document holds what every fit has: verdict, estimates, log_evidence, certificate,
    warnings, wall_s, evaluations.

    Examples:
        folt report demo/fit.nc
        folt report fit.nc --out pages/mixture.html
        folt report fit.nc --json > result.json
        folt report fleet --all
    """
    # A report draws nothing; every command takes a seed, so that scripts need no exception.
    del seed
    if every and out is not None:
        raise ValueError("with --all every page stands beside its fit: give no --out")
    if every:
        _every_page(fit, as_json, quiet)
        return
    if os.path.isdir(fit):  # false, not an error, where nobody may look
        raise ValueError(f"{fit} is a folder: give one of its fits, or --all for every one of them")
    from folt.fit.file import load
    from folt.store.files import make_folder, remove_empty

    target = _page_at(out, fit)
    loaded = load(fit)
    made = make_folder(target.parent)
    try:
        loaded.report(target)
    finally:
        remove_empty(made)
    print_fit("report", loaded, [target], as_json, quiet)


def _every_page(place: Path, as_json: bool, quiet: bool) -> None:
    """Write the page of every fit in the folders of a folder, and link the index to them."""
    from folt.fit.file import load
    from folt.report.fleet_page import linked_to_pages
    from folt.store import write_whole

    if not place.is_dir():
        raise ValueError(f"expected a folder with --all, got {place}")
    fits = sorted(place.glob("*/fit.nc"))
    if not fits:
        raise ValueError(f"{place} has no folders with a fit.nc, as those of a fleet are")
    pages = [fit.with_name("report.html") for fit in fits]
    for number, (fit, page) in enumerate(zip(fits, pages, strict=True), start=1):
        if not page.exists() or page.stat().st_mtime < fit.stat().st_mtime:
            load(fit).report(page)
            if not (quiet or as_json):
                typer.echo(f"{number}/{len(fits)}  {page}")
    index = place / "index.html"
    if index.is_file():
        write_whole(index, linked_to_pages(index.read_text("utf-8")).encode())
        pages.append(index)
    if as_json:
        print_json("report", pages, {"fits": [str(fit) for fit in fits]})
    elif not quiet:
        typer.echo(f"Pages of {len(fits)} fits are in {place}/*/report.html")


def _page_at(out: Path | None, fit: Path) -> Path:
    """Return where the page goes: to a file if its name says so, otherwise into a folder."""
    if out is None:
        return fit.with_suffix(".html")
    is_page = out.suffix.lower() in (".html", ".htm") and not out.is_dir()
    return out if is_page else out / "report.html"
