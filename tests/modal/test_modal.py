"""From a spectrum to modes, window after window, and the command: one compiled shape throughout."""

import csv
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax import monitoring

from folt.certificate.diagnostics.evidence import Evidence
from folt.certificate.outcomes import Outcome, Status
from folt.cli import app, run
from folt.modal import (
    Settings,
    Structure,
    identification,
    identify,
    mode_rows,
    simulate_record,
    track,
    tracking,
    welch,
)
from folt.modal.command import duration
from folt.modal.identification import (
    Identification,
    problem_for,
    reference_of,
    rounded_outwards,
)
from folt.modal.results import contents
from folt.modal.spectrum import Measured
from folt.modal.table import evidence_rows
from folt.modal.tracking import Windows
from folt.report.style import blank
from folt.training.effort import EFFORTS, Effort

RATE = 8.0
TOWER = Structure(frequency=(0.8, 0.9), damping=(0.012, 0.02), power=(1.0, 0.6), channels=4)
BAND = (0.7, 1.0)
SMALL = dataclasses.replace(
    Effort.quick(), name="small", particles=300, moves=6, chains=80, draws=30, training_draws=1_200
)
SETTINGS = Settings(frequency_range=BAND, draws=300, chains=2, effort=SMALL)
WINDOWS = Windows(length=300.0, step=150.0, band=BAND, segment=50.0)


@pytest.fixture(scope="module")
def record():
    return simulate_record(jax.random.key(4), TOWER, rate=RATE, minutes=10)


@pytest.fixture(scope="module")
def measured(record):
    return welch(record.part(0, 2400), BAND, segment=50.0)


@pytest.fixture(scope="module")
def found(measured):
    return identify(measured, 2, SETTINGS, progress=False)


@pytest.fixture
def brief(monkeypatch):
    """The command with a small effort, and with JAX's cache left alone."""
    monkeypatch.setitem(EFFORTS, "default", lambda: SMALL)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere, so the command leaves it alone")


def read(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def test_modes_are_found_where_they_are(found):
    """Medians within 4 posterior deviations of the truth, six numbers: false alarm 4e-4."""
    assert found.model == "powers"
    for name, truth in (("frequency", TOWER.frequency), ("damping", TOWER.damping)):
        draws = found.fit.posterior[name].reshape(-1, 2)
        assert np.all(np.abs(np.median(draws, axis=0) - truth) < 4 * draws.std(axis=0)), name
    power = np.log(found.fit.posterior["power"].reshape(-1, 2))
    truth = np.log(TOWER.power)
    assert np.all(np.abs(np.median(power, axis=0) - truth) < 4 * power.std(axis=0))


def test_the_table_has_medians_intervals_and_merging(found):
    rows = mode_rows(found.fit, 0.02)
    draws = found.fit.posterior["frequency"].reshape(-1, 2)
    assert [row.mode for row in rows] == [1, 2]
    assert rows[0].frequency_hz == pytest.approx(np.median(draws[:, 0]))
    assert rows[1].frequency_low < rows[1].frequency_hz < rows[1].frequency_high
    assert rows[0].merged_with_next == np.mean(np.diff(draws, axis=1) < 0.02)
    assert rows[1].merged_with_next is None
    assert mode_rows(found.fit, 1e9)[0].merged_with_next == 1.0


def test_labels_by_the_proposal_are_sorted_in_the_table(found):
    swapped = {
        name: values[..., ::-1] for name, values in found.fit.posterior.items() if values.ndim == 3
    }
    other = dataclasses.replace(found.fit, posterior=swapped)
    assert mode_rows(other, 0.02) == mode_rows(found.fit, 0.02)


@pytest.mark.extended
def test_a_second_window_does_not_compile(record, found):
    """A warm start on new data of equal shape reuses every compiled program."""
    compiled = []

    def listen(event, duration, **_):
        if "backend_compile" in event:
            compiled.append(event)

    second = welch(record.part(1200, 2400), BAND, segment=50.0)
    first = identify(second, 2, SETTINGS, start=found.fit, progress=False)
    third = welch(record.part(2400, 2400), BAND, segment=50.0)
    monitoring.register_event_duration_secs_listener(listen)
    try:
        again = identify(third, 2, SETTINGS, start=first.fit, progress=False)
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert again.fit.provenance["started_from"] in ("previous", "nothing")
    assert compiled == []


def test_a_start_that_no_longer_fits_is_dropped(monkeypatch, found, measured):
    calls = []

    def sample(problem, *, start=None, **options):
        calls.append(start is not None)
        outcome = Outcome.GOOD if start is None else Outcome.POOR
        evidence = found.fit.log_evidence
        certificate = SimpleNamespace(status=Status(outcome, ""), evidence=evidence)
        return dataclasses.replace(found.fit, certificate=certificate, provenance={})

    monkeypatch.setattr(identification, "sample", sample)
    good = sample(None)
    again = identify(measured, 2, SETTINGS, start=good, progress=False)
    assert calls == [False, True, False]
    assert again.fit.provenance["started_from"] == "nothing"
    identify(measured, 1, SETTINGS, start=good, progress=False)
    assert calls[3:] == [False]  # another number of modes: nothing to start from
    poor = sample(None, start=good)
    identify(measured, 2, SETTINGS, start=poor, progress=False)
    assert calls[5:] == [False]  # a poor fit is no start


def test_probabilities_follow_the_evidence(found, measured):
    class Known:
        def __init__(self, fit, value):
            self.certificate = fit.certificate
            self.log_evidence = Evidence(value, 0.01, 0.1, 20_000)

    several = Identification(
        measured, "powers", {m: Known(found.fit, v) for m, v in ((1, 0.0), (2, np.log(3.0)))}
    )
    assert several.probabilities == pytest.approx({1: 0.25, 2: 0.75})
    assert several.modes == 2
    assert [row["probability"] for row in evidence_rows(several)] == pytest.approx([0.25, 0.75])


def test_several_numbers_of_modes_leave_a_table_of_evidence(found, measured, tmp_path, monkeypatch):
    monkeypatch.setattr("folt.modal.results.pictures", lambda *_: {"modes": blank(1, 1)})
    monkeypatch.setattr(
        "folt.report.saving.page", lambda fit: "a page, which takes seconds to draw"
    )
    several = Identification(measured, "powers", {2: found.fit, 3: found.fit})
    files = contents(several)
    assert {"modes.csv", "evidence.csv", "fit.nc"} <= set(files)
    (tmp_path / "evidence.csv").write_bytes(files["evidence.csv"])
    rows = read(tmp_path / "evidence.csv")
    assert [(row["modes"], float(row["probability"])) for row in rows] == [("2", 0.5), ("3", 0.5)]


def test_ranges_are_rounded_outwards():
    assert rounded_outwards(0.703125, 1.09375) == (0.7, 1.1)
    assert rounded_outwards(0.7, 1.1) == (0.7, 1.1)
    assert rounded_outwards(12.31, 14.9) == (12.0, 15.0)


def test_the_model_follows_from_what_is_known(measured):
    unknown = Measured(measured.frequency, measured.psd, None, None, 0.01)
    assert problem_for(unknown, 3, Settings()).dim == 6
    assert problem_for(unknown, 3, Settings(model="powers")).dim == 11
    assert problem_for(measured, 3, Settings()).dim == 10
    assert problem_for(measured, 1, Settings(model="paper")).dim == 2


def test_efforts_are_those_of_every_fit():
    """Powers have long paths at every effort; the paper's model has the effort's own run."""
    for effort in (Effort.quick(), Effort.default(), Effort.thorough()):
        cold, warm = (reference_of("powers", effort, share) for share in (1.0, 0.5))
        assert cold.chains * cold.draws == pytest.approx(effort.chains * effort.draws, rel=0.01)
        assert warm.draws == pytest.approx(cold.draws / 2, abs=1)
    assert reference_of("paper", Effort.thorough()) is None


def test_settings_are_noted_with_their_effort():
    assert Settings().asked()["effort"] == "default"
    assert Settings(effort=SMALL).asked()["effort"]["particles"] == 300


# Windows.


def test_windows_are_interrupted_resumed_and_never_run_twice(tmp_path, record, found, monkeypatch):
    runs = []

    def counted(problem, model, settings, start, progress):
        runs.append(start is not None)
        if len(runs) == 2:
            raise KeyboardInterrupt
        return found.fit

    monkeypatch.setattr(tracking, "fitted", counted)
    monkeypatch.setattr("folt.fleet.work.may_start", lambda start, problem: True)
    found.fit.provenance.pop("started_from", None)
    with pytest.raises(KeyboardInterrupt):
        track(record, WINDOWS, 2, SETTINGS, tmp_path, progress=False)
    assert sorted(p.name for p in (tmp_path / "00001").iterdir()) == ["fit.nc", "row.json"]
    assert not (tmp_path / "00002").exists()
    assert len(read(tmp_path / "windows.csv")) == 2
    told = []
    table, picture, *_ = track(
        record, WINDOWS, 2, SETTINGS, tmp_path, progress=False, tell=lambda *one: told.append(one)
    )
    assert runs == [False, True, True, True]  # the second and third window start from the first
    rows = read(table)
    assert [(row["window"], row["mode"]) for row in rows] == [
        (str(w), str(m)) for w in (1, 2, 3) for m in (1, 2)
    ]
    assert [float(row["start_s"]) for row in rows[::2]] == [0.0, 150.0, 300.0]
    assert [row["started_from"] for row in rows[::2]] == ["nothing", "00001", "00001"]
    assert [number for number, _, _ in told] == [1, 2, 3]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(read(tmp_path / "table.csv")) == 3
    track(record, WINDOWS, 2, SETTINGS, tmp_path, progress=False)
    assert len(runs) == 4
    other = Windows(length=300.0, step=150.0, band=(0.7, 1.1), segment=50.0)
    with pytest.raises(ValueError, match=r"was finished with build.*band.* = \[0.7, 1.0\], now it"):
        track(record, other, 2, SETTINGS, tmp_path, progress=False)
    changed = record.part(8, 4792)
    with pytest.raises(ValueError, match=r"was finished with data\.values"):
        track(changed, WINDOWS, 2, SETTINGS, tmp_path, progress=False)


def test_every_eighth_window_starts_from_nothing(record):
    jobs = tracking.window_jobs(record, Windows(100.0, 20.0, BAND, segment=50.0), 2, SETTINGS)
    assert len(jobs) > 16
    starts = [job.start for job in jobs]
    assert starts[:9] == [None, *["00001"] * 7, None]
    assert starts[9:16] == ["00009"] * 7


@pytest.mark.parametrize(
    ("length", "step", "message"), [(5000.0, 10.0, "does not fit"), (300.0, 0.01, "one sample")]
)
def test_windows_that_cannot_be_cut(record, length, step, message):
    with pytest.raises(ValueError, match=message):
        Windows(length, step, BAND).places(record)


# The command.


@pytest.fixture
def folder(tmp_path, monkeypatch, record):
    monkeypatch.chdir(tmp_path)
    np.save("record.npy", record.values[:2400])
    text = "\n".join(f"{f},{1 + (f > 0.8)}" for f in np.linspace(0.7, 1.0, 16))
    Path("psd.csv").write_text("frequency_hz,psd\n" + text)
    Path("short.csv").write_text("frequency_hz,psd\n0.7,1\n0.8,2\n0.9,1\n")
    Path("down.csv").write_text("frequency_hz,psd\n0.8,1\n0.7,2\n0.9,1\n")
    Path("minus.csv").write_text("frequency_hz,psd\n0.7,1\n0.8,-2\n0.9,1\n")
    Path("gap.csv").write_text("1,2\n,3\n4,5\n")
    Path("still.csv").write_text("1,2\n3,2\n4,2\n")
    return tmp_path


def test_the_command_writes_everything(folder, brief, capsys):
    options = [
        "--rate",
        "8",
        "--band",
        "0.7",
        "1.0",
        "--segment",
        "50s",
        "--modes",
        "2",
        "--no-shapes",
    ]
    draws = ["--draws", "300", "--chains", "2", "--out", "out", "--json"]
    assert run(["modal", "record.npy", *options, *draws]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "powers"
    assert [row["mode"] for row in told["modes"]] == [1, 2]
    expected = {
        "fit.nc",
        "report.html",
        "modes.csv",
        "spectrum.csv",
        "spectrum.png",
        "modes.png",
        "chains.png",
        "settings.json",
    }
    assert {path.name for path in Path("out").iterdir()} == expected
    rows = read(Path("out/modes.csv"))
    assert float(rows[0]["frequency_hz"]) == told["modes"][0]["frequency_hz"]
    assert abs(float(rows[0]["frequency_hz"]) - 0.8) < 0.02
    assert set(read(Path("out/spectrum.csv"))[0]) == {"frequency_hz", "psd", "averages"}


def test_numbers_of_modes_are_compared_and_kept(folder, brief, capsys, monkeypatch, found):
    """The fit of before stands in for that of two modes."""
    one = identification.sample

    def sample(problem, **options):
        return found.fit if problem.log_density.modes == 2 else one(problem, **options)

    monkeypatch.setattr(identification, "sample", sample)
    monkeypatch.setattr("folt.modal.results.pictures", lambda *_: {"modes": blank(1, 1)})
    monkeypatch.setattr(
        "folt.report.saving.page", lambda fit: "a page, which takes seconds to draw"
    )
    options = [
        "--rate",
        "8",
        "--band",
        "0.7",
        "1.0",
        "--segment",
        "50s",
        "--modes",
        "1:2",
        "--no-shapes",
    ]
    words = ["modal", "record.npy", *options, "--draws", "300", "--chains", "2", "--out", "out"]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["modes"] for row in told["numbers"]] == [1, 2]
    assert told["numbers"][1]["probability"] > 0.9  # the tower has two modes, well apart
    assert [row["mode"] for row in told["modes"]] == [1, 2]
    assert told["verdict"]["name"]
    assert {path.name for path in Path("out/m1").iterdir()} == {"fit.nc", "settings.json"}

    def refuse(*_, **__):
        raise AssertionError("fitted again")

    monkeypatch.setattr(identification, "sample", refuse)
    assert run(words) == 0
    assert "probability" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="fitted again"):
        raise_faults([*words, "--seed", "1"])


TWO_BANDS = ["record.npy", "--rate", "8", "--band", "0.7:0.9", "--band", "0.9", "1.1"]


def raise_faults(words):
    app(args=words, standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a RECORD or --psd FILE"),
        (["record.npy", "--psd", "psd.csv"], "one of them"),
        (["record.npy", "--rate", "8"], "--band LOW HIGH"),
        (["record.npy", "--band", "0.7", "1.0"], "sampling rate"),
        (["record.npy", "--rate", "8", "--band", "0.7", "9"], "half the sampling rate"),
        (["record.npy", "--rate", "8", "--band", "1", "0.7"], "LOW < HIGH"),
        (["record.npy", "--rate", "8", "--band", "0.7"], "LOW HIGH or LOW:HIGH"),
        (["record.npy", "--rate", "8", "--band", "1:1.2", "--band", "1", "1.2"], "1:1.2 twice"),
        ([*TWO_BANDS, "--window", "90s"], "one --band with --window, got 2"),
        ([*TWO_BANDS[:5], "--window", "90s", "--geometry", "g.csv"], "--geometry goes with one"),
        ([*TWO_BANDS, "--frequencies", "0.7", "1"], "--frequencies goes with one --band"),
        ([*TWO_BANDS, "--modes", "1,2,3"], "once for each of 2, got 3"),
        (["none.csv", "--rate", "8", "--band", "0.7", "1"], "No such file"),
        (["gap.csv", "--rate", "8", "--band", "0.7", "1"], "missing or infinite"),
        (["still.csv", "--rate", "8", "--band", "0.7", "1"], "is constant"),
        (["--psd", "none.csv"], "No such file"),
        (["--psd", "short.csv"], "7 parameters"),
        (["--psd", "down.csv"], "increasing order"),
        (["--psd", "minus.csv"], "negative at 0.8 Hz"),
        (["--psd", "gap.csv"], "frequency_hz,psd"),
        (["--psd", "psd.csv", "--modes", "4:2"], "1 ≤ LOW ≤ HIGH"),
        (["--psd", "psd.csv", "--modes", "0"], "--modes"),
        (["--psd", "psd.csv", "--averages", "-3"], "averages must be positive"),
        (["--psd", "psd.csv", "--damping", "5", "1"], "damping_range"),
        (["--psd", "psd.csv", "--model", "odd"], "--model"),
        (["--psd", "psd.csv", "--window", "30min"], "--window goes with a record"),
        (["record.npy", "--rate", "8", "--band", "0.7", "1", "--step", "5s"], "with --window"),
        (
            ["record.npy", "--rate", "8", "--band", "0.7", "1", "--window", "2h"],
            "does not fit the record",
        ),
        (
            ["record.npy", "--rate", "8", "--band", "0.7", "1", "--window", "long"],
            "a duration such as",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(arguments, message, folder, brief, capsys):
    before = {path.name for path in folder.iterdir()}
    assert run(["modal", *arguments, "--out", "deep/out"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("folt: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert {path.name for path in folder.iterdir()} == before


def test_durations():
    assert [duration("--window", t) for t in ("90", "90s", "30min", "2h", "0.5 h")] == [
        90.0,
        90.0,
        1800.0,
        7200.0,
        1800.0,
    ]
