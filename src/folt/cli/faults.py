"""Errors at the edge: which of them are bad input, and where the traceback of a fault is kept.

folt refuses bad input by a `raise ValueError` of its own, with a sentence that says what was
expected. A `ValueError` that Python, NumPy or JAX raises is one that nobody expected: a fault.
"""

from __future__ import annotations

import dis
import errno
import os
import re
import tempfile
import traceback
from pathlib import Path

import typer

FAULT, BAD_INPUT = 1, 2

KEPT = 5
"""Tracebacks that stay on the disk."""

KEPT_NAME = re.compile(r"folt-fault-\w{8}\.txt")
"""Names of the tracebacks, as `tempfile` makes them; no other file is ever removed."""


def code_of(error: BaseException) -> int | None:
    """The exit code of an error that is a sentence of folt's own; None for a fault.

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
    """The kind of an error and what it says, in one line; some cannot even say it."""
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
        for old in sorted(kept, key=_age)[:-KEPT]:
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
