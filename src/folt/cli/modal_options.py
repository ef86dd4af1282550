"""Options of `folt modal`: what is measured, what is asked, how a record is cut."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


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


RecordFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="RECORD",
        help="A record as CSV, .npy or .npz: one column per channel.",
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
NumberOfModes = Annotated[str, typer.Option(help="Number of modes, or a range such as 1:4.")]
Band = Annotated[
    tuple[float, float] | None, typer.Option(help="Lowest and highest frequency in Hz.")
]
Rate = Annotated[float | None, typer.Option(help="Samples per second.")]
ModelOption = Annotated[
    ModelName, typer.Option(help="By default powers where the averages are known.")
]
Averages = Annotated[float | None, typer.Option(help="Effective number of averages behind --psd.")]
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
Step = Annotated[
    str | None, typer.Option(help="From one window to the next; the window if not given.")
]
Draws = Annotated[
    int | None, typer.Option(help="Draws per chain; 5000, or 1000 per window.", min=1)
]
