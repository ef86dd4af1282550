"""Cards: what an object says of itself in a few lines, in a terminal and in a notebook.

What labels are sorted by, in words: the names of the coordinates that a fold compares.
"""

from __future__ import annotations

import dataclasses
import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from folt.groups import Group, Joint, Product, Reflection, SignedPermutation, Within
from folt.groups.permutation import Relabelling
from folt.problem.named_values import SEEN, own_shapes, spoken_names
from folt.types import in_float64

if TYPE_CHECKING:
    from folt.problem.problem import Problem


INDEXED = re.compile(r"(-?)(.+)\[([\d,]+)\]")
"""A coordinate that is an entry of an array: its sign, the array and the index."""


@in_float64
def order_words(group: Group, names: Sequence[str]) -> str:
    """Return how the fundamental domain orders labels and signs, such as "mu ascends".

    Args:
        group: the group that was folded.
        names: one per coordinate.

    Returns:
        One clause per group that acts, joined by semicolons; empty where nothing is folded.
    """
    return "; ".join(dict.fromkeys(_clauses(group, tuple(names))))


def sorts_by_an_entry(group: Group, names: Sequence[str]) -> bool:
    """Return whether labels are sorted by one of several entries that a parameter has for each.

    Such as the first of the items of a class: an order that nobody would have chosen.
    """
    if isinstance(group, Product):
        ends = np.cumsum([part.dim for part in group.groups])
        parts = zip(group.groups, ends, strict=True)
        return any(sorts_by_an_entry(part, names[end - part.dim : end]) for part, end in parts)
    if not isinstance(group, Relabelling | Joint) or group.order == 1:
        return False
    keys = [INDEXED.fullmatch(names[place]) for places in _used(group)[0] for place in places]
    return all(match is not None and "," in match.group(3) for match in keys)


def _clauses(group: Group, names: tuple[str, ...]) -> list[str]:
    if group.order == 1:
        return []
    if isinstance(group, Product):
        ends = np.cumsum([part.dim for part in group.groups])
        return [
            clause
            for part, end in zip(group.groups, ends, strict=True)
            for clause in _clauses(part, names[end - part.dim : end])
        ]
    if isinstance(group, Reflection):
        return [f"{', '.join(names[axis] for axis in group.axes)} not negative"]
    if isinstance(group, SignedPermutation):
        return [_signed(group, names)]
    if isinstance(group, Within):
        return [f"{_keys(group.joint, names)} within every class of labels"]
    return [_keys(group, names)] if isinstance(group, Relabelling) else ["as the fold sorts them"]


def _signed(group: SignedPermutation, names: tuple[str, ...]) -> str:
    rows = np.array(names, object).reshape(group.columns, group.size)
    if group.sort_by is not None:
        key = common(rows[:, group.sort_by].tolist())
    else:
        key = f"the sum of {common(rows[:, : group.size - group.unsigned].ravel().tolist())}"
    return f"{key} not negative" + (" and ascends" if group.columns > 1 else "")


def _keys(group: Relabelling | Joint, names: tuple[str, ...]) -> str:
    """Return the coordinates that the sort keys, which are linear, are made of, and their order."""
    used, weights = _used(group)
    named = [names[place] for places in used for place in places]
    if group.labels == 2 and len(set(named)) == 1:  # exchanging two labels flips one sign
        place = used[0][0]
        falls = weights[place, 1] < weights[place, 0]
        return f"{named[0]} not {'positive' if falls else 'negative'}"
    if all(name.startswith("-") for name in named):
        return _verb(common([name[1:] for name in named]), "descend")
    return _verb(common(list(dict.fromkeys(named))), "ascend")


def _used(group: Relabelling | Joint) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the coordinates that each label's sort key is made of, and all weights."""
    weights = np.asarray(jax.vmap(group.sort_keys)(jnp.eye(group.dim)))
    return [np.flatnonzero(column) for column in weights.T], weights


def _verb(names: str, verb: str) -> str:
    """Subject and verb, of which the latter has an s where there is one name."""
    return f"{names} {verb}" if ", " in names else f"{names} {verb}s"


def common(names: Sequence[str]) -> str:
    """Entries of arrays in short: `mu` for mu[0], mu[1], and `mu[·,1]` for mu[0,1], mu[1,1]."""
    arrays: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for name in names:
        match = INDEXED.fullmatch(name)
        parts = match.groups() if match is not None else ("", name, "")
        arrays.setdefault((*parts[:2], str(parts[2].count(","))), []).append(parts)
    return ", ".join(map(_common, arrays.values()))


def _common(parts: Sequence[tuple[str, ...]]) -> str:
    """Return entries of one array, as sign, name and index, in short."""
    if not parts[0][2]:
        return ", ".join(name for _, name, _ in parts)
    columns = list(zip(*(part[2].split(",") for part in parts), strict=True))
    fixed = [column[0] if len(set(column)) == 1 else "·" for column in columns]
    stem = "".join(parts[0][:2])
    return stem if set(fixed) == {"·"} else f"{stem}[{','.join(fixed)}]"


CARD_WIDTH = 96
MOST_CARD_LINES = 12

COLOURS = {"good": "#2e7d32", "caution": "#b26a00", "bad": "#c62828", "plain": "inherit"}
"""Of a headline in a notebook; each is legible on white and on black."""

_TABLE = "border-collapse:collapse;font-size:90%;margin:.3em 0"
CELL = "text-align:left;padding:.1em 1.2em .1em 0;vertical-align:top"


@dataclasses.dataclass(frozen=True)
class Card:
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
        lines = [shortened(self.headline, CARD_WIDTH)]
        for name, words in self.rows:
            lines.append(f"  {name:<{width}}  {shortened(words, CARD_WIDTH - width - 4)}")
        return "\n".join(lines[:MOST_CARD_LINES])

    def html(self) -> str:
        """Return the same as a small table."""
        rows = "".join(
            f'<tr><th scope="row" style="{CELL}">{html.escape(name)}</th>'
            f'<td style="{CELL}">{html.escape(words)}</td></tr>'
            for name, words in self.rows[: MOST_CARD_LINES - 1]
        )
        colour = f"color:{COLOURS[self.tone]};"
        caption = f'<div style="{colour}font-weight:600">{html.escape(self.headline)}</div>'
        return f'<div>{caption}<table style="{_TABLE}">{rows}</table></div>'


class Shown:
    """Something with a card, `_card()`, which is its `repr` and what a notebook shows."""

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


def shortened(words: str, width: int) -> str:
    """Return one line of at most so many characters, cut between sentences or else words."""
    line = " ".join(words.split())
    end = line.rfind(". ", 0, width + 1)
    return (
        line[: end + 1]
        if len(line) > width and end > 0
        else textwrap.shorten(line, width, placeholder=" …")
    )


def counted(count: int, noun: str) -> str:
    """`1 labelling`, `6 labellings`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def folding(group: Group) -> str:
    """Return how many labellings a group folds into one."""
    if group.order == 1:
        return "no relabelling symmetry"
    return f"{counted(group.order, 'labelling')} folded into one"


def shapes(arrays: Iterable[tuple[str, ArrayLike | tuple[int, ...]]]) -> str:
    """Return names with their shapes, `mu (3,), sigma (3,), scale`."""
    words = []
    for name, value in arrays:
        shape = tuple(np.shape(value)) if not isinstance(value, tuple) else value
        words.append(f"{name} {shape}" if shape else name)
    return ", ".join(words)


def _order(problem: Problem) -> str:
    """Return what fits are sorted by where it is not the order of the fold, and the latter."""
    words = order_words(problem.group, _spoken(problem))
    return f"fits {problem.naming}; the fold: {words}" if problem.naming else words


def _spoken(problem: Problem) -> tuple[str, ...]:
    """Return names of the coordinates that a user knows, found at random points."""
    if problem.constrain is None:
        return problem.names
    points = np.random.default_rng(0).normal(size=(SEEN, problem.dim))
    try:
        return spoken_names(problem.names, points, problem.parameters(points))
    except Exception:  # a card must never fail
        return problem.names


def problem_card(problem: Problem) -> Card:
    """Return the symmetry, parameters, data and prior of a problem, a line each."""
    leaves = [
        (_name_of(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(problem.data)
    ]
    rows = [
        ("Symmetry", " ".join(repr(problem.group).split())),
        *([("Order", order)] if (order := _order(problem)) else []),
        ("Parameters", _parameter_words(problem)),
        (
            "Data",
            shapes((name, leaf) for name, leaf in leaves)
            or _without(problem, "none beside the density"),
        ),
        ("Prior", "given" if problem.prior is not None else _without(problem, "none of its own")),
    ]
    if problem.quotient is not None:
        rows.insert(1, ("Divided out", problem.quotient.words()))
    held = "" if problem.invariant else ", symmetry broken"
    headline = f"Problem in {problem.dim} dimensions, {folding(problem.group)}{held}"
    return Card(headline, tuple(rows))


def _without(problem: Problem, words: str) -> str:
    """Return that a problem has no such part, unless the model that it is made of brings it."""
    return words if problem.symmetry_found is None else "in the model"


def _name_of(path: jax.tree_util.KeyPath) -> str:
    """Where an array of the data stands, in names; positions among arguments say nothing."""
    named = [part for part in path if not isinstance(part, jax.tree_util.SequenceKey)]
    return jax.tree_util.keystr(tuple(named), simple=True, separator=".") or "array"


def _parameter_words(problem: Problem) -> str:
    """Return parameters with their shapes; the coordinates where a model cannot be traced now."""
    try:
        with jax.enable_x64(True):
            return shapes(own_shapes(problem).items())
    except Exception:  # a card must never fail
        return ", ".join(problem.names)
