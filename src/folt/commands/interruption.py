"""Ctrl-C that is answered at once, also while compiled code runs.

Python raises `KeyboardInterrupt` between two of its own instructions, and a compiled loop of JAX
may keep it from the next one for many seconds. The operating system can be heard meanwhile: it
writes every signal to a pipe, and a thread listens there. If Python has not answered in time the
thread removes what was begun and ends the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

INTERRUPTED = 130

WORDS = "folt: interrupted, nothing was left half-written"

PATIENCE = 2.0
"""Seconds that Python has to answer by itself."""

BEGUN: list[Path] = []
"""Folders made for results, the innermost first; empty ones go when a run is cut short."""


@contextlib.contextmanager
def prompt_interruption() -> Iterator[None]:
    """End the process in time after Ctrl-C; used once, around the whole command."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener, speaker = socket.socketpair()
    speaker.setblocking(False)
    over = threading.Event()
    before = signal.set_wakeup_fd(speaker.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(listener, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        speaker.close()


def _listen(listener: socket.socket, over: threading.Event) -> None:
    """Wait for Ctrl-C, give Python its time, then end the process."""
    while True:
        heard = listener.recv(1)
        if not heard:
            return
        if heard[0] == signal.SIGINT:
            break
    if over.wait(PATIENCE):
        return
    remove_empty(BEGUN)
    # The cursor may be hidden, and stands somewhere within a progress bar, whose thread must not
    # draw it once more below the last words.
    terminal, start = os.dup(2), "\x1b[?25h\r\x1b[J" if os.isatty(2) else ""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.write(terminal, f"{start}{WORDS}\n".encode())
    leave_at_once()


def leave_at_once() -> NoReturn:
    """End the process without waiting for threads, which may still be compiling."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(INTERRUPTED)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those folders that hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
