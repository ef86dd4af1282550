"""Figures as files and as parts of a page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from folt.fit.style import INK, LINE, QUIET, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def png(figure: Figure) -> bytes:
    """The figure on white, sharp enough for print."""
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
