"""The command line: parse, call, print; one file per command in `folt.commands`.

Heavy libraries are imported inside the commands, so that `folt --help` answers at once.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from folt.commands import demo, mixture, modal, relabel, report, reproduce, sample

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


for command in (
    demo.demo,
    mixture.mixture,
    modal.modal,
    sample.sample,
    relabel.relabel,
    report.report,
    reproduce.reproduce,
):
    app.command()(command)


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
