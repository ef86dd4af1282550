"""What every command shares: its options, the folder of its results, and what it prints.

With --json a command prints one strict JSON document on standard output. Every document has
`command`, `version` and `files` (paths written). A fit adds

    verdict       name, advice
    estimates     a list: name, mean, sd, low, high (95 %), ess, rhat
    log_evidence  value, standard_error, pareto_k, method, proportional (up to a constant that the
                  model leaves out): every labelling counted once
    certificate   accept; ess, rhat: the worst over the coordinates; qc: by protocol and rho, with
                  osc, gamma, core_gap, feasible, n; full_osc; mixing: steps by epsilon, confidence
    warnings      sentences about the reference run and the age of the certificate
    learnt        draws that the proposal has learnt from: how many, and a digest of them; the
                  file of the fit has a digest of each
    wall_s        seconds per stage
    evaluations   of the log density: value, gradient

What is infinite, infeasible or not a number is null. The commands add what is theirs: see the
docstring of each.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from folt.fit import Fit
    from folt.fleet import Runner
    from folt.store import Entry
    from folt.store.strict_json import Document


def folder(text: str | Path) -> Path:
    """Return the folder that an option names; the empty word, as of an unset variable, names none.

    Raises:
        BadParameter: the word is empty, or no name that a file can have.
    """
    if not str(text).strip() or "\0" in str(text):
        raise typer.BadParameter(f"expected the name of a folder or a file, got {str(text)!r}")
    return Path(text)


EffortName = Literal["quick", "default", "thorough"]

Out = Annotated[
    Path, typer.Option("--out", parser=folder, metavar="PATH", help="Folder for the results.")
]
Chains = Annotated[int, typer.Option("--chains", help="Independent chains.", min=1)]
Draws = Annotated[
    int | None,
    typer.Option(
        "--draws",
        help="Draws per chain; by default what a fifth of the fit's evaluations buys, 5000 to "
        "50000.",
        min=1,
        show_default=False,
    ),
]
Labels = Annotated[
    Literal["sorted", "proposal"], typer.Option("--labels", help="How components are numbered.")
]
Seed = Annotated[int, typer.Option("--seed", help="Same seed, same draws.", min=0, max=2**63 - 1)]
Effort = Annotated[
    EffortName,
    typer.Option("--effort", help="What the fit may cost; --quick is --effort quick."),
]
Preset = Annotated[Literal["default", "paper"], typer.Option("--preset", help="Protocol.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes on this machine, one thread each.", min=1),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="Address of a Dask cluster instead.", metavar="ADDRESS"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]

PAIR = "LOW:HIGH"
"""How the help writes an option that takes two numbers, as one word or as two."""


def names_in(text: str) -> list[str]:
    """Return the names in a text such as `mu,sigma,w`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers_of(what: str, text: str) -> range:
    """Return the numbers of components or modes that a text such as `3` or `2:6` names.

    Raises:
        ValueError: the text is another, or the largest number is more than folt can relabel.
    """
    from folt.groups.permutation import require_labels

    ends = re.fullmatch(r"\s*([0-9]{1,9})\s*(?::\s*([0-9]{1,9})\s*)?", text)
    low, high = (int(ends[1]), int(ends[2] or ends[1])) if ends else (0, 0)
    if not 1 <= low <= high:
        raise ValueError(
            f"expected --{what} with numbers such as 3 or 2:6, 1 ≤ LOW ≤ HIGH, got {text!r}"
        )
    require_labels(what, high)
    return range(low, high + 1)


def chosen_runner(workers: int | None, scheduler: str | None, *, here: bool = False) -> Runner:
    """Return the runner that the options ask for.

    Args:
        workers: number of processes on this machine.
        scheduler: address of a Dask cluster that runs already.
        here: whether without either everything stays in this process.

    Raises:
        ValueError: both are given, nobody answers there, or Dask is not installed.
    """
    from folt.fleet import Here
    from folt.fleet.many import runner_for
    from folt.store.packages import require

    if workers is not None and scheduler is not None:
        raise ValueError("expected --workers or --scheduler, one of them")
    if scheduler is not None:
        require("a cluster", "cloudpickle", "distributed")
        from folt.fleet.on_dask import AtAddress

        return AtAddress(scheduler)
    return Here() if here and workers is None else runner_for(None, workers, None)


@contextlib.contextmanager
def results_in(out: Path, command: str, asked: Document) -> Iterator[tuple[Entry, Document]]:
    """Open a folder that this process alone writes: its entry, and the request of the command.

    Raises:
        ValueError: the folder holds the result of another command.
    """
    from folt.report.saving import claim, request_for
    from folt.store import Store

    with Store(out) as store:
        entry, request = store.entry(), request_for(command, **asked)
        claim(entry, request)
        yield entry, request


def console() -> Console:
    """Return standard output: as wide as the terminal and coloured, plain and fixed when piped."""
    from rich.console import Console

    from folt.fit.text import SUMMARY_WIDTH

    console = Console(highlight=False)
    console.width = min(console.width, SUMMARY_WIDTH) if console.is_terminal else SUMMARY_WIDTH
    return console


def plain_table(left: Sequence[str], right: Sequence[str], last: Sequence[str] = ()) -> Table:
    """Return a table without lines whose columns of these headings stand left, right and left."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for headings, side in ((left, "left"), (right, "right"), (last, "left")):
        for heading in headings:
            table.add_column(heading, justify=side)  # type: ignore[arg-type]
    return table


def note(sentence: str) -> None:
    """Say on standard error what was done with a file, where it does not mix with results."""
    typer.echo(f"folt: {sentence}", err=True)


def wrote(files: Iterable[Path]) -> None:
    """Print where the files are, a line each."""
    from rich.text import Text

    screen = console()
    for path in files:
        screen.print(Text.assemble(("Wrote ", "bold"), str(path)), soft_wrap=True)


def print_json(command: str, files: Iterable[Path], fields: Document) -> None:
    """Print the document of a command."""
    from importlib.metadata import version

    from folt.store.strict_json import strict_json

    tree = {"command": command, "version": version("folt"), "files": [str(path) for path in files]}
    typer.echo(strict_json({**tree, **fields}))


def print_fit(command: str, fit: Fit, files: Sequence[Path], as_json: bool, quiet: bool) -> None:
    """Print a fit as its document, or in words with where its files are; or nothing."""
    from folt.fit.text import overview, summary

    if as_json:
        print_json(command, files, fit_fields(fit))
    elif not quiet:
        screen = console()
        if screen.is_terminal:
            screen.print(overview(fit, commands=True), "")
        else:
            typer.echo(summary(fit, commands=True))
        wrote(files)


def fit_fields(fit: Fit) -> Document:
    """Return what a fit found, as plain values."""
    from folt.fit.text import cautions, estimate_rows

    tree = fit.certificate.to_dict()
    return {
        "verdict": tree["status"],
        "estimates": [
            {
                "name": row.name,
                "mean": row.mean,
                "sd": row.deviation,
                "low": row.low,
                "high": row.high,
                "ess": row.ess,
                "rhat": row.rhat,
            }
            for row in estimate_rows(fit)
        ],
        "log_evidence": {
            **{key: tree["evidence"][key] for key in ("value", "standard_error", "pareto_k")},
            "method": tree["evidence"]["method"],
            "proportional": fit.log_evidence.proportional,
        },
        "certificate": {
            "accept": fit.accept_rate,
            "ess": tree["chains"]["ess"],
            "rhat": tree["chains"]["rhat"],
            "qc": tree["qc"],
            "full_osc": tree["full_osc"],
            "mixing": {key: tree["mixing"][key] for key in ("steps", "confidence", "reason")},
        },
        "warnings": cautions(fit),
        "learnt": None
        if fit.learnt is None
        else {"draws": fit.learnt.draws, "digest": fit.learnt.digest},
        "wall_s": dict(fit.wall),
        "evaluations": dict(fit.evaluations),
    }
