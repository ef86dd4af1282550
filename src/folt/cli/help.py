"""Help that fits a screen: commands in groups, a line each, and examples as they are typed."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

OPTIONS_ON_THE_SCREEN = ("version", "debug")
"""What `folt --help` lists; other options work all the same."""


class Command(TyperCommand):
    """A command whose epilog holds examples, one per line, shown as they stand."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, without caches where the user's home cannot be written."""
        from folt.store.private import caches_can_be_written

        if not caches_can_be_written():
            typer.echo("folt: the user's cache cannot be written: going without", err=True)
        return super().invoke(ctx)

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


class Group(TyperGroup):
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
