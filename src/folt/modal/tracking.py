"""Window after window of a long record: a fleet in which most windows start from another.

Every eighth window is fitted from nothing and the seven after it start from its fit, whoever is
ready first: so results do not depend on how many workers there are.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

from folt.fit import Fit
from folt.fit.section import Section
from folt.fleet import Here, Job, Runner
from folt.fleet.many import run_jobs
from folt.fleet.rows import Row
from folt.modal.cross_spectra import OVERLAP, welch
from folt.modal.identification import ModalModel, Settings, fitted, problem_for
from folt.modal.links import linked, tidy, tidy_shapes
from folt.modal.shapes import measured_channels, shape_rows
from folt.modal.spectrum import Measured, Record
from folt.modal.table import as_csv, mode_rows
from folt.modal.track_pictures import shape_tracks_figure, track_figure
from folt.problem import Problem
from folt.report.fleet_page import Front
from folt.report.style import png
from folt.store import Store
from folt.store.strict_json import Document

GROUP = 8
"""Windows per fit from nothing."""

_OVER_TIME = {
    "windows": (
        "Modes over time",
        "Medians with 95 % intervals, window by window; hollow where the verdict is not good. "
        "Modes of one colour are linked from window to window, by shape and frequency where there "
        "are shapes.",
    ),
    "window_shapes": (
        "Shapes over time",
        "Entries of the shape of every mode, of unit length, with 95 % bands where channels are "
        "few. The last panel has the MAC of a window's shape with the shape of its mode over all "
        "windows: near one as long as the structure, the sensors and the links stay the same.",
    ),
}
"""Heading and words of every figure of all windows."""

_Told = Callable[[int, int, Document], None]
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
        shapes: whether shapes are identified, from all channels.
    """

    length: float
    step: float
    band: tuple[float, float]
    segment: float | None = None
    overlap: float = OVERLAP
    shapes: bool = False

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
        """Return the spectrum of one window, with the ordinates of its channels for shapes."""
        measure = measured_channels if self.shapes else welch
        return measure(part, self.band, segment=self.segment, overlap=self.overlap)


def track(
    record: Record,
    windows: Windows,
    modes: int,
    settings: Settings,
    out: Path,
    *,
    runner: Runner | None = None,
    progress: bool = True,
    tell: _Told | None = None,
) -> list[Path]:
    """Identify the modes in every window of a record, or in those that are still to do.

    Args:
        record: the whole record.
        windows: how it is cut.
        modes: number of modes.
        settings: model, priors and sampling.
        out: folder of the results, a fleet with one job per window.
        runner: where windows are fitted; in this process if None.
        progress: say how far it is on standard error.
        tell: told what was found in each window.

    Returns:
        The tidy table `windows.csv` and the picture `windows.png`, those of shapes where there are
        any, and those of the fleet.

    Raises:
        ValueError: the record cannot be cut like that, the folder holds windows that were made
            with other settings or from other samples, or no window could be fitted.
    """
    runner = Here() if runner is None else runner
    jobs = window_jobs(record, windows, modes, settings)

    def told(name: str, row: Row, ended: int, count: int) -> None:
        if tell is not None and row.get("error") is None:
            tell(int(name), count, row)

    rows = run_jobs(
        jobs,
        out,
        runner,
        retries=1 if runner.aside else 0,
        command="modal",
        progress=progress,
        tell=told,
        after=_write_windows,
    )
    if all(row["error"] is not None for row in rows):
        raise ValueError(f"no window could be fitted; the first said: {rows[0]['error']}")
    shapes = ("window_shapes.csv", "window_shapes.png") if windows.shapes else ()
    names = ("windows.csv", "windows.png", *shapes, "table.csv", "index.html")
    return [out / name for name in names]


def window_jobs(record: Record, windows: Windows, modes: int, settings: Settings) -> list[Job]:
    """Return one job per window, of which the first of every group starts from nothing.

    Raises:
        ValueError: the record cannot be cut like that, or its first window not be used.
    """
    places = windows.places(record)
    measured = windows.spectrum(record.part(*places[0]))
    problem_for(measured, modes, settings)
    build = functools.partial(_problem, windows=windows, modes=modes, settings=settings)
    fit = functools.partial(_fit, model=settings.model_for(measured), settings=settings)
    jobs = []
    for number, (first, count) in enumerate(places):
        leader = number - number % GROUP
        begin = first / record.rate
        jobs.append(
            Job(
                _window_name(number),
                build,
                data=record.part(first, count),
                start=None if leader == number else _window_name(leader),
                fit=fit,
                describe=functools.partial(
                    _describe,
                    begin=begin,
                    end=begin + count / record.rate,
                    resolution=measured.resolution,
                    names=measured.names,
                ),
            )
        )
    return jobs


def _window_name(number: int) -> str:
    """Return the name of a window, counted from 1."""
    return f"{number + 1:05d}"


def _problem(part: Record, *, windows: Windows, modes: int, settings: Settings) -> Problem:
    return problem_for(windows.spectrum(part), modes, settings)


def _fit(
    problem: Problem, start: Fit | None, progress: bool, *, model: ModalModel, settings: Settings
) -> Fit:
    return fitted(problem, model, settings, start, progress)


def _describe(
    fit: Fit, *, begin: float, end: float, resolution: float, names: tuple[str, ...] = ()
) -> Document:
    """Return what is told of a window beside what is told of every fit."""
    return {
        **({"shapes": shape_rows(fit, names)} if names else {}),
        "start_s": begin,
        "end_s": end,
        "gamma": fit.certificate.qc["target"][0.05].gamma,
        "modes": [dataclasses.asdict(row) for row in mode_rows(fit, resolution)],
    }


def _write_windows(store: Store, rows: list[Row]) -> Front:
    """The tidy tables of the windows that are there, and their pictures, for the page as well."""
    usable = [row for row in rows if row["error"] is None]
    if not usable:
        return Front(command="modal")
    tracked = linked(usable) if "shapes" in usable[0] else None
    found = tidy(usable, tracked)
    drawn = {"windows": track_figure(found)}
    store.write("windows.csv", as_csv(found).encode())
    if tracked is not None:
        shapes = tidy_shapes(usable, tracked)
        store.write("window_shapes.csv", as_csv(shapes).encode())
        drawn["window_shapes"] = shape_tracks_figure(shapes)
    for name, figure in drawn.items():
        store.write(f"{name}.png", png(figure))
    sections = [Section(*_OVER_TIME[name], figure) for name, figure in drawn.items()]
    return Front(sections=sections, command="modal")
