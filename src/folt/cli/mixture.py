"""`folt mixture`: mixtures for tables of data, one number of components or several compared."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.mixture_comparison import (
    COMPARISON,
    advice,
    comparison_files,
    comparison_front,
    next_step,
    ranking_table,
)
from folt.cli.mixture_results import FILES, account, fit_files, left_words
from folt.terminal import (
    Chains,
    Draws,
    Effort,
    Json,
    Labels,
    Out,
    Quiet,
    Scheduler,
    Seed,
    Workers,
    chosen_runner,
    console,
    note,
    numbers_of,
    print_fit,
    print_json,
    results_in,
)

if TYPE_CHECKING:
    import numpy as np

    from folt.cli.mixture_data import Observations
    from folt.fit import Fit
    from folt.fleet import Job, Runner
    from folt.fleet.rows import Row
    from folt.problem import Problem
    from folt.store import Store
    from folt.store.strict_json import Document


def mixture(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA.csv...",
            help="Observations in rows: text with any delimiter, or a spreadsheet or Parquet where "
            "pandas reads them. One column of numbers: univariate; several: full covariances.",
            show_default=False,
        ),
    ],
    components: Annotated[
        str, typer.Option(help="How many, such as 3, or 2:6 to compare them.", show_default=False)
    ],
    columns: Annotated[
        str,
        typer.Option(
            help="Columns to use, by name or number from 1: a,b. If not given, all that hold "
            "numbers; text, dates and counts of rows are left aside."
        ),
    ] = "",
    missing: Annotated[
        str | None,
        typer.Option(help="What stands for a missing value beside NA, - and nothing: -999,x."),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with a missing value.")
    ] = False,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize", help="Give every column mean 0 and deviation 1; so are the estimates."
        ),
    ] = False,
    counts: Annotated[bool, typer.Option("--counts", help="A mixture of Poissons.")] = False,
    labels: Labels = "sorted",
    chains: Chains = 4,
    draws: Draws = None,
    out: Out = Path("folt-mixture"),
    workers: Workers = None,
    scheduler: Scheduler = None,
    seed: Seed = 0,
    effort: Effort = "default",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a mixture with unknown weights, or compare several numbers of components by evidence.

    A run that was interrupted goes on where it stopped: finished numbers are not fitted again.

    The JSON document has `candidates`, one per number of components: components, probability,
    probability_error (all numbers equally probable before), believable (whether the error of
    log Z can be believed), and what every fit has; and `advice`, a sentence for every number that
    is not certified; and columns, observations and standardized (mean and standard_deviation by
    column). Of several files it has `data`, a list with all this for each file.

    Examples:
        folt mixture galaxies.csv --components 3
        folt mixture faithful.csv --components 2:4 --columns waiting --out waiting
        folt mixture survey.xlsx --components 2:4 --drop-missing --missing -999 --standardize
        folt mixture field*.csv --components 1:10 --workers 8 --out fields
        folt mixture visits.csv --components 1:3 --columns n --counts --json
    """
    from folt.cli.mixture_data import read_observations

    numbers = numbers_of("components", components)
    read = functools.partial(read_observations, columns=columns, counts=counts, missing=missing)
    found = {p: read(p, drop_missing=drop_missing, standardize=standardize) for p in data}
    tables = {path: table for path, (table, _) in found.items()}
    stems = [path.stem for path in tables]
    if len(tables) < len(data) or len({stem.casefold() for stem in stems}) < len(stems):
        raise ValueError(f"expected files with names of their own, got {', '.join(stems)}")
    # All of them first: what is wrong with one should not be found after an hour with the others.
    problems = [
        mixture_problem(table.values, m, counts, table.axes)
        for table in tables.values()
        for m in numbers
    ]
    for sentence in (s for _, notes in found.values() for s in notes if not quiet):
        note(sentence)
    asked: Document = {"labels": labels, "chains": chains, "draws": draws, "seed": seed}
    asked["effort"] = effort
    if len(problems) > 1:
        runner = chosen_runner(workers, scheduler, here=True)
        fits = _compared(tables, numbers, asked, out, runner, quiet, not (quiet or as_json))
        _tell_comparison(fits, tables, out, as_json, quiet)
        return
    if workers is not None or scheduler is not None:
        raise ValueError("expected several files or sizes with --workers or --scheduler")
    ((table,), (problem,)) = tables.values(), problems
    fit = _single(problem, table, numbers[0], asked, out, quiet)
    files = [out / name for name in FILES if (out / name).is_file()]
    if as_json:
        print_json("mixture", files, account({numbers[0]: fit}, table))
    else:
        print_fit("mixture", fit, files, as_json, quiet)


def mixture_problem(
    values: np.ndarray, components: int, counts: bool, names: Sequence[str]
) -> Problem:
    """The mixture for a table: of Poissons, of normals, or of normals with full covariances."""
    from folt import models

    if counts and values.shape[1] > 1:
        raise ValueError("a mixture of Poissons has one column: choose it with --columns")
    if counts:
        return models.poisson_mixture(values[:, 0], components, variables=names)
    if values.shape[1] == 1:
        return models.gaussian_mixture(values[:, 0], components, variables=names)
    _require_independent(values)
    return models.multivariate_gaussian_mixture(values, components, variables=names)


def _require_independent(values: np.ndarray) -> None:
    """Refuse columns of which one follows from the others: no covariance describes them."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        spread = values.std(axis=0)
    if not ((spread > 0) & np.isfinite(spread)).all() or len(values) < 2:
        return  # the model says what is wrong
    smallest = np.linalg.svd((values - values.mean(axis=0)) / spread, compute_uv=False)[-1]
    if smallest < 1e-10 * np.sqrt(len(values)):
        raise ValueError(
            "expected columns of which none follows from the others, got collinear ones: choose "
            "some of them with --columns"
        )


def job_for(name: str, table: Observations, components: int, options: Document) -> Job:
    """Return one size for one table, with its page and picture."""
    from folt.fleet import Job

    return Job(
        name,
        functools.partial(
            mixture_problem, components=components, counts=table.counts, names=table.axes
        ),
        data=table.values,
        options=options,
        files=functools.partial(fit_files, table=table),
        report=True,
    )


def _options(asked: Document) -> Document:
    """Return what was asked for as `folt.sample` takes it."""
    from folt.training.effort import EFFORTS

    return {**asked, "effort": EFFORTS[asked["effort"]]()}


def _single(
    problem: Problem, table: Observations, components: int, asked: Document, out: Path, quiet: bool
) -> Fit:
    """Return the fit of one size of one table, which is kept in the folder itself."""
    import numpy as np

    from folt.report.saving import kept_fit
    from folt.sampling import sample
    from folt.store import array_digest

    make = functools.partial(sample, problem, **_options(asked), progress=not quiet)
    files = functools.partial(fit_files, table=table)
    data = {
        "data": array_digest(table.values),
        "rows": array_digest(table.rows, *(np.array(one) for _, one in table.keys)),
        "columns": table.names,
        "scales": [list(scale) for scale in table.scales],
        "counts": table.counts,
        "components": components,
    }
    with results_in(out, "mixture", {**data, **asked}) as (entry, request):
        return kept_fit(entry, request, problem, make, files)


def _compared(
    tables: dict[Path, Observations],
    numbers: Sequence[int],
    asked: Document,
    out: Path,
    runner: Runner,
    quiet: bool,
    talk: bool,
) -> dict[Path, dict[int, Fit]]:
    """Return every size of every table as a fleet, then the comparison of each table."""
    from folt.fit.file import load
    from folt.fleet.many import run_jobs
    from folt.fleet.work import FailedJobsError
    from folt.report.fleet_page import Front

    options = _options(asked)
    prefixes = _prefixes(tables)
    places = {f"{prefixes[path]}k{m}": (path, m) for path in tables for m in numbers}
    jobs = [job_for(name, tables[path], m, options) for name, (path, m) in places.items()]
    fits: dict[Path, dict[int, Fit]] = {path: {} for path in tables}

    def after(store: Store, rows: list[Row]) -> Front:
        if len(rows) < len(jobs) or any(row["error"] is not None for row in rows):
            return Front(alike=len(numbers) == 1, command="mixture")
        for name, (path, m) in places.items():
            fits[path][m] = load(out / name / "fit.nc")
        for path, table in tables.items():
            for name, data in comparison_files(fits[path], table, prefixes[path]).items():
                store.write(name, data)
        if len(numbers) == 1:
            return Front(command="mixture")
        return comparison_front({prefixes[path]: fits[path] for path in tables}, [*tables.values()])

    sizes = {name: m for name, (_, m) in places.items()}
    told: dict[str, float] = {}

    def tell(name: str, row: Row, ended: int, count: int) -> None:
        told[name] = float(row["seconds"])
        if talk:
            words = row.get("error") or row["verdict"]
            typer.echo(f"{ended}/{count}  {name}  {words}{left_words(told, sizes, runner)}")

    rows = run_jobs(
        jobs,
        out,
        runner,
        retries=1 if runner.aside else 0,
        changed="replace",
        command="mixture",
        progress=not quiet,
        tell=tell,
        # A comparison of fits that are about to go is no longer true.
        derived=[f"{prefix}{name}" for prefix in prefixes.values() for name in COMPARISON],
        after=after,
    )
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        raise FailedJobsError(f"{failed[0]['job']}: {failed[0]['error']}")
    return fits


def _prefixes(paths: Collection[Path]) -> dict[Path, str]:
    """Return how the names of results begin: with that of their file, where there are several."""
    return {path: f"{path.stem}-" if len(paths) > 1 else "" for path in paths}


def _tell_comparison(
    fits: dict[Path, dict[int, Fit]],
    tables: dict[Path, Observations],
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the sizes of every file ranked, and where everything is; or their document."""
    several, prefixes = len(fits) > 1, _prefixes(fits)
    if as_json:
        files = [out / f"{prefix}{name}" for prefix in prefixes.values() for name in COMPARISON]
        files += [out / "table.csv", out / "index.html"]
        places = [f"{prefixes[path]}k{m}" for path, sizes in fits.items() for m in sizes]
        files += [out / place / name for place in places for name in FILES]
        files = [path for path in files if path.is_file()]
        told = [account(sizes, tables[path]) for path, sizes in fits.items()]
        named = [{"file": str(path), **one} for path, one in zip(fits, told, strict=True)]
        print_json("mixture", files, {"data": named} if several else told[0])
    elif not quiet:
        for path, sizes in fits.items():
            if several:
                typer.echo(f"\n{path}")
            console().print(ranking_table(sizes))
            for number, sentence in enumerate((*advice(sizes), *next_step(sizes))):
                typer.echo(f"{'' if number else chr(10)}{sentence}")
        where = f"{out}/{'*-' * several}k*"
        typer.echo(f"\nFits and reports are in {where}, all of them in {out}/index.html.")
