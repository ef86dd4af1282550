"""Draws and estimates of a fit as data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from folt.fit.text import entries, estimate_rows
from folt.store.packages import require

if TYPE_CHECKING:
    import pandas

    from folt.fit.fit import Fit

COLUMNS = ("mean", "sd", "low", "high", "ess", "rhat")


def draws_frame(fit: Fit) -> pandas.DataFrame:
    """A column per scalar of the user's parameters, rows by chain and draw."""
    require("a table of draws", "pandas")
    import pandas

    chains, draws = fit.draws.shape[:2]
    index = pandas.MultiIndex.from_product([range(chains), range(draws)], names=["chain", "draw"])
    columns = {name: values.ravel() for name, values in entries(fit.posterior, fit).items()}
    return pandas.DataFrame(columns, index=index)


def estimates_frame(fit: Fit) -> pandas.DataFrame:
    """A row per scalar that varies, as the summary has them, in full precision."""
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
    return pandas.DataFrame(rows, index=index, columns=list(COLUMNS))
