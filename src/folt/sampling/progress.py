"""Progress of long work: a live bar on a terminal, a plain line now and then anywhere else."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

Tell = Callable[[float, str], None]

_WIDTH = 96
"""Columns used of a wide terminal; all of them on a narrow one."""


FIRST_LINE, LAST_PAUSE = 5.0, 60.0
"""Seconds before the first plain line, and the longest pause between two."""

_LONG = 10.0
"""Seconds of a stage that are announced before it begins."""

GUESSABLE = 0.25
"""Share of a stage after which the time that is left can be guessed."""


class _Clock(ProgressColumn):
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


class Lines:
    """A line on a stream every few seconds, more rarely as time goes on; nothing for short work.

    A thread of its own writes them, because compiled code may run for a minute without a word.
    """

    def __init__(self, stream: TextIO, first: float = FIRST_LINE) -> None:
        self._stream, self._first = stream, first
        self._begun = time.perf_counter()
        self._stage: tuple[str, float] | None = None
        self._told = (0.0, "")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="folt progress")

    def start(self) -> None:
        """Begin to write lines about the stages."""
        self._thread.start()

    def stop(self) -> None:
        """Stop writing; nothing follows."""
        self._stop.set()
        self._thread.join(timeout=1.0)

    def stage(self, name: str) -> None:
        """A new stage has begun."""
        self._stage, self._told = (name, time.perf_counter()), (0.0, "")

    def tell(self, fraction: float, message: str) -> None:
        """How far the stage is."""
        self._told = (fraction, message)

    def say(self, line: str) -> None:
        """Write a line at once."""
        with contextlib.suppress(OSError, ValueError):  # whoever listened has gone
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def line(self, now: float) -> str | None:
        """Return what is going on: `folt: training 0:25, 40 %, about 0:38 left, round 3`."""
        if self._stage is None:
            return None
        (name, begun), (fraction, message) = self._stage, self._told
        spent = now - begun
        words = [f"folt: {name} {clock(spent)}"]
        if fraction > 0.0:
            words.append(f"{100 * fraction:.0f} %")
        if GUESSABLE <= fraction < 1.0:
            words.append(f"about {clock(spent * (1.0 - fraction) / fraction)} left")
        return ", ".join(words + [message] * bool(message))

    def _run(self) -> None:
        pause = self._first
        while not self._stop.wait(pause):
            now = time.perf_counter()
            line = self.line(now)
            if line is not None:
                try:
                    self._stream.write(f"{line}\n")
                    self._stream.flush()
                except (OSError, ValueError):  # whoever listened has gone
                    return
            pause = min(LAST_PAUSE, max(self._first, 0.05 * (now - self._begun)))


class Stages:
    """Named stages of a run: a bar or lines while they run, and their wall time afterwards.

    Attributes:
        wall: seconds per finished stage.
    """

    def __init__(self, show: bool = True) -> None:
        console = Console(stderr=True)
        console.width = min(console.width, _WIDTH)
        self.wall: dict[str, float] = {}
        self._apart = 0.0
        message = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = Progress(
            TextColumn("{task.description:<11}", style="bold", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[message]}", markup=False, table_column=message),
            _Clock(table_column=Column(min_width=16, no_wrap=True)),
            console=console,
            expand=True,
            transient=True,
            disable=not (show and console.is_terminal),
        )
        self._lines = Lines(sys.stderr) if show and not console.is_terminal else None

    def __enter__(self) -> Stages:
        self._bar.start()
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        if self._lines is not None:
            self._lines.stop()

    def expect(self, name: str, evaluations: int, seconds: float) -> None:
        """Say once, before a stage that will be long, about how long."""
        if seconds < _LONG:
            return
        line = f"folt: {name} will take about {clock(seconds)}, some {evaluations:,} log densities"
        if self._lines is not None:
            self._lines.say(line)
        elif not self._bar.disable:
            self._bar.console.print(line, markup=False, highlight=False)

    def set_apart(self, name: str, seconds: float) -> None:
        """Count seconds of the running stage as those of another one, which comes before it."""
        if seconds:
            self.wall[name] = self.wall.get(name, 0.0) + seconds
            self._apart += seconds

    @contextmanager
    def stage(self, name: str) -> Iterator[Tell]:
        """One stage; yields a function that is told the fraction done and a message."""
        # Without a total the bar pulses: until it is told more, all that is known is that it runs.
        task = self._bar.add_task(name, total=None, message="")
        started = time.perf_counter()
        if self._lines is not None:
            self._lines.stage(name)

        def tell(fraction: float, message: str) -> None:
            done = min(max(fraction, 0.0), 1.0)
            if self._lines is not None:
                self._lines.tell(done, message)
            self._bar.update(task, total=1.0, completed=done, message=message)

        try:
            yield tell
        finally:
            elapsed = time.perf_counter() - started - self._apart
            self._apart = 0.0
            self.wall[name] = self.wall.get(name, 0.0) + elapsed
            self._bar.update(task, total=1.0, completed=1.0)
