"""A live progress bar for long work; silent when nobody looks at a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Tell = Callable[[float, str], None]


class Stages:
    """Named stages of a run: a bar for each while it runs, and its wall time afterwards.

    Attributes:
        wall: seconds per finished stage.
    """

    def __init__(self, show: bool = True) -> None:
        console = Console(stderr=True)
        self.wall: dict[str, float] = {}
        self._bar = Progress(
            TextColumn("[bold]{task.description:<12}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[message]:<44}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
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
        task = self._bar.add_task(name, total=1.0, message="")
        started = time.perf_counter()

        def tell(fraction: float, message: str) -> None:
            self._bar.update(task, completed=min(max(fraction, 0.0), 1.0), message=message)

        try:
            yield tell
        finally:
            elapsed = time.perf_counter() - started
            self.wall[name] = self.wall.get(name, 0.0) + elapsed
            self._bar.update(task, completed=1.0)
