"""A fit in a few lines: verdict, estimates, evidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from folt.certificate.certificate import chain_rows, headline, tone
from folt.fit.text import decimals, draws_words, effective_draws
from folt.problem.faces import Face

if TYPE_CHECKING:
    from folt.fit.fit import Fit

ROWS = 5
"""Parameters that are listed; the summary has them all."""

ENTRIES = 4
"""Entries of one parameter that are listed."""


def fit_face(fit: Fit) -> Face:
    """Verdict, what was drawn, a row per parameter, the numbers behind them, where to go on."""
    status = fit.certificate.status
    rows = [("Draws", draws_words(fit))]
    rows += [(name, means(values)) for name, values in list(fit.posterior.items())[:ROWS]]
    if len(fit.posterior) > ROWS:
        rows[-1] = ("…", f"{len(fit.posterior) - ROWS + 1} more parameters")
    rows += chain_rows(fit.certificate)[:2]
    ess = effective_draws(fit)
    rows.append(
        ("Chains", f"acceptance {100 * fit.accept_rate:.1f} %, {ess:,.0f} effective draws at least")
    )
    rows.append(("More", 'fit.summary(), fit.report("report.html"), fit.to_arviz()'))
    return Face(headline(status), tuple(rows), tone(status))


def means(values: np.ndarray) -> str:
    """Mean ± standard deviation of every entry, the first few."""
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
    """The means of a matrix or a larger array in its own shape, the first few rows."""
    centres = values.mean(axis=(0, 1))
    digits = decimals([float(spread) for spread in values.std(axis=(0, 1)).ravel()])
    table = centres.reshape(-1, centres.shape[-1])
    lines = [f"[{', '.join(f'{x:.{digits}f}' for x in row[:ENTRIES])}]" for row in table[:ENTRIES]]
    cut = len(table) > ENTRIES or table.shape[1] > ENTRIES
    return (
        f"{', '.join(lines)}{', …' if cut else ''} (means, {' × '.join(map(str, centres.shape))})"
    )
