"""`folt fleet` and `folt calibrate`: what is refused in one line, what is written."""

import json
from pathlib import Path

import pytest

from folt.cli import run

JOBS = """
from folt.fleet import Job, Study

def square(x):
    return {"square": x * x}

jobs = [Job(f"n{i}", run=square, data=i) for i in range(3)]
none = []
twice = [jobs[0], jobs[0]]
number = 3
study = Study(square, simulations=1)

def made():
    return jobs[:2]

def broken():
    raise RuntimeError("no jobs today")
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("jobs.py").write_text(JOBS)
    return tmp_path


REFUSED = {
    "no jobs": (["fleet", "jobs.py:none"], "expected at least one job, got none"),
    "two of one name": (["fleet", "jobs.py:twice"], "got 'n0' twice"),
    "no list": (["fleet", "jobs.py:number"], "expected jobs.py:number to be a list"),
    "nothing there": (["fleet", "jobs.py:others"], "jobs.py has no 'others'"),
    "no place": (["fleet", "jobs"], "expected FILE.py:NAME"),
    "no file": (["fleet", "nowhere.py:jobs"], "found nothing at nowhere.py"),
    "code that fails": (["fleet", "jobs.py:broken"], "no jobs today"),
    "two places": (["fleet", "jobs.py:jobs", "--workers", "2", "--scheduler", "x"], "one of them"),
    "no address": (["fleet", "jobs.py:jobs", "--scheduler", ""], "expected the address"),
    "address without value": (["fleet", "jobs.py:jobs", "--scheduler"], "requires an argument"),
    "wrong address": (
        ["fleet", "jobs.py:jobs", "--scheduler", "tcp://127.0.0.1:9"],
        "no Dask scheduler answers",
    ),
    "no workers": (["fleet", "jobs.py:jobs", "--workers", "0"], "--workers"),
    "no study": (["calibrate", "jobs.py:number"], "to be a folt.fleet.Study"),
    "one simulation": (["calibrate", "jobs.py:study"], "at least 2 simulations"),
    "windows alone": (["modal", "--psd", "x.csv", "--workers", "2"], "go with --window"),
    "one mixture": (
        ["mixture", "data.csv", "--components", "2", "--workers", "2"],
        "expected several files or sizes",
    ),
    "one name twice": (
        ["mixture", "data.csv", "data.csv", "--components", "2"],
        "expected files with names of their own",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_one_line_and_nothing_is_written(case, place, capsys, monkeypatch):
    monkeypatch.setattr("folt.fleet.on_dask.GREETING", 0.5)
    Path("data.csv").write_text("x\n" + "\n".join(map(str, range(12))) + "\n")
    words, message = REFUSED[case]
    assert run([*words, "--out", "out"] if words[-1] != "--scheduler" else words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not Path("out").exists()


def test_jobs_of_a_file_run_on_a_process_that_does_not_see_it(place, capsys):
    assert (
        run(["fleet", "jobs.py:made", "--workers", "1", "--out", "out", "--json", "--quiet"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["command"], told["jobs"], told["failed"]) == ("fleet", 2, 0)
    assert [row["square"] for row in told["rows"]] == [0, 1]
    assert all(Path(name).is_file() for name in told["files"])
    page = Path("out/index.html").read_text()
    assert "2 of 2 jobs are done" in page
    assert "<script src" not in page
    # Once more: nothing is started.
    assert run(["fleet", "jobs.py:made", "--workers", "1", "--out", "out"]) == 0
    assert "2 jobs, 0 failed" in capsys.readouterr().out
    before = Path("out/n0/row.json").read_bytes()
    Path("jobs.py").write_text(JOBS.replace("x * x", "x * x * 1"))
    assert run(["fleet", "jobs.py:made", "--workers", "1", "--out", "out"]) == 2
    said = capsys.readouterr().err
    assert "job 'n0' was finished before the text of a function was changed (run)" in said
    assert "--no-resume" in said
    assert Path("out/n0/row.json").read_bytes() == before
