"""What `folt mixture` makes of its fits: files, a table of sizes, and the time that is left."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from folt.terminal import fit_fields, plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from folt.certificate.comparison import Candidate
    from folt.cli.mixture_data import Observations
    from folt.fit import Fit
    from folt.fleet import Runner
    from folt.store.strict_json import Document

FILES = ("fit.nc", "report.html", "mixture.png", "memberships.csv")
"""What is written of one size."""

COMPARISON = ("components.csv", "components.png", "densities.png")
"""What is written over all sizes."""


def fit_files(fit: Fit, table: Observations) -> dict[str, bytes]:
    """Return the fit, its page with the data in it, that picture, and who belongs where."""
    import pandas

    from folt.fit.labels import component_names
    from folt.fit.memberships import memberships
    from folt.report.saving import files_of, from_source
    from folt.report.sections import model_sections
    from folt.report.style import png

    (first, *others) = model_sections(fit)
    units = table.units[:1].upper() + table.units[1:]
    first = dataclasses.replace(first, text=f"{first.text} {units}".rstrip())
    members = memberships(fit)
    # Components are called as on the page, which counts them from one.
    members = dataclasses.replace(members, labels=component_names(fit, len(members.labels)))
    more = {} if first.figure == "" else {"mixture.png": png(cast("Figure", first.figure))}
    more |= {
        # Rows that were dropped keep their numbers, so that the table can be joined to the file.
        "memberships.csv": members.frame()
        .set_index(pandas.Index(table.rows, name="row"))
        .to_csv(float_format="%.6g")
        .encode(),
    }
    source = f"{table.source}: {', '.join(table.names)}"
    whole = dataclasses.replace(from_source(fit, source), sections=(first, *others))
    return files_of(whole, more)


def comparison_files(
    fits: Mapping[int, Fit], table: Observations, prefix: str = ""
) -> dict[str, bytes]:
    """Return the sizes by evidence, as a table and as a picture, and their fitted densities.

    A single size has nothing to be compared with, so that its evidence is not drawn.
    """
    from folt.report.mixtures import (
        count_panel,
        draw_plane,
        draw_weighted,
        evidence_figure,
        sizes_figure,
        thinned_posterior,
    )
    from folt.report.style import png

    ranked = ranking(fits)
    certified = [fits[int(row.name)].certificate.status.outcome.usable for row in ranked]
    if table.values.shape[1] > 1:
        draw = functools.partial(draw_plane, table.values, names=table.axes)
    else:
        panel = count_panel if table.counts else draw_weighted
        draw = functools.partial(panel, table.values[:, 0], name=table.axes[0])
    densities = sizes_figure({m: thinned_posterior(fit) for m, fit in fits.items()}, draw)
    lines = ["components,log_evidence,standard_error,probability,probability_error,accept,status"]
    lines += [
        f"{row.name},{row.log_evidence:.6f},{row.standard_error:.6f},{row.probability:.6g},"
        f"{row.probability_error:.3g},{fits[int(row.name)].accept_rate:.4f},"
        f"{fits[int(row.name)].certificate.status.name}"
        for row in ranked
    ]
    table_name, evidence_name, densities_name = (f"{prefix}{name}" for name in COMPARISON)
    contents = {table_name: ("\n".join(lines) + "\n").encode(), densities_name: png(densities)}
    if len(ranked) > 1:
        evidence = evidence_figure(ranked, "number of components", certified)
        contents[evidence_name] = png(evidence)
    return contents


def ranking(fits: Mapping[int, Fit]) -> tuple[Candidate, ...]:
    """Return the sizes with their evidence and probability, all equally probable before."""
    from folt.certificate.comparison import compare_evidences

    return compare_evidences({str(m): fit.log_evidence for m, fit in fits.items()})


def ranking_table(fits: Mapping[int, Fit]) -> Table:
    """Return the sizes as they are printed, with probabilities where there are several."""
    from folt.certificate.sentences import verdict_words

    chances = ["probability"] if len(fits) > 1 else []
    table = plain_table(["components"], ["log evidence", *chances, "accepted"], ["verdict"])
    for row in ranking(fits):
        fit = fits[int(row.name)]
        doubt = "" if row.believable else " ?"
        table.add_row(
            row.name,
            f"{row.log_evidence:.3f} ± {row.standard_error:.3f}{doubt}",
            *(f"{row.probability:.3f} ± {row.probability_error:.3f}" for _ in chances),
            f"{100 * fit.accept_rate:.1f} %",
            verdict_words(fit.certificate.status),
        )
    return table


def advice(fits: Mapping[int, Fit]) -> tuple[str, ...]:
    """Return a sentence for every size that is not certified."""
    from folt.certificate.comparison import doubts

    return doubts(ranking(fits), {str(m): fit.certificate.status for m, fit in fits.items()})


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
