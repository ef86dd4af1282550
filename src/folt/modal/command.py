"""`folt modal`: what its options are, which of them go together, and what it prints."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from folt.terminal import (
    PAIR,
    Chains,
    Effort,
    Json,
    Out,
    Quiet,
    Scheduler,
    Seed,
    Workers,
    chosen_runner,
    console,
    fit_fields,
    note,
    numbers_of,
    print_json,
    wrote,
)

if TYPE_CHECKING:
    from folt.fleet import Runner
    from folt.modal import Measured, Record
    from folt.modal.bands import FrequencyBand
    from folt.modal.kept_fits import Asked
    from folt.modal.tracking import Windows
    from folt.store.strict_json import Document


ONE_SPECTRUM_DRAWS, WINDOW_DRAWS = 5000, 1000

LARGEST_DAMPING = 100.0
"""Percent of critical damping, above which nothing vibrates."""

_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}


def modal_command(
    record: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECORD",
            help="A record as text, .npy, .npz or .mat: one column per channel.",
            show_default=False,
        ),
    ] = None,
    psd: Annotated[
        Path | None,
        typer.Option(
            help="A spectrum instead of a record: CSV, frequency_hz,psd[,averages].",
            metavar="FILE",
        ),
    ] = None,
    modes: Annotated[
        str,
        typer.Option(
            help="Number of modes, or a range such as 1:4; for several bands also one each."
        ),
    ] = "3",
    band: Annotated[
        list[str] | None,
        typer.Option(
            help="Lowest and highest frequency in Hz, LOW HIGH or LOW:HIGH; once per band.",
            metavar=PAIR,
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Samples per second, where no column tells the time.")
    ] = None,
    channels: Annotated[
        str,
        typer.Option(help="Channels to use, by name or number of column: a,b. All if not given."),
    ] = "",
    out: Out = Path("folt-modal"),
    model: Annotated[
        Literal["auto", "paper", "powers"],
        typer.Option(help="Of a spectrum: by default powers where the averages are known."),
    ] = "auto",
    shapes: Annotated[
        bool,
        typer.Option(
            "--shapes/--no-shapes",
            help="Mode shapes from all channels of a record, or the trace of its spectrum alone.",
        ),
    ] = True,
    averages: Annotated[
        float | None, typer.Option(help="Effective number of averages behind --psd.")
    ] = None,
    frequencies: Annotated[
        tuple[float, float] | None, typer.Option(help="Prior range of natural frequencies, Hz.")
    ] = None,
    damping: Annotated[
        tuple[float, float], typer.Option(help="Prior range of damping ratios, percent.")
    ] = (0.1, 5.0),
    motion: Annotated[
        Literal["acceleration", "velocity", "displacement"],
        typer.Option(help="What the sensors measure."),
    ] = "acceleration",
    noise: Annotated[
        Literal["common", "channel"],
        typer.Option(help="Noise of the sensors: one density in common, or one per channel."),
    ] = "common",
    correlated: Annotated[
        bool, typer.Option("--correlated", help="Forces of different modes may be correlated.")
    ] = False,
    geometry: Annotated[
        Path | None,
        typer.Option(
            help="Positions of the sensors for a picture of deflections: CSV, channel,x along a "
            "line or channel,x,y,dx,dy in a plan.",
            metavar="FILE",
        ),
    ] = None,
    segment: Annotated[
        str | None, typer.Option(help="Length of Welch's segments, such as 128s.")
    ] = None,
    overlap: Annotated[float, typer.Option(help="Share that segments overlap.")] = 0.75,
    window: Annotated[
        str | None, typer.Option(help="Window after window of a long record, such as 30min.")
    ] = None,
    step: Annotated[
        str | None, typer.Option(help="From one window to the next; the window if not given.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws per chain; 5000, or 1000 per window.", min=1)
    ] = None,
    chains: Chains = 4,
    as_json: Json = False,
    seed: Seed = 0,
    effort: Effort = "default",
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

    Examples:
        folt modal tower.csv --rate 32 --band 0.7 1.1 --modes 1:4 --out tower
        folt modal tower.csv --rate 32 --band 0.1:0.4 --band 0.7:1.1 --modes 1:4
        folt modal --psd spectrum.csv --averages 12 --modes 3
        folt modal long.csv --rate 32 --band 0.7 1.1 --window 30min --step 10min --workers 8
    """
    bands = _bands(band or ())
    numbers = _numbers(modes, len(bands))
    is_record, in_windows = record is not None, window is not None
    elsewhere = workers is not None or scheduler is not None
    for wrong, sentence in (
        (is_record == (psd is not None), "expected a RECORD or --psd FILE, one of them"),
        (is_record and not bands, "expected --band LOW HIGH in Hz with a record"),
        (
            is_record and averages is not None,
            "--averages goes with --psd; those of a record are computed",
        ),
        (in_windows and not is_record, "--window goes with a record, not with --psd"),
        (step is not None and not in_windows, "--step goes with --window"),
        (elsewhere and not in_windows, "--workers and --scheduler go with --window"),
        (in_windows and len(bands) > 1, f"expected one --band with --window, got {len(bands)}"),
        (
            in_windows and len(numbers[0]) > 1,
            "expected one number of --modes with --window, got a range",
        ),
        (channels and not is_record, "--channels goes with a record, not with --psd"),
        (
            in_windows and geometry is not None,
            "--geometry goes with one fit: windows show shapes over time by channel",
        ),
    ):
        if wrong:
            raise ValueError(sentence)
    _require_ranges(damping, frequencies, bands)
    from folt.modal import Settings, measured_channels, read_record, read_spectrum, welch
    from folt.modal.kept_fits import Asked
    from folt.training.effort import EFFORTS

    settings = Settings(
        model=None if model == "auto" else model,
        frequency_range=frequencies or (bands[0] if bands else None),
        damping_range=(damping[0] / 100, damping[1] / 100),
        motion=motion,
        noise=noise,
        forces="correlated" if correlated else "uncorrelated",
        chains=chains,
        draws=draws or (WINDOW_DRAWS if in_windows else ONE_SPECTRUM_DRAWS),
        seed=seed,
        effort=EFFORTS[effort](),
    )
    tell = (lambda line: None) if as_json or quiet else typer.echo
    asked = Asked(settings, (record or psd or Path()).name, geometry, not quiet, tell)
    length = None if segment is None else duration("--segment", segment)
    measure: Callable[..., Measured]
    if psd is not None:
        measure = functools.partial(read_spectrum, psd, averages)
    elif record is not None:
        loaded = read_record(record, rate, channels)
        for sentence in () if quiet else loaded.notes:
            note(sentence)
        shaped = shapes and model == "auto"
        if shaped and loaded.values.shape[1] == 1:
            shaped = False
            tell("The record has one channel, hence no shapes: the trace model is used.")
        if window is not None:
            from folt.modal.tracking import Windows

            lengths = duration("--window", window), duration("--step", step or window)
            cut = Windows(*lengths, bands[0], length, overlap, shapes=shaped)
            runner = chosen_runner(workers, scheduler, here=True)
            _windows(loaded, cut, numbers[0][0], asked, out, runner, as_json, quiet)
            return
        method = measured_channels if shaped else welch
        measure = functools.partial(method, loaded, segment=length, overlap=overlap)
    if len(bands) > 1:
        _several_bands({one: measure(one) for one in bands}, numbers, asked, out, as_json, quiet)
    else:
        measured = measure(bands[0] if bands else None)
        _one_spectrum(measured, numbers[0], asked, out, as_json, quiet)


def _windows(
    record: Record,
    cut: Windows,
    modes: int,
    asked: Asked,
    out: Path,
    runner: Runner,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit window after window, print a line each, and where the tables are."""
    from folt.modal.tracking import track

    found: list[Document] = []

    def tell(number: int, count: int, done: Document) -> None:
        found.append(done)
        values = "   ".join(
            f"{row['frequency_hz']:.4f} Hz {row['damping_percent']:.2f} %" for row in done["modes"]
        )
        asked.tell(f"{number:>{len(str(count))}}/{count}  {values}   {done['verdict']}")

    files = track(
        record, cut, modes, asked.settings, out, runner=runner, progress=not quiet, tell=tell
    )
    if as_json:
        order = sorted(found, key=lambda row: row["start_s"])
        print_json("modal", files, {"windows": order})
    elif not quiet:
        wrote(files)


def _several_bands(
    spectra: Mapping[FrequencyBand, Measured],
    numbers: Sequence[range],
    asked: Asked,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit the bands, and print the modes of all of them."""
    from folt.modal.bands import band_name, bands_table
    from folt.modal.kept_fits import keep_bands
    from folt.modal.results import as_tree
    from folt.modal.table import mode_doubts, mode_rows

    found, files = keep_bands(spectra, numbers, asked, out)
    if as_json:
        trees = [
            {"band": list(band), **as_tree(one), **fit_fields(one.fit)}
            for band, one in found.items()
        ]
        print_json("modal", files, {"bands": trees})
    elif not quiet:
        console().print(bands_table(found), "")
        for band, one in found.items():
            for doubt in mode_doubts(one.fit, mode_rows(one.fit, one.measured.resolution)):
                console().print(f"! {band_name(band)}: {doubt}\n")
        wrote([*files, *(out / band_name(band) / "report.html" for band in found)])


def _one_spectrum(
    measured: Measured, numbers: range, asked: Asked, out: Path, as_json: bool, quiet: bool
) -> None:
    """Fit one spectrum, and print its verdict and its tables."""
    from rich.padding import Padding
    from rich.text import Text

    from folt.fit.text import cure_lines, styled_headline, verdict_table
    from folt.modal.kept_fits import keep_spectrum
    from folt.modal.results import as_tree
    from folt.modal.shapes import mac_rows
    from folt.modal.table import evidence_table, mac_table, mode_doubts, mode_rows, modes_table

    found, files = keep_spectrum(measured, numbers, asked, out)
    fit, resolution = found.fit, measured.resolution
    if as_json:
        print_json("modal", files, {**as_tree(found), **fit_fields(fit)})
    elif not quiet:
        screen, status = console(), fit.certificate.status
        screen.print(styled_headline(status), Padding(Text(status.advice), (0, 0, 0, 2)))
        screen.print(*cure_lines(status, commands=True), "")
        if len(found.fits) > 1:
            screen.print(evidence_table(found), "")
        rows = mode_rows(fit, resolution)
        screen.print(modes_table(rows, measured.unit))
        if found.model == "shapes" and len(rows) > 1:
            screen.print("", mac_table(mac_rows(fit, resolution)))
        screen.print(f"Merged: the next mode is nearer than the resolution, {resolution:.4g} Hz.\n")
        for doubt in mode_doubts(fit, rows):
            screen.print(f"! {doubt}\n")
        screen.print(verdict_table(fit), "")
        wrote(files)


def _require_ranges(
    damping: tuple[float, float],
    frequencies: tuple[float, float] | None,
    bands: Sequence[FrequencyBand],
) -> None:
    """Refuse prior ranges that no structure has, or of which the data say nothing."""
    if damping[1] > LARGEST_DAMPING:
        raise ValueError(
            f"expected --damping in percent, at most {LARGEST_DAMPING:g}, got {damping[1]:g}"
        )
    if frequencies is None:
        return
    low, high = frequencies
    if not 0 < low < high:
        raise ValueError(f"expected --frequencies 0 < LOW < HIGH in Hz, got {low:g} and {high:g}")
    if len(bands) > 1:
        raise ValueError("--frequencies goes with one --band; of several each is its own range")
    for lowest, highest in bands:
        if low >= highest or high <= lowest:
            raise ValueError(
                f"expected --frequencies within the --band {lowest:g} to {highest:g} Hz, got "
                f"{low:g} to {high:g}"
            )


def _bands(texts: Sequence[str]) -> list[FrequencyBand]:
    """Return bands from texts such as `0.7:1.1`."""
    bands: list[FrequencyBand] = []
    for text in texts:
        try:
            low, high = map(float, text.split(":"))
        except ValueError:
            raise ValueError(f"expected --band LOW HIGH or LOW:HIGH in Hz, got {text!r}") from None
        if not 0 < low < high:
            raise ValueError(f"expected --band 0 < LOW < HIGH in Hz, got {text!r}")
        if (low, high) in bands:
            raise ValueError(f"expected every --band once, got {low:g}:{high:g} twice")
        bands.append((low, high))
    return bands


def _numbers(text: str, bands: int) -> list[range]:
    """Return numbers of modes for every band, from one text for all or from one each: `1,2:4`."""
    numbers = [numbers_of("modes", part) for part in text.split(",")]
    if len(numbers) not in (1, max(bands, 1)):
        raise ValueError(
            f"expected --modes once for all bands or once for each of {bands}, got {len(numbers)}"
        )
    return numbers * max(bands, 1) if len(numbers) == 1 else numbers


def duration(option: str, text: str) -> float:
    """Return seconds from a duration such as 90, 90s, 30min or 2h."""
    matched = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|h|)", text.strip())
    if not matched or not 0 < float(matched[1]) < math.inf:
        raise ValueError(f"expected {option} as a duration such as 90s, 30min or 2h, got {text!r}")
    return float(matched[1]) * _SECONDS[matched[2]]
