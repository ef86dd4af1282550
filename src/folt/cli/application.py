"""The command line: parse, call, print; one file per command in `folt.cli`.

Heavy libraries are imported inside the commands, so that `folt --help` answers at once.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from folt.cli import (
    calibrate,
    certify,
    demo,
    fleet,
    mixture,
    modal,
    relabel,
    report,
    reproduce,
    sample,
)
from folt.cli.help import Command, Group
from folt.cli.interruption import (
    INTERRUPTED,
    TERMINATED,
    WORDS,
    leave_at_once,
    prompt_interruption,
    was_terminated,
)

RAN, FAULT, BAD_INPUT = 0, 1, 2

# Newer versions of Typer carry their own copy of Click, so the error class comes through Typer.
UsageError: Any = typer.BadParameter.__base__

DEBUG = "--debug"

KEPT_FAULTS = 5
"""Tracebacks that stay in the temporary folder."""

app = typer.Typer(
    name="folt",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has a --help of its own, with examples to copy.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """The entry point of the `folt` command."""
    with prompt_interruption():
        code = run(sys.argv[1:])
    if code in WORDS:
        leave_at_once(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code: 0, 1 fault, 2 bad input, 130 or 143 cut short."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    # Threads import ArviZ ahead of its use; what it announces is no concern of who runs a command.
    warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
    debug, words = _without_debug(arguments)
    try:
        with _warnings_in_one_line():
            code = app(args=words, prog_name="folt", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone, as `folt ... | head` does: that is no fault.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RAN
    except UsageError as error:
        return _refuse(_sentence(error), debug)
    except ValueError as error:
        return _refuse(str(error), debug, FAULT if getattr(error, "full", False) else BAD_INPUT)
    except Exception as error:
        from folt.store import IncompleteError  # not before: it waits for NumPy

        if isinstance(error, IncompleteError):
            return _refuse(str(error), debug, FAULT)
        return _fault(error, debug)
    if code == INTERRUPTED and was_terminated():
        code = TERMINATED  # which Typer took for Ctrl-C
    if code in WORDS:
        print(WORDS[code], file=sys.stderr)
    return code if isinstance(code, int) else RAN


@app.callback(invoke_without_command=True)
def folt(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool,
        typer.Option(DEBUG, help="Show the traceback of an error; or FOLT_DEBUG=1."),
    ] = False,
) -> None:
    """Posteriors that repeat under relabelling: draws, certificates, evidence."""
    del debug  # It is taken out of the arguments before they are parsed.
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"folt {version_of('folt')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


FIT, RESULTS = "Fit a posterior", "Work with draws and results"

for function, module, panel, line in (
    (demo.demo, demo, FIT, "See it work: a mixture with 3! = 6 equal modes, one minute."),
    (mixture.mixture, mixture, FIT, "A mixture for a table of data; how many components."),
    (modal.modal, modal, FIT, "Frequencies and damping of a structure; how many modes."),
    (sample.sample, sample, FIT, "A model of your own: a folt.Problem in a Python file."),
    (fleet.fleet, fleet, FIT, "Many fits on all cores or a cluster; goes on where it stopped."),
    (calibrate.calibrate, calibrate, FIT, "Is a model with its sampler calibrated? By simulation."),
    (report.report, report, RESULTS, "The page of a saved fit, to open or to send."),
    (certify.certify, certify, RESULTS, "A certificate and the evidence for draws you have."),
    (relabel.relabel, relabel, RESULTS, "Consistent labels for draws of PyMC, NumPyro or Stan."),
    (reproduce.reproduce, reproduce, RESULTS, "The paper's tables, ours beside the published."),
):
    app.command(
        cls=Command,
        short_help=line,
        epilog=module.EXAMPLES,
        rich_help_panel=panel,
    )(function)


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What folt warns of, without the line of code that says so."""
    shown = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, UserWarning):
            print("folt: warning: " + " ".join(str(message).split()), file=sys.stderr)
        else:
            shown(message, category, *rest)

    warnings.showwarning = tell  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = shown


def _without_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Whether tracebacks are wanted, and the arguments without the option that says so."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    asked = DEBUG in words[:end] or os.environ.get("FOLT_DEBUG", "") not in ("", "0")
    return asked, [word for word in words[:end] if word != DEBUG] + words[end:]


def _sentence(error: Any) -> str:
    """What is wrong with the words of a command, and what would be right."""
    message = error.format_message().rstrip(".")
    return message if message.endswith("?") else f"{message}; {_expected(error)}"


def _expected(error: Any) -> str:
    """What the command takes, in a few words."""
    context = getattr(error, "ctx", None)
    if context is None:
        return "see folt --help"
    commands = getattr(context.command, "commands", None)
    if commands:
        return f"expected one of the commands {', '.join(sorted(commands))}"
    if "Invalid value" in error.format_message():
        return f"see {context.command_path} --help"
    options = [p for p in context.command.params if not _is_argument(p)]
    words = [p.metavar or p.name for p in context.command.params if _is_argument(p)]
    words += [f"{p.opts[-1]} {p.name.upper()}" for p in options if p.required]
    listed = " | ".join(p.opts[-1] for p in options if not p.required)
    return f"expected: {' '.join([context.command_path, *words])} [{listed}]"


def _is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _refuse(message: str, debug: bool, code: int = BAD_INPUT) -> int:
    """One line on standard error that says what is wrong and what would be right."""
    if debug:
        traceback.print_exc()
    print("folt: " + " ".join(message.split()), file=sys.stderr)
    return code


def _fault(error: Exception, debug: bool) -> int:
    """What went wrong in two lines; where, on the screen or in a file that can be sent."""
    if debug:
        traceback.print_exc()
        where = "the traceback is above"
    else:
        where = f"the traceback is in {_kept_traceback()}; with --debug it is shown"
    what = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"folt: a fault in folt or in the model: {what[:500]}\nfolt: {where}", file=sys.stderr)
    return FAULT


def _kept_traceback() -> str:
    """A long run need not be repeated to learn where it failed; the last few are kept."""
    folder = Path(tempfile.gettempdir()) / f"folt-faults-{getpass.getuser()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for old in sorted(folder.glob("*.txt"), key=os.path.getmtime)[: 1 - KEPT_FAULTS]:
            old.unlink(missing_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
    except OSError as error:
        return f"no file: {error.strerror}"
    return file.name
