"""`folt sample`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from folt.cli.terminal import (
    Draws,
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
from folt.cli.user_code import prints_aside, problem_at

EXAMPLES = """\
folt sample model.py:problem --out results
folt sample package.models:make --draws 20000 --chains 8 --seed 3
folt sample model.py:problem --json > result.json
folt sample model.stan --data data.json"""


StanData = Annotated[
    Path | None,
    typer.Option("--data", help="Data of a Stan program, in JSON.", show_default=False),
]


class Labels(StrEnum):
    """The order in which components are numbered."""

    sorted = "sorted"
    proposal = "proposal"


class PresetName(StrEnum):
    """The protocol of a fit, by name."""

    default = "default"
    paper = "paper"


def sample(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="MODEL:PROBLEM|MODEL.stan",
            help="A Problem, or a function without arguments that returns one, in a file or "
            "module: model.py:problem or package.module:make; or "
            "a Stan program, model.stan.",
            show_default=False,
        ),
    ],
    data: StanData = None,
    out: Out = Path("folt-results"),
    seed: Seed = 0,
    chains: Annotated[int, typer.Option(help="Independent chains.", min=1)] = 4,
    draws: Draws = None,
    labels: Annotated[
        Labels, typer.Option(help="The order in which components are numbered.")
    ] = Labels.sorted,
    effort: EffortOption = EffortName.default,
    evaluations: Annotated[
        int | None,
        typer.Option(help="Log densities that the fit may take, about.", min=1, show_default=False),
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="Protocol.")] = PresetName.default,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sample a problem of your own; write the fit and its report.

    The JSON document holds what every fit has: verdict, estimates, log_evidence, certificate,
    warnings, wall_s, evaluations.
    """
    from folt.report.kept import claim, files_of, keep_fit, request_for
    from folt.sampling import sample as run_sample
    from folt.store import Store

    found = problem_at(problem, data)
    options = {"seed": seed, "chains": chains, "draws": draws}
    paper = preset is PresetName.paper
    protocol = {"labels": labels.value, "preset": preset.value}
    protocol |= {} if paper else {"effort": effort.value}
    given: dict[str, object] = {} if data is None else {"data": str(data)}
    given |= {} if evaluations is None else {"evaluations": evaluations}
    request = request_for("sample", model=problem, **given, **options, **protocol)
    with Store(out) as store:
        entry = store.entry()
        claim(entry, request)
        with prints_aside():
            fit = run_sample(
                found,
                seed=seed,
                chains=chains,
                draws=draws,
                labels=labels.value,
                effort=None if paper else effort.chosen(),
                preset=preset.value,
                evaluations=evaluations,
                progress=not quiet,
            )
        files = keep_fit(entry, request, fit, files_of)
    if as_json:
        print_json("sample", files, fit_fields(fit))
    elif not quiet:
        show(console(), fit, files)
