"""The commands of folt: how their words are read, their help is shown and their errors are told.

Each command is one file in this room, or `command.py` in the room that it belongs to. Help fits a
screen: commands in groups, a line each, and examples as they are typed.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from folt.cli import demo, fleet, mixture, relabel, report, sample
from folt.cli.faults import (
    BAD_INPUT,
    INTERRUPTED,
    TERMINATED,
    WORDS,
    code_of,
    leave_at_once,
    prompt_interruption,
    refuse,
    tell_fault,
    was_interrupted,
    was_terminated,
)
from folt.modal import command as modal
from folt.paper import command as reproduce
from folt.terminal import PAIR

OPTIONS_ON_THE_SCREEN = ("version", "debug")
"""What `folt --help` lists; other options work all the same."""


class Command(TyperCommand):
    """A command whose epilog holds the examples of its docstring, one per line, as they stand."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, without caches where the user's home cannot be written."""
        from folt.store.private import caches_can_be_written

        if not caches_can_be_written():
            typer.echo("folt: the user's cache cannot be written: going without", err=True)
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; two numbers after an option that takes a pair are one of them."""
        pairs = [name for one in self.params if one.metavar == PAIR for name in one.opts]
        return super().parse_args(ctx, _joined_pairs(args, pairs))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The examples, never wrapped: they are there to be copied."""
        if self.epilog:
            with formatter.section(heading("Examples")):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options under bold headings."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            records = [
                parameter.get_help_record(ctx)
                for parameter in self.get_params(ctx)
                if parameter.param_type_name == kind
            ]
            _section(formatter, title, [record for record in records if record])


class _Group(TyperGroup):
    """The commands under headings, then the few options of `folt` itself."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Commands first: they are what people look for."""
        self.format_commands(ctx, formatter)
        records = [
            parameter.get_help_record(ctx)
            for parameter in self.get_params(ctx)
            if parameter.name in OPTIONS_ON_THE_SCREEN
        ]
        _section(formatter, "Options", [record for record in records if record])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One line per command, in the groups they were registered under."""
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            groups[panel].append((name, command.get_short_help_str(limit=200)))
        width = max(len(name) for name in self.commands)
        for title, rows in groups.items():
            _section(formatter, title, [(f"{name:<{width}}", words) for name, words in rows])


def heading(words: str) -> str:
    """Bold where somebody looks and has not asked for plain text."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return words if plain else typer.style(words, bold=True)


def _section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(heading(title)):
            formatter.write_dl(rows)


RAN = 0

# Newer versions of Typer carry their own copy of Click, so the error class comes through Typer.
UsageError: Any = typer.BadParameter.__base__

DEBUG, QUICK = "--debug", "--quick"

COMPLETION = "_FOLT_COMPLETE"
"""Environment variable of a shell that asks how a word goes on; the answer ends the process."""

app = typer.Typer(
    name="folt",
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has a --help of its own, with examples to copy.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command that the words after `folt` ask for, and leave with its exit code."""
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
            code = app(args=_spelled_out(words), prog_name="folt", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone, as `folt ... | head` does: that is no fault.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RAN
    except UsageError as error:
        return refuse(_sentence(error), debug, BAD_INPUT)
    except BaseException as error:  # a model may raise anything, SystemExit too
        if COMPLETION in os.environ:
            raise
        known = code_of(error)
        if not was_interrupted():
            return tell_fault(error, debug) if known is None else refuse(str(error), debug, known)
        code = INTERRUPTED  # which a library took for an error of its own
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


COMMANDS: dict[str, dict[Callable[..., None], str]] = {
    "Fit a posterior": {
        demo.demo: "See it work: a mixture with 3! = 6 equal modes, one minute.",
        mixture.mixture: "A mixture for a table of data; how many components.",
        modal.modal_command: "Frequencies and damping of a structure; how many modes.",
        sample.sample_command: "A model of your own: a folt.Problem in a Python file.",
        fleet.fleet: "Many fits on all cores or a cluster; goes on where it stopped.",
        fleet.calibrate_command: "Is a model with its sampler calibrated? By simulation.",
    },
    "Work with draws and results": {
        report.report: "The page of a saved fit, to open or to send.",
        sample.certify_command: "A certificate and the evidence for draws you have.",
        relabel.relabel_command: "Consistent labels for draws of PyMC, NumPyro or Stan.",
        reproduce.reproduce_command: "The paper's tables, ours beside the published.",
    },
}
"""The commands with their lines in `folt --help`, by heading."""

for panel, lines in COMMANDS.items():
    for function, line in lines.items():
        words, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:\n")
        app.command(
            function.__name__.removesuffix("_command"),
            cls=Command,
            short_help=line,
            help=words,
            epilog=textwrap.dedent(examples),
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


def _spelled_out(words: list[str]) -> list[str]:
    """Return the arguments with `--quick` as `--effort quick`; `folt reproduce` has its own."""
    if words[:1] == ["reproduce"]:
        return words
    end = words.index("--") if "--" in words else len(words)
    pairs = (["--effort", "quick"] if word == QUICK else [word] for word in words[:end])
    return [word for pair in pairs for word in pair] + words[end:]


def _without_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether tracebacks are wanted, and the arguments without the option that says so."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    asked = DEBUG in words[:end] or os.environ.get("FOLT_DEBUG", "") not in ("", "0")
    return asked, [word for word in words[:end] if word != DEBUG] + words[end:]


def _joined_pairs(words: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the words of a command with `OPTION LOW HIGH` written as `OPTION LOW:HIGH`.

    An option that is given several times takes one word at a time; two numbers after it are one.
    """
    joined: list[str] = []
    for word in words:
        if len(joined) > 1 and joined[-2] in options and _are_numbers(joined[-1], word):
            joined[-1] += f":{word}"
        else:
            joined.append(word)
    return joined


def _are_numbers(*words: str) -> bool:
    try:
        return all(isinstance(float(word), float) for word in words)
    except ValueError:
        return False


def _sentence(error: Any) -> str:
    """Return what is wrong with the words of a command, and what would be right."""
    message = error.format_message().rstrip(".")
    return message if message.endswith("?") else f"{message}; {_expected(error)}"


def _expected(error: Any) -> str:
    """Return what the command takes, in a few words."""
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
