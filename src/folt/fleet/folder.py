"""The folder of a fleet: whose it is, what is finished in it, and what was changed since."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from folt.fleet.identity import look_again
from folt.fleet.job import FORMAT, Job
from folt.fleet.rows import Row
from folt.fleet.schedule import finished_row
from folt.fleet.work import ROW
from folt.store import Entry, Store, fingerprint
from folt.store.files import make_part
from folt.store.strict_json import Document, plain


def requests_of(jobs: Sequence[Job]) -> dict[str, Document]:
    """What each job asks for; one that starts from another asks for that one too."""
    look_again()
    plainly = {job.name: plain(job.request()) for job in jobs}
    by_name = {job.name: job for job in jobs}

    def whole(name: str) -> Document:
        start = by_name[name].start
        return plainly[name] if start is None else {**plainly[name], "start": [start, mark(start)]}

    @functools.cache
    def mark(name: str) -> str:
        return fingerprint(whole(name))

    return {job.name: whole(job.name) for job in jobs}


def opened(
    store: Store,
    jobs: Sequence[Job],
    requests: dict[str, Document],
    command: str,
    resume: bool,
    changed: str,
) -> dict[str, Row]:
    """The rows of jobs that are finished, after what earlier runs left half-done is tidied up.

    Raises:
        ValueError: the folder is that of something else, or a job is there with other settings.
    """
    whole = store.entry()
    names = [job.name for job in jobs]
    _require_own(whole, command, names if changed == "refuse" else None, store.folder)
    done: dict[str, Row] = {}
    for name in names:
        if not os.path.lexists(store.folder / name):
            continue
        make_part(store.folder / name)
        entry = store.entry(f"{name}/{ROW}")
        if not resume:
            continue
        row = finished_row(entry, requests[name])
        if row is not None:
            done[name] = row
        elif changed == "refuse":
            _require_unchanged(entry, name, requests[name])
    whole.replace({"command": command, "format": FORMAT}, {}, {"jobs": names})
    return done


def _require_own(whole: Entry, command: str, names: Sequence[str] | None, folder: Path) -> None:
    """Refuse the folder of another command, or of a fleet that has no job of these names."""
    note = whole.read()
    if note is None:
        return
    there = note.request.get("command")
    if there != command:
        raise ValueError(
            f"{folder} holds a result of folt {there}: give another folder, or remove that one"
        )
    known = note.result["jobs"] if isinstance(note.result, dict) else []
    if names is not None and known and not set(known) & set(names):
        raise ValueError(
            f"{folder} holds another fleet, of {len(known)} jobs such as {known[0]!r}: give "
            "another folder, or remove that one"
        )


def _require_unchanged(entry: Entry, name: str, request: Document) -> None:
    """Refuse a job that was finished with other settings; one that failed may be changed."""
    note, differing = entry.read(), entry.difference(request)
    if note is None or differing is None or (note.result or {}).get("error"):
        return
    part, then, now = _inmost(*differing)
    said = f"was finished with {part} = {then}, now it is {now}"
    if part.endswith(".text"):
        changed = part.removesuffix(".text").replace(".uses.", ", which uses ")
        said = f"was finished before the text of a function was changed ({changed})"
    raise ValueError(
        f"job {name!r} {said}: give another folder, or make everything anew with resume=False "
        "(--no-resume)"
    )


def _inmost(part: str, then: object, now: object) -> tuple[str, str, str]:
    """The first difference within a difference, so that one setting is named and not all."""
    while isinstance(then, dict) and isinstance(now, dict):
        keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
        part, then, now = f"{part}.{keys[0]}", then.get(keys[0]), now.get(keys[0])
    return part, str(then)[:60], str(now)[:60]
