"""Files on a disk: finished work, whole and vouched for; tables and draws as people have them.

A `Store` is a folder that one process writes. Its entries are results, each with its note: it takes
names and bytes, and knows nothing of fits. `tables` and `draws` read what others have written.
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
