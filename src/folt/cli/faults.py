"""How a command ends that did not run: by bad input, by a fault, by Ctrl-C or by termination.

folt refuses bad input by a `raise ValueError` of its own, with a sentence that says what was
expected. A `ValueError` that Python, NumPy or JAX raises is one that nobody expected: a fault, of
which the traceback is kept.

Ctrl-C and termination are answered at once, also while compiled code runs. Python raises
`KeyboardInterrupt` between two of its own instructions, and a compiled loop of JAX may keep it from
the next one for many seconds. The operating system can be heard meanwhile: it writes every signal
to a pipe, and a thread listens there. If Python has not answered in time the thread removes what
was begun and ends the process. SIGTERM is answered in the same way.
"""

from __future__ import annotations

import contextlib
import dis
import errno
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import typer

FAULT, BAD_INPUT = 1, 2

_KEPT = 5
"""Tracebacks that stay on the disk."""

KEPT_NAME = re.compile(r"folt-fault-\w{8}\.txt")
"""Names of the tracebacks, as `tempfile` makes them; no other file is ever removed."""


def code_of(error: BaseException) -> int | None:
    """Return the exit code of an error that is a sentence of folt's own; None for a fault.

    An error with a true `is_failure` says that the world failed, such as a full disk or the jobs of
    a fleet: the input was right.
    """
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or getattr(error, "is_failure", False):
        return FAULT
    return BAD_INPUT if isinstance(error, ValueError) and _was_raised_by_folt(error) else None


def _was_raised_by_folt(error: BaseException) -> bool:
    """Whether the error comes from a `raise` in folt, not from a function that folt called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    frame = trace.tb_frame
    instruction = dis.opname[frame.f_code.co_code[trace.tb_lasti]]
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return package == "folt" and instruction == "RAISE_VARARGS"


def refuse(message: str, debug: bool, code: int) -> int:
    """Print one line on standard error that says what is wrong and what would be right."""
    if debug:
        traceback.print_exc()
    typer.echo("folt: " + " ".join(message.split()), err=True)
    return code


def tell_fault(error: BaseException, debug: bool) -> int:
    """Print in two lines what went wrong and where its traceback is, and ask for a report."""
    if debug:
        traceback.print_exc()
        where = "the traceback is above"
    else:
        where = f"the traceback is in {_kept_traceback()}; with --debug it is shown"
    typer.echo(
        f"folt: a fault in folt or in the model: {words_of(error)[:500]}\n"
        f"folt: {where}. If the model is right, please report this to the developers of folt",
        err=True,
    )
    return FAULT


def words_of(error: BaseException) -> str:
    """Return the kind of an error and what it says, in one line; some cannot even say it."""
    try:
        said = str(error)
    except Exception:
        said = ""
    name = type(error).__name__
    return " ".join(f"{name}: {said}".split()) if said.strip() else name


def _kept_traceback() -> str:
    """Write the traceback to a folder of the user's own, where the last few are kept.

    A long run need not be repeated to learn where it failed.
    """
    try:
        folder = _folder()
        handle, name = tempfile.mkstemp(prefix="folt-fault-", suffix=".txt", dir=folder)
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            traceback.print_exc(file=file)
        kept = [path for path in folder.iterdir() if KEPT_NAME.fullmatch(path.name)]
        for old in sorted(kept, key=_age)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        return f"no file: {error.strerror}"
    return name


def _folder() -> Path:
    """The folder of tracebacks in the user's cache, or a new one where that cannot be had."""
    from folt.store.private import private_folder, user_cache

    cache = user_cache()
    folder = None if cache is None else private_folder(cache / "faults")
    return folder or Path(tempfile.mkdtemp(prefix="folt-faults-"))


def _age(path: Path) -> float:
    return os.lstat(path).st_mtime


INTERRUPTED, TERMINATED = 130, 143

WORDS = {
    INTERRUPTED: "folt: interrupted, nothing was left half-written",
    TERMINATED: "folt: terminated, nothing was left half-written",
}

_CODES: dict[int, int] = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}

PATIENCE = 2.0
"""Seconds that Python has to answer by itself."""


_interrupted = threading.Event()
_terminated = threading.Event()


def was_interrupted() -> bool:
    """Return whether Ctrl-C or SIGTERM came, whatever error a library made of it."""
    return _interrupted.is_set()


def was_terminated() -> bool:
    """Return whether the interruption was SIGTERM, which ends a command as Ctrl-C does."""
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
        _say_at_once(_CODES[number])
        leave_at_once(_CODES[number])
    raise KeyboardInterrupt


def _listen(listener: socket.socket, over: threading.Event) -> None:
    """Wait for a signal, give Python its time, then end the process."""
    while True:
        heard = listener.recv(1)
        if not heard:
            return
        code = _CODES.get(heard[0])
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
