"""What an identification leaves behind: files that are complete or not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from folt.modal.identification import Identification
from folt.modal.pictures import pictures
from folt.modal.spectrum import Measured
from folt.modal.table import as_csv, evidence_rows, mode_rows
from folt.report import figures
from folt.report.files import write_whole
from folt.report.section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTIONS = {
    "spectrum": (
        "Spectrum",
        "The measured power spectral density under its posterior. The band holds the model's "
        "spectrum with probability 95 %; dashes are single modes, shaded strips the 95 % "
        "intervals of their natural frequencies.",
    ),
    "modes": (
        "Frequency and damping",
        "Natural frequency against damping ratio, one dot per draw, with the histogram of each at "
        "the side. Crosses are medians with 95 % intervals.",
    ),
    "chains": (
        "Frequencies along the chains",
        "Natural frequencies of every label along a chain as it came, and along the folded one.",
    ),
}
"""Heading and words of every figure that goes into the report."""


def write(found: Identification, out: Path) -> list[Path]:
    """Write the table of modes, the fit, its report, the spectrum and the figures.

    Everything is made before the first file is written, and every file appears whole.
    """
    rows = mode_rows(found.fit, found.measured.resolution)
    contents = {
        "modes.csv": as_csv(dataclasses.asdict(row) for row in rows).encode(),
        "spectrum.csv": spectrum_csv(found.measured).encode(),
    }
    if len(found.fits) > 1:
        contents["evidence.csv"] = as_csv(evidence_rows(found)).encode()
    drawn = pictures(found)
    contents.update({f"{name}.png": figures.png(figure) for name, figure in drawn.items()})
    files = [found.fit.save(out / "fit.nc")]
    files.append(found.fit.report(out / "report.html", sections(drawn)))
    files.extend(write_whole(out / name, content) for name, content in contents.items())
    return files


def sections(drawn: Mapping[str, Figure]) -> list[Section]:
    """The figures of an identification as parts of its report."""
    return [Section(*SECTIONS[name], figure) for name, figure in drawn.items() if name in SECTIONS]


def spectrum_csv(measured: Measured) -> str:
    """The spectrum in the columns that `folt modal --psd` reads."""
    columns = {"frequency_hz": measured.frequency, "psd": measured.psd}
    if measured.averages is not None:
        columns["averages"] = measured.averages
    rows = np.column_stack(list(columns.values())).tolist()
    return as_csv(dict(zip(columns, row, strict=True)) for row in rows)


def as_tree(found: Identification) -> dict[str, Any]:
    """What was identified, as plain values for machines; the fit gives an account of its own."""
    rows = mode_rows(found.fit, found.measured.resolution)
    return {
        "model": found.model,
        "modes": [dataclasses.asdict(row) for row in rows],
        "resolution_hz": found.measured.resolution,
        "ordinates": int(found.measured.frequency.size),
        "numbers": evidence_rows(found),
    }
