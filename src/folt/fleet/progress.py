"""How far a fleet is: a bar on a terminal, a plain line now and then anywhere else.

It is apart from the progress of a fit because nothing heavy may be imported with it.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PAUSES = (5.0, 60.0)
"""Shortest and longest pause between two lines, in seconds."""


class Bar:
    """Told how many jobs have ended, says it now and then.

    Args:
        show: whether anything is said.
        total: number of jobs.
    """

    def __init__(self, show: bool, total: int) -> None:
        self._show, self._total = show, total
        self._bar: Progress | None = None
        self._begun = self._said = time.monotonic()

    def __enter__(self) -> Bar:
        if self._show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, ended: int, words: str) -> None:
        """How many have ended, and the same in words."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=ended, description=words)
        elif self._show:
            self._line(words)

    def _line(self, words: str) -> None:
        now = time.monotonic()
        pause = min(max(PAUSES[0], 0.05 * (now - self._begun)), PAUSES[1])
        if now - self._said >= pause:
            self._said = now
            try:
                sys.stderr.write(f"folt: {words}, {now - self._begun:.0f} s\n")
                sys.stderr.flush()
            except (OSError, ValueError):  # whoever listened has gone
                self._show = False
