"""One look for paper and page: colours, letters, empty figures, and figures as files or SVG."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from folt.store.packages import require
from folt.store.strict_json import Document

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#7e57c2")
"""Okabe and Ito's colours, which the colour-blind can tell apart.

Their pale yellow is left out; violet stands for black, which a dark page would swallow.
"""

INK, QUIET, LINE = "#1b1f24", "#57606a", "#d0d7de"
"""Text and axes, secondary text, hairlines: the page gives these its own colours in the dark."""

STYLE: dict[str, object] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "figure.dpi": 100,
}

TRUE_VALUE: Document = {
    "markerfacecolor": "none",
    "markeredgecolor": INK,
    "markeredgewidth": 1.2,
    "markersize": 5.5,
}


def blank(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches, laid out by itself."""
    require("a picture", "matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def styled(more: Mapping[str, object] | None = None) -> Iterator[None]:
    """Folt's look while the block runs."""
    require("a picture", "matplotlib")
    import matplotlib

    style: Any = {**STYLE, **(more or {})}
    with matplotlib.rc_context(style):
        yield


def below(figure: Figure, panel: Axes, columns: int) -> None:
    """The panel's legend beneath the figure."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def dot_legend(figure: Figure, labels: Sequence[str], colours: Sequence[str] = PALETTE) -> None:
    """A dot and a name for every component, beneath the figure, at most four in a row."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5, color=colour, label=literal(label))
        for label, colour in zip(labels, itertools.cycle(colours), strict=False)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))


def histogram(
    panel: Axes,
    heights: np.ndarray,
    edges: np.ndarray,
    colour: str,
    orientation: Literal["vertical", "horizontal"] = "vertical",
) -> None:
    """A pale histogram with its outline."""
    panel.stairs(heights, edges, orientation=orientation, color=colour, alpha=0.3, fill=True)
    panel.stairs(heights, edges, orientation=orientation, color=colour, linewidth=1.1)


def literal(name: str) -> str:
    """Return a name as Matplotlib shows it literally: a dollar sign would start mathematics."""
    return name.replace("$", r"\$")


def png(figure: Figure) -> bytes:
    """Return the figure on white, sharp enough for print."""
    stream = io.BytesIO()
    with styled():
        figure.savefig(stream, format="png", dpi=220, facecolor="white")
    return stream.getvalue()


def svg(figure: Figure, name: str) -> str:
    """The figure as SVG inside a page: no background, nothing fetched, the page's own letters.

    Text, axes and hairlines take their colours from the page too, so that they can be read in
    the dark.

    Args:
        figure: what to draw.
        name: seeds the identifiers, so that figures in one page do not share any.
    """
    stream = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with styled({"svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing, dpi=160)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    # Identifiers that Matplotlib counts up would occur twice in a page; only hashed ones are used.
    text = re.sub(r' id="[\w.]+_\d+"', "", text)
    colours = {
        INK: "currentColor",
        QUIET: "var(--quiet)",
        LINE: "var(--line)",
        "#ffffff": "var(--paper)",
    }
    for colour, replacement in colours.items():
        text = text.replace(colour, replacement)
    return re.sub(r" font-family: [^;]*;", "", text)
