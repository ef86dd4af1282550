"""Saving fits, and finding them again by what was asked for; somewhere, if at all possible."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from folt.fit import Fit
from folt.fit.file import FIT_FORMAT, load, to_bytes
from folt.problem import Problem
from folt.report.page import page
from folt.store import Entry, IncompleteError, Request, WriteError, write_whole
from folt.store.packages import require
from folt.store.strict_json import Document

FIT, PAGE = "fit.nc", "report.html"

Files = dict[str, bytes]


def request_for(command: str, **settings: object) -> Document:
    """Return what a command is asked for, as its note will hold it."""
    return {"command": command, "fit_format": FIT_FORMAT, **settings}


def claim(entry: Entry, request: Request) -> None:
    """Refuse a place that holds the result of another command, or a page that cannot be made.

    Raises:
        ValueError: naming that command, or what is not installed.
    """
    require("a report", "jinja2", "matplotlib")  # before anything is computed
    note = entry.read()
    there = request["command"] if note is None else note.request.get("command")
    if there != request["command"]:
        raise ValueError(
            f"{entry.place} holds a result of folt {there}: give another --out folder, or remove "
            "that one"
        )


def from_source(fit: Fit, source: str) -> Fit:
    """Return the fit whose page names the file that it came from."""
    return dataclasses.replace(fit, provenance={**fit.provenance, "source": source})


def files_of(fit: Fit, more: Mapping[str, bytes] | None = None) -> Files:
    """Return the file of a fit, its page, and what else belongs to them."""
    return {FIT: to_bytes(fit), PAGE: page(fit).encode(), **(more or {})}


UNFINISHED: Document = {"unfinished": True}
"""What a note holds while pages and pictures are still to come."""


def keep_first(
    entry: Entry, request: Request, first: Files, rest: Callable[[], Files]
) -> list[Path]:
    """Write what took long to compute; then make the pages and pictures, and write everything.

    Whatever becomes of the pages, what came first is in its place.

    Args:
        entry: where the result comes to be.
        request: what was asked for.
        first: contents by name, made already.
        rest: makes the other files, and may make one of the first ones anew.

    Raises:
        IncompleteError: the other files could not be made; the sentence says where the first are.
        WriteError: as `keep`.
    """
    (place, *_) = keep(entry, request, first, UNFINISHED)
    try:
        files = {**first, **rest()}
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise IncompleteError(
            f"{place} is written, but a page or a picture of it could not be made: {what[:500]}"
        ) from error
    return keep(entry, request, files)


def keep_fit(entry: Entry, request: Request, fit: Fit, files: Callable[[Fit], Files]) -> list[Path]:
    """Write a fit, then make all its files and write them, as `keep_first` does."""
    return keep_first(entry, request, {FIT: to_bytes(fit)}, lambda: files(fit))


def keep(
    entry: Entry, request: Request, files: Files, result: Document | None = None
) -> list[Path]:
    """Put a finished fit in its place, or where there is room for it.

    Raises:
        WriteError: it cannot be written there; the sentence says where the fit is instead.
    """
    try:
        return entry.replace(request, files, result)
    except WriteError as error:
        where = _second_place(files.get(FIT))
        error.args = (f"{error.args[0]}; {where}",)
        raise


def _second_place(fit: bytes | None) -> str:
    if fit is None:
        return "nothing was changed"
    for folder in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
        try:
            place = Path(tempfile.mkdtemp(prefix="folt-", dir=folder)) / FIT
        except OSError:
            continue
        try:
            write_whole(place, fit)
        except WriteError:
            place.parent.rmdir()
            continue
        return f"the fit is in {place} instead"
    return "there was no room for the fit elsewhere either"


def kept_fit(
    entry: Entry,
    request: Request,
    problem: Problem,
    make: Callable[[], Fit],
    files: Callable[[Fit], Files],
    before: Callable[[], None] = lambda: None,
) -> Fit:
    """Return the fit from its file if the same one was finished before, otherwise made and kept.

    Args:
        entry: where it is or comes to be.
        request: what was asked for.
        problem: the problem.
        make: makes the fit.
        files: all files of a fit.
        before: called before a new fit takes the place of an old one.
    """
    fit = _found(entry, request, problem)
    if fit is not None and not entry.damaged() and entry.result() is None:
        return fit
    if fit is None:
        fit = make()
        before()
    keep_fit(entry, request, fit, files)
    return fit


def _found(entry: Entry, request: Request, problem: Problem) -> Fit | None:
    """Return the fit that was finished before, None if there is none or it is damaged."""
    if FIT in entry.intact(request):
        try:
            return load(entry.place / FIT, problem=problem)
        except ValueError as error:
            warnings.warn(f"{error}; it is made anew", stacklevel=3)
    elif entry.difference(request) is None and FIT in entry.damaged():
        warnings.warn(
            f"{entry.place / FIT} is missing or was changed after folt wrote it: it is made anew",
            stacklevel=3,
        )
    return None
