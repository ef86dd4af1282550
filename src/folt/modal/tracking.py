"""Window after window of a long record, each started from the one before.

A finished window is its fit and a note that holds what was found. Whatever interrupts the run, the
next one finds them, checks that they were made from the same samples with the same settings, and
goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from folt.fit import Fit
from folt.fit.file import load, to_bytes
from folt.modal.cross_spectra import OVERLAP, welch
from folt.modal.identification import Settings, fitted, problem_for
from folt.modal.pictures import track_figure
from folt.modal.records import Record
from folt.modal.spectrum import Measured
from folt.modal.table import as_csv, mode_rows
from folt.report import figures
from folt.report.kept import claim, keep, request_for
from folt.store import Entry, Store, array_digest
from folt.store.strict_json import Document, plain

Told = Callable[[int, int, Document], None]
"""Called with the number of a window, the number of windows, and what was found in it."""


@dataclasses.dataclass(frozen=True)
class Windows:
    """How a long record is cut and every piece made into a spectrum.

    Attributes:
        length: seconds per window.
        step: seconds from the beginning of one to that of the next.
        band: lowest and highest frequency in Hz.
        segment: seconds per segment of Welch's method; the default for the window if None.
        overlap: share of a segment that the next one repeats.
    """

    length: float
    step: float
    band: tuple[float, float]
    segment: float | None = None
    overlap: float = OVERLAP

    def places(self, record: Record) -> list[tuple[int, int]]:
        """First sample and number of samples of every window that fits.

        Raises:
            ValueError: the record is shorter than one window, or the window has no length.
        """
        count, hop = round(self.length * record.rate), round(self.step * record.rate)
        if count < 1 or hop < 1:
            raise ValueError(
                f"expected a window and a step of at least one sample, got {self.length:g} s and "
                f"{self.step:g} s at {record.rate:g} Hz"
            )
        if count > len(record.values):
            raise ValueError(
                f"a window of {self.length:g} s does not fit the record of {record.duration:g} s"
            )
        return [(first, count) for first in range(0, len(record.values) - count + 1, hop)]

    def spectrum(self, part: Record) -> Measured:
        """The spectrum of one window."""
        return welch(part, self.band, segment=self.segment, overlap=self.overlap)


def track(
    record: Record,
    windows: Windows,
    modes: int,
    settings: Settings,
    out: Path,
    *,
    progress: bool = True,
    tell: Told | None = None,
) -> list[Path]:
    """Identify the modes in every window of a record, or in those that are still to do.

    Args:
        record: the whole record.
        windows: how it is cut.
        modes: number of modes.
        settings: model, priors and sampling.
        out: folder of the results; `windows/` in it holds the finished windows.
        progress: show a live progress bar if standard error is a terminal.
        tell: told what was found in each window.

    Returns:
        The tidy table `windows.csv` and the picture `windows.png`.

    Raises:
        ValueError: the record cannot be cut like that, or the folder holds windows that were
            made with other settings or from other samples.
    """
    places = windows.places(record)
    problem_for(windows.spectrum(record.part(*places[0])), modes, settings)
    asked = request_for("modal", modes=modes, **_plain(windows), **settings.asked())
    with Store(out) as store:
        claim(store.entry(), asked)
        jobs = [_job(store, number, record.part(*at), asked) for number, at in enumerate(places, 1)]
        previous: Fit | None = None
        found: list[Document] = []
        for number, job in enumerate(jobs, 1):
            first = places[number - 1][0]
            done = job.found()
            if done is None:
                previous = _newest(jobs, number - 1) if previous is None else previous
                fit, done = _one(job.part, first, windows, modes, settings, previous, progress)
                keep(job.entry, job.request, {job.file: to_bytes(fit)}, done)
                previous = fit
            else:
                previous = None
            found.append(plain(done))
            table = {"windows.csv": as_csv(tidy(found)).encode()}
            if number == len(jobs):
                table["windows.png"] = figures.png(track_figure(tidy(found)))
            files = store.entry().replace({**asked, "windows": number}, table)
            if tell is not None:
                tell(number, len(places), done)
    return files


class Job(NamedTuple):
    """A window: its samples, and where what is found in it stands."""

    entry: Entry
    request: Document
    part: Record
    file: str

    def found(self) -> Document | None:
        """What was found in the window, or None if that is still to do."""
        return self.entry.result() if self.file in self.entry.intact(self.request) else None


def _job(store: Store, number: int, part: Record, asked: Document) -> Job:
    """A window that is to be done or was done in just this way.

    Raises:
        ValueError: it was done with other settings or from other samples.
    """
    entry = store.entry(f"windows/{number:05d}.json")
    request = {**asked, "samples": array_digest(part.values, part.rate)}
    differing = entry.difference(request)
    if differing is not None:
        name, then, now = differing
        if name == "samples":
            raise ValueError(
                f"{entry.note} was made from other samples than this record has there: expected "
                "the same record, or another --out folder"
            )
        raise ValueError(
            f"{entry.note} was made with {name} = {then}, now it is {now}: expected the same "
            "settings, or another --out folder"
        )
    return Job(entry, request, part, f"{number:05d}.nc")


def _one(
    part: Record,
    first: int,
    windows: Windows,
    modes: int,
    settings: Settings,
    previous: Fit | None,
    progress: bool,
) -> tuple[Fit, Document]:
    """The fit of one window and its account."""
    measured = windows.spectrum(part)
    problem = problem_for(measured, modes, settings)
    model = settings.model_for(measured)
    fit = fitted(problem, model, settings, previous, progress)
    begin = first / part.rate
    return fit, {
        "start_s": begin,
        "end_s": begin + part.duration,
        "verdict": fit.certificate.status.name,
        "started_from": fit.provenance["started_from"],
        "accept": fit.accept_rate,
        "gamma": fit.certificate.qc["target"][0.05].gamma,
        "log_evidence": fit.log_evidence.value,
        "wall_s": sum(fit.wall.values()),
        "modes": [dataclasses.asdict(row) for row in mode_rows(fit, measured.resolution)],
    }


def _newest(jobs: list[Job], number: int) -> Fit | None:
    """The fit of the window before, if there is one."""
    if number < 1 or jobs[number - 1].found() is None:
        return None
    return load(jobs[number - 1].entry.place / jobs[number - 1].file)


def tidy(found: list[Document]) -> list[Document]:
    """One row per window and mode."""
    return [
        {
            "window": number,
            "start_s": done["start_s"],
            "end_s": done["end_s"],
            **mode,
            **{key: done[key] for key in ("verdict", "started_from", "accept", "log_evidence")},
        }
        for number, done in enumerate(found, 1)
        for mode in done["modes"]
    ]


def _plain(value: Any) -> Document:
    return plain(dataclasses.asdict(value))
