"""Fits of several models to the same data, compared by their evidence."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from folt.certificate.comparison import Candidate, doubts
from folt.certificate.comparison import compare as compare_evidences
from folt.certificate.verdict import Status
from folt.fit.fit import Fit
from folt.store.packages import require

if TYPE_CHECKING:
    import pandas

WIDTH = 96

COLUMNS = (
    "log_evidence",
    "standard_error",
    "difference",
    "probability",
    "probability_error",
    "believable",
    "verdict",
)


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Models by evidence, the best first; prints as a table and is one in a notebook.

    Attributes:
        candidates: the models with log Z, probability under equal prior probabilities and errors.
        statuses: the verdict on the fit of each, by its name.
    """

    candidates: tuple[Candidate, ...]
    statuses: Mapping[str, Status]

    @property
    def advice(self) -> tuple[str, ...]:
        """A sentence for every model whose evidence is not certified."""
        return doubts(self.candidates, self.statuses)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row per model; `difference` is log Z less that of the best."""
        require("a table of models", "pandas")
        import pandas

        rows = [
            (
                row.log_evidence,
                row.standard_error,
                row.log_evidence - self.candidates[0].log_evidence,
                row.probability,
                row.probability_error,
                row.believable,
                self.statuses[row.name].name,
            )
            for row in self.candidates
        ]
        index = pandas.Index([row.name for row in self.candidates], name="model")
        return pandas.DataFrame(rows, index=index, columns=list(COLUMNS))

    def __repr__(self) -> str:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for heading, side in self._headings():
            table.add_column(heading, justify="right" if side else "left")
        for cells in self._cells():
            table.add_row(*map(Text, cells))
        stream = io.StringIO()
        console = Console(file=stream, width=WIDTH, color_system=None, highlight=False)
        console.print(table)
        for sentence in self.advice:
            console.print(Text(sentence))
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{escape(heading)}</th>" for heading, _ in self._headings())
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for cells in self._cells()
        )
        advice = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.advice)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{advice}"

    def _headings(self) -> list[tuple[str, bool]]:
        words = ("log evidence", "difference", "probability")
        return [("model", False), *((word, True) for word in words), ("verdict", False)]

    def _cells(self) -> list[tuple[str, ...]]:
        best = self.candidates[0].log_evidence
        return [
            (
                row.name,
                f"{row.log_evidence:.3f} ± {row.standard_error:.3f}" + " ?" * (not row.believable),
                f"{row.log_evidence - best:.3f}",
                f"{row.probability:.3f} ± {row.probability_error:.3f}",
                self.statuses[row.name].name,
            )
            for row in self.candidates
        ]


def compare(fits: Mapping[str, Fit] | Iterable[Fit]) -> Comparison:
    """Compare models of the same data by their evidence, all equally probable before.

    Args:
        fits: by name, `{"two": fit, "three": other}`, or one after the other, which are then
            called 1, 2, ... in the order given.

    Raises:
        ValueError: fewer than two fits, or something that is none.
    """
    if not isinstance(fits, Mapping | Iterable) or isinstance(fits, str):
        raise ValueError(f"expected fits such as {{'two': fit, 'three': other}}, got {fits!r}")
    listed = fits.items() if isinstance(fits, Mapping) else enumerate(fits, 1)
    named = {str(name): fit for name, fit in listed}
    for name, fit in named.items():
        if not isinstance(fit, Fit):
            raise ValueError(f"expected a fit under {name!r}, got {type(fit).__name__}")
    if len(named) < 2:
        raise ValueError(f"expected at least two fits to compare, got {len(named)}")
    found = compare_evidences({name: fit.log_evidence for name, fit in named.items()})
    ranked = sorted(found, key=lambda row: -row.log_evidence)
    return Comparison(tuple(ranked), {name: fit.certificate.status for name, fit in named.items()})
