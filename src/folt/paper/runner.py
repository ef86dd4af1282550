"""Run tables as a fleet: every finished row is on disk at once, and none is made twice."""

from __future__ import annotations

import functools
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

from folt.fleet import Here, Runner
from folt.fleet import Job as FleetJob
from folt.fleet.many import run_jobs
from folt.fleet.rows import Row as FleetRow
from folt.fleet.work import FailedJobsError
from folt.paper import document as documents
from folt.paper.document import commit, provenance
from folt.paper.rows import ReproductionSettings, TableJob, row
from folt.paper.shared_fits import SharedFits
from folt.paper.tables import Experiment, TableRow
from folt.store import Entry, Store
from folt.store.strict_json import Document

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

    Warns:
        UserWarning: rows that are kept were made at another commit.
    """
    runner = Here() if runner is None else runner
    with Store(out) as store:
        opened = [_Table(store, table, settings) for table in tables]
        older = [words for one in opened if (words := one.older()) is not None]
        if older:
            warnings.warn(
                f"rows of another version are kept: {'; '.join(older)}; give another --out to make "
                "them anew",
                UserWarning,
                stacklevel=2,
            )
        failed = _filled(opened, settings, out / _ROWS, runner, show)
        files = [path for one in opened for path in write_table(one.table, one.document, one.entry)]
        if failed:
            raise FailedJobsError(f"{failed[0]['job']}: {failed[0]['error']}")
        shutil.rmtree(out / _ROWS, ignore_errors=True)  # all of them are in their tables
    return files


class _Table:
    """A table with its document, into which rows are put as they come.

    Raises:
        ValueError: its rows were changed after they were written, or made with other settings.
    """

    def __init__(self, store: Store, table: Experiment, settings: ReproductionSettings) -> None:
        self.table, self.settings, self.order = table, settings, table.cases(settings)
        self.entry = store.entry(f"{table.name}.note.json")
        path = store.folder / f"{table.name}.json"
        if path.exists() and path.name in self.entry.damaged():
            raise ValueError(
                f"{path} was changed after folt wrote it: restore it, give another --out, or "
                f"remove it and {self.entry.note.name} to start over"
            )
        self.document = documents.open_document(path, table.name, settings)

    def missing(self) -> dict[str, TableJob]:
        """Return jobs whose rows are not there, by the names they have in a fleet."""
        return {
            f"{self.table.name}-{job.case}-{'+'.join(job.methods)}-{job.seed}": job
            for job in self.order
            if not documents.is_done(self.document, job)
        }

    def older(self) -> str | None:
        """Return which rows are there already, where another version of folt has made them."""
        made, now = self.document["provenance"], commit()
        count = len(self.order) - len(self.missing())
        if not count or made.get("git") == now:
            return None
        return (
            f"{count} of {self.table.name} made on {made.get('date')} at commit {made.get('git')}"
        )

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
    """Make the rows that are missing, and return those that failed."""
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


def _made(job: TableJob, *, table: Experiment, settings: ReproductionSettings) -> Document:
    """Return the rows of a job; a training that diverges is a result, and stops no others."""
    try:
        return {"rows": table.run(_shared_fits(settings), job)}
    except FloatingPointError as error:
        parts = {"quick": settings.quick, "error": str(error)}
        return {"rows": [row(table.name, job.case, m, job.seed, **parts) for m in job.methods]}


@functools.lru_cache(maxsize=1)
def _shared_fits(settings: ReproductionSettings) -> SharedFits:
    """Return one per process, so that the tables it makes share their fits."""
    return SharedFits(settings)


def write_table(table: Experiment, document: Document, entry: Entry) -> list[Path]:
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


def _rows_file(document: Document) -> dict[str, bytes]:
    return {f"{document['name']}.json": documents.document_bytes(document)}


def _request(document: Document) -> Document:
    return {"command": "reproduce", "name": document["name"], **document["settings"]}
