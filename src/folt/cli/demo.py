"""`folt demo`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from shlex import quote

import typer

from folt.cli.terminal import (
    EffortName,
    EffortOption,
    Json,
    Out,
    Quiet,
    Seed,
    console,
    fit_fields,
    print_json,
    show,
)

BEFORE = """\
Three Gaussians behind 500 observations: the posterior has 3! = 6 equal modes,
one for each way to number them. folt folds it onto one of them, learns a
proposal, samples, and certifies the draws. It takes some ten seconds.
"""

DEMO_EXAMPLES = """\
folt demo
folt demo --out look --seed 7"""


def demo(
    out: Out = Path("demo"),
    seed: Seed = 0,
    effort: EffortOption = EffortName.default,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fold, sample and certify a three-component mixture; write the fit, a report and figures.

    It takes some ten seconds for the fit and as long for figures; a second run is quicker.
    """
    talk = not quiet and not as_json
    from folt.store import Store

    with Store(out) as store:
        if talk:
            typer.echo(BEFORE)
        from folt.cli.demonstration import run_in, write_model

        result = run_in(store, seed, progress=not quiet, effort=effort.chosen())
        files = [*result.files.values(), *write_model(out)]
    if as_json:
        print_json("demo", files, fit_fields(result.fit))
    elif talk:
        show(console(), result.fit, files)
        typer.echo(_after(out, result.files["report"]))


def _program() -> str:
    """How this very command is called: by its name, or by its path where that is not searched."""
    own = Path(sys.argv[0])
    if own.name != "folt" or shutil.which("folt"):
        return "folt"
    return quote(os.path.relpath(own))


def _after(out: Path, report: Path) -> str:
    """Where to look, and commands that work as they stand."""
    folt, model, data = _program(), quote(str(out / "model.py")), quote(str(out / "data.csv"))
    commands = {
        f"{folt} mixture {data} --components 2:4": "how many components?",
        f"{folt} sample {model}:problem": "the same as a model of your own: edit it",
        f"{folt} --help": "everything else",
    }
    width = max(map(len, commands))
    lines = [f"  {command:<{width}}   # {why}" for command, why in commands.items()]
    return "\n".join([f"\nOpen {report} in a browser. Then try", *lines])
