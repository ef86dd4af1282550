"""Sizes of a mixture compared: a table, pictures, what to do next, and the head of their page."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from folt.terminal import plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from folt.certificate.comparison import Candidate
    from folt.cli.mixture_data import Observations
    from folt.fit import Fit
    from folt.report.fleet_page import Front

COMPARISON = ("components.csv", "components.png", "densities.png")
"""What is written over all sizes."""

_SAID = {
    "components.png": (
        "Evidence",
        "Log evidence of every number of components with two standard errors, an arrow where it "
        "lies far below the best, and the probabilities that follow. Hollow where the verdict "
        "says that the fit cannot be relied on.",
    ),
    "densities.png": ("Fitted densities", "The observations beneath the mixture of every size."),
}
"""Title and caption of the pictures on the page."""

_NAMED = 5
"""Sizes whose probabilities stand in a sentence."""

_BEFORE = "All numbers of components were equally probable before."


def ranking(fits: Mapping[int, Fit]) -> tuple[Candidate, ...]:
    """Return the sizes with their evidence and probability, all equally probable before."""
    from folt.certificate.comparison import compare_evidences

    return compare_evidences({str(m): fit.log_evidence for m, fit in fits.items()})


def ranking_table(fits: Mapping[int, Fit]) -> Table:
    """Return the sizes as they are printed, with probabilities where there are several."""
    (first, *numbers, last), *rows = _sizes_cells(fits)
    table = plain_table([first], numbers, [last])
    for row in rows:
        table.add_row(*row)
    return table


def _sizes_cells(fits: Mapping[int, Fit]) -> list[tuple[str, ...]]:
    """Return headings, then a row per size."""
    from folt.certificate.sentences import verdict_words
    from folt.fit.text import probability_words

    chances = ["probability"] if len(fits) > 1 else []
    rows = [("components", "log evidence", *chances, "accepted", "verdict")]
    for row in ranking(fits):
        fit = fits[int(row.name)]
        doubt = "" if row.believable else " ?"
        rows.append(
            (
                row.name,
                f"{row.log_evidence:.3f} ± {row.standard_error:.3f}{doubt}",
                *(probability_words(row.probability, row.probability_error) for _ in chances),
                f"{100 * fit.accept_rate:.1f} %",
                verdict_words(fit.certificate.status),
            )
        )
    return rows


def _files_cells(
    fits: Mapping[str, Mapping[int, Fit]], tables: Sequence[Observations]
) -> list[tuple[str, ...]]:
    """Return headings, then a row per file that begins with the job of its most probable size."""
    from folt.fit.text import probability_words

    sizes = list(next(iter(fits.values())))
    rows = [("file", "most probable", *(f"P({m})" for m in sizes), "verdict")]
    for (prefix, of_file), table in zip(fits.items(), tables, strict=True):
        best = most_probable(of_file).name
        chances = [probability_words(row.probability) for row in ranking(of_file)]
        verdict = of_file[int(best)].certificate.status.name
        rows.append((f"{prefix}k{best}", table.source, best, *chances, verdict))
    return rows


def advice(fits: Mapping[int, Fit]) -> tuple[str, ...]:
    """Return a sentence for every size that is not certified."""
    from folt.certificate.comparison import doubts

    return doubts(ranking(fits), {str(m): fit.certificate.status for m, fit in fits.items()})


def comparison_figures(fits: Mapping[int, Fit], table: Observations) -> dict[str, Figure]:
    """Return the sizes by evidence and their fitted densities, by the name of the picture.

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

    if table.values.shape[1] > 1:
        draw = functools.partial(draw_plane, table.values, names=table.axes)
    else:
        panel = count_panel if table.counts else draw_weighted
        draw = functools.partial(panel, table.values[:, 0], name=table.axes[0])
    densities = sizes_figure({m: thinned_posterior(fit) for m, fit in fits.items()}, draw)
    if len(fits) == 1:
        return {COMPARISON[2]: densities}
    certified = [fit.certificate.status.outcome.usable for fit in fits.values()]
    evidence = evidence_figure(ranking(fits), "number of components", certified)
    return {COMPARISON[1]: evidence, COMPARISON[2]: densities}


def comparison_files(
    fits: Mapping[int, Fit], table: Observations, prefix: str = ""
) -> dict[str, bytes]:
    """Return the sizes by evidence as a table, and their pictures, as files."""
    from folt.report.style import png

    lines = ["components,log_evidence,standard_error,probability,probability_error,accept,status"]
    lines += [
        f"{row.name},{row.log_evidence:.6f},{row.standard_error:.6f},{row.probability:.6g},"
        f"{row.probability_error:.3g},{fits[int(row.name)].accept_rate:.4f},"
        f"{fits[int(row.name)].certificate.status.name}"
        for row in ranking(fits)
    ]
    figures = comparison_figures(fits, table)
    pictures = {f"{prefix}{name}": png(figure) for name, figure in figures.items()}
    return {f"{prefix}{COMPARISON[0]}": ("\n".join(lines) + "\n").encode(), **pictures}


def most_probable(fits: Mapping[int, Fit]) -> Candidate:
    """Return the size with the largest evidence; one that has none counts least."""
    return max(ranking(fits), key=_evidence)


def _evidence(row: Candidate) -> float:
    return -math.inf if math.isnan(row.log_evidence) else row.log_evidence


def next_step(fits: Mapping[int, Fit]) -> tuple[str, ...]:
    """Return what to do about the most probable size, in words of the shell; nothing if good."""
    from folt.fit.text import cure_lines

    name = most_probable(fits).name
    status = fits[int(name)].certificate.status
    if not cure_lines(status):
        return ()
    return (f"Next, for {_counted(name)} ({status.name}): {status.command}.",)


def comparison_front(
    fits: Mapping[str, Mapping[int, Fit]], tables: Sequence[Observations]
) -> Front:
    """Return which numbers of components are most probable, for the page of all fits.

    Args:
        fits: by how the names of their jobs begin, then by the number of components.
        tables: the observations, as many.
    """
    from folt.fit.section import Section
    from folt.report.fleet_page import Front

    ((sizes, table), *others) = zip(fits.values(), tables, strict=True)
    if others:
        return Front(
            f"Numbers of components of {len(fits)} files",
            sentences=[_BEFORE],
            table=_files_cells(fits, tables),
            alike=False,
            command="mixture",
        )
    best, sentences = most_probable(sizes), (*next_step(sizes), *advice(sizes))
    tone = sizes[int(best.name)].certificate.status.outcome.use.tone
    verb = "is" if best.name == "1" else "are"
    answer = f"{_counted(best.name)} {verb} most probable"
    if math.isnan(best.probability):
        answer = "the numbers of components cannot be compared"
    figures, (headings, *rows) = comparison_figures(sizes, table), _sizes_cells(sizes)
    return Front(
        f"{table.source}: {answer}",
        tone="caution" if tone == "good" and sentences else tone,
        sentences=[f"{_chances(sizes)} {_BEFORE}", *sentences],
        table=[headings, *((f"k{row[0]}", *row) for row in rows)],
        sections=[Section(*_SAID[name], figure) for name, figure in figures.items()],
        alike=False,
        command="mixture",
    )


def _chances(fits: Mapping[int, Fit]) -> str:
    """Return the probabilities in a sentence, the largest first."""
    from folt.fit.text import probability_words

    ranked = sorted(ranking(fits), key=_evidence, reverse=True)[:_NAMED]
    told = [f"{_counted(row.name)} {probability_words(row.probability)}" for row in ranked]
    more = ", the others less" if len(fits) > len(told) else ""
    return f"Probabilities: {', '.join(told)}{more}."


def _counted(name: str) -> str:
    return f"{name} component{'s' * (name != '1')}"
