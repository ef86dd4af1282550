"""What a model adds to the report of its fit, and which drawings a file may hold."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ELEMENTS = frozenset(
    ["g", "path", "use", "defs", "clipPath", "rect", "text", "tspan", "image", "style"]
)
ATTRIBUTES = frozenset(
    [
        "id",
        "d",
        "x",
        "y",
        "width",
        "height",
        "transform",
        "style",
        "type",
        "clip-path",
        "fill",
        "stroke",
        "href",
        "viewBox",
        "version",
    ]
)
"""What Matplotlib draws with; nothing here can act."""

SHEET = re.compile(r"\*\{stroke-linejoin: \w+; stroke-linecap: \w+\}")
"""The one style sheet that Matplotlib writes; another could change the page around it."""

TARGET = re.compile(r"#[\w.-]+|data:image/png;base64,[A-Za-z0-9+/=\s]*")
"""Where a drawing may point to: into itself, or to pixels that stand in it."""

ELSEWHERE = re.compile(r"url\((?!#[\w.-]+\))|[@\\]|script|expression", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Section:
    """One more part of a report, after the estimates: a heading, a figure, what it shows.

    Attributes:
        title: the heading.
        text: what to see in the figure, in one or two sentences.
        figure: a Matplotlib figure; it takes the colours of the page where it uses those of
            `folt.report.style` for text and lines. Or the SVG of one, from the file of a fit.
    """

    title: str
    text: str
    figure: Figure | str

    def drawing(self, name: str) -> str:
        """Return the figure as SVG for a page.

        Args:
            name: seeds the identifiers, so that figures in one page do not share any.
        """
        if isinstance(self.figure, str):
            return self.figure
        from folt.report.style import svg

        return svg(self.figure, name)


def require_harmless(drawing: str) -> str:
    """Return a drawing from a file, if it is nothing but a drawing: no script, nothing fetched.

    Raises:
        ValueError: it holds something that folt does not draw.
    """
    try:
        # Names of namespaces are taken out for the page; a reader of XML would miss them.
        root = ElementTree.fromstring(drawing.replace(" xlink:href=", " href="))
    except ElementTree.ParseError as error:
        raise ValueError(f"it holds a drawing that is no SVG: {error}") from error
    if root.tag != "svg" or not set(root.attrib) <= {"viewBox", "version"}:
        raise ValueError("it holds a drawing that is not as folt draws")
    for element in root.iter():
        if element is not root and element.tag not in ELEMENTS:
            raise ValueError(f"it holds a drawing with <{element.tag}>, which folt does not draw")
        if element.tag == "style" and not SHEET.fullmatch(element.text or ""):
            raise ValueError("it holds a drawing with a style sheet of its own")
        for name, value in element.attrib.items():
            pointing = name == "href" and not TARGET.fullmatch(value)
            if name not in ATTRIBUTES or pointing or (name != "href" and ELSEWHERE.search(value)):
                raise ValueError(f"it holds a drawing with {name}={value[:40]!r}")
    return drawing
