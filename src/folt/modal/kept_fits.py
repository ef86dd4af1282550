"""Fits of measured spectra that are kept: every number of modes as soon as it is finished."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from folt.fit import Fit
from folt.fit.file import to_bytes
from folt.modal.bands import FrequencyBand, band_files, band_name
from folt.modal.geometry import read_geometry
from folt.modal.identification import Identification, Settings, identify, problem_for
from folt.modal.results import contents
from folt.modal.spectrum import Measured
from folt.report.saving import FIT, keep, keep_fit, kept_fit, request_for
from folt.store import Entry, Store, array_digest
from folt.store.strict_json import Document
from folt.terminal import results_in


@dataclasses.dataclass(frozen=True)
class Asked:
    """How spectra are fitted, and what is said and written of them.

    Attributes:
        settings: model, priors and sampling.
        source: name of the file that the data come from.
        geometry: file with the positions of the sensors, if there is one.
        progress: whether the progress of a fit is shown.
        tell: is given a line before each band and each number of modes.
    """

    settings: Settings
    source: str
    geometry: Path | None
    progress: bool
    tell: Callable[[str], None]


def keep_bands(
    spectra: Mapping[FrequencyBand, Measured], numbers: Sequence[range], asked: Asked, out: Path
) -> tuple[dict[FrequencyBand, Identification], list[Path]]:
    """Identify bands one after the other, each in a folder of its own.

    Args:
        spectra: the spectrum of every band.
        numbers: of modes, for every band.
        asked: how.
        out: folder of all of them.

    Returns:
        What was identified, and the files with the modes of all bands.
    """
    found: dict[FrequencyBand, Identification] = {}
    names = [band_name(band) for band in spectra]
    with results_in(out, "modal", {"bands": names, **asked.settings.asked()}) as (entry, request):
        for (band, measured), some in zip(spectra.items(), numbers, strict=True):
            asked.tell(f"Band {band[0]:g} to {band[1]:g} Hz")
            settings = dataclasses.replace(asked.settings, frequency_range=band)
            own = dataclasses.replace(asked, settings=settings)
            place = entry.place / band_name(band)
            found[band], _ = keep_spectrum(measured, some, own, place, resumed=True)
        return found, keep(entry, request, band_files(found, asked.source))


def keep_spectrum(
    measured: Measured, numbers: range, asked: Asked, out: Path, resumed: bool = False
) -> tuple[Identification, list[Path]]:
    """Identify the modes of one spectrum, and write what was found.

    Args:
        measured: the spectrum.
        numbers: of modes.
        asked: how.
        out: folder of the results.
        resumed: take a single fit too that was finished before.

    Returns:
        What was identified, and the files that were written.
    """
    geometry = None
    if asked.geometry is not None:
        if measured.ordinates is None:
            raise ValueError("--geometry goes with shapes, which the trace of a spectrum has not")
        geometry = read_geometry(asked.geometry, measured.names)
    parts = (measured.averages, measured.window, *(measured.ordinates or ()))
    known = [part for part in parts if part is not None]
    data = array_digest(measured.frequency, measured.psd, *known)
    spectrum = {"spectrum": data, **asked.settings.asked()}
    with results_in(out, "modal", {**spectrum, "modes": list(numbers)}) as (entry, request):
        if len(numbers) == 1 and not resumed:
            found = identify(measured, numbers, asked.settings, progress=asked.progress)
        else:
            found = _each_kept(measured, numbers, asked, entry, spectrum)
        write = functools.partial(contents, found, geometry, asked.source)
        return found, keep_fit(entry, request, found.fit, lambda _: write())


def _one_fit(measured: Measured, modes: int, asked: Asked) -> Fit:
    return identify(measured, modes, asked.settings, progress=asked.progress).fit


def _each_kept(
    measured: Measured, numbers: range, asked: Asked, whole: Entry, spectrum: Document
) -> Identification:
    """Return fits of every number of modes, each kept as soon as it is finished."""
    settings = asked.settings
    # All of them first: what is wrong with one should not be found after an hour with the others.
    problems = {m: problem_for(measured, m, settings) for m in numbers}
    fits = {}
    for m, problem in problems.items():
        asked.tell(f"{m} mode{'s' if m > 1 else ''}")
        with Store(whole.place / f"m{m}") as place:
            fits[m] = kept_fit(
                place.entry(),
                request_for("modal", **spectrum, modes=m),
                problem,
                functools.partial(_one_fit, measured, m, asked),
                lambda fit: {FIT: to_bytes(fit)},
                # What is said of fits that are about to go is no longer true.
                whole.withdraw,
            )
    asked.tell("")
    return Identification(measured, settings.model_for(measured), fits)
