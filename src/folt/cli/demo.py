"""`folt demo`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from shlex import quote

import typer

from folt.terminal import Effort, Json, Out, Quiet, Seed, print_fit

BEFORE = """\
Three Gaussians behind 500 observations: the posterior has 3! = 6 equal modes,
one for each way to number them. folt folds it onto one of them, learns a
proposal, samples, and certifies the draws. It takes some ten seconds.
"""


def demo(
    out: Out = Path("demo"),
    seed: Seed = 0,
    effort: Effort = "default",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fold, sample and certify a three-component mixture; write the fit, a report and figures.

    It takes some ten seconds for the fit and as long for figures; a second run is quicker.

    Examples:
        folt demo
        folt demo --out look --seed 7
    """
    talk = not quiet and not as_json
    from folt.store import Store

    with Store(out) as store:
        if talk:
            typer.echo(BEFORE)
        from folt.cli.demonstration import run_in, write_model

        fit, files = run_in(store, seed, not quiet, effort)
        files += write_model(out)
    print_fit("demo", fit, files, as_json, quiet)
    if talk:
        typer.echo(_after(out))


def _program() -> str:
    """Return the name of this command, or its path where that is not searched."""
    own = Path(sys.argv[0])
    if own.name != "folt" or shutil.which("folt"):
        return "folt"
    return quote(os.path.relpath(own))


def _after(out: Path) -> str:
    """Return where to look, and commands that work as they stand."""
    folt, model, data = _program(), quote(str(out / "model.py")), quote(str(out / "data.csv"))
    commands = {
        f"{folt} mixture {data} --components 2:4": "how many components?",
        f"{folt} sample {model}:problem": "the same as a model of your own: edit it",
        f"{folt} --help": "everything else",
    }
    width = max(map(len, commands))
    lines = [f"  {command:<{width}}   # {why}" for command, why in commands.items()]
    return "\n".join([f"\nOpen {out / 'report.html'} in a browser. Then try", *lines])
