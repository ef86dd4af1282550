"""`folt relabel`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.terminal import Json, Out, Quiet, console, print_json, wrote

if TYPE_CHECKING:
    from rich.table import Table

    from folt.interop.relabelling import Relabelled


RELABEL_EXAMPLES = """\
folt relabel posterior.nc --vars mu,sigma,w --out relabelled
folt relabel posterior.nc --vars mu,w --method sort --sort-by mu
folt relabel hidden_markov.nc --vars mu,start --square transitions --json"""


class _Method(StrEnum):
    """The method by which labels are chosen."""

    auto = "auto"
    sort = "sort"
    pivot = "pivot"
    gaussian = "gaussian"
    stephens = "stephens"
    ecr = "ecr"


_Posterior = Annotated[
    Path,
    typer.Argument(
        metavar="POSTERIOR.nc",
        help="Draws as ArviZ netCDF, from PyMC, NumPyro, Stan or folt.",
        show_default=False,
    ),
]

Names = Annotated[
    str,
    typer.Option("--vars", help="Variables permuted together: mu,sigma,w.", show_default=False),
]


def relabel_command(
    posterior: _Posterior,
    names: Names,
    method: Annotated[
        _Method, typer.Option(help="The method by which labels are chosen.")
    ] = _Method.auto,
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
    """
    from folt.fit.serial import netcdf_bytes
    from folt.interop.relabelling.inference_data import (
        read_posterior,
        relabel_posterior,
        relabelling_account,
    )
    from folt.interop.relabelling.relabel import METHODS
    from folt.report.saving import claim, keep_first, request_for
    from folt.report.style import png
    from folt.report.traces import relabelled_figure
    from folt.store import Store, digest_of_file

    data = read_posterior(posterior)
    chosen = _split(names)
    relabelled, done = relabel_posterior(
        data,
        chosen,
        method=METHODS.get(method.value),
        sort_by=sort_by,
        square=_split(square),
        probabilities=probabilities,
        allocations=allocations,
    )
    shown = sort_by or chosen[0]
    draws = netcdf_bytes(relabelled)

    def picture() -> dict[str, bytes]:
        before = data["posterior"][shown].values
        return {"relabelled.png": png(relabelled_figure(before, done.draws[shown], shown))}

    read = digest_of_file(posterior)
    request = request_for("relabel", posterior=read, names=chosen, method=method.value)
    with Store(out) as store:
        entry = store.entry()
        claim(entry, request)
        files = keep_first(entry, request, {"relabelled.nc": draws}, picture)
    if as_json:
        print_json("relabel", files, relabelling_account(done))
    elif not quiet:
        _say(done, files)


def _say(done: Relabelled, files: Sequence[Path]) -> None:
    """What was done and where it is, on the screen."""
    screen = console()
    screen.print(_table(done))
    settled = "settled" if done.settled else "not settled"
    typer.echo(
        f"\n{done.method}: {100 * done.moved:.1f} % of the draws were permuted, {settled} "
        f"after {done.rounds} rounds.\nLabels are consistent now; whether the chain visited "
        "the whole posterior is another question.\n"
    )
    wrote(screen, files)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _table(done: Relabelled) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("parameter")
    for heading in ("R-hat before", "after", "effective before", "after"):
        table.add_column(heading, justify="right")
    for row in done.health:
        table.add_row(
            row.name,
            f"{row.rhat_before:.3f}",
            f"{row.rhat_after:.3f}",
            f"{row.ess_before:.0f}",
            f"{row.ess_after:.0f}",
        )
    return table
