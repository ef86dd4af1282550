"""Measured numbers in the pages come from committed measurements, and say from which."""

import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as benchmark  # noqa: E402
from benchmarks import record, tables  # noqa: E402

README = ROOT / "README.md"
SHOWN = "galaxies, K = 3, unknown weights"
"""The problem of the peers that the README shows."""
SETTINGS = {".1", ".05", ".01", "0.05", "95"}
"""Numbers in the README that are asked for, not found: distances, ρ and a confidence in %."""
VERSIONS = re.compile(r"(?:label\.switching`|pocoMC) [\d.]+")
COMMIT = re.compile(r"[0-9a-f]{7,40}(-dirty)?")
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def text_of(page):
    return page.read_text(encoding="utf-8")


def by_hand(text):
    return [number for number in tables.stated(VERSIONS.sub("", text)) if number not in SETTINGS]


def test_every_table_in_a_page_is_what_its_measurement_says():
    assert tables.stale() == [], "run `make tables`"


def test_the_page_of_the_reproduction_is_what_the_results_say():
    """Mutant: one digit of the page."""
    filled = runpy.run_path(str(ROOT / "docs" / "reproduction.py"))["filled"]
    text = text_of(ROOT / "docs" / "reproduction.md")
    assert filled(text) == text, "run `make tables`"
    found = tables.GENERATED.search(text)[0]
    assert filled(text.replace(found, found.replace("0.9", "0.8", 1))) == text
    lines = re.findall(r"^`folt reproduce.*$", text, re.MULTILINE)
    assert len(lines) == len(list((ROOT / "results").glob("*/*.json")))
    assert all(
        re.search(r"commit [0-9a-f]{12}(-dirty)?, \d{4}-\d\d-\d\d\.$", line) for line in lines
    )


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.name)
def test_no_table_holds_numbers_of_its_own(page):
    assert tables.unbacked(text_of(page)) == []


def test_the_readme_states_no_measured_number_by_hand():
    assert by_hand(text_of(README)) == []


@pytest.mark.parametrize("name", record.names())
def test_measurements_say_where_they_come_from(name):
    measurement = record.read(name)
    facts = measurement["provenance"]
    assert {"command", "commit", "date", "versions", "machine", "cpu_s"} <= set(facts)
    assert facts["command"].startswith("python -m ")
    assert all(map(COMMIT.fullmatch, facts["commit"].split(", ")))
    assert DATE.fullmatch(facts["date"])
    assert measurement["rows"]
    assert all(len(row) == len(measurement["columns"]) for row in measurement["rows"])


def test_a_changed_number_is_noticed_in_the_measurement_and_in_the_page(tmp_path):
    """Mutants: one digit of the JSON, one digit of the README, the commit under the table."""
    folder = tmp_path / "results"
    shutil.copytree(record.RESULTS, folder)
    text = text_of(README)
    assert tables.filled(text, folder) == text
    peers = record.read("peers", folder)
    row = next(row for row in peers["rows"] if row[0] == SHOWN)
    cell = row[peers["columns"].index("CPU s")]
    assert f"| {cell} |" in text
    for mutant in (
        text.replace(f"| {cell} |", "| 0.111 |", 1),
        text.replace(peers["provenance"]["commit"], "0000000"),
    ):
        assert tables.filled(mutant, folder) == text != mutant
    row[peers["columns"].index("CPU s")] = "0.111"
    (folder / "peers.json").write_text(json.dumps(peers), encoding="utf-8")
    assert "| 0.111 |" in tables.filled(text, folder) != text


def test_a_number_without_a_measurement_is_noticed():
    """Mutants: a table by hand, a table whose markers were taken away, a number in a sentence."""
    text = text_of(README)
    assert tables.unbacked(text + "\n| problem | γ |\n|---|---|\n| mine | 0.99 |\n")
    assert tables.unbacked(text + "\n| problem | time |\n|---|---|\n| mine | 12 s |\n")
    assert tables.unbacked(text + "\n| a | b |\n|---|---|\n| mine | .984 to 1.000 |\n")
    shown = sum(row[0] == SHOWN for row in record.read("peers")["rows"])
    assert shown <= 8
    assert len(tables.unbacked(re.sub(r"<!-- /?table.*?-->", "", text))) == shown
    assert by_hand(text + "\nA fit takes 14 to 35 seconds and 2 GB.\n") == ["35", "2"]
    assert by_hand(text + "\nOn the demo's mixture it is off by −.47.\n") == ["−.47"]
    assert by_hand(text + "\n| tool | off by 0.467 at an error of .03 |\n") == ["0.467", ".03"]
    assert tables.unbacked("| `folt` | speed |\n|---|---|\n| `folt` | 0.9 ± 0.1 |\n")
    assert not tables.unbacked("| argument | default |\n|---|---|\n| `seed` | 0 |\n")
    assert not tables.unbacked("| formula | function |\n|---|---|\n| 2/(1+e^C) | `gap` |\n")


def test_markers_that_name_nothing_are_errors():
    with pytest.raises(ValueError, match="no measurement 'speed'"):
        tables.filled("<!-- table: speed -->\n<!-- /table -->")
    with pytest.raises(ValueError, match="not \\['colour'\\]"):
        tables.filled("<!-- table: engine; problem; colour -->\n<!-- /table -->")
    with pytest.raises(ValueError, match="no row with 'stars'"):
        tables.filled("<!-- table: peers; tool; only problem: stars -->\n<!-- /table -->")


def test_a_marker_that_is_not_closed_is_an_error_and_eats_nothing():
    closed = "<!-- table: engine -->\n<!-- /table -->"
    for text in (
        f"<!-- table: engine -->\nprose\n{closed}",
        f"{closed}\nprose\n<!-- /table -->",
        "<!-- table: engine -->\nprose",
    ):
        with pytest.raises(ValueError, match="needs a"):
            tables.filled(text)


def test_a_measurement_comes_back_as_it_was_written(tmp_path):
    rows = [("a | b", 1.5, None), ("c", 2, "x ± y")]
    record.write("m", "Title", ("k", "v", "w"), rows, command="python -m m", folder=tmp_path)
    found = record.read("m", tmp_path)
    assert found["rows"] == [["a | b", 1.5, None], ["c", 2, "x ± y"]]
    assert found["provenance"]["cpu_s"] > 0
    assert found["provenance"]["versions"]["folt"]
    shown = tables.filled("<!-- table: m; w; k -->\nold\n<!-- /table -->", tmp_path)
    there = ("| w | k |", "| x ± y | c |", "|  | a \\| b |", "`python -m m`")
    assert [part for part in (*there, found["provenance"]["date"]) if part not in shown] == []
    assert "old" not in shown
    assert tables.filled(shown, tmp_path) == shown
    with pytest.raises(ValueError, match="expected 3 cells"):
        record.write("m", "Title", ("k", "v", "w"), [("a",)], command="x", folder=tmp_path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        record.write("m", "T", ("k",), [(float("nan"),)], command="x", folder=tmp_path)
    assert record.read("m", tmp_path) == found


def test_a_validation_writes_a_measurement_named_after_its_test(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    written = runpy.run_path(str(ROOT / "tests" / "validate" / "table.py"))
    written["write_table"]("coin", "A fair coin", ("side", "share"), [("head", "0.5")])
    found = record.read("validate-coin")
    assert found["rows"] == [["head", "0.5"]]
    assert found["provenance"]["command"].endswith(
        "test_tables.py::test_a_validation_writes_a_measurement_named_after_its_test"
    )


def test_the_table_of_the_engine_follows_from_its_fits():
    for name in ("engine", "engine-typhoon"):
        found = record.read(name)
        assert benchmark.table(found["fits"], found["nuts"]) == found["rows"]
        assert list(benchmark.COLUMNS) == found["columns"]
    assert benchmark.groups(["m2p2"]) == {"engine-m2p2": ["m2p2"]}
    assert "typhoon" not in benchmark.groups([])["engine"]
