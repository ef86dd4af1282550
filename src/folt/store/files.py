"""Files that are complete or not there, and every moment at which a file comes or goes.

All that folt changes on a disk goes through the functions below. Each says what it is about to do
to whoever watches, so that a test can end the process at every one of these moments.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

TEMPORARY = re.compile(r"\.folt-(?P<host>[\w-]*)\.(?P<process>\d+)\.\d+\.tmp")
"""Names of files that are being written: they tell by whom, and so whether anybody still is."""

ABANDONED = 86_400.0
"""Seconds after which a temporary file of another machine counts as left behind."""


class WritingStep(StrEnum):
    """What is about to happen to a path."""

    MAKE = "make the folder"
    BEGIN = "begin the file"
    WRITE = "write the second half"
    SYNC = "hand it to the disk"
    PLACE = "give it its name"
    REMOVE = "remove it"


Watcher = Callable[[WritingStep, Path], None]

_watchers: list[Watcher] = []
_unfinished: set[Path] = set()
_numbers = itertools.count()
_changed = False


class WriteError(ValueError):
    """A file that cannot be written; says which, why, and how much space it wants.

    Attributes:
        path: the file or folder.
        full: whether there was no room for it.
        is_failure: the same; nothing was wrong with what was asked for.
    """

    def __init__(self, path: Path, error: OSError, size: int = 0):
        super().__init__(f"cannot write {path}: {_reason(path, error, size)}")
        self.path = path
        self.full = self.is_failure = error.errno in FULL


def changed_the_disk() -> bool:
    """Return whether this process has begun to change anything on the disk."""
    return _changed


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call `watcher(step, path)` before every change on the disk while the block runs."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def require_readable(path: Path) -> None:
    """Refuse what would be waited for or read without end: named pipes, devices, folders.

    A pipe without a name, as a shell makes for `<(command)` and `/dev/stdin`, is taken.

    Raises:
        OSError: with why.
    """
    mode = os.stat(path).st_mode
    unnamed = stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (stat.S_ISREG(mode) or unnamed):
        raise OSError(errno.EINVAL, "a pipe or a device, not a file")


def write_whole(path: Path, data: bytes, named: Path | None = None) -> Path:
    """Write a file, all of it or nothing: beside its place, to the disk, then under its name.

    Whatever interrupts it, an old file stays as it was.

    Args:
        path: the file.
        data: its contents.
        named: the path that a refusal speaks of, where that is another one.

    Raises:
        WriteError: the file cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(_temporary_name())
    with explained(named or path, len(data)):
        try:
            _fill(temporary, data)
            move(temporary, path)
        finally:
            _unfinished.discard(temporary.absolute())
            if temporary.exists():
                remove(temporary)
        sync_folder(path.parent)
    return path


def _fill(temporary: Path, data: bytes) -> None:
    announce(WritingStep.BEGIN, temporary)
    _unfinished.add(temporary.absolute())
    with open(temporary, "xb", buffering=0) as file:
        for part, step in (
            (data[: len(data) // 2], WritingStep.WRITE),
            (data[len(data) // 2 :], None),
        ):
            view = memoryview(part)
            while view:
                view = view[file.write(view) :]
            if step is not None:
                announce(step, temporary)
        announce(WritingStep.SYNC, temporary)
        os.fsync(file.fileno())


def move(source: Path, target: Path) -> None:
    """Give a complete file its name, in the place of one that has it."""
    announce(WritingStep.PLACE, target)
    os.replace(source, target)


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    announce(WritingStep.REMOVE, path)
    path.unlink(missing_ok=True)


def make_folder(folder: Path) -> list[Path]:
    """Make a folder with its parents; those that were not there, the innermost first.

    Raises:
        WriteError: it cannot be made, or not be written into.
    """
    with explained(folder):
        missing = [part for part in (folder, *folder.parents) if not part.exists()]
        if missing:
            announce(WritingStep.MAKE, folder)
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return missing


def make_part(folder: Path) -> None:
    """Make a folder within a folder of results; a link there, which may lead anywhere, is refused.

    Raises:
        WriteError: it cannot be made or written, or is a link.
    """
    with explained(folder):
        if folder.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    make_folder(folder)


def remove_empty(folders: list[Path]) -> None:
    """Remove those folders that hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):
            announce(WritingStep.REMOVE, folder)
            folder.rmdir()


def sync_folder(folder: Path) -> None:
    """Hand the names in a folder to the disk, where the system knows how."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_stale(folder: Path) -> None:
    """Remove what writers that are gone left behind in a folder."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            found = TEMPORARY.fullmatch(path.name)
            if found and _is_stale(path, found["host"], int(found["process"])):
                remove(path)


def abandon_files() -> None:
    """Remove the files that this process has begun: it is about to end, whatever it does now."""
    for path in list(_unfinished):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(path: Path, size: int = 0) -> Iterator[None]:
    """Turn what the system says of a failed write into a sentence.

    Raises:
        WriteError: in the place of an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise WriteError(path, error, size) from error


def digest(data: bytes) -> str:
    """Return what bytes are recognised by."""
    return hashlib.sha256(data).hexdigest()


def announce(step: WritingStep, path: Path) -> None:
    """Tell those who watch what is about to happen."""
    global _changed
    _changed = True
    for watcher in _watchers:
        watcher(step, path)


def _temporary_name() -> str:
    return f".folt-{host_name()}.{os.getpid()}.{next(_numbers)}.tmp"


def host_name() -> str:
    """Return the name of this machine, as far as it can stand in the name of a file."""
    return re.sub(r"[^\w-]", "-", socket.gethostname())[:40]


def _is_stale(path: Path, host: str, process: int) -> bool:
    if host != host_name():
        return time.time() - path.stat().st_mtime > ABANDONED
    if process == os.getpid():
        return path.absolute() not in _unfinished
    return not is_alive(process)


def is_alive(process: int) -> bool:
    """Return whether a process of this machine is still there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_WORDS = {
    errno.ENOENT: "its folder is not there, or no longer",
    errno.ENOTDIR: "expected a folder, got a file in its path",
    errno.EACCES: "expected a folder that can be written, got one without permission",
    errno.EPERM: "expected a folder that can be written, got one without permission",
    errno.EROFS: "expected a folder that can be written, got a read-only disk",
    errno.EISDIR: "expected a file or nothing there, got a folder",
    errno.ELOOP: "expected a folder or nothing there, got a link",
    errno.ENAMETOOLONG: "expected a shorter name",
}


def _reason(path: Path, error: OSError, size: int) -> str:
    if error.errno in FULL:
        return f"no space left, {_needed(path, error.errno, size)}"
    return _WORDS.get(error.errno or 0, f"the system says '{error.strerror or error}'")


def _needed(path: Path, number: int | None, size: int) -> str:
    """Return how much is wanted, and how much is there where a full disk is the reason."""
    wanted = f"{_megabytes(size)} needed"
    if number != errno.ENOSPC:
        return f"{wanted} and a limit of this account or process is reached"
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return wanted
    return f"{wanted} and {_megabytes(free)} free"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
