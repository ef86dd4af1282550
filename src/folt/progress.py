"""A live progress bar for long work; silent when nobody looks at a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

Tell = Callable[[float, str], None]

WIDTH = 96
"""Columns used of a wide terminal; all of them on a narrow one."""


class Clock(ProgressColumn):
    """Seconds spent, and while a stage runs the time that is left, once that can be guessed."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """`1:12, 0:30 left` while it runs, `1:42` afterwards."""
        if task.finished_time is not None:
            return Text(f"{clock(task.finished_time):>5}")
        spent = clock(task.elapsed or 0.0)
        left = "" if task.time_remaining is None else f", {clock(task.time_remaining)} left"
        return Text(f"{spent:>5}{left}")


def clock(seconds: float) -> str:
    """Minutes and seconds, hours in front where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Stages:
    """Named stages of a run: a bar for each while it runs, and its wall time afterwards.

    Attributes:
        wall: seconds per finished stage.
    """

    def __init__(self, show: bool = True) -> None:
        console = Console(stderr=True)
        console.width = min(console.width, WIDTH)
        self.wall: dict[str, float] = {}
        message = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            TextColumn("{task.description:<11}", style="bold", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[message]}", markup=False, table_column=message),
            Clock(table_column=Column(min_width=16, no_wrap=True)),
            console=console,
            expand=True,
            transient=True,
            disable=not (show and console.is_terminal),
        )

    def __enter__(self) -> Stages:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[Tell]:
        """One stage; yields a function that is told the fraction done and a message."""
        # Without a total the bar pulses: until it is told more, all that is known is that it runs.
        task = self._bar.add_task(name, total=None, message="")
        started = time.perf_counter()

        def tell(fraction: float, message: str) -> None:
            done = min(max(fraction, 0.0), 1.0)
            self._bar.update(task, total=1.0, completed=done, message=message)

        try:
            yield tell
        finally:
            elapsed = time.perf_counter() - started
            self.wall[name] = self.wall.get(name, 0.0) + elapsed
            self._bar.update(task, total=1.0, completed=1.0)
