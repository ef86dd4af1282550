"""Run tables as a fleet: every finished row is on disk at once, and none is made twice."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from pathlib import Path

from folt.fleet import Here, Runner
from folt.fleet import Job as FleetJob
from folt.fleet.many import run_jobs
from folt.fleet.rows import Row as FleetRow
from folt.fleet.work import FailedJobsError
from folt.paper import document as documents
from folt.paper.document import provenance
from folt.paper.rows import ReproductionSettings, TableJob, row
from folt.paper.shared_fits import SharedFits
from folt.paper.tables import Experiment, TableRow
from folt.store import Entry, Store

_ROWS = "rows"
"""Folder of rows that are finished and not in their table yet."""


def reproduce(
    tables: Sequence[Experiment],
    settings: ReproductionSettings,
    out: Path,
    *,
    runner: Runner | None = None,
    show: bool = True,
) -> list[Path]:
    """Run tables into a folder; what is there already is kept.

    Args:
        tables: the experiments.
        settings: what is asked for.
        out: the folder.
        runner: where rows are made; in this process if None, which lets tables share their fits.
        show: say how far it is on standard error.

    Returns:
        The files of every table: NAME.json, NAME.md, and NAME.png where there is a figure.

    Raises:
        ValueError: the folder holds rows that were made with other settings.
        FailedJobsError: a row could not be made; the others are kept.
    """
    runner = Here() if runner is None else runner
    with Store(out) as store:
        opened = [
            _Table(table, *_opened(store, table.name, settings), settings) for table in tables
        ]
        failed = _filled(opened, settings, out / _ROWS, runner, show)
        files = [path for one in opened for path in write_table(one.table, one.document, one.entry)]
        if failed:
            raise FailedJobsError(f"{failed[0]['job']}: {failed[0]['error']}")
        shutil.rmtree(out / _ROWS, ignore_errors=True)  # all of them are in their tables
    return files


class _Table:
    """A table with its document, into which rows are put as they come."""

    def __init__(
        self,
        table: Experiment,
        entry: Entry,
        document: documents.Document,
        settings: ReproductionSettings,
    ) -> None:
        self.table, self.entry, self.document, self.settings = table, entry, document, settings
        self.order: list[TableJob] = table.cases(settings)

    def missing(self) -> dict[str, TableJob]:
        """Return jobs whose rows are not there, by the names they have in a fleet."""
        return {
            _name(self.table.name, job): job
            for job in self.order
            if not documents.is_done(self.document, job)
        }

    def put(self, rows: list[TableRow], seconds: float) -> None:
        """Add the rows of a job, and write the document."""
        documents.put(self.document, rows, self.order)
        spent = self.document["provenance"]["wall_s"] + seconds
        command = self.settings.command(self.table.name)
        self.document["provenance"] = provenance(command, spent)
        self.entry.replace(_request(self.document), _rows_file(self.document))


def _filled(
    opened: Sequence[_Table],
    settings: ReproductionSettings,
    folder: Path,
    runner: Runner,
    show: bool,
) -> list[FleetRow]:
    """Make the rows that are missing; those that failed."""
    places = {name: (one, job) for one in opened for name, job in one.missing().items()}
    if not places:
        return []

    def tell(name: str, done: FleetRow, ended: int, count: int) -> None:
        if done.get("error") is None:
            places[name][0].put(done["rows"], done["seconds"])

    jobs = [
        FleetJob(name, run=functools.partial(_made, table=one.table, settings=settings), data=job)
        for name, (one, job) in places.items()
    ]
    rows = run_jobs(
        jobs,
        folder,
        runner,
        retries=1 if runner.aside else 0,
        changed="replace",
        command="reproduce",
        progress=show,
        tell=tell,
    )
    return [one for one in rows if one["error"] is not None]


def _name(table: str, job: TableJob) -> str:
    return f"{table}-{job.case}-{'+'.join(job.methods)}-{job.seed}"


def _made(
    job: TableJob, *, table: Experiment, settings: ReproductionSettings
) -> documents.Document:
    """Return the rows of a job, where it runs."""
    return {"rows": _rows(table, _shared_fits(settings), job)}


@functools.lru_cache(maxsize=1)
def _shared_fits(settings: ReproductionSettings) -> SharedFits:
    """Return one per process, so that the tables it makes share their fits."""
    return SharedFits(settings)


def _opened(
    store: Store, name: str, settings: ReproductionSettings
) -> tuple[Entry, documents.Document]:
    """Return the rows that are there, and the note that vouches for them.

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


def _rows(table: Experiment, fits: SharedFits, job: TableJob) -> list[TableRow]:
    """The rows of a job; a training that diverges is a result, and must not stop the others."""
    try:
        return table.run(fits, job)
    except FloatingPointError as error:
        quick = fits.settings.quick
        return [
            row(table.name, job.case, method, job.seed, quick=quick, error=str(error))
            for method in job.methods
        ]


def write_table(table: Experiment, document: documents.Document, entry: Entry) -> list[Path]:
    """Return rows, page and figure of a table, from its document alone."""
    files = {
        **_rows_file(document),
        f"{table.name}.md": documents.document_page(table, document).encode(),
    }
    shown = documents.finished(document)
    figure = table.figure(shown) if shown["rows"] else None
    if figure is not None:
        from folt.report.style import png

        files[f"{table.name}.png"] = png(figure)
    return entry.replace(_request(document), files)


def _rows_file(document: documents.Document) -> dict[str, bytes]:
    return {f"{document['name']}.json": documents.document_bytes(document)}


def _request(document: documents.Document) -> documents.Document:
    return {"command": "reproduce", "name": document["name"], **document["settings"]}
