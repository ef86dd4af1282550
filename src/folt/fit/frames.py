"""Draws and estimates of a fit as data frames of pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from folt.fit.text import entries, estimate_rows
from folt.store.packages import require

if TYPE_CHECKING:
    import pandas

    from folt.fit.fit import Fit


def data_frame(
    what: str, columns: Mapping[str, object], rows: Sequence | np.ndarray, name: str
) -> pandas.DataFrame:
    """Return a data frame.

    Args:
        what: what it is a table of, for the sentence that asks for pandas where it is missing.
        columns: the values of every column.
        rows: labels of the rows.
        name: what the rows are.
    """
    require(f"a table of {what}", "pandas")
    import pandas

    return pandas.DataFrame(dict(columns), index=pandas.Index(rows, name=name))


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
    found = estimate_rows(fit)
    fields = {"sd": "deviation"} | {name: name for name in ("low", "high", "ess", "rhat")}
    columns = {
        heading: np.array([getattr(row, field) for row in found], float)
        for heading, field in {"mean": "mean", **fields}.items()
    }
    return data_frame("estimates", columns, [row.name for row in found], "parameter")
