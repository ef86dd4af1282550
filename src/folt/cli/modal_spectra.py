"""What `folt modal` does with one spectrum, or with those of several bands: fit, write, print."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from folt.cli.terminal import console, fit_fields, print_json, wrote

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.modal import Identification, Measured, Settings
    from folt.modal.bands import FrequencyBand
    from folt.modal.geometry import Geometry
    from folt.store import Store
    from folt.store.strict_json import Document


@dataclasses.dataclass(frozen=True)
class Asked:
    """How spectra are fitted, where results go, and what is printed.

    Attributes:
        settings: model, priors and sampling.
        out: folder of the results.
        source: name of the file that the data come from.
        geometry: file with the positions of the sensors, if there is one.
        as_json: print a document for machines.
        quiet: print nothing.
    """

    settings: Settings
    out: Path
    source: str
    geometry: Path | None
    as_json: bool
    quiet: bool

    @property
    def talks(self) -> bool:
        """Whether lines for people are printed."""
        return not (self.as_json or self.quiet)


def one_spectrum(measured: Measured, numbers: range, asked: Asked) -> None:
    """One spectrum: fit, write, print."""
    from folt.modal.results import as_tree

    found, files = _kept(measured, numbers, asked)
    if asked.as_json:
        print_json("modal", files, {**as_tree(found), **fit_fields(found.fit)})
    elif not asked.quiet:
        _show(found)
        wrote(console(), files)


def several_bands(
    spectra: Mapping[FrequencyBand, Measured], numbers: Sequence[range], asked: Asked
) -> None:
    """Bands one after the other, each in a folder of its own; then the modes of all of them."""
    from folt.modal.bands import band_files, band_name, bands_table
    from folt.modal.results import as_tree
    from folt.report.saving import claim, keep, request_for
    from folt.store import Store

    names = [band_name(band) for band in spectra]
    found: dict[FrequencyBand, Identification] = {}
    with Store(asked.out) as store:
        request = request_for("modal", bands=names, **asked.settings.asked())
        claim(store.entry(), request)
        for (band, measured), name, some in zip(spectra.items(), names, numbers, strict=True):
            if asked.talks:
                typer.echo(f"Band {band[0]:g} to {band[1]:g} Hz")
            settings = dataclasses.replace(asked.settings, frequency_range=band)
            one = dataclasses.replace(asked, settings=settings, out=store.folder / name)
            found[band], _ = _kept(measured, some, one, resumed=True)
        files = keep(store.entry(), request, band_files(found, asked.source))
    if asked.as_json:
        trees = [
            {"band": list(band), **as_tree(one), **fit_fields(one.fit)}
            for band, one in found.items()
        ]
        print_json("modal", files, {"bands": trees})
    elif not asked.quiet:
        screen = console()
        screen.print(bands_table(found), "")
        wrote(screen, [*files, *(asked.out / name / "report.html" for name in names)])


def _kept(
    measured: Measured, numbers: range, asked: Asked, resumed: bool = False
) -> tuple[Identification, list[Path]]:
    """Return what was identified, and the files that were written of it.

    Args:
        measured: the spectrum.
        numbers: of modes.
        asked: how.
        resumed: take a fit that was finished before.
    """
    from folt.modal.results import contents
    from folt.report.saving import claim, keep_fit, request_for
    from folt.store import Store, array_digest

    geometry = _geometry(asked.geometry, measured)
    parts = (measured.averages, measured.window, *(measured.ordinates or ()))
    known = [part for part in parts if part is not None]
    data = array_digest(measured.frequency, measured.psd, *known)
    request = request_for("modal", spectrum=data, **asked.settings.asked())
    whole = {**request, "modes": list(numbers)}
    with Store(asked.out) as store:
        entry = store.entry()
        claim(entry, whole)
        if len(numbers) == 1 and not resumed:
            fit = _one_fit(measured, asked, numbers[0])
            found = _identification(measured, asked, {numbers[0]: fit})
        else:
            found = _one_after_the_other(measured, numbers, asked, store, request)
        write = functools.partial(contents, found, geometry, asked.source)
        return found, keep_fit(entry, whole, found.fit, lambda _: write())


def _geometry(path: Path | None, measured: Measured) -> Geometry | None:
    """Where the sensors are, if a file says so."""
    from folt.modal.geometry import read_geometry

    if path is None:
        return None
    if measured.ordinates is None:
        raise ValueError("--geometry goes with shapes, which the trace of a spectrum has not")
    return read_geometry(path, measured.names)


def _one_after_the_other(
    measured: Measured, numbers: range, asked: Asked, store: Store, request: Document
) -> Identification:
    """Return fits of every number of modes, each kept as soon as it is finished."""
    from folt.fit.file import to_bytes
    from folt.modal.identification import problem_for
    from folt.report.saving import FIT, kept_fit
    from folt.store import Store

    # All of them first: what is wrong with one should not be found after an hour with the others.
    problems = {m: problem_for(measured, m, asked.settings) for m in numbers}
    fits = {}
    for m, problem in problems.items():
        if asked.talks:
            typer.echo(f"{m} mode{'s' if m > 1 else ''}")
        with Store(store.folder / f"m{m}") as place:
            fits[m] = kept_fit(
                place.entry(),
                {**request, "modes": m},
                problem,
                functools.partial(_one_fit, measured, asked, m),
                lambda fit: {FIT: to_bytes(fit)},
                # What is said of fits that are about to go is no longer true.
                store.entry().withdraw,
            )
    if asked.talks:
        typer.echo("")
    return _identification(measured, asked, fits)


def _one_fit(measured: Measured, asked: Asked, modes: int) -> Fit:
    from folt.modal.identification import identify

    return identify(measured, modes, asked.settings, progress=not asked.quiet).fit


def _identification(measured: Measured, asked: Asked, fits: dict[int, Fit]) -> Identification:
    from folt.modal.identification import Identification

    return Identification(measured, asked.settings.model_for(measured), fits)


def _show(found: Identification) -> None:
    """Print verdict and tables of one spectrum."""
    from rich.padding import Padding
    from rich.text import Text

    from folt.fit.text import cure_lines, styled_headline, verdict_table
    from folt.modal.shapes import mac_rows
    from folt.modal.table import evidence_table, mac_table, mode_rows, modes_table

    screen = console()
    status = found.fit.certificate.status
    screen.print(styled_headline(status), Padding(Text(status.advice), (0, 0, 0, 2)))
    screen.print(*cure_lines(status, commands=True), "")
    if len(found.fits) > 1:
        screen.print(evidence_table(found), "")
    rows = mode_rows(found.fit, found.measured.resolution)
    screen.print(modes_table(rows))
    if found.model == "shapes" and len(rows) > 1:
        screen.print("", mac_table(mac_rows(found.fit, found.measured.resolution)))
    resolution = f"{found.measured.resolution:.4g} Hz"
    screen.print(f"Merged: the next mode is nearer than the resolution, {resolution}.\n")
    screen.print(verdict_table(found.fit), "")
