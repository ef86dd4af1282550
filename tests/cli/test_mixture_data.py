"""Which observations `folt mixture` takes from a file, what it says of them, what it refuses."""

import json

import numpy as np
import pytest

import folt
import folt.sampling
from brief import REFERENCE, from_moments
from folt.cli import run
from folt.cli.mixture import job_for
from folt.cli.mixture_data import read_observations
from folt.fleet.identity import identity

HEIGHTS = np.random.default_rng(0).normal(3.0, 2.0, 30).round(3)

SURVEY = ";day;kind;height;x\n;;;m;s\n" + "".join(
    f"{i};{i % 28 + 1:02}.02.2026;p;{height};{'-' if i in (3, 7) else i % 5 + 0.5}\n"
    for i, height in enumerate(HEIGHTS)
).replace(".02.", "/02/").replace(".", ",")


@pytest.fixture
def survey(tmp_path):
    """As a spreadsheet writes it: an index, a date, words, units, decimal commas, two gaps."""
    path = tmp_path / "survey.csv"
    path.write_bytes(SURVEY.encode("utf-8-sig"))
    return path


def test_what_is_no_number_is_left_aside_and_named(survey):
    found, told = read_observations(survey, drop_missing=True)
    assert found.names == ("height (m)", "x (s)")
    kept = [i for i in range(30) if i not in (3, 7)]
    np.testing.assert_array_equal(found.values[:, 0], HEIGHTS[kept])
    np.testing.assert_array_equal(found.rows, np.array(kept) + 1)
    aside, dropped = told
    assert aside.endswith("left aside index: 'column 1'; dates: 'day'; text: 'kind'")
    assert dropped.endswith("dropped 2 of 30 rows with missing values, lines 6, 10")


def test_names_of_rows_go_with_those_that_are_kept(tmp_path):
    path = tmp_path / "named.csv"
    path.write_text(",name,kind,v\n7,a,p,1\n8,b,p,\n9,c,q,2\n5,d,q,4\n")
    found, _ = read_observations(path, drop_missing=True)
    assert found.keys == (("column 1", ("7", "9", "5")), ("name", ("a", "c", "d")))
    chosen, _ = read_observations(path, "v", drop_missing=True)
    assert chosen.keys == found.keys


def test_a_chosen_column_needs_no_other_to_be_complete(survey):
    found, told = read_observations(survey, "height")
    np.testing.assert_array_equal(found.values[:, 0], HEIGHTS)
    assert told == []


def test_standardised_columns_say_their_units(survey):
    found, told = read_observations(survey, "height", standardize=True)
    np.testing.assert_allclose(found.values.mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.values.std(), 1.0)
    ((mean, deviation),) = found.scales
    np.testing.assert_allclose(found.values[:, 0] * deviation + mean, HEIGHTS)
    assert f"(value - {mean:.6g}) / {deviation:.6g}" in told[0]
    assert found.axes == ("height (m), standardised",)


def test_a_changed_reading_is_another_job(survey):
    readings = [
        {"columns": "height"},
        {"columns": "height", "standardize": True},
        {"columns": "x", "drop_missing": True},
        {"columns": "height,x", "drop_missing": True},
    ]
    known = [
        json.dumps(identity(job_for("a", read_observations(survey, **reading)[0], 2, {}).files))
        for reading in [*readings, readings[0]]
    ]
    assert len(set(known)) == len(readings)
    assert known[0] == known[-1]


REFUSED = {
    "a gap": ([], "line 6, column 'x': a value is missing, as in 2 of 30 rows.*--drop-missing"),
    "a column of words": (["--columns", "kind"], "line 3, column 'kind': .* a number, got 'p'"),
    "no such column": (["--columns", "z"], "no column 'z'"),
    "counts in other units": (["--columns", "height", "--counts", "--standardize"], "--counts or"),
    "a code": (["--missing", "0.5,q", "--columns", "x"], "line 3, column 'x': .* 8 of 30 rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_one_line_with_2_and_writes_nothing(case, survey, tmp_path, capsys):
    options, words = REFUSED[case]
    out = tmp_path / "never"
    assert run(["mixture", str(survey), "--components", "2", *options, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    with pytest.raises(ValueError, match=words):
        raise ValueError(error)
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3,2\n5,2\n", "column 'b': all values are 2.*leave it out with --columns"),
        ("a\n1\ninf\n3\n", "line 3, column 'a': the value is infinite"),
        ("a\n1\n-999\n3\n2\n", "line 3, column 'a': -999 lies far"),
        ("a,b\n1,\n,2\n3,\n", "no row without a missing value"),
        ("a\np\nq\n", "line 2, column 'a'"),
    ],
)
def test_files_that_cannot_be_used(text, words, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_observations(path, drop_missing=True)


def test_units_reach_the_results_and_a_changed_reading_is_fitted_anew(
    survey, tmp_path, monkeypatch, capsys
):
    whole, fitted = folt.sampling.sample, []

    def brief(problem, **options):
        fitted.append(
            fitted[0]
            if fitted
            else whole(problem, reference=REFERENCE, flow=from_moments, **options)
        )
        return fitted[-1]

    monkeypatch.setattr(folt.sampling, "sample", brief)
    monkeypatch.setattr("folt.report.saving.page", lambda fit: "a page")
    words = ["mixture", str(survey), "--components", "1", "--columns", "height", "--chains", "2"]
    words += ["--draws", "100", "--out", str(tmp_path / "out"), "--json"]
    for number, more in ((1, ["--standardize"]), (1, ["--standardize"]), (2, [])):
        assert run([*words, *more]) == 0
        captured = capsys.readouterr()
        told = json.loads(captured.out)
        assert len(fitted) == number
        assert told["columns"] == ["height (m)"]
        assert told["observations"] == 30
        text = folt.load(tmp_path / "out" / "fit.nc").sections[0].text
        stated = ["standard deviations from the mean" in words for words in (captured.err, text)]
        assert stated == [bool(more)] * 2
        assert (told["standardized"] is not None) == bool(more)
    lines = (tmp_path / "out" / "memberships.csv").read_text().splitlines()
    assert lines[0].startswith("row,column 1,mean")  # the count of the rows, to join them by
    assert lines[1].startswith("1,0,1,")
