"""A folder of results with one writer."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

from folt.store import files, lock
from folt.store.entry import Entry

NOTE = "settings.json"
"""Name of the note of a folder with one result."""

_begun: list[Path] = []
"""Folders made for results, the innermost first; empty ones go when a run is cut short."""

ATTEMPTS = 20
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
        self._lock = lock.Lock(self.folder)

    def __enter__(self) -> Store:
        for attempt in range(ATTEMPTS):
            made = files.make_folder(self.folder)
            self._made += [part for part in made if part not in self._made]
            try:
                self._lock.acquire()
                break
            except files.WriteError as error:
                if not _is_gone(error) or attempt == ATTEMPTS - 1:
                    self._tidy()
                    raise
        _begun[:0] = self._made
        files.remove_stale(self.folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._lock.release()
        finally:
            self._tidy()

    def entry(self, note: str = NOTE) -> Entry:
        """The result under the name of its note, which may be `part/name.json`."""
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
    files.abandon()
    lock.abandon()
    for folder in _begun:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_gone(error: files.WriteError) -> bool:
    return isinstance(error.__cause__, FileNotFoundError)
