"""`folt certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from folt.cli.sample import Labels, StanData
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
from folt.cli.user_code import is_stan, prints_aside, problem_at

EXAMPLES = """\
folt certify posterior.nc model.py:problem --out certified
folt certify posterior.nc package.models:make --json > certified.json
folt certify 'output_*.csv' model.stan --data data.json"""


def certify(
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
    from folt.report.kept import claim, files_of, keep_fit, request_for
    from folt.sampling.certification import certify as run_certify
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
        files = keep_fit(entry, request, fit, files_of)
    if as_json:
        print_json("certify", files, fit_fields(fit))
    elif not quiet:
        show(console(), fit, files)
