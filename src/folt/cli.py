"""The command line: parse, call, print.

Heavy libraries are imported inside the commands, so that `folt --help` answers at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from folt.fit import Fit
    from folt.problem import Problem

RAN, FAULT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# Newer versions of Typer carry their own copy of Click, so the error class comes through Typer.
UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="folt",
    help="Exact draws, certificates and evidence for posteriors that repeat under relabelling.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Labels(StrEnum):
    """How components are numbered."""

    sorted = "sorted"
    proposal = "proposal"


class PresetName(StrEnum):
    """Which protocol runs."""

    default = "default"
    paper = "paper"


Seed = Annotated[int, typer.Option(help="Same seed, same draws.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


def main() -> None:
    """The entry point of the `folt` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code: 0 ran, 1 fault, 2 bad input, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = app(args=list(arguments), prog_name="folt", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except UsageError as error:
        return _refuse(f"{error.format_message().rstrip('.')}; {_usage(error)}")
    except ValueError as error:
        return _refuse(str(error))
    except Exception:
        traceback.print_exc()
        print("folt: this is a fault in folt or in the model, see above", file=sys.stderr)
        return FAULT
    if code == INTERRUPTED:
        print("folt: interrupted, nothing was left half-written", file=sys.stderr)
    return code if isinstance(code, int) else RAN


@app.callback(invoke_without_command=True)
def folt(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Exact draws, certificates and evidence for posteriors that repeat under relabelling."""
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"folt {version_of('folt')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fold, sample and certify a three-component mixture; write the fit, a report and figures."""
    with _folder(out):
        if not quiet:
            typer.echo("A mixture of three Gaussians, 500 observations, 3! = 6 equal labellings.\n")
        _remember_compilations()
        from folt.demo import run as run_demo

        result = run_demo(out, seed, progress=not quiet)
    if not quiet:
        console = _console()
        _show(console, result.fit, list(result.files.values()))
        typer.echo(
            f"\nOpen {result.files['report']} in a browser. Then write a folt.Problem of your own "
            "in model.py and run\n  folt sample model.py:problem --out results"
        )


@app.command()
def report(
    fit: Annotated[
        Path,
        typer.Argument(metavar="FIT.nc", help="A fit file that folt wrote.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page; beside the fit if not given.", metavar="FILE")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a saved fit as one HTML page."""
    from folt.report.store import load

    target = out if out is not None else fit.with_suffix(".html")
    if target.is_dir():
        target = target / "report.html"
    loaded = load(fit)
    with _folder(target.parent):
        loaded.report(target)
    if not quiet:
        _show(_console(), loaded, [target])


@app.command()
def sample(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="MODEL:PROBLEM",
            help="A Problem, or a function without arguments that returns one, in a file or "
            "module: model.py:problem or package.module:make.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("folt-results"),
    seed: Seed = 0,
    chains: Annotated[int, typer.Option(help="Independent chains.", min=1)] = 4,
    draws: Annotated[int, typer.Option(help="Draws per chain.", min=1)] = 5000,
    labels: Annotated[Labels, typer.Option(help="How components are numbered.")] = Labels.sorted,
    preset: Annotated[PresetName, typer.Option(help="Protocol.")] = PresetName.default,
    quiet: Quiet = False,
) -> None:
    """Sample a problem of your own; write the fit and its report."""
    _remember_compilations()
    found = problem_at(problem)
    with _folder(out):
        from folt.sampling import sample as run_sample

        fit = run_sample(
            found,
            seed=seed,
            chains=chains,
            draws=draws,
            labels=labels.value,
            preset=preset.value,
            progress=not quiet,
        )
        files = [fit.save(out / "fit.nc"), fit.report(out / "report.html")]
    if not quiet:
        _show(_console(), fit, files)


def problem_at(place: str) -> Problem:
    """The problem that a place such as `model.py:problem` names.

    Raises:
        ValueError: nothing there, or not a problem; with what was expected.
    """
    import jax

    from folt.problem import Problem

    source, separator, name = place.rpartition(":")
    if not (separator and source and name):
        raise ValueError(f"expected FILE.py:NAME or MODULE:NAME, got {place!r}")
    # Arrays that a model makes while it is imported must not be rounded to single precision.
    with jax.enable_x64(True):
        module = _imported(source)
        if not hasattr(module, name):
            there = [key for key, value in vars(module).items() if isinstance(value, Problem)]
            hint = f"; it has {', '.join(there)}" if there else ""
            raise ValueError(f"{source} has no {name!r}: expected a Problem of that name{hint}")
        found = getattr(module, name)
        if callable(found) and not isinstance(found, Problem):
            found = _in_user_code(f"{name}() in {source}", source, found)
    if not isinstance(found, Problem):
        raise ValueError(
            f"expected {place} to be a folt.Problem or a function without arguments that returns "
            f"one, got {type(found).__name__}"
        )
    return found


def _imported(source: str) -> Any:
    """A module from a file or from the import path, the working folder included."""
    import importlib
    import importlib.util

    path = Path(source)
    if path.suffix != ".py":
        sys.path.insert(0, os.getcwd())
        return _in_user_code(source, source, lambda: importlib.import_module(source))
    if not path.is_file():
        raise ValueError(f"expected a Python file, found nothing at {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"expected a Python file, got {path}")
    load = spec.loader.exec_module
    module = importlib.util.module_from_spec(spec)
    # A model may import its neighbours, and classes look their own module up by name.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules.setdefault(path.stem, module)
    _in_user_code(source, source, lambda: load(module))
    return module


def _in_user_code(what: str, source: str, call: Callable[[], Any]) -> Any:
    """Call, and turn what goes wrong in the user's code into one line that says where."""
    try:
        return call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename) == Path(source).resolve()]
        line = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"cannot use {what}{line}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[None]:
    """A folder for results, made before the long work so that a bad path fails at once.

    What was made here is removed again if nothing came to stand in it.
    """
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"expected a folder that can be written at {out}, got '{error.strerror}'"
        ) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise ValueError(f"expected a folder that can be written, got {out} without permission")
    try:
        yield
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _remember_compilations() -> None:
    """Keep compiled programs between runs of the command; never for those who import folt."""
    import jax
    import platformdirs

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    folder = Path(platformdirs.user_cache_dir("folt")) / "jax"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _console() -> Console:
    """Standard output: coloured and as wide as the terminal, plain and fixed when piped."""
    from rich.console import Console

    from folt.report.text import WIDTH

    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def _show(console: Console, fit: Fit, files: Sequence[Path]) -> None:
    from rich.text import Text

    from folt.report.text import overview

    if console.is_terminal:
        console.print(overview(fit), "")
    else:
        typer.echo(fit.summary())
    for path in files:
        console.print(Text.assemble(("Wrote ", "bold"), str(path)), soft_wrap=True)


def _usage(error: Any) -> str:
    """What the command takes, in a few words."""
    context = getattr(error, "ctx", None)
    if context is None:
        return "see folt --help"
    commands = getattr(context.command, "commands", None)
    if commands:
        return f"expected one of the commands {', '.join(sorted(commands))}"
    arguments = [p.metavar or p.name for p in context.command.params if _is_argument(p)]
    options = [p.opts[-1] for p in context.command.params if not _is_argument(p)]
    return f"expected: {' '.join([context.command_path, *arguments])} [{' | '.join(options)}]"


def _is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _refuse(message: str) -> int:
    """One line on standard error that says what is wrong and what would be right."""
    print("folt: " + " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT
