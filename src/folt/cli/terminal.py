"""What the commands share: options, folders for results, what is printed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from folt.fit import Fit
    from folt.training.effort import Effort

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


def remember_compilations(*, in_this_process: bool = True) -> None:
    """Keep compiled programs between runs of the command; never for those who import folt.

    Args:
        in_this_process: False where only other processes compile, which read it from their
            environment.
    """
    import platformdirs

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    folder = Path(platformdirs.user_cache_dir("folt")) / "jax"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return
    if not in_this_process:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        return
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


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
