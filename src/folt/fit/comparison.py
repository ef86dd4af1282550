"""Fits of several models to the same data, compared by their evidence."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np

from folt.certificate.comparison import Candidate, compare_evidences, doubts
from folt.certificate.outcomes import Status
from folt.fit.fit import Fit
from folt.fit.frames import data_frame
from folt.fit.text import plain_text, probability_words

if TYPE_CHECKING:
    import pandas

_WORDS = ("model", "verdict")
"""Columns of the printed table that hold no numbers."""

_HEADINGS = ("model", "log evidence", "difference", "probability", "verdict")


@dataclasses.dataclass(frozen=True, repr=False)
class _Comparison:
    """Models by evidence, the best first; prints as a table and is one in a notebook.

    Attributes:
        candidates: the models with log Z, probability under equal prior probabilities and errors;
            probabilities are NaN where two models were given different data.
        statuses: the verdict on the fit of each, by its name.
        apart: pairs of models that were given no array in common.
    """

    candidates: tuple[Candidate, ...]
    statuses: Mapping[str, Status]
    apart: tuple[tuple[str, str], ...] = ()

    @property
    def advice(self) -> tuple[str, ...]:
        """A sentence for every model whose evidence is not certified, and for other data."""
        others = [
            f"{one} and {other} were given no array in common: log Z compares models of the same "
            "observations only, so that there are no probabilities."
            for one, other in self.apart[:1]
        ]
        return (*others, *doubts(self.candidates, self.statuses))

    def to_dataframe(self) -> pandas.DataFrame:
        """A row per model; `difference` is log Z less that of the best."""
        best, found = self.candidates[0].log_evidence, self.candidates
        columns = {
            "log_evidence": [row.log_evidence for row in found],
            "standard_error": [row.standard_error for row in found],
            "difference": [row.log_evidence - best for row in found],
            "probability": [row.probability for row in found],
            "probability_error": [row.probability_error for row in found],
            "believable": [row.believable for row in found],
            "verdict": [self.statuses[row.name].name for row in found],
        }
        return data_frame("models", columns, [row.name for row in found], "model")

    def __repr__(self) -> str:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for heading in _HEADINGS:
            table.add_column(heading, justify="left" if heading in _WORDS else "right")
        for cells in self._cells():
            table.add_row(*map(Text, cells))
        return plain_text(table, *map(Text, self.advice))

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(heading)}</th>" for heading in _HEADINGS)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for cells in self._cells()
        )
        advice = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.advice)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{advice}"

    def _cells(self) -> list[tuple[str, ...]]:
        best = self.candidates[0].log_evidence
        return [
            (
                row.name,
                f"{row.log_evidence:.3f} ± {row.standard_error:.3f}" + " ?" * (not row.believable),
                f"{row.log_evidence - best:.3f}",
                probability_words(row.probability, row.probability_error),
                self.statuses[row.name].name,
            )
            for row in self.candidates
        ]


def compare(fits: Mapping[str, Fit] | Iterable[Fit]) -> _Comparison:
    """Compare models of the same data by their evidence, all equally probable before.

    Args:
        fits: by name, `{"two": fit, "three": other}`, or one after the other, which are then
            called 1, 2, ... in the order given.

    Raises:
        ValueError: fewer than two fits, or something that is none.
    """
    if not isinstance(fits, Mapping | Iterable) or isinstance(fits, str):
        raise ValueError(
            f"expected fits such as {{'two': fit, 'three': other}}, got {type(fits).__name__}"
        )
    listed = fits.items() if isinstance(fits, Mapping) else enumerate(fits, 1)
    named = {str(name): fit for name, fit in listed}
    for name, fit in named.items():
        if not isinstance(fit, Fit):
            raise ValueError(f"expected a fit under {name!r}, got {type(fit).__name__}")
    if len(named) < 2:
        raise ValueError(f"expected at least two fits to compare, got {len(named)}")
    found = compare_evidences({name: fit.log_evidence for name, fit in named.items()})
    ranked, apart = sorted(found, key=lambda row: -row.log_evidence), _apart(named)
    if apart:
        ranked = [
            dataclasses.replace(row, probability=math.nan, probability_error=math.nan)
            for row in ranked
        ]
    statuses = {name: fit.certificate.status for name, fit in named.items()}
    return _Comparison(tuple(ranked), statuses, apart)


def _apart(fits: Mapping[str, Fit]) -> tuple[tuple[str, str], ...]:
    """Return pairs whose data have no array in common; fits without their data are left out."""
    given = {
        name: {_contents(leaf) for leaf in jax.tree.leaves(fit.problem.data)}
        for name, fit in fits.items()
        if fit.problem is not None and fit.problem.data is not None
    }
    pairs = itertools.combinations(given, 2)
    return tuple((one, other) for one, other in pairs if not given[one] & given[other])


def _contents(leaf: object) -> tuple[tuple[int, ...], bytes]:
    array = np.asarray(leaf)
    return array.shape, array.astype(float).tobytes() if array.dtype.kind in "biuf" else b""
