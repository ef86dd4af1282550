"""`folt mixture`: one size or several, from a CSV file to evidence, draws and pictures."""

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pandas
import pytest

import folt
import folt.sampling
from brief import REFERENCE, from_moments
from folt.certificate.comparison import compare_evidences
from folt.certificate.diagnostics.evidence import Evidence
from folt.cli import run
from folt.cli.mixture_comparison import (
    comparison_files,
    comparison_front,
    next_step,
    ranking_table,
)
from folt.cli.mixture_data import read_observations
from folt.cli.mixture_results import left_words, time_left
from folt.fleet import Here
from folt.report import mixtures
from folt.report.page import page
from folt.terminal import numbers_of
from worse import WORSE, altered

GENERATOR = np.random.default_rng(0)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.csv"
    x = np.concatenate([GENERATOR.normal(-3, 0.6, 40), GENERATOR.normal(2, 1.0, 60)])
    rows = [f"{value:.4f},{value + 1:.4f},{int(abs(value) * 3)}" for value in x]
    path.write_text("\n".join(["x,y,n", *rows]) + "\n")
    return path


@pytest.mark.parametrize(("text", "numbers"), [("3", [3]), ("2:4", [2, 3, 4]), (" 1 : 2", [1, 2])])
def test_numbers_of_components(text, numbers):
    assert list(numbers_of("components", text)) == numbers


@pytest.mark.parametrize("text", ["", "a", "3:", "4:2", "0", "1:2:3", "-1", "2.5"])
def test_what_is_no_number_of_components(text):
    with pytest.raises(ValueError, match="expected"):
        numbers_of("components", text)


@pytest.fixture(scope="module")
def compared(table, tmp_path_factory):
    """Two sizes, each with the cheapest reference and proposal."""
    out = tmp_path_factory.mktemp("out")
    whole = folt.sampling.sample

    def brief(problem, **options):
        return whole(problem, reference=REFERENCE, flow=from_moments, **options)

    def page_of_two(fit):
        """One page is drawn, which takes seconds; that of a single component is padding."""
        return page(fit) if fit.posterior["mu"].shape[-1] == 2 else "-" * 1_001

    arguments = ["mixture", str(table), "--components", "1:2", "--columns", "x", "--chains", "2"]
    arguments += ["--draws", "200", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folt.sampling, "sample", brief)
        patch.setattr("folt.report.saving.page", page_of_two)
        assert run([*arguments, "--quiet"]) == 0
    return out, arguments


def test_files_and_comparison(compared):
    out, _ = compared
    lines = (out / "components.csv").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    assert [row["components"] for row in rows] == ["1", "2"]
    assert float(rows[1]["probability"]) > 0.99  # the data are two far normals
    assert sum(float(row["probability"]) for row in rows) == pytest.approx(1.0, abs=1e-4)
    for k in (1, 2):
        for name in ("fit.nc", "report.html", "mixture.png"):
            assert (out / f"k{k}" / name).stat().st_size > 1_000
        members = pandas.read_csv(out / f"k{k}" / "memberships.csv")
        np.testing.assert_allclose(members.filter(like="mean").sum(axis=1), 1.0, atol=1e-4)
        assert set(members["most_probable"]) == {f"component {j + 1}" for j in range(k)}
        assert members["row"].tolist()[0] == 1
    for name in ("components.png", "densities.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    index = (out / "index.html").read_text()
    assert "<h1>data.csv: 2 components are most probable</h1>" in index
    assert index.index("2 components 1.000, 1 component &lt; 0.001") < index.index("<svg")
    assert "mu[0]" not in index  # the means of different sizes have nothing in common
    fit = folt.load(out / "k2" / "fit.nc")
    means = fit.posterior["mu"].mean(axis=(0, 1))
    np.testing.assert_allclose(means, [-3.0, 2.0], atol=0.6)  # numbered in order


def test_one_size_is_compared_with_nothing(compared, table):
    out, _ = compared
    fits = {2: folt.load(out / "k2" / "fit.nc")}
    observed, _ = read_observations(table, columns="x")
    assert set(comparison_files(fits, observed)) == {"components.csv", "densities.png"}
    assert "probability" not in [column.header for column in ranking_table(fits).columns]


def test_the_most_probable_size_has_a_next_step_unless_it_is_good(compared, table):
    out, _ = compared
    one, fit = (folt.load(out / f"k{m}" / "fit.nc") for m in (1, 2))
    assert next_step({1: one, 2: fit}) == ()
    worse = altered(fit.certificate, **WORSE["ambiguous labels"])
    ambiguous = dataclasses.replace(fit, certificate=worse)
    (sentence,) = next_step({1: one, 2: ambiguous})
    assert "2 components" in sentence
    assert worse.status.command in sentence
    observed, _ = read_observations(table, columns="x")
    front = comparison_front({"a-": {1: one, 2: ambiguous}, "b-": {1: one, 2: fit}}, [observed] * 2)
    assert [row[:3] for row in front.table[1:]] == [
        ("a-k2", "data.csv", "2"),
        ("b-k2", "data.csv", "2"),
    ]


def test_a_second_run_fits_nothing_again(compared, monkeypatch, capsys):
    out, arguments = compared

    def refuse(*_, **__):
        raise AssertionError("fitted again")

    monkeypatch.setattr(folt.sampling, "sample", refuse)
    before = (out / "k2" / "fit.nc").read_bytes()
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["command"] == "mixture"
    assert all(Path(name).is_file() for name in told["files"])
    assert [row["components"] for row in told["candidates"]] == [1, 2]
    assert sum(row["probability"] for row in told["candidates"]) == pytest.approx(1.0)
    for row in told["candidates"]:
        assert row["log_evidence"]["standard_error"] > 0
        assert row["verdict"]["advice"]
    assert (out / "k2" / "fit.nc").read_bytes() == before
    assert run([*arguments]) == 0
    assert "verdict" in capsys.readouterr().out


BAD = {
    "no such column": (["--columns", "z"], "it has x, y, n"),
    "too many components": (["--components", "200"], "at most 20 components"),
    "several columns of counts": (["--counts"], "one column"),
    "fractional counts": (["--counts", "--columns", "x"], "whole numbers"),
    "no number": (["--components", "many"], "such as 3 or 2:6"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name, table, tmp_path, capsys):
    options, words = BAD[name]
    options = options if "--components" in options else [*options, "--components", "2"]
    out = tmp_path / "never"
    assert run(["mixture", str(table), *options, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\n1\n\n2\nabc\n", "expected a number"),
        ("x\n1\nnan\n3\n", "missing"),
        ("x\n2\n2\n2\n", "constant data"),
    ],
)
def test_bad_files_are_one_line(text, words, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert run(["mixture", str(path), "--components", "2", "--out", str(tmp_path / "never")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_the_time_left_grows_with_the_size():
    assert time_left({}, [1]) == 0.0
    assert time_left({1: 5.0}, []) == 0.0
    assert time_left({1: 10.0, 2: 20.0, 3: 30.0}, [4, 5]) == pytest.approx(40.0 + 50.0)
    assert time_left({1: 30.0, 2: 20.0}, [3]) == pytest.approx(20.0)  # compilation came first
    sizes = {f"k{m}": m for m in range(1, 5)}
    assert left_words({"k1": 60.0, "k2": 120.0}, sizes, Here()) == ", about 7 min left"
    assert left_words({"k1": 1.0}, sizes, Here()) == ""


def posterior(draws=20, **shapes):
    return {
        name: GENERATOR.uniform(0.5, 1.0, size=(draws, *shape)) for name, shape in shapes.items()
    }


def test_figures_show_every_component():
    flat = mixtures.weighted_mixture_figure(
        GENERATOR.normal(size=50), posterior(weight=(3,), mu=(3,), sigma=(3,))
    )
    counts = mixtures.poisson_figure(
        GENERATOR.poisson(3, size=50), posterior(weight=(2,), rate=(2,))
    )
    covariance = np.tile(np.eye(2), (20, 2, 1, 1))
    plane = mixtures.plane_figure(
        GENERATOR.normal(size=(50, 2)),
        {**posterior(weight=(2,), mu=(2, 2)), "covariance": covariance},
        ("a", "b"),
    )
    for figure, components in ((flat, 3), (counts, 2), (plane, 2)):
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert sum(label.startswith("component") for label in labels) == components


def test_sizes_stand_side_by_side_over_one_axis():
    data = GENERATOR.normal(size=50)
    sizes = {m: posterior(weight=(m,), mu=(m,), sigma=(m,)) for m in range(1, 8)}
    figure = mixtures.sizes_figure(sizes, functools.partial(mixtures.draw_weighted, data))
    panels = [panel for panel in figure.axes if panel.axison]
    assert len(panels) == 7
    assert panels[6].get_title(loc="left") == "Mixture of 7 components"
    assert len({panel.get_ylim() for panel in panels}) == 1


def test_evidence_is_drawn_near_the_best_and_doubt_is_hollow():
    """A model 24 nats below would hide every error bar; it is an arrow at the edge instead."""
    values = {"1": -246.4, "2": -223.0, "3": -222.0}
    ranking = compare_evidences({k: Evidence(value, 0.01, 0.2, 10) for k, value in values.items()})
    panel = mixtures.evidence_figure(ranking, "components", [True, True, False]).axes[0]
    assert panel.get_ylim()[0] > -240.0
    assert [text.get_text() for text in panel.get_xticklabels()] == ["1", "2", "3"]
    arrows = [line for line in panel.lines if line.get_marker() == "v"]
    assert arrows[0].get_xdata().tolist() == [0]
    faces = [line.get_markerfacecolor() for line in panel.lines if line.get_marker() == "o"]
    assert faces == [mixtures.PALETTE[0], "white"]
    assert [text.get_text() for text in panel.texts] == ["hollow: not certified"]
