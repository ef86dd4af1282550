"""Finished work on a disk: whole files, a note that vouches for them, one writer at a time.

A `Store` is a folder that one process writes. Its entries are results, each with its note. This
room knows nothing of fits: it takes names and bytes.
"""

from folt.store.entry import (
    Entry,
    IncompleteError,
    Note,
    Request,
    array_digest,
    digest_of_file,
    fingerprint,
)
from folt.store.files import WriteError, WritingStep, digest, watched, write_whole
from folt.store.store import LockedError, Store, abandon

__all__ = [
    "Entry",
    "IncompleteError",
    "LockedError",
    "Note",
    "Request",
    "Store",
    "WriteError",
    "WritingStep",
    "abandon",
    "array_digest",
    "digest",
    "digest_of_file",
    "fingerprint",
    "watched",
    "write_whole",
]
