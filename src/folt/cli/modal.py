"""`folt modal`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from folt.cli.fleet import Scheduler, Workers, chosen_runner
from folt.cli.modal_options import (
    AveragesOption,
    BandOption,
    ChannelsOption,
    CorrelatedOption,
    Damping,
    DrawsOption,
    Frequencies,
    GeometryFile,
    ModelName,
    ModelOption,
    MotionName,
    MotionOption,
    NoiseName,
    NoiseOption,
    NumberOfModes,
    Overlap,
    Rate,
    RecordFile,
    Segment,
    ShapesOption,
    SpectrumFile,
    StepOption,
    Window,
    duration,
    numbers_of_modes,
    require_one_source,
    require_ranges,
)
from folt.cli.terminal import (
    EffortName,
    EffortOption,
    Json,
    Out,
    Quiet,
    Seed,
    console,
    fit_fields,
    print_json,
    wrote,
)

if TYPE_CHECKING:
    from folt.fit import Fit
    from folt.fleet import Runner
    from folt.modal import Identification, Measured, Record, Settings
    from folt.modal.geometry import Geometry
    from folt.modal.identification import ModalModel
    from folt.modal.tracking import Windows
    from folt.store import Store
    from folt.store.strict_json import Document

MODAL_EXAMPLES = """\
folt modal tower.csv --rate 32 --band 0.7 1.1 --modes 1:4 --out tower
folt modal --psd spectrum.csv --averages 12 --modes 3
folt modal long.csv --rate 32 --band 0.7 1.1 --window 30min --step 10min --workers 8"""

ONE_SPECTRUM_DRAWS, WINDOW_DRAWS = 5000, 1000


MODELS: dict[ModelName, ModalModel | None] = {
    ModelName.auto: None,
    ModelName.paper: "paper",
    ModelName.powers: "powers",
}


def modal(
    record: RecordFile = None,
    psd: SpectrumFile = None,
    modes: NumberOfModes = "3",
    band: BandOption = None,
    rate: Rate = None,
    channels: ChannelsOption = "",
    out: Out = Path("folt-modal"),
    model: ModelOption = ModelName.auto,
    shapes: ShapesOption = True,
    averages: AveragesOption = None,
    frequencies: Frequencies = None,
    damping: Damping = (0.1, 5.0),
    motion: MotionOption = MotionName.acceleration,
    noise: NoiseOption = NoiseName.common,
    correlated: CorrelatedOption = False,
    geometry: GeometryFile = None,
    segment: Segment = None,
    overlap: Overlap = 0.75,
    window: Window = None,
    step: StepOption = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    draws: DrawsOption = None,
    chains: Annotated[int, typer.Option(help="Independent chains.", min=1)] = 4,
    as_json: Json = False,
    seed: Seed = 0,
    effort: EffortOption = EffortName.default,
    quiet: Quiet = False,
) -> None:
    """Natural frequencies, damping and shapes of a structure, from a record or from a spectrum.

    A record of several channels gives mode shapes too; --no-shapes, a --model or one channel use
    the trace of its spectrum alone. With --window modes are linked from window to window by their
    shapes and frequencies.

    With --window an interrupted run goes on where it stopped: finished windows are kept. Windows
    are fitted here one after the other, or with --workers and --scheduler many at a time.

    The JSON document has model, modes (the table), shapes and mac where the model has shapes,
    resolution_hz, ordinates, numbers (evidence and
    probability by number of modes) and what every fit has; with --window it has windows, each with
    start_s, end_s, verdict, accept, log_evidence, modes and, where there are any, shapes.
    """
    numbers = numbers_of_modes(modes)
    require_one_source(record, psd, band, averages, window, step, workers, scheduler, numbers)
    require_ranges(damping, frequencies, band)
    if psd is not None and channels:
        raise ValueError("--channels goes with a record, not with --psd")
    from folt.modal import Settings

    settings = Settings(
        model=MODELS[model],
        frequency_range=frequencies or band,
        damping_range=(damping[0] / 100, damping[1] / 100),
        motion=motion.value,
        noise=noise.value,
        forces="correlated" if correlated else "uncorrelated",
        chains=chains,
        draws=draws or (ONE_SPECTRUM_DRAWS if window is None else WINDOW_DRAWS),
        seed=seed,
        effort=effort.chosen(),
    )
    length = None if segment is None else duration("--segment", segment)
    wanted = shapes and model is ModelName.auto
    if window is not None and band is not None:
        loaded = _record(record, rate, channels, quiet)
        from folt.modal.tracking import Windows

        cut = Windows(
            duration("--window", window),
            duration("--step", step or window),
            band,
            length,
            overlap,
            shapes=wanted and loaded.values.shape[1] > 1,
        )
        runner = chosen_runner(workers, scheduler, here=True)
        _windows(loaded, cut, numbers[0], settings, out, runner, as_json, quiet)
        return
    read = functools.partial(_record, record, rate, channels, quiet)
    measured = _measured(psd, averages, read, band, length, overlap, wanted)
    if wanted and psd is None and measured.ordinates is None and not (as_json or quiet):
        typer.echo("The record has one channel, hence no shapes: the trace model is used.")
    source = (record or psd or Path()).name
    places = _geometry(geometry, measured)
    _spectrum(measured, numbers, settings, out, as_json, quiet, source, places)


def _measured(
    psd: Path | None,
    averages: float | None,
    read: Callable[[], Record],
    band: tuple[float, float] | None,
    segment: float | None,
    overlap: float,
    shapes: bool,
) -> Measured:
    """Return the spectrum as it was given, or that of a record within the band.

    All channels of a record are kept where shapes are wanted and there are several.
    """
    from folt.modal import measured_channels, read_spectrum, welch

    if psd is not None:
        return read_spectrum(psd, averages, band)
    assert band is not None
    loaded = read()
    if shapes and loaded.values.shape[1] > 1:
        return measured_channels(loaded, band, segment=segment, overlap=overlap)
    return welch(loaded, band, segment=segment, overlap=overlap)


def _geometry(path: Path | None, measured: Measured) -> Geometry | None:
    """Where the sensors are, if a file says so."""
    from folt.modal.geometry import read_geometry

    if path is None:
        return None
    if measured.ordinates is None:
        raise ValueError("--geometry goes with shapes, which the trace of a spectrum has not")
    return read_geometry(path, measured.names)


def _spectrum(
    measured: Measured,
    numbers: range,
    settings: Settings,
    out: Path,
    as_json: bool,
    quiet: bool,
    source: str,
    geometry: Geometry | None = None,
) -> None:
    """One spectrum: fit, write, print."""
    from folt.modal.results import as_tree, contents
    from folt.report.kept import claim, keep_fit, request_for
    from folt.store import Store, array_digest

    parts = (measured.averages, measured.window, *(measured.ordinates or ()))
    known = [part for part in parts if part is not None]
    data = array_digest(measured.frequency, measured.psd, *known)
    request = request_for("modal", spectrum=data, **settings.asked())
    whole = {**request, "modes": list(numbers)}
    with Store(out) as store:
        entry = store.entry()
        claim(entry, whole)
        found = _identified(measured, numbers, settings, store, request, as_json, quiet)
        files = keep_fit(entry, whole, found.fit, lambda fit: contents(found, geometry, source))
    if as_json:
        print_json("modal", files, {**as_tree(found), **fit_fields(found.fit)})
    elif not quiet:
        _show(found, files)


def _identified(
    measured: Measured,
    numbers: range,
    settings: Settings,
    store: Store,
    request: Document,
    as_json: bool,
    quiet: bool,
) -> Identification:
    """Return one fit, or one after the other, each kept as soon as it is finished."""
    from folt.fit.file import to_bytes
    from folt.modal.identification import Identification, problem_for
    from folt.report.kept import FIT, kept_fit
    from folt.store import Store

    if len(numbers) == 1:
        fit = _one_fit(measured, numbers[0], settings, not quiet)
        return Identification(measured, settings.model_for(measured), {numbers[0]: fit})
    # All of them first: what is wrong with one should not be found after an hour with the others.
    problems = {m: problem_for(measured, m, settings) for m in numbers}
    fits = {}
    for m, problem in problems.items():
        if not (quiet or as_json):
            typer.echo(f"{m} mode{'s' if m > 1 else ''}")
        with Store(store.folder / f"m{m}") as place:
            fits[m] = kept_fit(
                place.entry(),
                {**request, "modes": m},
                problem,
                functools.partial(_one_fit, measured, m, settings, not quiet),
                lambda fit: {FIT: to_bytes(fit)},
                # What is said of fits that are about to go is no longer true.
                store.entry().withdraw,
            )
    if not (quiet or as_json):
        typer.echo("")
    return Identification(measured, settings.model_for(measured), fits)


def _one_fit(measured: Measured, modes: int, settings: Settings, progress: bool) -> Fit:
    from folt.modal.identification import identify

    return identify(measured, modes, settings, progress=progress).fit


def _windows(
    record: Record,
    cut: Windows,
    modes: int,
    settings: Settings,
    out: Path,
    runner: Runner,
    as_json: bool,
    quiet: bool,
) -> None:
    """Window after window: fit, write, print a line each."""
    from folt.modal.tracking import track

    screen = console()
    found: list[Document] = []

    def tell(number: int, count: int, done: Document) -> None:
        found.append(done)
        if not (quiet or as_json):
            screen.print(_line(number, count, done), soft_wrap=True)

    files = track(
        record,
        cut,
        modes,
        settings,
        out,
        runner=runner,
        progress=not quiet,
        tell=tell,
    )
    if as_json:
        order = sorted(found, key=lambda row: row["start_s"])
        print_json("modal", files, {"windows": order})
    elif not quiet:
        wrote(screen, files)


def _line(number: int, count: int, done: Document) -> str:
    values = "   ".join(
        f"{row['frequency_hz']:.4f} Hz {row['damping_percent']:.2f} %" for row in done["modes"]
    )
    return f"{number:>{len(str(count))}}/{count}  {values}   {done['verdict']}"


def _show(found: Identification, files: list[Path]) -> None:
    """Tables on the console, then where everything is."""
    from rich.padding import Padding
    from rich.text import Text

    from folt.fit.text import cure_lines, styled_headline, verdict_table
    from folt.modal.shapes import mac_rows
    from folt.modal.table import evidence_table, mac_table, mode_rows, modes_table

    screen = console()
    status = found.fit.certificate.status
    screen.print(styled_headline(status), Padding(Text(status.advice), (0, 0, 0, 2)))
    screen.print(*cure_lines(status, commands=True), "")
    if len(found.fits) > 1:
        screen.print(evidence_table(found), "")
    rows = mode_rows(found.fit, found.measured.resolution)
    screen.print(modes_table(rows))
    if found.model == "shapes" and len(rows) > 1:
        screen.print("", mac_table(mac_rows(found.fit, found.measured.resolution)))
    resolution = f"{found.measured.resolution:.4g} Hz"
    screen.print(f"Merged: the next mode is nearer than the resolution, {resolution}.\n")
    screen.print(verdict_table(found.fit), "")
    wrote(screen, files)


def _record(path: Path | None, rate: float | None, channels: str, quiet: bool) -> Record:
    """Return the record, after what should be said of its file."""
    from folt.modal import read_record

    assert path is not None
    record = read_record(path, rate, channels)
    for note in () if quiet else record.notes:
        typer.echo(f"folt: {note}", err=True)
    return record
