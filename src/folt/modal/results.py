"""What an identification leaves behind: files that are complete or not there."""

from __future__ import annotations

import dataclasses

import numpy as np

from folt.fit.section import Section
from folt.modal.geometry import Geometry
from folt.modal.identification import Identification
from folt.modal.pictures import pictures
from folt.modal.shapes import mac_rows, shape_rows
from folt.modal.spectrum import Measured
from folt.modal.table import as_csv, evidence_rows, mode_fields, mode_rows, mode_sentences
from folt.report import style
from folt.report.saving import files_of, from_source
from folt.store.strict_json import Document

SECTIONS = {
    "shapes": (
        "Mode shapes",
        "Posterior mean of every entry of a shape, with its 95 % interval. Shapes have unit "
        "length; the largest entry of a mean shape is positive, and every draw has the sign "
        "that agrees with it.",
    ),
    "deflections": (
        "Deflections",
        "Shapes at the positions of the sensors, with their 95 % intervals.",
    ),
    "singular_values": (
        "Singular values",
        "Root singular values of the spectral matrix, averaged over neighbouring frequencies. "
        "Circles are measured, bands hold those of records that the fitted model would give with "
        "probability 95 %. Where circles leave their bands, a mode is missing, or the load is not "
        "flat, or damping is not classical.",
    ),
    "spectrum": (
        "Spectrum",
        "The measured power spectral density under its posterior. The band holds the model's "
        "spectrum with probability 95 %; dashes are single modes, shaded strips the 95 % "
        "intervals of their natural frequencies.",
    ),
    "modes": (
        "Modes",
        "Medians with 95 % intervals. Natural frequency against damping ratio, one dot per draw, "
        "with the histogram of each at the side.",
    ),
    "chains": (
        "Frequencies along the chains",
        "Natural frequencies of every label along a chain as it came, and along the folded one.",
    ),
}
"""Heading and words of every figure that goes into the report."""


def contents(
    found: Identification, geometry: Geometry | None = None, source: str = ""
) -> dict[str, bytes]:
    """Return the fit, its report, the table of modes, the spectrum and the figures, by name.

    Args:
        found: what was identified.
        geometry: where the sensors are.
        source: the file that the page names.
    """
    rows = mode_rows(found.fit, found.measured.resolution)
    told = as_tree(found)
    tables = {name: told.get(name) for name in ("modes", "shapes", "mac")}
    if len(found.fits) > 1:
        tables["evidence"] = told["numbers"]
    files = {f"{name}.csv": as_csv(some).encode() for name, some in tables.items() if some}
    files["spectrum.csv"] = spectrum_csv(found.measured).encode()
    drawn = pictures(found, geometry)
    files.update({f"{name}.png": style.png(figure) for name, figure in drawn.items()})
    first = {"modes": mode_sentences(found.fit, rows, found.measured.unit)}
    sections = [
        Section(SECTIONS[name][0], f"{first.get(name, '')} {SECTIONS[name][1]}".strip(), figure)
        for name, figure in drawn.items()
    ]
    whole = dataclasses.replace(from_source(found.fit, source), sections=tuple(sections))
    return files_of(whole, files)


def spectrum_csv(measured: Measured) -> str:
    """Return the spectrum in the columns that `folt modal --psd` reads."""
    columns = {"frequency_hz": measured.frequency, "psd": measured.psd}
    if measured.averages is not None:
        columns["averages"] = measured.averages
    rows = np.column_stack(list(columns.values())).tolist()
    return as_csv(dict(zip(columns, row, strict=True)) for row in rows)


def as_tree(found: Identification) -> Document:
    """What was identified, as plain values for machines; the fit gives an account of its own."""
    rows = mode_rows(found.fit, found.measured.resolution)
    shapes: Document = {}
    if found.model == "shapes":
        shapes = {
            "shapes": shape_rows(found.fit, found.measured.names),
            "mac": mac_rows(found.fit, found.measured.resolution),
        }
    return {
        **shapes,
        "model": found.model,
        "modes": [mode_fields(row, found.measured.unit) for row in rows],
        "resolution_hz": found.measured.resolution,
        "ordinates": int(found.measured.frequency.size),
        "numbers": evidence_rows(found),
    }
