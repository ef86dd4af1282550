"""`folt mixture`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from folt.cli.machine import Json, fit_fields, print_json
from folt.cli.sample import Labels
from folt.cli.terminal import (
    EffortName,
    EffortOption,
    Quiet,
    Seed,
    console,
    remember_compilations,
    show,
)

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from folt.certificate.comparison import Candidate
    from folt.fit import Fit
    from folt.problem import Problem
    from folt.store import Store
    from folt.store.strict_json import Document
    from folt.store.tables import Columns


EXAMPLES = """\
folt mixture galaxies.csv --components 3
folt mixture faithful.csv --components 2:4 --columns waiting --out waiting
folt mixture visits.csv --components 1:3 --columns n --counts --json"""

SHOWN = "The observations beneath the posterior: the whole mixture and each of its components."


class Observations(NamedTuple):
    """The columns that are fitted, their names, and whether they are counts."""

    values: np.ndarray
    names: tuple[str, ...]
    counts: bool


def mixture(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA.csv",
            help="Observations in rows. One column: univariate; several: full covariances.",
            show_default=False,
        ),
    ],
    components: Annotated[
        str, typer.Option(help="How many, such as 3, or 2:6 to compare them.", show_default=False)
    ],
    columns: Annotated[
        str, typer.Option(help="Columns to use, by name or number from 1: a,b. All if not given.")
    ] = "",
    counts: Annotated[bool, typer.Option("--counts", help="A mixture of Poissons.")] = False,
    labels: Annotated[Labels, typer.Option(help="How components are numbered.")] = Labels.sorted,
    chains: Annotated[int, typer.Option(help="Independent chains.", min=1)] = 4,
    draws: Annotated[int, typer.Option(help="Draws per chain.", min=1)] = 5000,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("folt-mixture"),
    seed: Seed = 0,
    effort: EffortOption = EffortName.default,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a mixture with unknown weights, or compare several numbers of components by evidence.

    A run that was interrupted goes on where it stopped: finished numbers are not fitted again.

    The JSON document has `candidates`, one per number of components: components, probability,
    probability_error (all numbers equally probable before), believable (whether the error of
    log Z can be believed), and what every fit has.
    """
    numbers = component_numbers(components)
    names, values = _observations(data, columns)
    from folt.report.kept import request_for  # only now: a refusal need not wait for it
    from folt.store import Store, array_digest

    table = Observations(values, names, counts)
    problems = {m: _problem(values, m, counts) for m in numbers}
    request = request_for(
        "mixture",
        data=array_digest(values),
        columns=names,
        counts=counts,
        labels=labels.value,
        chains=chains,
        draws=draws,
        seed=seed,
        effort=effort.value,
    )
    remember_compilations()
    talk = not quiet and not as_json
    with Store(out) as store:
        if len(numbers) == 1:
            only = _fitted(problems[numbers[0]], store, numbers[0], request, table, not quiet)
            fits = {numbers[0]: only}
        else:
            fits = _compared(problems, store, request, table, talk, not quiet)
    ranking = _ranking(fits)
    if as_json:
        print_json("mixture", _files(out, numbers), {"candidates": _candidates(fits)})
    elif talk and len(numbers) > 1:
        console().print(_table(ranking, fits))
        typer.echo(f"\nFits and reports are in {out}/k*, the comparison in {out}/components.csv.")
    elif talk:
        show(console(), only, _files(out, numbers))


def _files(out: Path, numbers: Sequence[int]) -> list[Path]:
    """What was written."""
    names = ("fit.nc", "report.html", "mixture.png")
    if len(numbers) == 1:
        return [out / name for name in names]
    compared = [out / "components.csv", out / "components.png"]
    return [*compared, *(out / f"k{m}" / name for m in numbers for name in names)]


def component_numbers(text: str) -> list[int]:
    """3 as [3], 2:6 as [2, 3, 4, 5, 6].

    Raises:
        ValueError: anything else.
    """
    ends = text.split(":")
    if len(ends) > 2 or not all(end.strip().isdigit() for end in ends):
        raise ValueError(f"expected a number of components such as 3 or 2:6, got {text!r}")
    low, high = int(ends[0]), int(ends[-1])
    if not 1 <= low <= high:
        raise ValueError(f"expected 1 ≤ LOW ≤ HIGH components, got {text!r}")
    from folt.groups.limits import require_labels

    require_labels("components", high)
    return list(range(low, high + 1))


def _observations(path: Path, columns: str) -> tuple[tuple[str, ...], np.ndarray]:
    """The chosen columns with their names; a column that is not chosen may hold anything."""
    from folt.store.tables import read_columns

    table = read_columns(path)
    count = table.values.shape[1]
    names = table.names or tuple(f"column {i + 1}" for i in range(count))
    wanted = [word.strip() for word in columns.split(",") if word.strip()]
    if not wanted:
        return names, _complete(path, table, list(range(count)))
    chosen = []
    for word in wanted:
        if word in names:
            chosen.append(names.index(word))
        elif word.isdigit() and 1 <= int(word) <= count:
            chosen.append(int(word) - 1)
        else:
            raise ValueError(f"no column {word!r} in {path}: it has {', '.join(names)}")
        if chosen[-1] in chosen[:-1]:
            raise ValueError(f"expected every column once, got {word!r} twice in --columns")
    return tuple(names[i] for i in chosen), _complete(path, table, chosen)


def _complete(path: Path, table: Columns, chosen: list[int]) -> np.ndarray:
    """The chosen columns, if nothing is missing in them.

    Raises:
        ValueError: naming the line.
    """
    import numpy as np

    values = table.values[:, chosen]
    rows = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if rows.size:
        raise ValueError(
            f"{path}, line {table.lines[rows[0]]}: a value is missing or infinite: drop the line, "
            "folt does not impute"
        )
    return values


def _problem(values: np.ndarray, components: int, counts: bool) -> Problem:
    from folt import models

    if counts and values.shape[1] > 1:
        raise ValueError("a mixture of Poissons has one column: choose it with --columns")
    if counts:
        return models.poisson_mixture(values[:, 0], components)
    if values.shape[1] == 1:
        return models.gaussian_mixture(values[:, 0], components)
    _require_independent(values)
    return models.multivariate_gaussian_mixture(values, components)


def _require_independent(values: np.ndarray) -> None:
    """Refuse columns of which one follows from the others: no covariance describes them."""
    import numpy as np

    spread = values.std(axis=0)
    if not (spread > 0).all() or len(values) < 2:
        return  # the model says what is wrong
    smallest = np.linalg.svd((values - values.mean(axis=0)) / spread, compute_uv=False)[-1]
    if smallest < 1e-10 * np.sqrt(len(values)):
        raise ValueError(
            "expected columns of which none follows from the others, got collinear ones: choose "
            "some of them with --columns"
        )


def _fitted(
    problem: Problem,
    store: Store,
    components: int,
    settings: Document,
    table: Observations,
    progress: bool,
    before: Callable[[], None] = lambda: None,
) -> Fit:
    """The fit, from its file if the same one was finished before."""
    from folt.report.kept import claim, kept_fit
    from folt.sampling import sample

    entry, request = store.entry(), {**settings, "components": components}
    claim(entry, request)
    make = functools.partial(
        sample,
        problem,
        seed=settings["seed"],
        chains=settings["chains"],
        draws=settings["draws"],
        labels=settings["labels"],
        effort=EffortName(settings["effort"]).chosen(),
        progress=progress,
    )
    return kept_fit(
        entry, request, problem, make, functools.partial(_fit_files, table=table), before
    )


def _fit_files(fit: Fit, table: Observations) -> dict[str, bytes]:
    """The fit, its page with the data in it, and that picture."""
    from folt.fit.section import Section
    from folt.report.figures import png
    from folt.report.kept import files_of
    from folt.report.mixtures import plane_figure, poisson_figure, weighted_mixture_figure

    values, names = table.values, table.names
    posterior = {
        name: value.reshape(-1, *value.shape[2:])[:: max(value.shape[0] * value.shape[1] // 400, 1)]
        for name, value in fit.posterior.items()
    }
    if table.counts:
        figure = poisson_figure(values[:, 0], posterior, names[0])
    elif values.shape[1] == 1:
        figure = weighted_mixture_figure(values[:, 0], posterior, names[0])
    else:
        figure = plane_figure(values[:, :2], posterior, (names[0], names[1]))
    section = Section("The data and the mixture", SHOWN, figure)
    return files_of(dataclasses.replace(fit, sections=(section,)), {"mixture.png": png(figure)})


def _compared(
    problems: dict[int, Problem],
    store: Store,
    settings: Document,
    table: Observations,
    talk: bool,
    progress: bool,
) -> dict[int, Fit]:
    """One fit after the other, each kept as soon as it is finished, then the comparison."""
    from folt.report.figures import png
    from folt.report.kept import claim
    from folt.report.mixtures import evidence_figure
    from folt.store import Store

    entry, request = store.entry(), {**settings, "components": list(problems)}
    claim(entry, request)
    fits = {}
    for m, problem in problems.items():
        if talk:
            typer.echo(f"{m} components")
        with Store(store.folder / f"k{m}") as place:
            # A comparison of fits that are about to go is no longer true.
            fits[m] = _fitted(problem, place, m, settings, table, progress, entry.withdraw)
    ranking = _ranking(fits)
    lines = ["components,log_evidence,standard_error,probability,probability_error,accept,status"]
    lines += [
        f"{row.name},{row.log_evidence:.6f},{row.standard_error:.6f},{row.probability:.6g},"
        f"{row.probability_error:.3g},{fits[int(row.name)].accept_rate:.4f},"
        f"{fits[int(row.name)].certificate.status.name}"
        for row in ranking
    ]
    files = {
        "components.csv": ("\n".join(lines) + "\n").encode(),
        "components.png": png(evidence_figure(ranking, "number of components")),
    }
    entry.replace(request, files)
    return fits


def _ranking(fits: dict[int, Fit]) -> tuple[Candidate, ...]:
    from folt.certificate.comparison import compare

    return compare({str(m): fit.log_evidence for m, fit in fits.items()})


def _candidates(fits: dict[int, Fit]) -> list[Document]:
    """The numbers of components with their evidence and probability, as plain values."""
    return [
        {
            "components": int(row.name),
            "probability": row.probability,
            "probability_error": row.probability_error,
            "believable": row.believable,
            **fit_fields(fits[int(row.name)]),
        }
        for row in _ranking(fits)
    ]


def _table(ranking: Sequence[Candidate], fits: dict[int, Fit]) -> Table:
    from rich.table import Table

    from folt.certificate.face import verdict_words

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("components")
    for heading in ("log evidence", "probability", "accepted"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in ranking:
        fit = fits[int(row.name)]
        doubt = "" if row.believable else " ?"
        table.add_row(
            row.name,
            f"{row.log_evidence:.3f} ± {row.standard_error:.3f}{doubt}",
            f"{row.probability:.3f} ± {row.probability_error:.3f}",
            f"{100 * fit.accept_rate:.1f} %",
            verdict_words(fit.certificate.status),
        )
    return table
