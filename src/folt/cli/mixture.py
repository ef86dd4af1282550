"""`folt mixture`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from folt.cli.fleet import Scheduler, Workers, chosen_runner
from folt.cli.mixture_data import Observations, Reading, read_observations, to_standard_error
from folt.cli.mixture_jobs import (
    COMPARISON,
    advice,
    comparison_files,
    fit_files,
    job_for,
    left_words,
    mixture_problem,
    ranking_table,
    told_of,
)
from folt.cli.sample import Labels
from folt.cli.terminal import (
    Draws,
    EffortName,
    EffortOption,
    Json,
    Out,
    Quiet,
    Seed,
    console,
    is_whole,
    print_json,
    show,
)

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.fleet import Runner
    from folt.fleet.rows import Row
    from folt.problem import Problem
    from folt.store import Store
    from folt.store.strict_json import Document


MIXTURE_EXAMPLES = """\
folt mixture galaxies.csv --components 3
folt mixture faithful.csv --components 2:4 --columns waiting --out waiting
folt mixture survey.xlsx --components 2:4 --drop-missing --missing -999 --standardize
folt mixture field*.csv --components 1:10 --workers 8 --out fields
folt mixture visits.csv --components 1:3 --columns n --counts --json"""


DataFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA.csv...",
        help="Observations in rows: text with any delimiter, or a spreadsheet or Parquet where "
        "pandas reads them. One column of numbers: univariate; several: full covariances.",
        show_default=False,
    ),
]


def mixture(
    data: DataFiles,
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
    labels: Annotated[Labels, typer.Option(help="How components are numbered.")] = Labels.sorted,
    chains: Annotated[int, typer.Option(help="Independent chains.", min=1)] = 4,
    draws: Draws = None,
    out: Out = Path("folt-mixture"),
    workers: Workers = None,
    scheduler: Scheduler = None,
    seed: Seed = 0,
    effort: EffortOption = EffortName.default,
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
    """
    numbers = component_numbers(components)
    reading = Reading(columns, missing, drop_missing, standardize)
    notes: list[str] = []
    tables = {path: read_observations(path, reading, counts, notes.append) for path in data}
    _require_apart(list(tables), len(data))
    problems = {
        (path, m): mixture_problem(table.values, m, counts, table.axes)
        for path, table in tables.items()
        for m in numbers
    }
    for note in () if quiet else notes:
        to_standard_error(note)
    settings = _Settings(labels.value, chains, draws, seed, effort)
    if len(problems) == 1:
        if workers is not None or scheduler is not None:
            raise ValueError("expected several files or sizes with --workers or --scheduler")
        (problem,) = problems.values()
        _single(problem, tables[data[0]], numbers[0], settings, out, as_json, quiet)
        return
    runner = chosen_runner(workers, scheduler, here=True)
    fits = _compared(tables, numbers, settings, out, runner, not quiet, not (quiet or as_json))
    files = _files(out, tables, numbers)
    if as_json and len(tables) == 1:
        print_json("mixture", files, told_of(fits[data[0]], tables[data[0]]))
    elif as_json:
        told = [{"file": str(p), **told_of(fits[p], table)} for p, table in tables.items()]
        print_json("mixture", files, {"data": told})
    elif not quiet:
        _say(fits, out)


def _say(fits: dict[Path, dict[int, Fit]], out: Path) -> None:
    """The sizes of every file ranked, and where everything is."""
    for path, sizes in fits.items():
        if len(fits) > 1:
            typer.echo(f"\n{path}")
        console().print(ranking_table(sizes))
        for number, sentence in enumerate(advice(sizes)):
            typer.echo(f"{'' if number else chr(10)}{sentence}")
    typer.echo(
        f"\nFits and reports are in {out}/{PARTS[len(fits) > 1]}, all of them in {out}/index.html."
    )


PARTS = {False: "k*", True: "*-k*"}
"""Where the fits are, of one file and of several."""


class _Settings(NamedTuple):
    """How every size is fitted."""

    labels: str
    chains: int
    draws: int | None
    seed: int
    effort: EffortName

    def options(self) -> Document:
        """As `folt.sample` takes them."""
        return {**self._asdict(), "effort": self.effort.chosen()}


def _single(
    problem: Problem,
    table: Observations,
    components: int,
    settings: _Settings,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """One size of one table, in the folder itself."""
    from folt.report.saving import claim, kept_fit, request_for
    from folt.sampling import sample
    from folt.store import Store, array_digest

    request = request_for(
        "mixture",
        data=array_digest(table.values),
        rows=array_digest(table.rows),
        columns=table.names,
        scales=[list(scale) for scale in table.scales],
        counts=table.counts,
        **{**settings._asdict(), "effort": settings.effort.value},
        components=components,
    )
    with Store(out) as store:
        entry = store.entry()
        claim(entry, request)
        make = functools.partial(sample, problem, **settings.options(), progress=not quiet)
        fit = kept_fit(entry, request, problem, make, functools.partial(fit_files, table=table))
    files = [out / name for name in FILES]
    if as_json:
        print_json("mixture", files, told_of({components: fit}, table))
    elif not quiet:
        show(console(), fit, files)


def _compared(
    tables: dict[Path, Observations],
    numbers: list[int],
    settings: _Settings,
    out: Path,
    runner: Runner,
    progress: bool,
    talk: bool,
) -> dict[Path, dict[int, Fit]]:
    """Return every size of every table as a fleet, then the comparison of each table."""
    from folt.fit.file import load
    from folt.fleet.many import run_jobs
    from folt.fleet.work import FailedJobsError

    names = {
        (path, m): f"{path.stem}-k{m}" if len(tables) > 1 else f"k{m}"
        for path in tables
        for m in numbers
    }
    options = settings.options()
    jobs = [job_for(names[key], tables[key[0]], key[1], options) for key in names]
    fits: dict[Path, dict[int, Fit]] = {}

    def after(store: Store, rows: list[Row]) -> None:
        if len(rows) < len(jobs) or any(row["error"] is not None for row in rows):
            return
        for path in tables:
            fits[path] = {m: load(out / names[path, m] / "fit.nc") for m in numbers}
            made = comparison_files(fits[path], tables[path], _prefix(path, tables))
            for name, data in made.items():
                store.write(name, data)

    sizes = {name: m for (_, m), name in names.items()}
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
        progress=progress,
        tell=tell,
        # A comparison of fits that are about to go is no longer true.
        derived=[path.name for path in _comparisons(out, tables)],
        after=after,
    )
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        raise FailedJobsError(f"{failed[0]['job']}: {failed[0]['error']}")
    return fits


FILES = ("fit.nc", "report.html", "mixture.png", "memberships.csv")


def _prefix(path: Path, tables: Mapping[Path, Observations]) -> str:
    return f"{path.stem}-" if len(tables) > 1 else ""


def _comparisons(out: Path, tables: Mapping[Path, Observations]) -> list[Path]:
    return [out / f"{_prefix(path, tables)}{name}" for path in tables for name in COMPARISON]


def _files(out: Path, tables: Mapping[Path, Observations], numbers: Sequence[int]) -> list[Path]:
    """Return what was written."""
    fits = [
        out / f"{_prefix(path, tables)}k{m}" / name
        for path in tables
        for m in numbers
        for name in FILES
    ]
    return [*_comparisons(out, tables), out / "table.csv", out / "index.html", *fits]


def _require_apart(tables: Sequence[Path], given: int) -> None:
    """Refuse files whose results would have one name."""
    stems = [path.stem for path in tables]
    if len(tables) < given or len({stem.casefold() for stem in stems}) < len(stems):
        raise ValueError(f"expected files with names of their own, got {', '.join(stems)}")


def component_numbers(text: str) -> list[int]:
    """3 as [3], 2:6 as [2, 3, 4, 5, 6].

    Raises:
        ValueError: anything else.
    """
    ends = text.split(":")
    if len(ends) > 2 or not all(is_whole(end.strip()) for end in ends):
        raise ValueError(f"expected a number of components such as 3 or 2:6, got {text!r}")
    low, high = int(ends[0]), int(ends[-1])
    if not 1 <= low <= high:
        raise ValueError(f"expected 1 ≤ LOW ≤ HIGH components, got {text!r}")
    from folt.groups.permutation import require_labels

    require_labels("components", high)
    return list(range(low, high + 1))
