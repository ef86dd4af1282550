"""Fleets: jobs on a real cluster of two processes, what is kept, what goes wrong."""

import dataclasses
import functools
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fleet_jobs import (
    MADE,
    deadly,
    doubled,
    end_strangely,
    environment,
    make,
    marked,
    pair,
    shaky,
    slow,
    square,
    stop,
    total,
)
from folt.fleet import Here, Job, fit_many
from folt.fleet.on_dask import AtAddress, OnDask
from folt.fleet.processes import Processes
from folt.fleet.rows import frame
from folt.fleet.runners import Lost
from folt.fleet.schedule import Schedule
from folt.fleet.work import Ended, Fault, versions
from folt.proposals import Gaussian
from folt.reference import Exact
from folt.store import Entry

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runner():
    with Processes(2) as running:
        yield running


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found


def fit_options():
    return {
        "chains": 2,
        "draws": 40,
        "reference": Exact(2_000, 20),
        "flow": Gaussian(np.array([2.0, 0.5, 5.0, 0.8]), np.eye(4)),
    }


def read_row(path):
    return json.loads(path.read_text())["result"]


# On two processes.


def test_rows_come_back_in_order_from_two_processes(runner, tmp_path):
    table = fit_many([Job(f"n{i}", run=square, data=i) for i in range(60)], tmp_path, runner=runner)
    assert list(table["job"]) == [f"n{i}" for i in range(60)]
    assert list(table["square"]) == [i * i for i in range(60)]
    assert set(table["process"]) == {one.process.pid for one in runner._running}
    assert len(set(table["process"])) == 2
    assert table["error"].isna().all()
    assert read_row(tmp_path / "n7" / "row.json")["square"] == 49
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 61
    assert lines[0].startswith("job,error,verdict,square,process")
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        "table.csv",
        "index.html",
        "settings.json",
    }


def test_what_is_finished_is_not_done_again(runner, tmp_path):
    out, notes = tmp_path / "out", tmp_path / "notes"
    notes.mkdir()
    jobs = [Job(name, run=marked, data=str(notes / name)) for name in "abc"]
    first = fit_many(jobs[:2], out, runner=runner)
    again = fit_many(jobs, out, runner=runner)
    assert [len((notes / name).read_text()) for name in "abc"] == [1, 1, 1]
    assert list(again["seconds"])[:2] == list(first["seconds"])
    (out / "b" / "row.json").write_text("{")  # half a file, as no version of folt leaves it
    fit_many(jobs, out, runner=runner)
    assert [len((notes / name).read_text()) for name in "abc"] == [1, 2, 1]
    fit_many(jobs, out, runner=runner, resume=False)
    assert [len((notes / name).read_text()) for name in "abc"] == [2, 3, 2]


def test_a_job_that_raises_is_tried_again_then_written_down(runner, tmp_path):
    jobs = [
        Job("shaky", run=shaky, data=str(tmp_path / "shaky-flag")),
        Job("wrong", run=total, data="text"),
        Job("right", run=total, data=np.ones(3)),
    ]
    table = fit_many(jobs, tmp_path / "out", runner=runner).set_index("job")
    assert table["made"]["shaky"] == 2
    assert table["total"]["right"] == 3.0
    assert "TypeError" in table["error"]["wrong"] or "ufunc" in table["error"]["wrong"]
    assert table.attrs["failed"] == 1
    trace = (tmp_path / "out" / "wrong" / "error.txt").read_text()
    assert "in total" in trace
    (tmp_path / "shaky-flag").unlink()
    once = [dataclasses.replace(jobs[0], name="once")]
    table = fit_many(once, tmp_path / "other", runner=runner, retries=0)
    assert table["error"][0] == "RuntimeError: not yet and in two lines"
    # What failed is tried again by the next run, which finds nothing left of the failure.
    table = fit_many(once, tmp_path / "other", runner=runner, retries=0)
    assert table["error"][0] is None
    assert not (tmp_path / "other" / "once" / "error.txt").exists()


def test_a_job_that_ends_its_process_is_tried_again_then_written_down(runner, tmp_path):
    (tmp_path / "one").write_text("1")
    (tmp_path / "many").write_text("9")
    jobs = [Job(name, run=deadly, data=str(tmp_path / name)) for name in ("one", "many")]
    others = [Job(f"n{i}", run=square, data=i) for i in range(20)]
    table = fit_many([*others, *jobs], tmp_path / "out", runner=runner).set_index("job")
    assert table["made"]["one"] == 3
    assert "its worker died" in table["error"]["many"]
    assert (tmp_path / "many").read_text() == "7"  # the first time and one more
    assert table["error"].notna().sum() == 1
    assert read_row(tmp_path / "out" / "many" / "row.json")["fault"] == Fault.LOST


def test_a_job_that_takes_too_long_is_ended(runner, tmp_path):
    jobs = [Job("long", run=slow, data=60.0), Job("short", run=slow, data=0.01)]
    begun = time.monotonic()
    table = fit_many(jobs, tmp_path, runner=runner, timeout=5.0, retries=0).set_index("job")
    assert time.monotonic() - begun < 59
    assert table["error"]["long"] == "took longer than 5 s"
    assert table["slept"]["short"] == 0.01


def test_data_that_lie_on_the_workers_are_not_sent(client, runner, tmp_path):
    future = client.scatter(np.arange(4.0))
    jobs = [Job("far", run=total, data=future)]
    table = fit_many(jobs, tmp_path, client=client)
    assert table["total"][0] == 6.0
    assert fit_many(jobs, tmp_path, client=client)["seconds"][0] == table["seconds"][0]
    for other in (Here(), runner):
        with pytest.raises(ValueError, match="needs client="):
            fit_many(jobs, tmp_path, runner=other)


def test_jobs_on_a_cluster_fail_one_by_one_and_are_ended_in_time(client, tmp_path):
    jobs = [
        Job("long", run=slow, data=60.0),
        Job("short", run=slow, data=0.01),
        Job("odd", run=end_strangely, data="BaseException"),
    ]
    table = fit_many(jobs, tmp_path, client=client, timeout=3.0, retries=0).set_index("job")
    assert table["error"]["long"] == "took longer than 3 s"
    assert table["slept"]["short"] == 0.01
    assert "Strange" in table["error"]["odd"]


def test_workers_have_one_thread_and_import_only_what_they_need(runner, tmp_path):
    (values,) = fit_many([Job("a", run=environment)], tmp_path, runner=runner).to_dict("records")
    assert [values[name] for name in ("OMP_NUM_THREADS", "FOLT_THREADS")] == ["1", "1"]
    assert "--xla_cpu_multi_thread_eigen=false" in values["XLA_FLAGS"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import folt.fleet, sys; print('jax' in sys.modules, 'dask' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]


def test_workers_of_another_version_are_refused(tmp_path):
    theirs = {**versions(), "JAX": "0.1"}
    client = SimpleNamespace(
        submit=None,
        scheduler_info=None,
        wait_for_workers=lambda count, timeout: None,
        run=lambda function: {"tcp://far:1": theirs},
    )
    with pytest.raises(
        ValueError, match=r"the worker tcp://far:1 has JAX 0\.1 where the client has"
    ):
        fit_many([Job("a", run=square, data=1)], tmp_path / "out", client=client)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_workers_do_not_see_is_an_error_of_the_job(runner, tmp_path, monkeypatch):
    monkeypatch.setattr("folt.fleet.many.TOKEN", ".elsewhere")
    table = fit_many([Job("a", run=square, data=1)], tmp_path / "out", runner=runner)
    assert "a folder that the client and all workers share" in table["error"][0]


# In this process.


@pytest.fixture
def here():
    return Here()


def any_row():
    return ROW


JOB = Job("a", run=doubled, data=1)
ROW = {}

REFUSED = {
    "zero jobs": ([], "at least one job, got none"),
    "no job": ([3], "made by folt.fleet.Job, got int"),
    "two of one name": ([JOB, JOB], "a name of its own for every job, got 'a' twice"),
    "names that differ in case": ([JOB, Job("A", run=doubled)], "got 'A' twice"),
    "a path": ([Job("../a", run=doubled)], "names of folders .*, got '../a'"),
    "a hidden name": ([Job(".a", run=doubled)], "names of folders"),
    "a taken name": ([Job("table.csv", run=doubled)], "names of folders"),
    "no work": ([Job("a")], "expected build= or run=, one of them"),
    "twice the work": ([Job("a", run=doubled, build=pair)], "expected build= or run="),
    "options of a function": ([Job("a", run=doubled, options={"draws": 3})], "options goes with"),
    "no function": ([Job("a", run=3)], "expected run to be a function"),
    "no start": (
        [Job("a", build=pair, start="b")],
        "which is no fit of this fleet",
    ),
    "itself": ([Job("a", build=pair, start="a")], "starts from itself"),
    "a circle": (
        [Job("a", build=pair, start="b"), Job("b", build=pair, start="a")],
        "starts from itself",
    ),
    "a start in the options": ([Job("a", build=pair, options={"start": 1})], "as start="),
    "no file": ([Job("a", run=doubled, data=Path("nowhere.csv"))], "expected a file at nowhere"),
    "a thing": ([Job("a", run=doubled, data=object())], "got object, which another run could not"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_jobs_that_cannot_be_run_are_refused_and_nothing_is_written(case, tmp_path, here):
    jobs, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        fit_many(jobs, tmp_path / "out", runner=here)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "expected retries"),
        ({"timeout": 0}, "expected timeout"),
        ({"timeout": 3.0}, "a timeout needs workers"),
        ({"workers": 2}, "one of client=, workers= and runner="),
        ({"workers": 0, "runner": None}, "expected workers to be at least 1"),
        ({"client": "tcp://", "runner": None}, "expected a client of Dask, got str"),
    ],
)
def test_options_that_cannot_be_met_are_refused(options, message, tmp_path, here):
    with pytest.raises(ValueError, match=message):
        fit_many([JOB], tmp_path / "out", **{"runner": here, **options})
    assert not (tmp_path / "out").exists()


def test_what_cannot_travel_is_refused(tmp_path):
    import threading

    lock = threading.Lock()

    def held(x):
        return {"x": x, "lock": lock.locked()}

    job = Job("a", run=functools.partial(doubled), data=1)
    with pytest.raises(ValueError, match=r"job 'a', run: .*got lock"):
        fit_many([dataclasses.replace(job, run=held)], tmp_path / "out", workers=2)

    @dataclasses.dataclass
    class Kept:
        lock: object = dataclasses.field(default=None, repr=False)

        def __reduce__(self):
            raise TypeError("cannot pickle this")

    with pytest.raises(ValueError, match=r"job 'a' cannot be sent to a worker: .*cannot pickle"):
        fit_many([dataclasses.replace(job, data=Kept())], tmp_path / "out", workers=2)
    assert not (tmp_path / "out").exists()


def test_addresses_where_nobody_answers_are_refused(monkeypatch):
    monkeypatch.setattr("folt.fleet.on_dask.GREETING", 0.5)
    for address in ("tcp://127.0.0.1:9", "nonsense://x", "127.0.0.1"):
        with pytest.raises(ValueError, match="no Dask scheduler answers at"):
            AtAddress(address)
    with pytest.raises(ValueError, match="expected the address"):
        AtAddress(" ")
    with pytest.raises(ValueError, match="expected a client of Dask"):
        OnDask(3)


def test_settings_that_changed_are_said(tmp_path, here):
    fit_many([JOB], tmp_path, runner=here)
    before = (tmp_path / "a" / "row.json").read_bytes()
    with pytest.raises(ValueError, match=r"job 'a' was finished with data = 1, now it is 2: give"):
        fit_many([dataclasses.replace(JOB, data=2)], tmp_path, runner=here)
    other = dataclasses.replace(JOB, run=functools.partial(doubled))
    with pytest.raises(ValueError, match=r"was finished with run\.function = "):
        fit_many([other], tmp_path, runner=here)
    with pytest.raises(ValueError, match="holds another fleet, of 1 jobs such as 'a'"):
        fit_many([dataclasses.replace(JOB, name="b")], tmp_path, runner=here)
    assert (tmp_path / "a" / "row.json").read_bytes() == before
    assert not (tmp_path / "b").exists()
    table = fit_many([dataclasses.replace(JOB, data=2)], tmp_path, runner=here, resume=False)
    assert table["double"][0] == 4
    Entry(tmp_path / "settings.json").replace({"command": "sample"}, {})
    with pytest.raises(ValueError, match="holds a result of folt sample"):
        fit_many([JOB], tmp_path, runner=here)


def second(folder):
    with pytest.raises(ValueError, match="is being written by process"):
        fit_many([JOB], folder, runner=Here())
    return {"refused": True}


def test_a_second_writer_is_refused(tmp_path, here):
    table = fit_many([Job("outer", run=second, data=str(tmp_path))], tmp_path, runner=here)
    assert table["error"][0] is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (3, "expected a row as a dictionary, got int"),
        ({"job": 1}, "without 'job'"),
        ({"x": object()}, "a row of numbers and words"),
    ],
)
def test_rows_that_no_table_holds_are_errors(row, message, tmp_path, here, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROW", row)
    table = fit_many([Job("a", run=any_row)], tmp_path, runner=here, retries=0)
    assert message in table["error"][0]


def test_tables_have_every_column_and_no_missing_number_as_text(tmp_path, here):
    rows = [{"x": np.float64("nan"), "y": np.int64(3)}, {"z": [1, 2]}, {"word": 'a "b", c'}]
    jobs = [Job(f"j{i}", run=functools.partial(dict, row)) for i, row in enumerate(rows)]
    table = fit_many(jobs, tmp_path, runner=here)
    assert list(table.columns) == ["job", "error", "verdict", "x", "y", "z", "word", "seconds"]
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[1].startswith("j0,,,,3,")
    assert '"[1, 2]"' in lines[2]
    assert '"a ""b"", c"' in lines[3]
    assert frame([]).empty


def test_interruption_keeps_what_is_finished(tmp_path, here):
    MADE.clear()
    jobs = [Job(name, run=make, data=name) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        fit_many([jobs[0], Job("stop", run=stop), jobs[1]], tmp_path, runner=here)
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 2
    fit_many(jobs, tmp_path, runner=here)
    assert list(MADE) == ["a", "b"]


# The order of jobs.


def schedule_of(jobs, tmp_path, done=(), retries=1):
    return Schedule(jobs, {job.name: {"name": job.name} for job in jobs}, done, tmp_path, retries)


def test_short_jobs_are_sent_together_and_long_ones_alone(tmp_path):
    jobs = [Job(f"n{i}", run=square, data=i) for i in range(1000)]
    schedule = schedule_of(jobs, tmp_path)
    for _ in range(2):
        number, tickets = schedule.take(2, together=True)
        assert len(tickets) == 1
        schedule.ended(number, [Ended(tickets[0].job.name, {}, 0.005)])
    assert len(schedule.take(2, together=True)[1]) == 20
    assert len(schedule.take(2, together=False)[1]) == 1
    fits = schedule_of([Job(f"f{i}", build=pair) for i in range(9)], tmp_path)
    assert len(fits.take(2, together=True)[1]) == 1


def test_nobody_is_blamed_for_a_neighbour(tmp_path):
    jobs = [Job(f"n{i}", run=square, data=i) for i in range(100)]
    schedule = schedule_of(jobs, tmp_path, retries=0)
    for _ in range(2):
        number, tickets = schedule.take(1, together=True)
        schedule.ended(number, [Ended(tickets[0].job.name, {}, 0.001)])
    number, tickets = schedule.take(1, together=True)
    names = {ticket.job.name for ticket in tickets}
    assert len(names) > 10
    assert schedule.ended(number, Lost("gone")) == []
    again = set()
    while (call := schedule.take(1, together=True)) is not None:
        ours = {ticket.job.name for ticket in call[1]} & names
        assert len(call[1]) == 1 or not ours
        again |= ours
        lost = len(call[1]) == 1 and call[1][0].job.name in names
        ended = [Ended(ticket.job.name, {}, 0.001) for ticket in call[1]]
        final = schedule.ended(call[0], Lost("gone") if lost else ended)
        assert [one.fault for one in final] == ([Fault.LOST] if lost else [None] * len(final))
    assert again == names
    assert schedule.is_over


def test_those_that_start_from_another_wait_for_it(tmp_path):
    jobs = [Job("b", build=pair, start="a"), Job("a", build=pair), Job("c", build=pair, start="a")]
    schedule = schedule_of(jobs, tmp_path, retries=0)
    number, (ticket,) = schedule.take(4, together=True)
    assert (ticket.job.name, ticket.start) == ("a", None)
    assert schedule.take(4, together=True) is None
    schedule.ended(number, [Ended("a", None, 1.0, Fault.RAISED, "no")])
    taken = [schedule.take(4, together=True)[1][0] for _ in range(2)]
    assert [one.job.name for one in taken] == ["b", "c"]
    assert taken[0].start == str(tmp_path / "a" / "fit.nc")
    resumed = schedule_of(jobs, tmp_path, done=["a"])
    assert resumed.take(4, together=True)[1][0].job.name == "b"


def test_processes_that_died_while_idle_are_begun_anew(tmp_path):
    with Processes(1) as own:
        fit_many([JOB], tmp_path / "first", runner=own, progress=False)
        own._running[0].process.kill()
        own._running[0].process.join()
        jobs = [Job(f"n{i}", run=square, data=i) for i in range(2)]
        table = fit_many(jobs, tmp_path / "second", runner=own, progress=False, retries=0)
    assert list(table["square"]) == [0, 1]
