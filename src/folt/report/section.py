"""What a model adds to the report of its fit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Section:
    """One more part of a report, after the estimates: a heading, a figure, what it shows.

    Attributes:
        title: the heading.
        text: what to see in the figure, in one or two sentences.
        figure: a Matplotlib figure; it takes the colours of the page where it uses those of
            `folt.report.figures` for text and lines.
    """

    title: str
    text: str
    figure: Figure
