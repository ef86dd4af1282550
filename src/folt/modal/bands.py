"""Several bands of one record, one fit after the other, and the modes of all bands in one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from folt.fit.section import Section
from folt.modal.cross_spectra import welch
from folt.modal.identification import Identification, Settings, identify
from folt.modal.results import as_tree
from folt.modal.shapes import measured_channels
from folt.modal.spectrum import Record
from folt.modal.table import as_csv, console_table, mode_fields, mode_rows
from folt.report.fleet_page import Front, fleet_page
from folt.report.style import LINE, PALETTE, blank, png, styled
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FrequencyBand = tuple[float, float]
IdentifiedBands = Mapping[FrequencyBand, Identification]
"""What was identified, by the lowest and the highest frequency of the band."""

_ESTIMATES = ("frequency, Hz", "damping, %")

_ALL_MODES = (
    "Modes of all bands",
    "Natural frequency and damping ratio of every mode, medians with 95 % intervals; bands are "
    "shaded. Hollow where the verdict is not good.",
)


def identify_bands(
    record: Record,
    bands: Sequence[FrequencyBand],
    modes: int | range | Sequence[int | range] = 3,
    settings: Settings | None = None,
    *,
    progress: bool = True,
) -> dict[FrequencyBand, Identification]:
    """Return the modes of a record in several bands, one fit per band and number of modes.

    Modes of different bands are taken as independent of each other, which they are where no mode
    reaches from one band into another.

    Args:
        record: the channels; shapes are identified where there are several.
        bands: lowest and highest frequency of each, in Hz.
        modes: their number, or a range to choose from by evidence; for all bands, or one each.
        settings: model, priors and sampling; natural frequencies lie in their band.
        progress: show a live progress bar if standard error is a terminal.

    Raises:
        ValueError: a band cannot be used; nothing is fitted then.
    """
    settings = Settings() if settings is None else settings
    chosen = tuple(bands)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"expected one band or several that differ, got {list(bands)}")
    if isinstance(modes, int | range):
        modes = [modes] * len(chosen)
    if len(modes) != len(chosen):
        raise ValueError(f"expected numbers of modes for {len(chosen)} bands, got {len(modes)}")
    shapes = record.values.shape[1] > 1 and settings.model in (None, "shapes")
    measured = {band: (measured_channels if shapes else welch)(record, band) for band in chosen}
    return {
        band: identify(
            measured[band],
            number,
            dataclasses.replace(settings, frequency_range=band),
            progress=progress,
        )
        for band, number in zip(chosen, modes, strict=True)
    }


def band_name(band: FrequencyBand) -> str:
    """Return the name of a band's folder, such as 0.7-1.1."""
    return f"{band[0]:g}-{band[1]:g}"


def band_rows(found: IdentifiedBands) -> list[Document]:
    """Return one row per band and mode: the band, the mode as in `mode_rows`, and the verdict."""
    return [
        {
            **_ends(band),
            **mode_fields(row, one.measured.unit),
            "verdict": one.fit.certificate.status.name,
        }
        for band, one in found.items()
        for row in mode_rows(one.fit, one.measured.resolution)
    ]


def _ends(band: FrequencyBand) -> Document:
    return {"band_low_hz": band[0], "band_high_hz": band[1]}


def bands_table(found: IdentifiedBands) -> Table:
    """Return the modes of all bands for a console."""
    return console_table(
        ("band, Hz", "mode", "frequency, Hz (95 %)", "damping, % (95 %)", "verdict"),
        [
            (
                f"{row['band_low_hz']:g} to {row['band_high_hz']:g}",
                f"{row['mode']}",
                "{frequency_hz:.4f} ({frequency_low:.4f} to {frequency_high:.4f})".format(**row),
                "{damping_percent:.2f} ({damping_low:.2f} to {damping_high:.2f})".format(**row),
                row["verdict"],
            )
            for row in band_rows(found)
        ],
    )


def band_files(found: IdentifiedBands, source: str = "") -> dict[str, bytes]:
    """Return the tables of all bands, their picture, and one page, by name.

    Args:
        found: what was identified.
        source: name of the file that the record came from.
    """
    figure = bands_figure(found)
    files = {
        "modes.csv": as_csv(band_rows(found)).encode(),
        "bands.png": png(figure),
        "index.html": _page(found, figure, source).encode(),
    }
    shaped = {band: one for band, one in found.items() if one.model == "shapes"}
    for name in ("shapes", "mac"):
        told = [
            {**_ends(band), **row} for band, one in shaped.items() for row in as_tree(one)[name]
        ]
        if told:
            files[f"{name}.csv"] = as_csv(told).encode()
    return files


def bands_figure(found: IdentifiedBands) -> Figure:
    """Frequency against damping of every mode with 95 % intervals, over the shaded bands."""
    with styled():
        figure = blank(7.4, 3.6)
        panel = figure.subplots()
        for k, (band, one) in enumerate(found.items()):
            colour = PALETTE[k % len(PALETTE)]
            good = one.fit.certificate.status.outcome.usable
            panel.axvspan(*band, color=colour, alpha=0.1, linewidth=0)
            for row in mode_rows(one.fit, one.measured.resolution):
                x, y = row.frequency_hz, row.damping_percent
                panel.plot([row.frequency_low, row.frequency_high], [y, y], color=colour)
                panel.plot([x, x], [row.damping_low, row.damping_high], color=colour)
                face = colour if good else "white"
                panel.plot(x, y, "o", color=colour, markerfacecolor=face, markersize=5)
        panel.set_ylim(bottom=0)
        panel.grid(axis="y", color=LINE, linewidth=0.6)
        panel.set_xlabel("natural frequency, Hz")
        panel.set_ylabel("damping ratio, % of critical")
    return figure


def _page(found: IdentifiedBands, figure: Figure, source: str) -> str:
    """Return one page of all bands: a row per mode, linked to the report of its band."""
    rows = [
        {
            "job": band_name((row["band_low_hz"], row["band_high_hz"])),
            "error": None,
            "verdict": row["verdict"],
            "mode": row["mode"],
            "frequency, Hz": row["frequency_hz"],
            "frequency, Hz low": row["frequency_low"],
            "frequency, Hz high": row["frequency_high"],
            "damping, %": row["damping_percent"],
            "damping, % low": row["damping_low"],
            "damping, % high": row["damping_high"],
            "started_from": None,
        }
        for row in band_rows(found)
    ]
    columns = [name for name in rows[0] if name not in ("error", "started_from")]
    where = f" of {source}" if source else ""
    heading = f"{len(rows)} modes in {len(found)} bands{where}"
    front = Front(
        heading,
        sections=[Section(*_ALL_MODES, figure)],
        command="modal",
        rows="Modes",
        first="band",
        kept="modes.csv",
    )
    return fleet_page(rows, columns, _ESTIMATES, len(rows), True, front)
