"""The table of modes: medians, intervals, and whether neighbours can be told apart."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable

import numpy as np
from rich.table import Table

from folt.fit import Fit
from folt.modal.identification import Identification
from folt.store.strict_json import Document

PERCENT = 100.0
_LEVELS = (0.5, 0.025, 0.975)


@dataclasses.dataclass(frozen=True)
class ModeRow:
    """One mode: posterior medians with the ends of their 95 % intervals.

    Attributes:
        mode: its number, by frequency, from one.
        frequency_hz: natural frequency.
        frequency_low: lower end of its interval.
        frequency_high: upper end.
        damping_percent: damping ratio, in percent of critical.
        damping_low: lower end.
        damping_high: upper end.
        power: mean square of the motion in this mode, in the unit of the data; None for the
            paper's model, which has no powers.
        power_low: lower end.
        power_high: upper end.
        merged_with_next: probability that the next mode is nearer than the resolution of the
            spectrum; None for the last mode.
    """

    mode: int
    frequency_hz: float
    frequency_low: float
    frequency_high: float
    damping_percent: float
    damping_low: float
    damping_high: float
    power: float | None
    power_low: float | None
    power_high: float | None
    merged_with_next: float | None


def mode_rows(fit: Fit, resolution: float) -> list[ModeRow]:
    """Return one row per mode, in the order of frequency.

    Args:
        fit: of either model.
        resolution: of the spectrum, in Hz.
    """
    frequency, damping = flat(fit, "frequency"), flat(fit, "damping")
    powers = flat(fit, "power") if "power" in fit.posterior else None
    near = (np.diff(frequency, axis=1) < resolution).mean(axis=0)
    return [
        _row(
            j,
            frequency[:, j],
            PERCENT * damping[:, j],
            None if powers is None else powers[:, j],
            float(near[j]) if j < near.size else None,
        )
        for j in range(frequency.shape[1])
    ]


def _row(
    j: int,
    frequency: np.ndarray,
    damping: np.ndarray,
    power: np.ndarray | None,
    near: float | None,
) -> ModeRow:
    if power is None:
        return ModeRow(j + 1, *_summary(frequency), *_summary(damping), None, None, None, near)
    return ModeRow(j + 1, *_summary(frequency), *_summary(damping), *_summary(power), near)


def flat(fit: Fit, name: str) -> np.ndarray:
    """(draw, mode) of a parameter, all chains together, modes in the order of frequency."""
    order = np.argsort(fit.posterior["frequency"], axis=-1)
    values = np.take_along_axis(fit.posterior[name], order, axis=-1)
    return values.reshape(-1, values.shape[-1])


def _summary(values: np.ndarray) -> tuple[float, float, float]:
    median, low, high = np.quantile(values, _LEVELS)
    return float(median), float(low), float(high)


def as_csv(rows: Iterable[Document]) -> str:
    """Return rows as CSV, all digits, missing values empty."""
    rows = list(rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def modes_table(rows: Iterable[ModeRow]) -> Table:
    """Return the modes for a console."""
    rows = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    headings = ["mode", "frequency, Hz", "95 % interval", "damping, %", "95 % interval"]
    if rows[0].power is not None:
        headings.append("power")
    for heading in (*headings, "P(merged)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [
            f"{row.frequency_hz:.4f}",
            f"{row.frequency_low:.4f} to {row.frequency_high:.4f}",
            f"{row.damping_percent:.2f}",
            f"{row.damping_low:.2f} to {row.damping_high:.2f}",
        ]
        if row.power is not None:
            cells.append(f"{row.power:.3g}")
        near = "" if row.merged_with_next is None else f"{row.merged_with_next:.3f}"
        table.add_row(f"{row.mode}", *cells, near)
    return table


def mac_table(rows: Iterable[Document]) -> Table:
    """Return pairs of modes for a console."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("modes", "MAC", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        interval = f"{row['mac_low']:.3f} to {row['mac_high']:.3f}"
        table.add_row(f"{row['mode']}, {row['other']}", f"{row['mac']:.3f}", interval)
    return table


def evidence_rows(found: Identification) -> list[Document]:
    """Return one row per number of modes: evidence, probability, verdict."""
    return [
        {
            "modes": m,
            "log_evidence": fit.log_evidence.value,
            "standard_error": fit.log_evidence.standard_error,
            "probability": found.probabilities[m],
            "verdict": fit.certificate.status.name,
        }
        for m, fit in found.fits.items()
    ]


def evidence_table(found: Identification) -> Table:
    """Return numbers of modes for a console."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("modes", "log evidence", "standard error", "probability", "verdict"):
        table.add_column(heading, justify="right")
    for row in evidence_rows(found):
        table.add_row(
            f"{row['modes']}",
            f"{row['log_evidence']:.3f}",
            f"{row['standard_error']:.4f}",
            f"{row['probability']:.4f}",
            row["verdict"],
        )
    return table
