"""Records as loggers write them: channels, clocks, gaps."""

import datetime

import numpy as np
import pytest
import scipy.io

from folt.cli import run
from folt.modal import read_record

SAMPLES = np.random.default_rng(0).normal(size=(40, 2)).round(6)
RATE = 32.0
START = datetime.datetime(2026, 11, 18, 23, 59, 59)


def moment(i, form, rate=RATE):
    return (START + datetime.timedelta(seconds=i / rate)).strftime(form)


def lines(clock, delimiter=",", decimal=".", skip=()):
    """A line per sample: what the clock says, then the channels."""
    return [
        delimiter.join([clock(i), *(repr(float(v)).replace(".", decimal) for v in row)])
        for i, row in enumerate(SAMPLES)
        if i not in skip
    ]


def seconds(i):
    return f"{i / RATE}"


READ = {
    "a clock": ("Time (s),a,b", lines(seconds)),
    "a clock in milliseconds": ("time_ms,a,b", lines(lambda i: f"{1000 * i / RATE}")),
    "a clock rounded to milliseconds": ("Time [s],a,b", lines(lambda i: f"{i / RATE:.3f}")),
    "a clock of seven digits": ("Time [s],a,b", lines(lambda i: f"{999.5 + i / RATE:.7g}")),
    "a clock in single precision": (
        "Time [s],a,b",
        lines(lambda i: repr(float(np.float32(70_000 + i / RATE + 0.01)))),
    ),
    "a clock of a computer": ("timestamp,a,b", lines(lambda i: f"{1.7e12 + 1000 * i / RATE:.3f}")),
    "units below": ("Time,a,b\ns,g,g", lines(seconds)),
    "a logger with decimal commas": (
        "Logger X\nSerial;12\n\nTime;a;b",
        lines(lambda i: f"{i / RATE}".replace(".", ","), ";", ","),
    ),
    "dates": ("when,a,b", lines(lambda i: moment(i, "%Y-%m-%dT%H:%M:%S.%f"))),
    "dates with points": ("Datum;a;b", lines(lambda i: moment(i, "%d.%m.%Y %H:%M:%S.%f"), ";")),
    "a day and a time": ("Date,Time,a,b", lines(lambda i: moment(i, "%m/%d/%Y,%H:%M:%S.%f"))),
    "times over midnight": ("Uhrzeit\ta\tb", lines(lambda i: moment(i, "%H:%M:%S.%f"), "\t")),
    "a count and a clock": ("No.,t,a,b", lines(lambda i: f"{i},{i / RATE}")),
    "a state of text": ("Time,state,a,b", lines(lambda i: f"{i / RATE},ok")),
    "spaces and remarks": ("% measured\n% time a b", lines(lambda i: f" {i / RATE}", "  ")),
    "two equal clocks": ("t,time,a,b", lines(lambda i: f"{i / RATE},{5 + i / RATE}")),
}


@pytest.mark.parametrize("rate", [None, RATE])
@pytest.mark.parametrize("case", READ)
def test_the_clock_tells_the_rate_and_is_no_channel(case, rate, tmp_path):
    heading, body = READ[case]
    path = tmp_path / "record.csv"
    path.write_text("\n".join([heading, *body, ""]))
    found = read_record(path, rate)
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.values, SAMPLES)
    assert found.rate == pytest.approx(RATE, rel=1e-3)
    with pytest.raises(ValueError, match=r"says 3[12][.\d]* Hz, --rate says 33 Hz"):
        read_record(path, 33.0)


def test_a_clock_without_a_name_is_known_by_its_steps(tmp_path):
    path = tmp_path / "record.csv"
    path.write_text("\n".join(lines(seconds)))
    found = read_record(path)
    assert (found.names, found.rate) == (("1", "2"), RATE)


REFUSED = {
    "no rate": ("a,b,c", lines(lambda i: "1.5" if i else "2"), None, "give --rate"),
    "a missing sample": (
        "Time,a,b",
        lines(seconds, skip=(7,)),
        None,
        "line 9, column 'Time'.*a sample missing",
    ),
    "a missing sample among tenths": (
        "Time,a,b",
        lines(lambda i: f"{i / 10:.1f}", skip=(7,)),
        10.0,
        "line 9, column 'Time'.*uneven after 0.6 s.*a sample missing",
    ),
    "a missing sample in seven digits": (
        "Time,a,b",
        lines(lambda i: f"{999.5 + i / RATE:.7g}", skip=(30,)),
        None,
        "line 32, column 'Time'.*a sample missing",
    ),
    "many missing samples": ("Time,a,b", lines(seconds, skip=(7, 8, 9)), None, "3 samples missing"),
    "a clock that stands": (
        "Time,a,b",
        lines(lambda i: seconds(min(i, 9))),
        None,
        "line 12|uneven",
    ),
    "a clock that goes back": (
        "Time,a,b",
        lines(lambda i: seconds(i % 20)),
        None,
        "line 22, column 'Time': the clock does not",
    ),
    "a time that is missing": (
        "Time,a,b",
        lines(lambda i: seconds(i) if i != 4 else ""),
        None,
        "line 6, column 'Time'",
    ),
    "a clock too coarse": (
        "Time,a,b",
        lines(lambda i: moment(i, "%H:%M:%S")),
        None,
        "too coarse.*give --rate",
    ),
    "clocks that differ": (
        "t,time,a,b",
        lines(lambda i: f"{i / RATE},{1.01 * i / RATE}"),
        None,
        r"line \d+, column 't'.*apart",
    ),
    "a strange unit": ("Time (furlong),a,b", lines(seconds), None, "column .*the unit 'furlong'"),
    "a clock alone": ("Time", [seconds(i) for i in range(20)], None, "no channel"),
    "a code": (
        "a,b,c",
        lines(lambda i: "-9999" if i == 3 else f"{SAMPLES[i, 0]}"),
        RATE,
        "line 5, column 'a': -9999 lies far",
    ),
    "a gap in a channel": (
        "x,a,b",
        lines(lambda i: "" if i == 3 else f"{i % 3}"),
        RATE,
        "channel 'x' has 1 missing.*line 5",
    ),
    "a word": (
        "x,a,b",
        lines(lambda i: "ERR" if i == 3 else f"{i % 3}"),
        RATE,
        "line 5, column 'x'.*got 'ERR'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_record_is_refused_with_its_line(case, tmp_path):
    heading, body, rate, words = REFUSED[case]
    path = tmp_path / "record.csv"
    path.write_text("\n".join([heading, *body, ""]))
    with pytest.raises(ValueError, match=words):
        read_record(path, rate)


def test_a_coarse_clock_is_held_against_the_rate(tmp_path):
    path = tmp_path / "record.csv"
    path.write_text("\n".join(["Time,a,b", *lines(lambda i: moment(i, "%H:%M:%S"))]))
    found = read_record(path, RATE)
    assert found.rate == RATE
    assert "shows 1 s" in found.notes[0]


def test_channels_are_chosen(tmp_path):
    path = tmp_path / "record.csv"
    path.write_text("\n".join(["Time (s),north (g),south (g)", *lines(seconds)]))
    found = read_record(path, None, "south,2")
    assert found.names == ("south (g)", "north (g)")
    np.testing.assert_array_equal(found.values, SAMPLES[:, ::-1])
    with pytest.raises(ValueError, match="no column 'west'"):
        read_record(path, None, "west")
    with pytest.raises(ValueError, match="is the clock"):
        read_record(path, None, "1")


def test_arrays_of_numpy_and_matlab(tmp_path):
    time = np.arange(40) / RATE
    np.savez(tmp_path / "a.npz", a=SAMPLES[:, 0], b=SAMPLES[:, 1], fs=RATE)
    scipy.io.savemat(tmp_path / "b.mat", {"a": SAMPLES[:, 0], "b": SAMPLES[:, 1], "t": time})
    scipy.io.savemat(tmp_path / "c.mat", {"acc": SAMPLES, "dt": 1 / RATE})
    for name, names in {"a.npz": ("a", "b"), "b.mat": ("a", "b"), "c.mat": ("1", "2")}.items():
        found = read_record(tmp_path / name)
        np.testing.assert_array_equal(found.values, SAMPLES)
        assert (found.rate, found.names) == (pytest.approx(RATE), names)
        with pytest.raises(ValueError, match="--rate says 30 Hz"):
            read_record(tmp_path / name, 30.0)
    assert read_record(tmp_path / "a.npz", None, "b").names == ("b",)
    scipy.io.savemat(tmp_path / "d.mat", {"a": SAMPLES, "b": time[:9]})
    (tmp_path / "e.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400))
    (tmp_path / "f.mat").write_bytes(b"nothing")
    for name, words in {"d": "as many samples", "e": "save it with", "f": "not a MATLAB"}.items():
        with pytest.raises(ValueError, match=words):
            read_record(tmp_path / f"{name}.mat", RATE)


def test_refusals_leave_with_2_and_write_nothing(tmp_path, capsys):
    path = tmp_path / "record.csv"
    path.write_text("\n".join(["Time (s),a,b", *lines(seconds, skip=(7,))]))
    out = tmp_path / "never"
    common = ["modal", str(path), "--band", "1", "2", "--out", str(out)]
    for more in ([], ["--channels", "c"], ["--rate", "9"]):
        assert run([*common, *more]) == 2
        error = capsys.readouterr().err
        assert error.startswith("folt: ")
        assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("heading", "unit", "notes"),
    [
        ("a (g),b (g)", "g", 0),
        ("a,b\nm/s²,m/s²", "m/s²", 0),
        ("a,b", "", 0),
        ("a (g),b (mm)", "", 1),
    ],
)
def test_the_unit_of_all_channels_is_kept(tmp_path, heading, unit, notes):
    path = tmp_path / "record.csv"
    path.write_text(f"{heading}\n1,2\n3,4.5\n5,1\n2,2.5\n")
    record = read_record(path, 10.0)
    assert record.unit == unit
    assert len([note for note in record.notes if "several units" in note]) == notes
