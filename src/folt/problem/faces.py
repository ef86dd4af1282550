"""Short faces: what an object says of itself in a few lines, in a terminal and in a notebook."""

from __future__ import annotations

import dataclasses
import html
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import ArrayLike

from folt.groups import Group
from folt.problem.named_values import own_shapes
from folt.problem.order import order_words

if TYPE_CHECKING:
    from folt.problem.problem import Problem

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


def problem_face(problem: Problem) -> Face:
    """The symmetry, parameters, data and prior of a problem, a line each."""
    leaves = [
        (_name_of(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(problem.data)
    ]
    rows = [
        ("Symmetry", " ".join(repr(problem.group).split())),
        *([("Order", order)] if (order := order_words(problem.group, problem.names)) else []),
        ("Parameters", _parameter_words(problem)),
        ("Data", shapes((name, leaf) for name, leaf in leaves) or "none"),
        ("Prior", "given" if problem.prior is not None else "none of its own"),
    ]
    if problem.quotient is not None:
        rows.insert(1, ("Divided out", problem.quotient.words()))
    held = "" if problem.invariant else ", symmetry broken"
    headline = f"Problem in {problem.dim} dimensions, {folding(problem.group)}{held}"
    return Face(headline, tuple(rows))


def _name_of(path: jax.tree_util.KeyPath) -> str:
    """Where an array of the data stands, in names; positions among arguments say nothing."""
    named = [part for part in path if not isinstance(part, jax.tree_util.SequenceKey)]
    return jax.tree_util.keystr(tuple(named), simple=True, separator=".") or "array"


def _parameter_words(problem: Problem) -> str:
    """Parameters with their shapes; the coordinates where a model cannot be traced now."""
    try:
        with jax.enable_x64(True):
            return shapes(own_shapes(problem).items())
    except Exception:  # a face must never fail
        return ", ".join(problem.names)
