"""Ctrl-C and termination that are answered at once, also while compiled code runs.

Python raises `KeyboardInterrupt` between two of its own instructions, and a compiled loop of JAX
may keep it from the next one for many seconds. The operating system can be heard meanwhile: it
writes every signal to a pipe, and a thread listens there. If Python has not answered in time the
thread removes what was begun and ends the process. SIGTERM is answered in the same way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143

WORDS = {
    INTERRUPTED: "folt: interrupted, nothing was left half-written",
    TERMINATED: "folt: terminated, nothing was left half-written",
}

CODES: dict[int, int] = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}

PATIENCE = 2.0
"""Seconds that Python has to answer by itself."""


_interrupted = threading.Event()
_terminated = threading.Event()


def was_interrupted() -> bool:
    """Whether Ctrl-C or SIGTERM came, whatever error a library made of it."""
    return _interrupted.is_set()


def was_terminated() -> bool:
    """Whether the interruption was SIGTERM, which ends a command as Ctrl-C does."""
    return _terminated.is_set()


@contextlib.contextmanager
def prompt_interruption() -> Iterator[None]:
    """End the process in time after Ctrl-C or SIGTERM; used once, around the whole command."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener, speaker = socket.socketpair()
    speaker.setblocking(False)
    over = threading.Event()
    before = signal.set_wakeup_fd(speaker.fileno(), warn_on_full_buffer=False)
    _interrupted.clear()
    _terminated.clear()
    old = {signal.SIGTERM: signal.signal(signal.SIGTERM, _interrupt)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in the background
        old[signal.SIGINT] = signal.signal(signal.SIGINT, _interrupt)
    thread = threading.Thread(target=_listen, args=(listener, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        speaker.close()
        thread.join(PATIENCE)
        listener.close()


def _interrupt(number: int, frame: object) -> NoReturn:
    """Answer a signal: at once while nothing is on the disk, otherwise as Python does.

    A library that is being imported may not survive an exception in the middle of it.
    """
    del frame
    _interrupted.set()
    if number == signal.SIGTERM:
        _terminated.set()
    store = sys.modules.get("folt.store.files")
    if not getattr(store, "changed_the_disk", lambda: False)():
        _say_at_once(CODES[number])
        leave_at_once(CODES[number])
    raise KeyboardInterrupt


def _listen(listener: socket.socket, over: threading.Event) -> None:
    """Wait for a signal, give Python its time, then end the process."""
    while True:
        heard = listener.recv(1)
        if not heard:
            return
        code = CODES.get(heard[0])
        if code is not None:
            break
    if over.wait(PATIENCE):
        return
    _abandon()
    _say_at_once(code)
    leave_at_once(code)


def _say_at_once(code: int) -> None:
    """Write the last words.

    The cursor may be hidden, and stands somewhere within a progress bar, whose thread must not draw
    it once more below them.
    """
    with contextlib.suppress(OSError):
        terminal, start = os.dup(2), "\x1b[?25h\r\x1b[J" if os.isatty(2) else ""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(terminal, f"{start}{WORDS[code]}\n".encode())


def _abandon() -> None:
    """Remove what is half-written, where anything can be: the store is imported by who writes."""
    store = sys.modules.get("folt.store")
    if store is not None:
        store.abandon()


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads, which may still be compiling."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
