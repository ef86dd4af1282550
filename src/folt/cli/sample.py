"""`folt sample` and `folt certify`: a fit of a problem in your file, or of draws you have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.user_code import is_stan, prints_aside, problem_at
from folt.terminal import (
    Chains,
    Draws,
    Effort,
    Json,
    Labels,
    Out,
    Preset,
    Quiet,
    Seed,
    print_fit,
    results_in,
)

if TYPE_CHECKING:
    from folt.store.strict_json import Document


StanData = Annotated[
    Path | None,
    typer.Option("--data", help="Data of a Stan program, in JSON.", show_default=False),
]


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
    chains: Chains = 4,
    draws: Draws = None,
    labels: Labels = "sorted",
    effort: Effort = "default",
    evaluations: Annotated[
        int | None,
        typer.Option(help="Log densities that the fit may take, about.", min=1, show_default=False),
    ] = None,
    preset: Preset = "default",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sample a problem of your own; write the fit and its report.

    The JSON document holds what every fit has: verdict, estimates, log_evidence, certificate,
    warnings, wall_s, evaluations.

    Examples:
        folt sample model.py:problem --out results
        folt sample package.models:make --draws 20000 --chains 8 --seed 3
        folt sample model.py:problem --json > result.json
        folt sample model.stan --data data.json
    """
    from folt.report.saving import files_of, from_source, keep_fit
    from folt.sampling import sample
    from folt.training.effort import EFFORTS

    found = problem_at(problem, data)
    options: Document = {"seed": seed, "chains": chains, "draws": draws}
    options |= {"labels": labels, "preset": preset, "evaluations": evaluations}
    chosen = None if preset == "paper" else effort
    asked = {"model": problem, **options, "data": data and str(data), "effort": chosen}
    for name in ("data", "effort", "evaluations"):  # what is not given is not asked for
        if asked[name] is None:
            del asked[name]
    with results_in(out, "sample", asked) as (entry, request):
        with prints_aside():
            made = chosen and EFFORTS[chosen]()
            fit = sample(found, **options, effort=made, progress=not quiet)
        fit = from_source(fit, Path(problem).name)
        files = keep_fit(entry, request, fit, files_of)
    print_fit("sample", fit, files, as_json, quiet)


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
    labels: Labels = "sorted",
    effort: Effort = "default",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Certify draws you have: relabel them, judge them, add the evidence.

    Chains stuck in different labellings are welcome. The JSON document is that of `folt sample`.

    Examples:
        folt certify posterior.nc model.py:problem --out certified
        folt certify posterior.nc package.models:make --json > certified.json
        folt certify 'output_*.csv' model.stan --data data.json
    """
    from folt.report.saving import files_of, from_source, keep_fit
    from folt.sampling import certify
    from folt.store.draws import draws_by_name
    from folt.training.effort import EFFORTS

    draws = draws_by_name(posterior)
    found = problem_at(problem, data)
    if is_stan(problem):
        from folt.interop.stan_files import require_draws_of

        require_draws_of(found, posterior)
    options: Document = {"seed": seed, "labels": labels}
    asked = {"model": problem, "draws": str(posterior), **options, "effort": effort}
    asked |= {} if data is None else {"data": str(data)}
    with results_in(out, "certify", asked) as (entry, request):
        with prints_aside():
            made = EFFORTS[effort]()
            fit = certify(found, draws, **options, effort=made, progress=not quiet)
        fit = from_source(fit, f"{posterior.name}, {Path(problem).name}")
        files = keep_fit(entry, request, fit, files_of)
    print_fit("certify", fit, files, as_json, quiet)
