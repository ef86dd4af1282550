"""Mode shapes of a simulated structure: found, signed, compared, checked, written, refused."""

import csv
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from brief import EFFORT
from folt.cli import run
from folt.modal import (
    Settings,
    Structure,
    band_rows,
    identification,
    identify,
    identify_bands,
    mac_rows,
    measured_channels,
    shape_draws,
    shape_rows,
    simulate_record,
    tracking,
)
from folt.modal.geometry import deflection_figure, read_geometry
from folt.modal.links import Link, linked, tidy_shapes
from folt.modal.pictures import spectrum_figure
from folt.modal.results import as_tree, contents
from folt.modal.shape_pictures import Curves, shape_pictures
from folt.modal.shapes import singular_values
from folt.modal.spectrum import Measured, record_of
from folt.modal.table import (
    ModeRow,
    mode_doubts,
    mode_fields,
    mode_rows,
    mode_sentences,
    modes_table,
)
from folt.modal.track_pictures import ShapeTracks, shape_tracks_figure
from folt.report.style import blank

SHAPES = np.array([[1.0, 0.3], [0.6, -1.0], [-0.2, 0.5]])
FRAME = Structure(frequency=(0.8, 0.86), damping=(0.01, 0.02), power=(1.0, 0.6), shapes=SHAPES)
BAND = (0.7, 1.0)


@pytest.fixture(scope="module")
def record():
    return simulate_record(jax.random.key(4), FRAME, rate=8.0, minutes=10)


@pytest.fixture(scope="module")
def found(record):
    measured = measured_channels(record, BAND)
    settings = Settings(frequency_range=BAND, draws=300, chains=2, effort=EFFORT)
    return identify(measured, 2, settings, progress=False)


def test_shapes_are_found_with_their_sign(found):
    """A MAC of .95 and frequencies within 1 % are many deviations away from what is found."""
    assert found.model == "shapes"
    rows = shape_rows(found.fit, ("a", "b", "c"))
    assert [(row["mode"], row["channel"]) for row in rows[:3]] == [(1, "a"), (1, "b"), (1, "c")]
    mean = np.array([row["mean"] for row in rows]).reshape(2, 3)
    truth = FRAME.unit_shapes().T * np.array([[1.0], [-1.0]])  # the largest entry is positive
    for one, true in zip(mean, truth, strict=True):
        assert one @ true / np.linalg.norm(one) > np.sqrt(0.95)
    assert all(row["low"] <= row["mean"] <= row["high"] for row in rows)
    modes = as_tree(found)["modes"]
    assert [row["frequency_hz"] for row in modes] == pytest.approx([0.8, 0.86], rel=0.01)


def test_the_estimates_have_the_signs_and_the_channels_of_the_shapes(record, found):
    """The fold leaves the largest entry of the second mode negative."""
    rows = shape_rows(found.fit, record.names)
    means = found.fit.posterior["shape"].mean(axis=(0, 1))
    np.testing.assert_allclose(means.ravel(), [row["mean"] for row in rows], atol=0.01)
    assert list(found.fit.coords["channel"]) == list(record.names)


def test_the_page_says_modes_with_their_units(monkeypatch, found):
    """Hz, percent and the unit of the record; a damping at the end of its prior is said to be."""
    monkeypatch.setattr("folt.report.saving.page", lambda fit: fit.sections[0].text)
    monkeypatch.setattr("folt.modal.results.pictures", lambda *_: {"modes": blank(1, 1)})
    named = dataclasses.replace(found.measured, unit="m/s²")
    told = contents(dataclasses.replace(found, measured=named))["report.html"].decode()
    row = as_tree(found)["modes"][0]
    assert f"Mode 1: {row['frequency_hz']:.4f} Hz" in told
    assert f"damping {row['damping_percent']:.2f} % of critical" in told
    assert f"power {row['power']:.3g} (m/s²)²" in told
    assert "prior range" not in told
    posterior = found.fit.posterior
    wide = {**posterior, "damping": 0.0499 + 0 * posterior["damping"]}
    fit = dataclasses.replace(found.fit, posterior=wide)
    told = mode_sentences(fit, mode_rows(fit, named.resolution), "")
    assert "damping of mode 2 lies at the upper end" in told


def test_a_mode_that_may_be_none_is_said_with_what_to_write(found):
    rows = mode_rows(found.fit, found.measured.resolution)
    assert mode_doubts(found.fit, rows) == []
    posterior = found.fit.posterior
    low = {**posterior, "damping": 0.00101 + 0 * posterior["damping"]}
    fit = dataclasses.replace(found.fit, posterior=low)
    first, second = mode_doubts(fit, rows)
    assert "damping of mode 1 lies at the lower end" in first
    assert "damping of mode 2 lies at the lower end" in second
    same = posterior["shape"][..., :1, :] + 0 * posterior["shape"]
    together = posterior["frequency"].mean() + 0 * posterior["frequency"]
    twice = {**posterior, "shape": same, "frequency": together}
    fit = dataclasses.replace(found.fit, posterior=twice)
    rows = [dataclasses.replace(row, frequency_low=0.8, frequency_high=0.9) for row in rows]
    (doubt,) = mode_doubts(fit, rows)
    assert "MAC 1.00" in doubt
    assert all(word in doubt for word in ("--modes", "--motion"))


def test_tables_name_the_unit_of_the_power():
    row = ModeRow(1, 1.0, 0.9, 1.1, 1.0, 0.8, 1.2, 3.0, 2.0, 4.0, None)
    assert mode_fields(row, "m/s²")["power_unit"] == "(m/s²)²"
    assert "power_unit" not in mode_fields(row, "")
    headings = [column.header for column in modes_table([row], "m/s²").columns]
    assert "power, (m/s²)²" in headings


@pytest.mark.parametrize(("floor", "seen"), [(0.5, True), (1e-4, False)])
def test_the_legend_of_a_spectrum_names_the_floor_where_it_is_seen(floor, seen):
    grid = np.linspace(1.0, 2.0, 20)
    total = np.tile(1.0 + np.exp(-50.0 * (grid - 1.5) ** 2), (10, 1))
    drawn = Curves(grid, total, total[:, None] - 0.9, np.full(10, floor))
    measured = Measured(grid, total[0], None, None, 0.05)
    figure = spectrum_figure(measured, drawn, np.full((10, 1), 1.5))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("floor" in names) == seen


def made(shapes, frequency):
    return SimpleNamespace(posterior={"shape": shapes, "frequency": frequency})


def test_signs_and_labels_of_draws_do_not_change_the_table():
    """Where every other draw is flipped or relabelled, a plain mean would vanish."""
    rng = np.random.default_rng(0)
    shapes = np.array([[0.6, 0.8], [-0.1, -1.0]]) + 0.05 * rng.normal(size=(2, 50, 2, 2))
    shapes /= np.linalg.norm(shapes, axis=-1, keepdims=True)
    frequency = np.array([0.8, 0.9]) + 0.01 * rng.uniform(size=(2, 50, 2))
    plain = shape_rows(made(shapes, frequency), ("a", "b"))
    signs = rng.choice([-1.0, 1.0], size=(2, 50, 2, 1))
    mixed = made((signs * shapes)[:, :, ::-1], frequency[:, :, ::-1])
    assert shape_rows(mixed, ("a", "b")) == plain
    assert plain[3]["mean"] > 0.9  # of the second mode the largest entry was negative
    assert abs((signs * shapes).mean(axis=(0, 1))).max() < 0.5
    assert mac_rows(mixed, 0.02) == mac_rows(made(shapes, frequency), 0.02)


def test_mac_and_the_resolution_by_hand():
    shapes = np.array([[[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.0, 1.0]]]])
    frequency = np.array([[[0.80, 0.81], [0.80, 0.90]]])
    (row,) = mac_rows(made(shapes, frequency), 0.02)
    assert (row["mode"], row["other"]) == (1, 2)
    assert row["mac"] == pytest.approx(0.18)
    assert row["closer_than_resolution"] == 0.5


def test_coherences_follow_the_frequencies():
    """Of three modes, where every other draw has its labels turned round."""
    rng = np.random.default_rng(0)
    frequency = np.tile([0.8, 0.9, 1.0], (1, 40, 1))
    shapes = rng.normal(size=(1, 40, 3, 2))
    coherence = np.tile([0.1, 0.2, 0.3], (1, 40, 1))  # of pairs 12, 13, 23
    frequency[:, ::2], coherence[:, ::2] = frequency[:, ::2, ::-1], coherence[:, ::2, ::-1]
    fit = made(shapes, frequency)
    fit.posterior["coherence"] = coherence
    assert [row["coherence"] for row in mac_rows(fit, 0.02)] == pytest.approx([0.1, 0.2, 0.3])


def test_singular_values_leave_their_bands_where_the_model_is_wrong(found):
    """About 5 % lie outside; a third channel with four times the noise takes many out."""
    right = singular_values(found.fit)
    assert right.outside < 0.2
    data = found.fit.problem.data
    loud = np.random.default_rng(1).normal(size=data.real.shape)
    loud *= np.array([0.0, 0.0, 1.0]) * 4 * right.measured[:, -1].mean() / float(data.scale)
    problem = found.fit.problem.with_data(data._replace(real=data.real + loud))
    wrong = singular_values(dataclasses.replace(found.fit, problem=problem))
    assert wrong.outside > 0.3


def test_bars_stand_on_the_mean_and_the_intervals(found):
    names = ("a", "b", "c")
    figures = shape_pictures(found.fit, names)
    bars = [patch.get_height() for axes in figures["shapes"].axes for patch in axes.patches]
    np.testing.assert_allclose(bars, shape_draws(found.fit).mean(axis=0).ravel())
    assert len(figures["singular_values"].axes[0].lines) == 6


def test_the_command_writes_shapes(tmp_path, monkeypatch, record, found, capsys):
    """The fit of before stands in for another of the same record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(identification, "fitted", lambda *_: found.fit)
    titles = "folt.report.saving.page"  # the page itself takes seconds to draw
    monkeypatch.setattr(titles, lambda fit: " ".join(part.title for part in fit.sections))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere, so the command leaves it alone")
    text = "\n".join(",".join(f"{v:.8g}" for v in row) for row in record.values)
    Path("record.csv").write_text("north,east,twist\n" + text)
    Path("places.csv").write_text("channel,x\neast,2\nnorth,1\ntwist,3\n")
    words = ["--rate", "8", "--band", "0.7", "1.0", "--modes", "2", "--draws", "200"]
    words += ["--geometry", "places.csv"]
    assert run(["modal", "record.csv", *words, "--out", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "shapes"
    assert told["resolution_hz"] == pytest.approx(1 / 600)
    with Path("out/shapes.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["mode", "channel", "mean", "low", "high"]
    assert [row["channel"] for row in rows[:3]] == ["north", "east", "twist"]
    assert float(rows[0]["mean"]) == told["shapes"][0]["mean"]
    assert told["mac"][0]["mac"] < 0.5
    written = {path.name for path in Path("out").iterdir()}
    assert {
        "modes.csv",
        "mac.csv",
        "shapes.png",
        "singular_values.png",
        "deflections.png",
    } <= written
    assert "Mode shapes" in Path("out/report.html").read_text()


def test_bands_are_fitted_one_after_the_other_and_stand_in_one_table(
    tmp_path, monkeypatch, record, found, capsys
):
    """Both spellings of a band; what is finished is not fitted again; each band has its prior."""
    monkeypatch.chdir(tmp_path)
    fitted = []

    def stand_in(problem, model, settings, *_):
        fitted.append((settings.frequency_range, int(problem.log_density.modes)))
        return found.fit

    monkeypatch.setattr(identification, "fitted", stand_in)
    monkeypatch.setattr("folt.report.saving.page", lambda fit: "a page")
    monkeypatch.setattr("folt.modal.results.pictures", lambda *_: {"modes": blank(1, 1)})
    monkeypatch.setattr("folt.report.saving.load", lambda path, problem: found.fit)
    np.save("record.npy", record.values)
    words = ["modal", "record.npy", "--rate", "8", "--modes", "1,2", "--out", "out"]
    words += ["--band", "0.7", "0.83", "--band", "0.75:1.0"]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["band"] for one in told["bands"]] == [[0.7, 0.83], [0.75, 1.0]]
    assert fitted == [((0.7, 0.83), 1), ((0.75, 1.0), 2)]
    with Path("out/modes.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["band_low_hz"], row["mode"]) for row in rows] == [
        ("0.7", "1"), ("0.7", "2"), ("0.75", "1"), ("0.75", "2")
    ]  # fmt: skip
    with Path("out/shapes.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 2 * 2 * 3
    page = Path("out/index.html").read_text()
    assert "4 modes in 2 bands of record.npy" in page
    assert 'href="0.75-1/report.html"' in page
    assert run(words) == 0
    assert len(fitted) == 2
    assert "0.75 to 1" in capsys.readouterr().out
    both = identify_bands(record, [(0.7, 0.83), (0.75, 1.0)], [1, 2], progress=False)
    assert fitted[2:] == fitted[:2]
    assert band_rows(both)[2]["band_low_hz"] == 0.75
    for bands, modes in (([], 2), ([BAND, BAND], 2), ([BAND], [1, 2])):
        with pytest.raises(ValueError, match="expected"):
            identify_bands(record, bands, modes)


@pytest.mark.parametrize(("channels", "options", "said"), [(1, [], 1), (3, ["--no-shapes"], 0)])
def test_the_trace_is_used_and_said(tmp_path, monkeypatch, record, capsys, channels, options, said):
    """What goes on to be fitted has no ordinates; for one channel nobody asked for that."""
    monkeypatch.chdir(tmp_path)
    noise = np.random.default_rng(0).normal(size=(len(record.values), channels))
    np.save("record.npy", np.tile(record.values, 3)[:, :channels] + 0.01 * noise)
    handed = []
    handing = "folt.modal.command._one_spectrum"
    monkeypatch.setattr(handing, lambda measured, *_: handed.append(measured))
    words = ["modal", "record.npy", "--rate", "8", "--band", "0.7", "1.0", *options]
    assert run(words) == 0
    assert handed[0].ordinates is None
    assert capsys.readouterr().out.count("the trace model is used") == said


GEOMETRIES = {
    "columns": ("channel,z\na,1\nb,2\n", "expected the columns channel,x or"),
    "channel": ("channel,x\na,1\n", "one row for channel b, got 0"),
    "twice": ("channel,x\na,1\na,1\nb,2\n", "one row for channel a, got 2"),
    "word": ("channel,x\na,1\nb,top\n", "expected numbers"),
    "infinite": ("channel,x\na,1\nb,nan\n", "finite positions"),
    "direction": ("channel,x,y,dx,dy\na,1,0,0,2\nb,1,0,0,0\n", "direction dx,dy of channel b"),
}


@pytest.mark.parametrize("names", [("a", "b"), ("a (m/s²)", "B [m/s²]")])
def test_a_geometry_may_have_semicolons_decimal_commas_and_no_units(tmp_path, names):
    path = tmp_path / "places.csv"
    path.write_text("channel;x\nb;2,5\na;1\n" if names[1] == "b" else "channel,x\nb,2.5\na,1\n")
    np.testing.assert_array_equal(read_geometry(path, names).at, [[1.0], [2.5]])


def test_a_geometry_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        read_geometry(tmp_path / "none.csv", ("a",))


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_geometry_that_cannot_be_drawn_is_refused_in_one_sentence(tmp_path, name):
    text, words = GEOMETRIES[name]
    path = tmp_path / "places.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        read_geometry(path, ("a", "b"))
    assert "\n" not in str(caught.value)


def test_deflections_stand_at_the_positions(tmp_path, found):
    """Along a line the mean shape by position; in a plan one arrow per channel and mode."""
    shapes, path = shape_draws(found.fit), tmp_path / "places.csv"
    path.write_text("channel,x\nb,2\na,1\nc,3\n")
    line = deflection_figure(shapes, np.array([0.8, 0.86]), read_geometry(path, tuple("abc")))
    drawn = line.axes[0].lines[-1]
    np.testing.assert_allclose(drawn.get_ydata(), [1, 2, 3])
    np.testing.assert_allclose(drawn.get_xdata(), shapes[:, 0].mean(axis=0))
    path.write_text("channel,x,y,dx,dy\na,0,0,0,2\nb,1,0,1,0\nc,0,1,1,1\n")
    geometry = read_geometry(path, tuple("abc"))
    np.testing.assert_allclose(np.linalg.norm(geometry.direction, axis=1), 1.0)
    plan = deflection_figure(shapes, np.array([0.8, 0.86]), geometry)
    assert [len(panel.texts) for panel in plan.axes] == [3, 3]


def window(number, frequency, shapes):
    modes = [{"frequency_hz": f, "damping_percent": 1.0} for f in frequency]
    entries = [
        {"mode": j + 1, "channel": name, "mean": value, "low": value - 0.1, "high": value + 0.2}
        for j, shape in enumerate(shapes)
        for name, value in zip("abcdefgh", shape, strict=False)
    ]
    return {
        "job": f"{number}",
        "start_s": number,
        "end_s": number + 1,
        "modes": modes,
        "shapes": entries,
    }


def test_modes_whose_frequencies_cross_keep_their_tracks():
    """By frequency alone the second window would exchange them; the third only shifts both."""
    one, two = (0.6, 0.8), (0.8, -0.6)
    rows = [
        window(1, (0.80, 0.81), (one, two)),
        window(2, (0.80, 0.81), ((-0.8, 0.6), one)),
        window(3, (0.78, 0.80), (two, (-0.6, -0.8))),
    ]
    found = linked(rows)
    assert [[link.track for link in links] for links in found] == [[1, 2], [2, 1], [2, 1]]
    assert found[0][0].mac is None
    assert found[1][0].mac == pytest.approx(1.0)
    # Signs follow the track, and the ends of an interval with them.
    shown = [row for row in tidy_shapes(rows, found) if row["track"] == 2 and row["channel"] == "a"]
    assert [row["mean"] for row in shown] == [0.8, 0.8, 0.8]
    assert [row["high"] - row["mean"] for row in shown] == pytest.approx([0.2, 0.1, 0.2])


def test_modes_of_like_shapes_are_linked_by_frequency():
    shape = (0.6, 0.8)
    rows = [window(1, (0.8, 0.9), (shape, shape)), window(2, (0.81, 0.9), (shape, shape))]
    assert [link.track for link in linked(rows)[1]] == [1, 2]


@pytest.mark.extended
def test_windows_keep_shapes(tmp_path, monkeypatch, record, found):
    """The fit of before stands in for that of every window."""
    monkeypatch.setattr(tracking, "fitted", lambda *_: found.fit)
    found.fit.provenance.setdefault("started_from", "nothing")
    cut = tracking.Windows(300.0, 300.0, BAND, shapes=True)
    settings = Settings(frequency_range=BAND, draws=300, chains=2, effort=EFFORT)
    files = tracking.track(record, cut, 2, settings, tmp_path, progress=False)
    assert all(file.is_file() for file in files)
    with (tmp_path / "windows.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["window"], row["track"]) for row in rows] == [
        ("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")
    ]  # fmt: skip
    assert float(rows[2]["mac"]) == pytest.approx(1.0)
    with (tmp_path / "window_shapes.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 2 * 2 * 3
    assert "Shapes over time" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("channels", [2, 8])
def test_a_shape_that_turns_leaves_the_mac_of_its_track(channels):
    """One of four windows has turned by 60°, which leaves a MAC of .25 with the three others.

    Few channels are drawn as lines, many as a map; the last panel has one line per track.
    """
    shape, turned = np.eye(channels)[0], np.eye(channels)[0] * 0.5 + np.eye(channels)[1] * 0.75**0.5
    rows = [
        row
        for number in range(4)
        for row in tidy_shapes(
            [window(number, (0.8,), (turned if number == 2 else shape,))],
            [[Link(1, None, 1.0)]],
        )
    ]
    mac = ShapeTracks.of(rows).mac()
    assert mac[0, 2] < 0.5 < 0.9 < mac[0, [0, 1, 3]].min()
    panels = shape_tracks_figure(rows).axes
    np.testing.assert_allclose(panels[1].lines[0].get_ydata(), mac[0])
    assert bool(panels[0].lines) == (channels == 2)


TIME = np.arange(4800) / 8.0
WHITE = np.random.default_rng(2).normal(size=(4800, 4))
PEAK = np.sin(2 * np.pi * 0.85 * TIME)[:, None] + 0.3 * WHITE
BAD = {
    "copy": (np.column_stack([PEAK[:, 0], -3 * PEAK[:, 0]]), "channel b is a copy of channel a"),
    "unit": (PEAK[:, :2] * [1.0, 1e6], "channel b moves 1e.06 times as much as channel a"),
    "flat": (WHITE, "holds no peak"),
    "short": (PEAK[:90, :2], "9.56 periods"),
}


@pytest.mark.parametrize("name", BAD)
def test_records_without_shapes_are_refused_in_one_sentence(name):
    values, words = BAD[name]
    record = record_of(values, 8.0, tuple("abcd")[: values.shape[1]])
    with pytest.raises(ValueError, match=words) as caught:
        measured_channels(record, BAND)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("asked", [{"noise": "channel"}, {"forces": "correlated"}])
def test_what_only_shapes_have_is_refused_for_a_spectrum(found, asked):
    plain = dataclasses.replace(found.measured, ordinates=None)
    with pytest.raises(ValueError, match="go with shapes"):
        identify(plain, 2, Settings(**asked))


def test_shapes_may_make_more_proposals_for_their_evidence(monkeypatch, found):
    """Three times as many left right fits of four channels in doubt at quick effort."""
    efforts = []
    monkeypatch.setattr(
        identification, "sample", lambda *_, effort, **__: efforts.append(effort) or found.fit
    )
    identify(found.measured, 2, Settings(frequency_range=BAND), progress=False)
    assert efforts[0].sharper == 6


def test_shapes_of_a_spectrum_are_refused(found):
    plain = dataclasses.replace(found.measured, ordinates=None)
    with pytest.raises(ValueError, match="at least two channels for shapes"):
        identify(plain, 2, Settings(model="shapes"))
