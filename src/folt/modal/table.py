"""The table of modes: medians, intervals, and whether neighbours can be told apart."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Sequence

import jax.numpy as jnp
import numpy as np
from rich.table import Table

from folt.fit import Fit
from folt.fit.text import probability_words
from folt.modal.identification import Identification
from folt.modal.models.powers import ModalPowersPosterior
from folt.modal.models.shapes import ModalShapesPosterior
from folt.modal.models.spectrum import ModalPosterior
from folt.modal.shapes import mac_rows
from folt.store.strict_json import Document

PERCENT = 100.0
_LEVELS = (0.5, 0.025, 0.975)
_Summary = tuple[float | None, float | None, float | None]

_END_OF_PRIOR, _CUT_OFF = 1.645, 0.25
"""Normal score of the highest twentieth of a prior range, and the posterior probability of it from
which on an estimate is said to lie at its end: five times what the prior gives it."""

_ALIKE = 0.9
"""MAC from which on two modes have one shape."""

_CURE = "fit fewer --modes, and see whether --motion is what the sensors measure"


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
    near = [*(np.diff(frequency, axis=1) < resolution).mean(axis=0).tolist(), None]
    rows = []
    for j in range(frequency.shape[1]):
        power: _Summary = (None, None, None) if powers is None else _summary(powers[:, j])
        ends = (*_summary(frequency[:, j]), *_summary(PERCENT * damping[:, j]))
        rows.append(ModeRow(j + 1, *ends, *power, near[j]))
    return rows


def power_unit(unit: str) -> str:
    """Return the unit of a power, from that of the channels; empty if it is not known."""
    return f"({unit})²" if unit else ""


def mode_fields(row: ModeRow, unit: str) -> Document:
    """Return a row as plain values, with the unit of its power where that is known."""
    told = {"power_unit": power_unit(unit)} if unit else {}
    return {**dataclasses.asdict(row), **told}


def mode_sentences(fit: Fit, rows: Iterable[ModeRow], unit: str) -> str:
    """Return the modes in words with their units, and what speaks against some of them.

    Args:
        fit: with its problem.
        rows: of its modes.
        unit: of the channels; empty if it is not known.
    """
    square = f" {power_unit(unit)}" if unit else ""
    words = []
    rows = list(rows)
    for row in rows:
        power = ""
        if row.power is not None:
            ends = f"{row.power_low:.3g} to {row.power_high:.3g}"
            power = f", power {row.power:.3g}{square} ({ends})"
        words.append(
            f"Mode {row.mode}: {row.frequency_hz:.4f} Hz ({row.frequency_low:.4f} to "
            f"{row.frequency_high:.4f}), damping {row.damping_percent:.2f} % of critical "
            f"({row.damping_low:.2f} to {row.damping_high:.2f}){power}."
        )
    return " ".join([*words, *mode_doubts(fit, rows)])


def mode_doubts(fit: Fit, rows: Sequence[ModeRow]) -> list[str]:
    """Return a sentence for every mode that may be none.

    Its damping lies at an end of the prior range, or it has the frequency and shape of another.

    Args:
        fit: with its problem.
        rows: of its modes.
    """
    posterior = None if fit.problem is None else fit.problem.log_density
    assert isinstance(posterior, ModalPosterior | ModalPowersPosterior | ModalShapesPosterior)
    scores = np.asarray(posterior.damping.pull(jnp.asarray(flat(fit, "damping"))))
    ends = {
        "upper": "the tail of a mode outside the band, or for a load that is not flat",
        "lower": "the line of a machine",
    }
    doubts = [
        f"The damping of mode {row.mode} lies at the {end} end of its prior range: it may stand "
        f"for {what}; {_CURE}."
        for (end, what), sign in zip(ends.items(), (1.0, -1.0), strict=True)
        for row, share in zip(rows, (sign * scores > _END_OF_PRIOR).mean(axis=0), strict=True)
        if share > _CUT_OFF
    ]
    for pair in mac_rows(fit, 0.0) if "shape" in fit.posterior else ():
        one, other = rows[pair["mode"] - 1], rows[pair["other"] - 1]
        if pair["mac"] > _ALIKE and one.frequency_high > other.frequency_low:
            doubts.append(
                f"Modes {one.mode} and {other.mode} have one shape (MAC {pair['mac']:.2f}) and "
                f"frequencies that cannot be told apart: {_CURE}."
            )
    return doubts


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


def console_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table for a console, every column aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def modes_table(rows: Sequence[ModeRow], unit: str = "") -> Table:
    """Return the modes for a console.

    Args:
        rows: of the modes.
        unit: of the channels; empty if it is not known.
    """
    powers = rows[0].power is not None
    power = f"power, {power_unit(unit)}" if unit else "power"
    headings = ["mode", "frequency, Hz", "95 % interval", "damping, %", "95 % interval"]
    return console_table(
        [*headings, *([power] if powers else []), "P(merged)"],
        [
            (
                f"{row.mode}",
                f"{row.frequency_hz:.4f}",
                f"{row.frequency_low:.4f} to {row.frequency_high:.4f}",
                f"{row.damping_percent:.2f}",
                f"{row.damping_low:.2f} to {row.damping_high:.2f}",
                *([f"{row.power:.3g}"] if powers else []),
                "" if row.merged_with_next is None else probability_words(row.merged_with_next),
            )
            for row in rows
        ],
    )


def mac_table(rows: Iterable[Document]) -> Table:
    """Return pairs of modes for a console."""
    return console_table(
        ("modes", "MAC", "95 % interval"),
        [
            (
                f"{row['mode']}, {row['other']}",
                f"{row['mac']:.3f}",
                f"{row['mac_low']:.3f} to {row['mac_high']:.3f}",
            )
            for row in rows
        ],
    )


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
    return console_table(
        ("modes", "log evidence", "standard error", "probability", "verdict"),
        [
            (
                f"{row['modes']}",
                f"{row['log_evidence']:.3f}",
                f"{row['standard_error']:.4f}",
                f"{row['probability']:.4f}",
                row["verdict"],
            )
            for row in evidence_rows(found)
        ],
    )
