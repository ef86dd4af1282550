"""Fits of several models to the same data, compared by their evidence.

Draws and estimates of a fit as data frames.

A fit in a few lines: verdict, estimates, evidence.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from folt.certificate.certificate import chain_rows, headline, tone
from folt.certificate.comparison import Candidate, doubts
from folt.certificate.comparison import compare_evidences as compare_evidences
from folt.certificate.outcomes import Status
from folt.fit.fit import Fit
from folt.fit.text import decimals, draws_words, entries, estimate_rows, fewest_effective_draws
from folt.problem.cards import Card
from folt.store.packages import require

if TYPE_CHECKING:
    import pandas

    from folt.fit.fit import Fit


TABLE_COLUMNS = ("mean", "sd", "low", "high", "ess", "rhat")


def draws_frame(fit: Fit) -> pandas.DataFrame:
    """Return a column per scalar of the user's parameters, rows by chain and draw."""
    require("a table of draws", "pandas")
    import pandas

    chains, draws = fit.draws.shape[:2]
    index = pandas.MultiIndex.from_product([range(chains), range(draws)], names=["chain", "draw"])
    columns = {name: values.ravel() for name, values in entries(fit.posterior, fit).items()}
    return pandas.DataFrame(columns, index=index)


def estimates_frame(fit: Fit) -> pandas.DataFrame:
    """Return a row per scalar that varies, as the summary has them, in full precision."""
    require("a table of estimates", "pandas")
    import pandas

    found = estimate_rows(fit)
    rows = [
        (
            row.mean,
            row.deviation,
            row.low,
            row.high,
            row.ess,
            np.nan if row.rhat is None else row.rhat,
        )
        for row in found
    ]
    index = pandas.Index([row.name for row in found], name="parameter")
    return pandas.DataFrame(rows, index=index, columns=list(TABLE_COLUMNS))


_WIDTH = 96
"""Columns of a terminal that the table may take."""

_COLUMNS = (
    "log_evidence",
    "standard_error",
    "difference",
    "probability",
    "probability_error",
    "believable",
    "verdict",
)


@dataclasses.dataclass(frozen=True, repr=False)
class _Comparison:
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
        return pandas.DataFrame(rows, index=index, columns=list(_COLUMNS))

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
        console = Console(file=stream, width=_WIDTH, color_system=None, highlight=False)
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


def compare(fits: Mapping[str, Fit] | Iterable[Fit]) -> _Comparison:
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
    return _Comparison(tuple(ranked), {name: fit.certificate.status for name, fit in named.items()})


_ROWS = 5
"""Parameters that are listed; the summary has them all."""

ENTRIES = 4
"""Entries of one parameter that are listed."""


def fit_card(fit: Fit) -> Card:
    """Verdict, what was drawn, a row per parameter, the numbers behind them, where to go on."""
    status = fit.certificate.status
    rows = [("Draws", draws_words(fit))]
    rows += [(name, means(values)) for name, values in list(fit.posterior.items())[:_ROWS]]
    if len(fit.posterior) > _ROWS:
        rows[-1] = ("…", f"{len(fit.posterior) - _ROWS + 1} more parameters")
    rows += chain_rows(fit.certificate)[:2]
    ess = fewest_effective_draws(fit)
    rows.append(
        ("Chains", f"acceptance {100 * fit.accept_rate:.1f} %, {ess:,.0f} effective draws at least")
    )
    rows.append(("More", 'fit.summary(), fit.report("report.html"), fit.to_arviz()'))
    return Card(headline(status), tuple(rows), tone(status))


def means(values: np.ndarray) -> str:
    """Return the mean ± standard deviation of every entry, the first few."""
    chains, draws, *shape = values.shape
    if len(shape) > 1:
        return _rows(values)
    flat = values.reshape(chains * draws, math.prod(shape))
    centres, spreads = flat.mean(axis=0), flat.std(axis=0)
    digits = decimals([float(spread) for spread in spreads])
    words = [
        f"{centre:.{digits}f} ± {spread:.{digits}f}"
        for centre, spread in zip(centres[:ENTRIES], spreads[:ENTRIES], strict=True)
    ]
    if not words:
        return "no entries"
    more = f", … ({flat.shape[1]} entries)" if flat.shape[1] > ENTRIES else ""
    return ", ".join(words) + more


def _rows(values: np.ndarray) -> str:
    """Return the means of a matrix or a larger array in its own shape, the first few rows."""
    centres = values.mean(axis=(0, 1))
    digits = decimals([float(spread) for spread in values.std(axis=(0, 1)).ravel()])
    table = centres.reshape(-1, centres.shape[-1])
    lines = [f"[{', '.join(f'{x:.{digits}f}' for x in row[:ENTRIES])}]" for row in table[:ENTRIES]]
    cut = len(table) > ENTRIES or table.shape[1] > ENTRIES
    return (
        f"{', '.join(lines)}{', …' if cut else ''} (means, {' × '.join(map(str, centres.shape))})"
    )
