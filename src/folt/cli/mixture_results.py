"""What `folt mixture` makes of a fit: its files, its account, and how long others will take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from folt.cli.mixture_comparison import advice, ranking
from folt.terminal import fit_fields

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from folt.cli.mixture_data import Observations
    from folt.fit import Fit
    from folt.fleet import Runner
    from folt.store.strict_json import Document

FILES = ("fit.nc", "report.html", "mixture.png", "memberships.csv")
"""What is written of one size."""


def fit_files(fit: Fit, table: Observations) -> dict[str, bytes]:
    """Return the fit, its page with the data in it, that picture, and who belongs where."""
    from folt.fit.labels import component_names
    from folt.fit.memberships import memberships
    from folt.report.saving import files_of, from_source
    from folt.report.sections import model_sections
    from folt.report.style import png

    # Rows that were dropped keep their numbers, so that the table can be joined to the file.
    members = dataclasses.replace(memberships(fit), axis="row", rows=tuple(table.rows.tolist()))
    (first, *others) = model_sections(fit, members)
    units = table.units[:1].upper() + table.units[1:]
    first = dataclasses.replace(first, text=f"{first.text} {units}".rstrip())
    # Components are called as on the page, which counts them from one.
    members = dataclasses.replace(members, labels=component_names(fit, len(members.labels)))
    more = {} if first.figure == "" else {"mixture.png": png(cast("Figure", first.figure))}
    more |= {
        "memberships.csv": _with_keys(members.frame(), table).to_csv(float_format="%.6g").encode(),
    }
    source = f"{table.source}: {', '.join(table.names)}"
    whole = dataclasses.replace(from_source(fit, source), sections=(first, *others))
    return files_of(whole, more)


def _with_keys(frame: pandas.DataFrame, table: Observations) -> pandas.DataFrame:
    """Return a table of rows that begins with the columns by which the file tells them apart."""
    taken = {frame.index.name, *frame.columns}
    keys = {f"{name} in the file" if name in taken else name: one for name, one in table.keys}
    return frame.assign(**keys)[[*keys, *frame.columns]]


def account(fits: Mapping[int, Fit], table: Observations) -> Document:
    """Return the numbers of components with their evidence and probability, as plain values."""
    candidates = [
        {
            "components": int(row.name),
            "probability": row.probability,
            "probability_error": row.probability_error,
            "believable": row.believable,
            **fit_fields(fits[int(row.name)]),
        }
        for row in ranking(fits)
    ]
    return {"candidates": candidates, "advice": list(advice(fits)), **table.told()}


def left_words(told: Mapping[str, float], sizes: Mapping[str, int], runner: Runner) -> str:
    """Return about how long the jobs to come will take; nothing where that is under a minute.

    Args:
        told: seconds of the jobs that have ended.
        sizes: the number of components of every job.
        runner: where they run.
    """
    seconds = {sizes[name]: took for name, took in told.items()}
    left = time_left(seconds, [m for name, m in sizes.items() if name not in told])
    left /= max(runner.slots, 1) if runner.aside else 1
    return f", about {left / 60.0:.0f} min left" if left >= 60.0 else ""


def time_left(seconds: Mapping[int, float], remaining: Sequence[int]) -> float:
    """Return seconds that the sizes to come will take, by a line through those that were fitted.

    A larger mixture takes longer, and none is expected to take less than the last one did.

    Args:
        seconds: what each finished size took.
        remaining: sizes to come.
    """
    import numpy as np

    if not seconds or not remaining:
        return 0.0
    sizes, took = np.array(list(seconds)), np.array(list(seconds.values()))
    slope = 0.0 if len(took) < 2 else max(float(np.polyfit(sizes, took, 1)[0]), 0.0)
    last = max(seconds)
    return float(sum(seconds[last] + slope * max(m - last, 0) for m in remaining))
