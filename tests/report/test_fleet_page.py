"""The page of a fleet: it holds the rows, escapes what they say, and stays light."""

import json
import re

from brief import brief_fit
from folt.cli import run
from folt.fleet.rows import columns, estimates_in
from folt.models import gaussian_mixture
from folt.report.fleet_page import POINTS, STILL_ROWS, fleet_page

EVIL = "</script><b>no</b>"


def rows(count):
    return [
        {
            "job": f"n{k}",
            "error": EVIL if k == 1 else None,
            "verdict": None if k == 1 else "good" if k % 3 else "poor",
            "mu[0]": 1.0 + k,
            "mu[0] low": 0.5 + k,
            "mu[0] high": 1.5 + k,
            "ranks": [1, 2],
            "started_from": "n0" if k else None,
            "seconds": 0.5,
        }
        for k in range(count)
    ]


def page(made, total=None):
    names = columns(made)
    return fleet_page(made, names, estimates_in(names), total or len(made), False)


def test_rows_are_in_the_page_and_cannot_act():
    text = page(rows(9), 12)
    assert "9 of 12 jobs are done, 1 failed" in text
    assert EVIL not in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["rows"][1][data["columns"].index("error")] == EVIL
    assert "ranks" not in data["columns"]
    assert data["link"] == "fit.nc"
    assert 'data-verdict="poor"' in text
    assert text.index('data-verdict="good"') < text.index('data-verdict="poor"')
    assert text.count("<svg") == 1
    for fetched in ("<link", "src=", "@import", "url("):
        assert fetched not in text


def test_ten_thousand_jobs_make_a_light_page():
    text = page(rows(10_000))
    assert len(text) < 2_000_000
    assert text.count("<tr>") == STILL_ROWS + 1
    assert text.count("h0") <= POINTS + 1


def test_numbers_are_drawn_where_there_are_no_estimates():
    made = [{"job": f"n{k}", "error": None, "x": k, "word": "a", "seconds": 1.0} for k in range(4)]
    text = page(made)
    assert re.findall(r"<figcaption>(.*?)</figcaption>", text) == ["x", "seconds"]
    assert "verdict" not in re.findall(r"<th[^>]*>(.*?)</th>", text)
    assert "0 of 3 jobs are done" in page([], 3)


def test_names_lead_to_the_pages_once_they_are_made(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("folt.report.page.svg", lambda *_: "<svg/>")  # drawing takes seconds
    fit = brief_fit(gaussian_mixture([-2.0, -1.8, 1.7, 2.2, 2.4], 2))
    for k in (0, 2):
        (tmp_path / f"n{k}").mkdir()
        fit.save(tmp_path / f"n{k}" / "fit.nc")
    (tmp_path / "index.html").write_text(page(rows(3)), "utf-8")
    assert run(["report", str(tmp_path)]) == 2
    assert run(["report", str(tmp_path), "--all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [place.rsplit("/", 2)[1:] for place in told["fits"]] == [
        ["n0", "fit.nc"],
        ["n2", "fit.nc"],
    ]
    text = (tmp_path / "index.html").read_text("utf-8")
    names = columns(rows(3))
    assert text == fleet_page(rows(3), names, estimates_in(names), 3, True)
    first = (tmp_path / "n0" / "report.html").stat().st_mtime_ns
    assert run(["report", str(tmp_path), "--all", "--quiet"]) == 0
    assert (tmp_path / "n0" / "report.html").stat().st_mtime_ns == first
    assert run(["report", str(tmp_path / "n0"), "--all"]) == 2
