"""`folt modal`."""

from __future__ import annotations

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
    bands_of,
    duration,
    numbers_for,
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
    print_json,
    wrote,
)

if TYPE_CHECKING:
    from folt.fleet import Runner
    from folt.modal import Measured, Record, Settings
    from folt.modal.bands import FrequencyBand
    from folt.modal.identification import ModalModel
    from folt.modal.tracking import Windows
    from folt.store.strict_json import Document

MODAL_EXAMPLES = """\
folt modal tower.csv --rate 32 --band 0.7 1.1 --modes 1:4 --out tower
folt modal tower.csv --rate 32 --band 0.1:0.4 --band 0.7:1.1 --modes 1:4
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

    Several bands, each a --band, are fitted one after the other: every band has a folder, and
    modes.csv and index.html have the modes of all; --modes is one number or range for all bands, or
    one each: --modes 1,3.

    With --window an interrupted run goes on where it stopped: finished windows are kept. Windows
    are fitted here one after the other, or with --workers and --scheduler many at a time.

    The JSON document has model, modes (the table), shapes and mac where the model has shapes,
    resolution_hz, ordinates, numbers (evidence and
    probability by number of modes) and what every fit has; with --window it has windows, each with
    start_s, end_s, verdict, accept, log_evidence, modes and, where there are any, shapes; with
    several bands it has bands, each with its band and what a document of one band has.
    """
    bands = bands_of(band)
    numbers = numbers_for(modes, len(bands))
    require_one_source(record, psd, bands, averages, window, step, workers, scheduler, numbers)
    require_ranges(damping, frequencies, bands)
    if psd is not None and channels:
        raise ValueError("--channels goes with a record, not with --psd")
    from folt.modal import Settings

    settings = Settings(
        model=MODELS[model],
        frequency_range=frequencies or (bands[0] if bands else None),
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
    loaded = None if record is None else _record(record, rate, channels, quiet)
    wanted = shapes and model is ModelName.auto and loaded is not None
    if wanted and loaded is not None and loaded.values.shape[1] == 1:
        wanted = False
        if not (as_json or quiet):
            typer.echo("The record has one channel, hence no shapes: the trace model is used.")
    if window is not None and loaded is not None:
        from folt.modal.tracking import Windows

        lengths = duration("--window", window), duration("--step", step or window)
        cut = Windows(*lengths, bands[0], length, overlap, shapes=wanted)
        runner = chosen_runner(workers, scheduler, here=True)
        _windows(loaded, cut, numbers[0][0], settings, out, runner, as_json, quiet)
        return
    from folt.cli.modal_spectra import Asked, one_spectrum, several_bands
    from folt.modal import measured_channels, read_spectrum, welch

    def measured(band: FrequencyBand | None) -> Measured:
        if loaded is None or band is None:
            assert psd is not None
            return read_spectrum(psd, averages, band)
        measure = measured_channels if wanted else welch
        return measure(loaded, band, segment=length, overlap=overlap)

    source = (record or psd or Path()).name
    asked = Asked(settings, out, source, geometry, as_json, quiet)
    if len(bands) > 1:
        several_bands({band: measured(band) for band in bands}, numbers, asked)
    else:
        one_spectrum(measured(bands[0] if bands else None), numbers[0], asked)


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


def _record(path: Path, rate: float | None, channels: str, quiet: bool) -> Record:
    """Return the record, after what should be said of its file."""
    from folt.modal import read_record

    record = read_record(path, rate, channels)
    for note in () if quiet else record.notes:
        typer.echo(f"folt: {note}", err=True)
    return record
