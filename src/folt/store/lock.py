"""One writer per folder, on this machine or on any that sees it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from folt.store.files import Step, announce, explained, host_name

try:
    import fcntl
except ImportError:  # Windows: files are whole there too, but two writers are not told apart
    fcntl = None  # type: ignore[assignment]

NAME = ".folt.lock"

_held: set[Path] = set()


class LockedError(ValueError):
    """Somebody else is writing into the folder."""


class Lock:
    """A lock that the system gives up with its process, however that ends.

    The file names its holder. It is removed while the lock is still held; whoever waited for the
    removed file sees that the name now belongs to another, and asks again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockedError: somebody has it, with who that is.
            WriteError: the folder cannot be written.
        """
        announce(Step.BEGIN, self.path)
        with explained(self.path):
            while not self._try():
                pass
        _held.add(self.path)

    def _try(self) -> bool:
        """Take the lock; False where its file was removed in between."""
        # A link there could lead to a file that is not ours, and would be emptied.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.path, flags, 0o666)
        try:
            if fcntl is not None:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise LockedError(self._refusal(handle)) from None
            if not _is_same(handle, self.path):
                os.close(handle)
                return False
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {host_name()}".encode())
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(handle)
            raise
        self._handle = handle
        return True

    def _refusal(self, handle: int) -> str:
        holder = os.read(handle, 200).decode(errors="replace") or "another process"
        return (
            f"{self.path.parent} is being written by {holder}: wait until that has ended, or give "
            "another --out folder"
        )

    def release(self) -> None:
        """Give the lock up and remove its file."""
        if self._handle is None:
            return
        try:
            announce(Step.REMOVE, self.path)
            with contextlib.suppress(OSError):
                self.path.unlink()
        finally:
            os.close(self._handle)
            self._handle = None
            _held.discard(self.path)


def abandon() -> None:
    """Remove the files of all locks held: the process is about to end."""
    for path in list(_held):
        with contextlib.suppress(OSError):
            path.unlink()


def _is_same(handle: int, path: Path) -> bool:
    try:
        here, there = os.fstat(handle), os.stat(path)
    except FileNotFoundError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
