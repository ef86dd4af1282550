"""Options of `folt modal`: what they are, what they may hold, and which go together."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.terminal import PAIR, is_number

if TYPE_CHECKING:
    from folt.modal.bands import FrequencyBand

_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}

LARGEST_DAMPING = 100.0
"""Percent of critical damping, above which nothing vibrates."""


class ModelName(StrEnum):
    """Which model of the spectrum."""

    auto = "auto"
    paper = "paper"
    powers = "powers"


class MotionName(StrEnum):
    """What the sensors measure."""

    acceleration = "acceleration"
    velocity = "velocity"
    displacement = "displacement"


class NoiseName(StrEnum):
    """Whether sensors share one noise density."""

    common = "common"
    channel = "channel"


RecordFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="RECORD",
        help="A record as text, .npy, .npz or .mat: one column per channel.",
        show_default=False,
    ),
]
SpectrumFile = Annotated[
    Path | None,
    typer.Option(
        help="A spectrum instead of a record: CSV, frequency_hz,psd[,averages].",
        metavar="FILE",
    ),
]
NumberOfModes = Annotated[
    str,
    typer.Option(help="Number of modes, or a range such as 1:4; for several bands also one each."),
]
BandOption = Annotated[
    list[str] | None,
    typer.Option(
        "--band",
        help="Lowest and highest frequency in Hz, LOW HIGH or LOW:HIGH; once per band.",
        metavar=PAIR,
        show_default=False,
    ),
]
Rate = Annotated[
    float | None, typer.Option(help="Samples per second, where no column tells the time.")
]
ChannelsOption = Annotated[
    str,
    typer.Option(help="Channels to use, by name or number of column: a,b. All if not given."),
]
ModelOption = Annotated[
    ModelName, typer.Option(help="Of a spectrum: by default powers where the averages are known.")
]
ShapesOption = Annotated[
    bool,
    typer.Option(
        "--shapes/--no-shapes",
        help="Mode shapes from all channels of a record, or the trace of its spectrum alone.",
    ),
]
NoiseOption = Annotated[
    NoiseName, typer.Option(help="Noise of the sensors: one density in common, or one per channel.")
]
GeometryFile = Annotated[
    Path | None,
    typer.Option(
        help="Positions of the sensors for a picture of deflections: CSV, channel,x along a line "
        "or channel,x,y,dx,dy in a plan.",
        metavar="FILE",
    ),
]
CorrelatedOption = Annotated[
    bool, typer.Option("--correlated", help="Forces of different modes may be correlated.")
]
AveragesOption = Annotated[
    float | None, typer.Option(help="Effective number of averages behind --psd.")
]
Frequencies = Annotated[
    tuple[float, float] | None, typer.Option(help="Prior range of natural frequencies, Hz.")
]
Damping = Annotated[
    tuple[float, float], typer.Option(help="Prior range of damping ratios, percent.")
]
MotionOption = Annotated[MotionName, typer.Option(help="What the sensors measure.")]
Segment = Annotated[str | None, typer.Option(help="Length of Welch's segments, such as 128s.")]
Overlap = Annotated[float, typer.Option(help="Share that segments overlap.")]
Window = Annotated[
    str | None, typer.Option(help="Window after window of a long record, such as 30min.")
]
StepOption = Annotated[
    str | None, typer.Option(help="From one window to the next; the window if not given.")
]
DrawsOption = Annotated[
    int | None, typer.Option(help="Draws per chain; 5000, or 1000 per window.", min=1)
]


def require_one_source(
    record: Path | None,
    psd: Path | None,
    bands: Sequence[FrequencyBand],
    averages: float | None,
    window: str | None,
    step: str | None,
    workers: int | None,
    scheduler: str | None,
    numbers: Sequence[range],
) -> None:
    """Refuse options that do not go together."""
    if (record is None) == (psd is None):
        raise ValueError("expected a RECORD or --psd FILE, one of them")
    if record is not None and not bands:
        raise ValueError("expected --band LOW HIGH in Hz with a record")
    if record is not None and averages is not None:
        raise ValueError("--averages goes with --psd; those of a record are computed")
    if window is not None and psd is not None:
        raise ValueError("--window goes with a record, not with --psd")
    if step is not None and window is None:
        raise ValueError("--step goes with --window")
    if window is None and (workers is not None or scheduler is not None):
        raise ValueError("--workers and --scheduler go with --window")
    if window is not None and len(bands) > 1:
        raise ValueError(f"expected one --band with --window, got {len(bands)}")
    if window is not None and len(numbers[0]) > 1:
        raise ValueError("expected one number of --modes with --window, got a range")


def require_ranges(
    damping: tuple[float, float],
    frequencies: tuple[float, float] | None,
    bands: Sequence[FrequencyBand],
) -> None:
    """Refuse prior ranges that no structure has, or of which the data say nothing."""
    if damping[1] > LARGEST_DAMPING:
        raise ValueError(
            f"expected --damping in percent, at most {LARGEST_DAMPING:g}, got {damping[1]:g}"
        )
    if frequencies is not None and not 0 < frequencies[0] < frequencies[1]:
        raise ValueError(
            f"expected --frequencies 0 < LOW < HIGH in Hz, got {frequencies[0]:g} and "
            f"{frequencies[1]:g}"
        )
    if frequencies is None or not bands:
        return
    if len(bands) > 1:
        raise ValueError("--frequencies goes with one --band; of several each is its own range")
    (band,) = bands
    if frequencies[0] >= band[1] or frequencies[1] <= band[0]:
        raise ValueError(
            f"expected --frequencies within the --band {band[0]:g} to {band[1]:g} Hz, got "
            f"{frequencies[0]:g} to {frequencies[1]:g}"
        )


def bands_of(texts: Sequence[str] | None) -> list[FrequencyBand]:
    """Return bands from texts such as `0.7:1.1`."""
    bands = []
    for text in texts or ():
        ends = text.split(":")
        if len(ends) != 2 or not all(map(is_number, ends)):
            raise ValueError(f"expected --band LOW HIGH or LOW:HIGH in Hz, got {text!r}")
        bands.append((float(ends[0]), float(ends[1])))
        if not 0 < bands[-1][0] < bands[-1][1]:
            raise ValueError(f"expected --band 0 < LOW < HIGH in Hz, got {text!r}")
    for k, band in enumerate(bands):
        if band in bands[:k]:
            raise ValueError(f"expected every --band once, got {band[0]:g}:{band[1]:g} twice")
    return bands


def numbers_for(text: str, bands: int) -> list[range]:
    """Return numbers of modes for every band, from one text for all or from one each: `1,2:4`."""
    numbers = [numbers_of_modes(part) for part in text.split(",")]
    if len(numbers) not in (1, max(bands, 1)):
        raise ValueError(
            f"expected --modes once for all bands or once for each of {bands}, got {len(numbers)}"
        )
    return numbers * bands if len(numbers) == 1 and bands else numbers


def numbers_of_modes(text: str) -> range:
    """Return numbers of modes from `3` or `1:4`, the last included."""
    matched = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", text)
    if matched:
        first = int(matched[1])
        last = int(matched[2] or first)
        if 1 <= first <= last:
            from folt.groups.permutation import require_labels

            require_labels("modes", last)
            return range(first, last + 1)
    raise ValueError(f"expected --modes M or FIRST:LAST with 1 ≤ FIRST ≤ LAST, got {text!r}")


def duration(option: str, text: str) -> float:
    """Return seconds from a duration such as 90, 90s, 30min or 2h."""
    matched = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|h|)", text.strip())
    if not matched or not 0 < float(matched[1]) < math.inf:
        raise ValueError(f"expected {option} as a duration such as 90s, 30min or 2h, got {text!r}")
    return float(matched[1]) * _SECONDS[matched[2]]
