"""`folt calibrate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.fleet import Scheduler, Workers, runner_for
from folt.cli.terminal import EffortName, Json, Out, Quiet, Seed, console, print_json, wrote
from folt.cli.user_code import things_at

if TYPE_CHECKING:
    from folt.fleet.calibration import Calibration, Study

EXAMPLES = """\
folt calibrate model.py:study --out calibration
folt calibrate model.py:study --simulations 500 --workers 8 --out calibration"""


def calibrate(
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
    """
    from folt.fleet.calibration import calibrate as run_calibration

    found = _asked(study_at(study), simulations, effort)
    result = run_calibration(
        found.simulate,
        found.fit,
        found.parameters,
        found.simulations,
        out=out,
        seed=seed,
        title=found.title or study,
        runner=runner_for(workers, scheduler),
        timeout=timeout,
        progress=not quiet,
    )
    files = [out / name for name in ("calibration.html", "calibration.json", "table.csv")]
    if as_json:
        print_json("calibrate", files, result.to_dict())
    elif not quiet:
        _show(result)
        wrote(console(), files)


def study_at(place: str) -> Study:
    """The study that a place such as `model.py:study` names.

    Raises:
        ValueError: nothing there, or no study.
    """
    from folt.fleet.calibration import Study

    found = things_at(place, "a study")
    if not isinstance(found, Study):
        raise ValueError(
            f"expected {place} to be a folt.fleet.Study or a function without arguments that "
            f"returns one, got {type(found).__name__}"
        )
    return found


def _asked(study: Study, simulations: int | None, effort: EffortName | None) -> Study:
    """The study with what the command line says instead."""
    if effort is not None:
        if not isinstance(study.fit, Mapping):
            raise ValueError("--effort goes with a study whose fit= are options of folt.sample")
        study = dataclasses.replace(study, fit={**study.fit, "effort": effort.chosen()})
    return study if simulations is None else dataclasses.replace(study, simulations=simulations)


def _show(found: Calibration) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("quantity")
    for heading in ("p, ranks", "in the band", "50 %", "90 %", "95 %"):
        table.add_column(heading, justify="right")
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
