"""`folt sample` and `folt certify`: a fit of a problem in your file, or of draws you have."""

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
from folt.cli.user_code import is_stan, prints_aside, problem_at

SAMPLE_EXAMPLES = """\
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


def sample_command(
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
    from folt.report.saving import claim, files_of, from_source, keep_fit, request_for
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
        fit = from_source(fit, Path(problem).name)
        files = keep_fit(entry, request, fit, files_of)
    if as_json:
        print_json("sample", files, fit_fields(fit))
    elif not quiet:
        show(console(), fit, files)


CERTIFY_EXAMPLES = """\
folt certify posterior.nc model.py:problem --out certified
folt certify posterior.nc package.models:make --json > certified.json
folt certify 'output_*.csv' model.stan --data data.json"""


def certify_command(
    posterior: Annotated[
        Path,
        typer.Argument(
            metavar="DRAWS",
            help="Draws, matched by name: ArviZ netCDF from PyMC, NumPyro or Stan, or CmdStan's "
            "CSV files as a folder or a quoted pattern.",
            show_default=False,
        ),
    ],
    problem: Annotated[
        str,
        typer.Argument(
            metavar="MODEL:PROBLEM|MODEL.stan",
            help="The Problem they are draws of: model.py:problem or package.module:make; or "
            "a Stan program, model.stan.",
            show_default=False,
        ),
    ],
    data: StanData = None,
    out: Out = Path("folt-certified"),
    seed: Seed = 0,
    labels: Annotated[Labels, typer.Option(help="How components are numbered.")] = Labels.sorted,
    effort: EffortOption = EffortName.default,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Certify draws you have: relabel them, judge them, add the evidence.

    Chains stuck in different labellings are welcome. The JSON document is that of `folt sample`.
    """
    from folt.report.saving import claim, files_of, from_source, keep_fit, request_for
    from folt.sampling import certify as run_certify
    from folt.store import Store
    from folt.store.draws import draws_by_name

    draws = draws_by_name(posterior)
    found = problem_at(problem, data)
    if is_stan(problem):
        from folt.interop.stan_files import require_draws_of

        require_draws_of(found, posterior)
    request = request_for(
        "certify",
        model=problem,
        draws=str(posterior),
        **({} if data is None else {"data": str(data)}),
        seed=seed,
        labels=labels.value,
        effort=effort.value,
    )
    with Store(out) as store:
        entry = store.entry()
        claim(entry, request)
        with prints_aside():
            fit = run_certify(
                found,
                draws,
                seed=seed,
                effort=effort.chosen(),
                labels=labels.value,
                progress=not quiet,
            )
        fit = from_source(fit, f"{posterior.name}, {Path(problem).name}")
        files = keep_fit(entry, request, fit, files_of)
    if as_json:
        print_json("certify", files, fit_fields(fit))
    elif not quiet:
        show(console(), fit, files)
