"""Fleets with hostile jobs, names, rows and folders: every job has its row, no file is hurt."""

import functools
import threading
import time

import psutil
import pytest

from fleet_jobs import doubled, end_strangely, fork_and_exit, slow, square
from folt.cli import run
from folt.fleet import Here, Job, fit_many
from folt.fleet.calibration import calibrate
from folt.fleet.on_dask import AtAddress
from folt.fleet.processes import Processes
from folt.fleet.work import FailedJobsError
from folt.store import Entry, IncompleteError, Store, WriteError
from folt.store.files import make_part

ENDS = ("BaseException", "KeyboardInterrupt", "SystemExit", "GeneratorExit", "mute")


@pytest.fixture(scope="module")
def runner():
    with Processes(1) as running:
        yield running


def test_jobs_that_raise_what_nobody_catches_fail_one_by_one(runner, tmp_path, capfd):
    jobs = [Job(how, run=end_strangely, data=how) for how in ENDS]
    table = fit_many([*jobs, Job("after", run=square, data=3)], tmp_path, runner=runner, retries=0)
    assert list(table["error"])[:-1] == [
        "Strange: strange",
        "KeyboardInterrupt",
        "SystemExit: 0",
        "GeneratorExit",
        "MuteError",
    ]
    assert table["square"][5] == 9
    captured = capfd.readouterr()
    assert captured.out == ""  # standard output is for results
    assert captured.err.count("a job prints") == len(ENDS)
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("how", [how for how in ENDS if how != "KeyboardInterrupt"])
def test_a_job_that_raises_anything_here_fails_alone(how, tmp_path):
    table = fit_many([Job("a", run=end_strangely, data=how)], tmp_path, runner=Here(), retries=0)
    assert table["error"][0]


def test_a_job_that_leaves_a_process_behind_is_written_down(runner, tmp_path):
    jobs = [Job("fork", run=fork_and_exit, data=20.0), Job("after", run=square, data=3)]
    begun = time.monotonic()
    table = fit_many(jobs, tmp_path, runner=runner, retries=0)
    assert time.monotonic() - begun < 20
    assert "its worker died with exit code 1" in table["error"][0]
    assert table["square"][1] == 9


def test_nothing_listens_while_jobs_run_here(tmp_path):
    with Processes(1) as own:
        thread = threading.Thread(
            target=fit_many,
            args=([Job("a", run=slow, data=3.0)], tmp_path),
            kwargs={"runner": own, "progress": False},
        )
        before = _listening()
        thread.start()
        while not own._running:
            time.sleep(0.01)
        time.sleep(1.0)
        assert _listening() == before
        thread.join()


def _listening():
    """Sockets that this process and its children listen on."""
    own = psutil.Process()
    family = [own, *own.children(recursive=True)]
    return {
        (each.pid, connection.laddr)
        for each in family
        for connection in each.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }


def test_a_cluster_is_reached_by_its_address(tmp_path):
    from distributed import LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(1, host="127.0.0.1", **options) as cluster:
        runner = AtAddress(cluster.scheduler_address)
        table = fit_many([Job("a", run=square, data=3)], tmp_path, runner=runner)
    assert table["square"][0] == 9


ROWS = {
    "a verdict of its own": {"verdict": "pass"},
    "a number for a verdict": {"verdict": 3},
    "a list for a verdict": {"verdict": ["good", "bad"]},
    "an empty verdict": {"verdict": ""},
    "script": {"<script>": "</script><script>alert(1)</script>"},
    "estimates that are words": {"x": "a", "x low": "b", "x high": "c"},
    "huge": {"x": 10**400, "y": 1e308, "x low": -1e308, "x high": 1e308},
    "a name of nothing": {"": 1},
    "half a character": {"x": "\ud800", "\udfff": 1},
}


@pytest.mark.parametrize("case", ROWS)
def test_any_row_has_its_page(case, tmp_path):
    jobs = [Job(name, run=functools.partial(dict, ROWS[case])) for name in "ab"]
    table = fit_many(jobs, tmp_path, runner=Here(), retries=0)
    assert table["error"].isna().all()
    page = (tmp_path / "index.html").read_text()
    assert "2 of 2 jobs are done" in page
    assert "alert(1)</script>" not in page
    assert 'href="a/fit.nc"' not in page


@pytest.mark.parametrize("word", ["=HYPERLINK(1)", "+1", "-1+2", "@SUM(1)", "\t=1", "\r=1"])
def test_words_in_the_table_are_no_formulas(word, tmp_path):
    job = Job("a", run=functools.partial(dict, {"x": word, word: -1.5}))
    fit_many([job], tmp_path, runner=Here())
    text = (tmp_path / "table.csv").read_bytes().decode()
    assert text.count(f"'{word}") == 2
    assert "-1.5" in text
    assert "'-1.5" not in text


@pytest.mark.parametrize("name", ["\u6f22" * 120, "\U0001d4d0" * 60])
def test_names_are_counted_in_bytes(name, tmp_path):
    with pytest.raises(ValueError, match="at most 200 bytes"):
        fit_many([Job(name, run=doubled, data=1)], tmp_path / "out", runner=Here())
    assert not (tmp_path / "out").exists()
    fit_many([Job(name[:50], run=doubled, data=1)], tmp_path / "out", runner=Here())


# Links that somebody planted.


def test_a_link_in_the_place_of_a_job_is_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "mine")
    with pytest.raises(WriteError, match="got a link"):
        fit_many([Job("a", run=doubled, data=1)], tmp_path / "out", runner=Here())
    assert list((tmp_path / "mine").iterdir()) == []
    (tmp_path / "out" / "b").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WriteError, match="got a link"):
        make_part(tmp_path / "out" / "b")


def test_a_link_in_the_place_of_what_is_being_written_is_not_emptied(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "row.json").write_text("a user's")
    (tmp_path / "out").mkdir()
    staged = tmp_path / "out" / ".row.folt-new"
    for act in (
        lambda entry: entry.recover(),
        lambda entry: entry.replace({"command": "job"}, {"a": b"1"}),
    ):
        staged.symlink_to(mine)
        act(Entry(tmp_path / "out" / "row.json"))
        assert (mine / "row.json").read_text() == "a user's"
        assert not staged.exists()


def test_a_link_in_the_place_of_the_lock_is_not_emptied(tmp_path):
    (tmp_path / "mine").write_text("a user's")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".folt.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(WriteError, match="got a link"), Store(tmp_path / "out"):
        pass
    assert (tmp_path / "mine").read_text() == "a user's"


# Calibrations.


def no_truth(generator):
    raise RuntimeError("no truth today")


def test_a_calibration_without_a_simulation_is_a_failure_not_bad_input(
    tmp_path, monkeypatch, capsys
):
    with pytest.raises(FailedJobsError, match="no truth today"):
        calibrate(no_truth, simulations=2, out=tmp_path / "out", runner=Here(), retries=0)
    assert "no truth today" in (tmp_path / "out" / "s00000" / "error.txt").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.py").write_text(
        "from folt.fleet import Study\ndef simulate(generator):\n    raise RuntimeError('no')\n"
        "study = Study(simulate, simulations=2)\n"
    )
    assert run(["calibrate", "study.py:study", "--workers", "1", "--quiet"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no simulation came to its end" in error


def test_a_page_that_cannot_be_made_loses_no_job(tmp_path, monkeypatch):
    monkeypatch.setattr("folt.report.fleet_page.fleet_page", lambda *_: 1 / 0)
    with pytest.raises(IncompleteError, match=r"the jobs and their table are in .*ZeroDivision"):
        fit_many([Job("a", run=doubled, data=1)], tmp_path, runner=Here())
    assert (tmp_path / "table.csv").read_text().startswith("job")
