"""`folt relabel`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from folt.terminal import (
    Json,
    Out,
    Quiet,
    console,
    names_in,
    plain_table,
    print_json,
    results_in,
    wrote,
)


def relabel_command(
    posterior: Annotated[
        Path,
        typer.Argument(
            metavar="POSTERIOR.nc",
            help="Draws as ArviZ netCDF, from PyMC, NumPyro, Stan or folt.",
            show_default=False,
        ),
    ],
    names: Annotated[
        str,
        typer.Option("--vars", help="Variables permuted together: mu,sigma,w.", show_default=False),
    ],
    method: Annotated[
        Literal["auto", "sort", "pivot", "gaussian", "stephens", "ecr"],
        typer.Option(help="The method by which labels are chosen."),
    ] = "auto",
    sort_by: Annotated[
        str | None, typer.Option(help="Variable to sort by; the first one if not given.")
    ] = None,
    square: Annotated[
        str, typer.Option(help="Matrices permuted on both sides, such as transitions.")
    ] = "",
    probabilities: Annotated[
        str | None, typer.Option(help="Allocation probabilities, for Stephens' method.")
    ] = None,
    allocations: Annotated[str | None, typer.Option(help="Allocations, for ECR.")] = None,
    out: Out = Path("folt-relabelled"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Give the components of existing draws consistent labels; write them and a picture.

    Draws are permuted, never averaged or lost. Nothing here is random.

    The JSON document has method, rounds, settled, moved (share of draws permuted), and health, a
    list with name, rhat_before, rhat_after, ess_before and ess_after of every scalar.

    Examples:
        folt relabel posterior.nc --vars mu,sigma,w --out relabelled
        folt relabel posterior.nc --vars mu,w --method sort --sort-by mu
        folt relabel hidden_markov.nc --vars mu,start --square transitions --json
    """
    from folt.fit.serial import netcdf_bytes
    from folt.interop.relabelling.inference_data import (
        read_posterior,
        relabel_posterior,
        relabelling_account,
    )
    from folt.interop.relabelling.relabel import METHODS
    from folt.report.saving import keep_first
    from folt.report.style import png
    from folt.report.traces import relabelled_figure
    from folt.store import digest_of_file

    data = read_posterior(posterior)
    chosen = names_in(names)
    relabelled, done = relabel_posterior(
        data,
        chosen,
        method=METHODS.get(method),
        sort_by=sort_by,
        square=names_in(square),
        probabilities=probabilities,
        allocations=allocations,
    )

    def picture() -> dict[str, bytes]:
        shown = sort_by or chosen[0]
        before = data["posterior"][shown].values
        return {"relabelled.png": png(relabelled_figure(before, done.draws[shown], shown))}

    draws = netcdf_bytes(relabelled)
    asked = {"posterior": digest_of_file(posterior), "names": chosen, "method": method}
    with results_in(out, "relabel", asked) as (entry, request):
        files = keep_first(entry, request, {"relabelled.nc": draws}, picture)
    if as_json:
        print_json("relabel", files, relabelling_account(done))
    elif not quiet:
        table = plain_table(["parameter"], ["R-hat before", "after", "effective before", "after"])
        for row in done.health:
            rhats = f"{row.rhat_before:.3f}", f"{row.rhat_after:.3f}"
            table.add_row(row.name, *rhats, f"{row.ess_before:.0f}", f"{row.ess_after:.0f}")
        console().print(table)
        settled = "settled" if done.settled else "not settled"
        typer.echo(
            f"\n{done.method}: {100 * done.moved:.1f} % of the draws were permuted, {settled} "
            f"after {done.rounds} rounds.\nLabels are consistent now; whether the chain visited "
            "the whole posterior is another question.\n"
        )
        wrote(files)
