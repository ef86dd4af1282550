"""Figures of a fit: arrays in, Matplotlib figures out, with one look for paper and page.

Figures are made without pyplot, so that neither a display nor Matplotlib's global state is touched.
"""

from folt.fit.style import (
    INK,
    LINE,
    PALETTE,
    QUIET,
    STYLE,
    TRUE_VALUE,
    below,
    blank,
    png,
    styled,
    svg,
)
from folt.report.figures.chains import chains_figure, relabelled_figure, still, traces_figure
from folt.report.figures.marginals import PANELS, marginals_figure, pairs_figure

__all__ = [
    "INK",
    "LINE",
    "PALETTE",
    "PANELS",
    "QUIET",
    "STYLE",
    "TRUE_VALUE",
    "below",
    "blank",
    "chains_figure",
    "marginals_figure",
    "pairs_figure",
    "png",
    "relabelled_figure",
    "still",
    "styled",
    "svg",
    "traces_figure",
]
