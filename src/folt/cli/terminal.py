"""What the commands share: options, folders for results, what is printed.

Results for machines: one strict JSON document on standard output.

Every document has `command`, `version` and `files` (paths written). A fit adds

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

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from folt.fit import Fit
    from folt.store.strict_json import Document
    from folt.training.effort import Effort


def folder(text: str | Path) -> Path:
    """The folder that an option names; the empty word, as of an unset variable, names none."""
    if not str(text).strip() or "\0" in str(text):
        raise typer.BadParameter(f"expected the name of a folder or a file, got {str(text)!r}")
    return Path(text)


def is_whole(text: str) -> bool:
    """Return whether a word is a whole number that anybody counts things by: 1 to 9 digits."""
    return text.isascii() and text.isdigit() and len(text) <= 9


Out = Annotated[
    Path, typer.Option("--out", parser=folder, metavar="PATH", help="Folder for the results.")
]
Draws = Annotated[
    int | None,
    typer.Option(
        help="Draws per chain; by default what a fifth of the fit's evaluations buys, 5000 to "
        "50000.",
        min=1,
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Same seed, same draws.", min=0, max=2**63 - 1)]


class EffortName(StrEnum):
    """What a fit may cost."""

    quick = "quick"
    default = "default"
    thorough = "thorough"

    def chosen(self) -> Effort:
        """Return the effort of this name."""
        from folt.training.effort import EFFORTS

        return EFFORTS[self.value]()


EffortOption = Annotated[
    EffortName, typer.Option("--effort", help="What the fit may cost; thorough trains longest.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


def console() -> Console:
    """Standard output: coloured and as wide as the terminal, plain and fixed when piped."""
    from rich.console import Console

    from folt.fit.text import SUMMARY_WIDTH

    console = Console(highlight=False)
    console.width = min(console.width, SUMMARY_WIDTH) if console.is_terminal else SUMMARY_WIDTH
    return console


def show(console: Console, fit: Fit, files: Sequence[Path]) -> None:
    """The fit in words, coloured on a terminal, and where its files are."""
    from folt.fit.text import overview, summary

    if console.is_terminal:
        console.print(overview(fit, commands=True), "")
    else:
        typer.echo(summary(fit, commands=True))
    wrote(console, files)


def wrote(console: Console, files: Sequence[Path]) -> None:
    """Where the files are, a line each."""
    from rich.text import Text

    for path in files:
        console.print(Text.assemble(("Wrote ", "bold"), str(path)), soft_wrap=True)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


PAIR = "LOW:HIGH"
"""How the help writes an option that takes two numbers, as one word or as two."""


def is_number(word: str) -> bool:
    """Return whether a word is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def joined_pairs(words: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the words of a command with `OPTION LOW HIGH` written as `OPTION LOW:HIGH`.

    An option that is given several times takes one word at a time; two numbers after it are one.
    """
    joined: list[str] = []
    for word in words:
        if len(joined) > 1 and joined[-2] in options and is_number(joined[-1]) and is_number(word):
            joined[-1] += f":{word}"
        else:
            joined.append(word)
    return joined


def print_json(command: str, files: Iterable[Path], fields: Document) -> None:
    """Print the document of a command."""
    from importlib.metadata import version

    from folt.store.strict_json import strict_json

    tree = {"command": command, "version": version("folt"), "files": [str(path) for path in files]}
    typer.echo(strict_json({**tree, **fields}))


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
