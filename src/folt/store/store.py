"""A folder of results with one writer.

One writer per folder, on this machine or on any that sees it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from folt.store import files
from folt.store.entry import Entry
from folt.store.files import WritingStep, announce, explained, host_name

try:
    import fcntl
except ImportError:  # Windows: files are whole there too, but two writers are not told apart
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = ".folt.lock"

_held: set[Path] = set()


class LockedError(ValueError):
    """Somebody else is writing into the folder."""


class Lock:
    """A lock that the system gives up with its process, however that ends.

    The file names its holder. It is removed while the lock is still held; whoever waited for the
    removed file sees that the name now belongs to another, and asks again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockedError: somebody has it, with who that is.
            WriteError: the folder cannot be written.
        """
        announce(WritingStep.BEGIN, self.path)
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
            announce(WritingStep.REMOVE, self.path)
            with contextlib.suppress(OSError):
                self.path.unlink()
        finally:
            os.close(self._handle)
            self._handle = None
            _held.discard(self.path)


def abandon_locks() -> None:
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


NOTE = "settings.json"
"""Name of the note of a folder with one result."""

_begun: list[Path] = []
"""Folders made for results, the innermost first; empty ones go when a run is cut short."""

_ATTEMPTS = 20
"""Times that a folder is made again which another process removes because it is empty."""


class Store:
    """A folder that this process alone writes, made before the long work so that a bad path fails.

    What earlier writers left half-done is removed. The folder itself is removed again at the end
    if nothing came to stand in it.

    Args:
        folder: where results go.

    Raises:
        WriteError: it cannot be made or written.
        LockedError: somebody else is writing it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._made: list[Path] = []
        self._lock = Lock(self.folder)

    def __enter__(self) -> Store:
        for attempt in range(_ATTEMPTS):
            made = files.make_folder(self.folder)
            self._made += [part for part in made if part not in self._made]
            try:
                self._lock.acquire()
                break
            except files.WriteError as error:
                if not _is_gone(error) or attempt == _ATTEMPTS - 1:
                    self._tidy()
                    raise
        _begun[:0] = self._made
        files.remove_stale(self.folder)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._lock.release()
        finally:
            self._tidy()

    def entry(self, note: str = NOTE) -> Entry:
        """Return the result under the name of its note, which may be `part/name.json`."""
        entry = Entry(self.folder / note)
        files.remove_stale(entry.place)
        entry.recover()
        return entry

    def write(self, name: str, data: bytes) -> Path:
        """Write a file that no note vouches for."""
        return files.write_whole(self.folder / name, data)

    def _tidy(self) -> None:
        files.remove_empty(self._made)
        for folder in self._made:
            with contextlib.suppress(ValueError):
                _begun.remove(folder)
        self._made = []


def abandon() -> None:
    """Remove what is half-written, from any thread: the process is about to end."""
    files.abandon_files()
    abandon_locks()
    for folder in _begun:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_gone(error: files.WriteError) -> bool:
    return isinstance(error.__cause__, FileNotFoundError)
