"""Short faces: what an object says of itself in a few lines, in a terminal and in a notebook."""

from __future__ import annotations

import dataclasses
import html
import textwrap
from collections.abc import Iterable

import numpy as np
from jaxtyping import ArrayLike

from folt.groups import Group

WIDTH = 96
MOST_LINES = 12

COLOURS = {"good": "#2e7d32", "caution": "#b26a00", "bad": "#c62828", "plain": "inherit"}
"""Of a headline in a notebook; each is legible on white and on black."""

TABLE = "border-collapse:collapse;font-size:90%;margin:.3em 0"
CELL = "text-align:left;padding:.1em 1.2em .1em 0;vertical-align:top"


@dataclasses.dataclass(frozen=True)
class Face:
    """A headline, and rows of a name and a few words.

    Attributes:
        headline: what matters most.
        rows: `(name, words)`; what does not fit into a few lines is left out.
        tone: good, caution, bad or plain.
    """

    headline: str
    rows: tuple[tuple[str, str], ...]
    tone: str = "plain"

    def text(self) -> str:
        """At most twelve lines of at most 96 characters."""
        width = max((len(name) for name, _ in self.rows), default=0)
        lines = [shortened(self.headline, WIDTH)]
        for name, words in self.rows:
            lines.append(f"  {name:<{width}}  {shortened(words, WIDTH - width - 4)}")
        return "\n".join(lines[:MOST_LINES])

    def html(self) -> str:
        """The same as a small table."""
        rows = "".join(
            f'<tr><th scope="row" style="{CELL}">{html.escape(name)}</th>'
            f'<td style="{CELL}">{html.escape(words)}</td></tr>'
            for name, words in self.rows[: MOST_LINES - 1]
        )
        colour = f"color:{COLOURS[self.tone]};"
        caption = f'<div style="{colour}font-weight:600">{html.escape(self.headline)}</div>'
        return f'<div>{caption}<table style="{TABLE}">{rows}</table></div>'


class Shown:
    """Something with a face, `_face()`, which is its `repr` and what a notebook shows."""

    def _face(self) -> Face:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._face().text()

    def _repr_html_(self) -> str:
        return self._face().html()


def shortened(words: str, width: int) -> str:
    """One line of at most so many characters, cut between words."""
    return textwrap.shorten(" ".join(words.split()), width, placeholder=" …")


def counted(count: int, noun: str) -> str:
    """`1 labelling`, `6 labellings`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def folding(group: Group) -> str:
    """How many labellings a group folds into one."""
    if group.order == 1:
        return "no relabelling symmetry"
    return f"{counted(group.order, 'labelling')} folded into one"


def shapes(arrays: Iterable[tuple[str, ArrayLike | tuple[int, ...]]]) -> str:
    """Names with their shapes, `mu (3,), sigma (3,), scale`."""
    words = []
    for name, value in arrays:
        shape = tuple(np.shape(value)) if not isinstance(value, tuple) else value
        words.append(f"{name} {shape}" if shape else name)
    return ", ".join(words)
