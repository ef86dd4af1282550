"""Run tables row by row: every finished row is on disk at once, and none is made twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from folt.paper import document as documents
from folt.paper.provenance import provenance
from folt.paper.rows import Job, row
from folt.paper.settings import Settings
from folt.paper.tables import Row
from folt.paper.workshop import Workshop
from folt.store import Entry, Store

Tell = Callable[[str, int], None]
"""Called with the current job and the number of jobs done."""


def reproduce(
    tables: Sequence[ModuleType], settings: Settings, out: Path, *, show: bool = True
) -> list[Path]:
    """Run tables into a folder; what is there already is kept.

    Args:
        tables: modules of `folt.paper`.
        settings: what is asked for.
        out: the folder.
        show: a live progress bar if standard error is a terminal.

    Returns:
        The files of every table: NAME.json, NAME.md, and NAME.png where there is a figure.

    Raises:
        ValueError: the folder holds rows that were made with other settings.
    """
    with Store(out) as store:
        opened = [(table, *_opened(store, table.NAME, settings)) for table in tables]
        jobs = [(*part, part[0].cases(settings)) for part in opened]
        total = sum(len(order) for *_, order in jobs)
        workshop, files, done = Workshop(settings), [], 0
        with _bar(show, total) as tell:
            for table, entry, document, order in jobs:
                _fill(table, document, order, workshop, entry, done, tell)
                done += len(order)
                files += write_table(table, document, entry)
    return files


def _opened(store: Store, name: str, settings: Settings) -> tuple[Entry, documents.Document]:
    """The rows that are there, and the note that vouches for them.

    Raises:
        ValueError: they were changed after they were written, or made with other settings.
    """
    entry = store.entry(f"{name}.note.json")
    path = store.folder / f"{name}.json"
    if path.exists() and path.name in entry.damaged():
        raise ValueError(
            f"{path} was changed after folt wrote it: restore it, give another --out, or remove "
            f"it and {entry.note.name} to start over"
        )
    return entry, documents.open_document(path, name, settings)


def _fill(
    table: ModuleType,
    document: documents.Document,
    order: list[Job],
    workshop: Workshop,
    entry: Entry,
    done: int,
    tell: Tell,
) -> None:
    """Make the rows that are missing, one job after the other."""
    settings, spent = workshop.settings, document["provenance"]["wall_s"]
    for number, job in enumerate(order):
        tell(f"{table.NAME}: {job}", done + number)
        if documents.is_done(document, job):
            continue
        started = time.perf_counter()
        documents.put(document, _rows(table, workshop, job), order)
        spent += time.perf_counter() - started
        document["provenance"] = provenance(settings.command(table.NAME), spent)
        entry.replace(_request(document), _rows_file(document))


def _rows(table: ModuleType, workshop: Workshop, job: Job) -> list[Row]:
    """The rows of a job; a training that diverges is a result, and must not stop the others."""
    try:
        return table.run(workshop, job)
    except FloatingPointError as error:
        quick = workshop.settings.quick
        return [
            row(table.NAME, job.case, method, job.seed, quick=quick, error=str(error))
            for method in job.methods
        ]


def write_table(table: ModuleType, document: documents.Document, entry: Entry) -> list[Path]:
    """Rows, page and figure of a table, from its document alone."""
    files = {
        **_rows_file(document),
        f"{table.NAME}.md": documents.page(table, document).encode(),
    }
    shown = documents.finished(document)
    if hasattr(table, "figure") and shown["rows"]:
        from folt.report.figures import png

        files[f"{table.NAME}.png"] = png(table.figure(shown))
    return entry.replace(_request(document), files)


def _rows_file(document: documents.Document) -> dict[str, bytes]:
    return {f"{document['name']}.json": documents.document_bytes(document)}


def _request(document: documents.Document) -> documents.Document:
    return {"command": "reproduce", "name": document["name"], **document["settings"]}


@contextmanager
def _bar(show: bool, total: int) -> Iterator[Tell]:
    """A bar over the jobs with the current one; silent where nobody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<58}"), BarColumn(bar_width=24))
    with Progress(
        *columns,
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (show and console.is_terminal),
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda name, number: bar.update(task, description=name[:58], completed=number)
