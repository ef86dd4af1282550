"""What the commands share: options, folders for results, what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from folt.fit import Fit
    from folt.training.effort import Effort


def folder(text: str | Path) -> Path:
    """The folder that an option names; the empty word, as of an unset variable, names none."""
    if not str(text).strip() or "\0" in str(text):
        raise typer.BadParameter(f"expected the name of a folder or a file, got {str(text)!r}")
    return Path(text)


def is_whole(text: str) -> bool:
    """Whether a word is a whole number that anybody counts things by: 1 to 9 digits."""
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
        """The effort of this name."""
        from folt.training.effort import EFFORTS

        return EFFORTS[self.value]()


EffortOption = Annotated[
    EffortName, typer.Option("--effort", help="What the fit may cost; thorough trains longest.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


def console() -> Console:
    """Standard output: coloured and as wide as the terminal, plain and fixed when piped."""
    from rich.console import Console

    from folt.fit.text import WIDTH

    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def show(console: Console, fit: Fit, files: Sequence[Path]) -> None:
    """The fit in words, coloured on a terminal, and where its files are."""
    from folt.fit.text import overview

    if console.is_terminal:
        console.print(overview(fit), "")
    else:
        typer.echo(fit.summary())
    wrote(console, files)


def wrote(console: Console, files: Sequence[Path]) -> None:
    """Where the files are, a line each."""
    from rich.text import Text

    for path in files:
        console.print(Text.assemble(("Wrote ", "bold"), str(path)), soft_wrap=True)
