"""A finished result: its files, and a note that vouches for them.

The note says what was asked for and holds a digest of every file and of itself. A new result is
first written whole into a hidden folder beside its place, its note last; from then on it is
complete, and moving it to its place can be taken up again after any interruption. While it moves
there is no note: first the old note goes, then the old files, then the new files come, and last
the new note. So a reader finds the old result, the new one, or none, and never a mixture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from folt.store.files import (
    digest,
    explained,
    make_folder,
    move,
    remove,
    remove_empty,
    sync_folder,
    write_whole,
)
from folt.store.strict_json import Document, plain, strict_json

_FORMAT = 1
"""Format of the note. Another one is no note."""

Request = Mapping[str, object]
"""What was asked for, as plain values: command, data by their digest, settings, seed, formats."""


class IncompleteError(RuntimeError):
    """Some files of a result could not be made; what took long to compute is written.

    Attributes:
        is_failure: that the input was right.
    """

    is_failure = True


class Note(NamedTuple):
    """What a note says.

    Attributes:
        request: what was asked for.
        files: digests by name.
        result: what else belongs to the result, as plain values.
        gone: files of the result before that this one has not.
    """

    request: Document
    files: dict[str, str]
    result: Document | None = None
    gone: tuple[str, ...] = ()


def fingerprint(request: Request) -> str:
    """Return what a request is recognised by; nothing needs to be built to compute it."""
    return digest(_canonical(plain(request)))


class Entry:
    """One result in a folder, under the name of its note.

    Args:
        note: path of the note.
    """

    def __init__(self, note: Path) -> None:
        self.note = Path(note)
        self.place = self.note.parent
        self._staged = self.place / f".{self.note.stem}.folt-new"

    def read(self) -> Note | None:
        """Return the note, or None where there is none that can be relied on."""
        return _read(self.note)

    def intact(self, request: Request) -> frozenset[str]:
        """Names of the files of this very request that are as they were written."""
        note = self.read()
        if note is None or fingerprint(note.request) != fingerprint(request):
            return frozenset()
        return frozenset(note.files) - frozenset(self.damaged())

    def damaged(self) -> tuple[str, ...]:
        """Return names of files that are missing or are not as they were written."""
        note = self.read()
        files = {} if note is None else note.files
        return tuple(name for name in files if _digest_at(self.place / name) != files[name])

    def result(self) -> Document | None:
        """Return what the note holds beside its files; None without a note."""
        note = self.read()
        return None if note is None else note.result

    def difference(self, request: Request) -> tuple[str, object, object] | None:
        """The first part of a request that differs from the finished one: name, then, now."""
        note = self.read()
        if note is None:
            return None
        then, now = note.request, plain(request)
        for name in [*now, *(name for name in then if name not in now)]:
            if then.get(name) != now.get(name):
                return name, then.get(name), now.get(name)
        return None

    def replace(
        self, request: Request, files: Mapping[str, bytes], result: Document | None = None
    ) -> list[Path]:
        """Put a complete result in the place of what is there.

        Args:
            request: what was asked for.
            files: contents by name, all of them made before.
            result: what else belongs to it, as plain values.

        Raises:
            WriteError: it cannot be written; what was there before is still there.
        """
        old = self.read()
        digests = {name: digest(data) for name, data in files.items()}
        gone = () if old is None else tuple(name for name in old.files if name not in files)
        note = Note(plain(request), digests, plain(result), gone)
        self._clear()
        if not (digests or gone):  # the note is all there is, and one file is replaced at once
            write_whole(self.note, _text(note))
            return []
        make_folder(self._staged)
        try:
            for name, data in files.items():
                place = self.place / _plain_name(name)
                write_whole(self._staged / name, data, named=place)
            write_whole(self._staged / self.note.name, _text(note), named=self.note)
        except BaseException:
            self._clear()
            raise
        self._move(note)
        return [self.place / name for name in files]

    def withdraw(self) -> None:
        """Remove the result: its note first, then its files."""
        note = self.read()
        if note is not None:
            with explained(self.note):
                remove(self.note)
                for name in note.files:
                    remove(self.place / name)

    def recover(self) -> None:
        """Finish what an interruption left: a complete new result is moved to its place."""
        if self._staged.is_symlink() or not self._staged.is_dir():
            self._clear()
            return
        note = _read(self._staged / self.note.name)
        if note is None or not self._is_complete(note):
            self._clear()
        else:
            self._move(note)

    def _is_complete(self, note: Note) -> bool:
        """Return whether every file of a staged note is there, moved already or not."""
        return all(
            known in (_digest_at(self._staged / name), _digest_at(self.place / name))
            for name, known in note.files.items()
        )

    def _move(self, note: Note) -> None:
        """From the hidden folder to the place; may be begun again at any point."""
        with explained(self.note):
            waiting = [name for name in note.files if (self._staged / name).exists()]
            remove(self.note)
            for name in [*note.gone, *waiting]:
                if (self.place / name).exists():
                    remove(self.place / name)
            for name in waiting:
                move(self._staged / name, self.place / name)
            sync_folder(self.place)
            move(self._staged / self.note.name, self.note)
            sync_folder(self.place)
        self._clear()

    def _clear(self) -> None:
        """Remove the hidden folder; its note first, so that half of it is never taken for all.

        A link of that name goes, and what it leads to stays.
        """
        if self._staged.is_symlink():
            remove(self._staged)
        elif self._staged.is_dir():
            remove(self._staged / self.note.name)
            for path in self._staged.iterdir():
                remove(path)
            remove_empty([self._staged])


def array_digest(*arrays: ArrayLike) -> str:
    """Return what data are recognised by."""
    found = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        found.update(repr((values.shape, str(values.dtype))).encode())
        found.update(values.tobytes())
    return found.hexdigest()


def digest_of_file(path: Path) -> str:
    """Return what a file is recognised by."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_at(path: Path) -> str | None:
    try:
        return digest_of_file(path)
    except OSError:
        return None


def _text(note: Note) -> bytes:
    tree = {"folt": "finished result", "format": _FORMAT, **note._asdict()}
    return (strict_json({**tree, "digest": digest(_canonical(plain(tree)))}) + "\n").encode()


def _read(path: Path) -> Note | None:
    """The note at a path, if it is one of this format and says of itself that it is whole."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        known = tree.pop("digest")
        if tree["format"] != _FORMAT or known != digest(_canonical(tree)):
            return None
        files = {_plain_name(name): str(value) for name, value in tree["files"].items()}
        gone = tuple(_plain_name(name) for name in tree["gone"])
        return Note(tree["request"], files, tree["result"], gone)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _canonical(tree: object) -> bytes:
    return json.dumps(tree, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def _plain_name(name: str) -> str:
    """A name in the folder itself: nothing outside it is ever replaced or removed."""
    if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"expected the name of a file, got {name!r}")
    return name
