"""The store: the old result, the new one or none, one writer, and nothing left behind."""

import errno
import json
import os
import subprocess
import sys

import pytest

import folt.store.entry
from faults import killed_at_every_point
from folt.store import Entry, LockedError, Store, WriteError, WritingStep, fingerprint, watched
from folt.store.files import host_name, write_whole

OLD, NEW = {"seed": 0, "data": "abc"}, {"seed": 7, "data": "abc"}
FIRST = {"fit.nc": b"old" * 50, "old.png": b"picture"}
SECOND = {"fit.nc": b"new" * 60, "page.html": b"page"}


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def put(folder, request, files, result=None):
    with Store(folder) as store:
        store.entry().replace(request, files, result)


def test_a_result_is_found_by_its_request_alone(tmp_path):
    out = tmp_path / "out"
    put(out, OLD, FIRST, {"rows": [1.5, float("nan")]})
    entry = Entry(out / "settings.json")
    assert entry.intact(OLD) == set(FIRST)
    assert entry.intact(NEW) == frozenset()
    assert entry.result() == {"rows": [1.5, None]}
    assert entry.difference(NEW) == ("seed", 0, 7)
    assert entry.difference({**OLD, "more": 1}) == ("more", None, 1)
    assert set(written(out)) == {"settings.json", *FIRST}
    put(out, NEW, SECOND)
    assert set(written(out)) == {"settings.json", *SECOND}


def test_a_fingerprint_needs_no_order_and_sees_every_value():
    assert fingerprint({"a": 1, "b": (1, 2)}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})


@pytest.mark.parametrize("name", ["fit.nc", "old.png"])
def test_a_file_that_was_changed_is_not_served(tmp_path, name):
    put(tmp_path, OLD, FIRST)
    (tmp_path / name).write_bytes(b"something else")
    entry = Entry(tmp_path / "settings.json")
    assert entry.intact(OLD) == set(FIRST) - {name}
    assert entry.damaged() == (name,)


@pytest.mark.parametrize(
    "edit",
    [
        lambda tree: tree["request"].update(seed=7),
        lambda tree: tree.update(format=99),
        lambda tree: tree["files"].update({"../../elsewhere": "x"}),
        lambda tree: tree.pop("files"),
        lambda tree: tree.pop("digest"),
    ],
)
def test_an_edited_note_vouches_for_nothing(tmp_path, edit):
    put(tmp_path, OLD, FIRST)
    note = tmp_path / "settings.json"
    tree = json.loads(note.read_text())
    edit(tree)
    note.write_text(json.dumps(tree))
    entry = Entry(note)
    assert entry.read() is None
    assert not entry.intact(OLD)
    assert not entry.intact(NEW)


def readers_at_every_moment(out):
    """Kill a replacement at every moment; what a reader finds then, and what the next run finds."""
    moments = 0

    def prepare():
        for path in out.rglob("*") if out.exists() else ():
            if path.is_file():
                path.unlink()
        put(out, OLD, FIRST)

    for moment, where in killed_at_every_point(lambda: put(out, NEW, SECOND), prepare):
        moments += 1
        there = {name: data for name, data in written(out).items() if not name.startswith(".")}
        noted = there.pop("settings.json", None) is not None
        old = all(FIRST.get(name) == data for name, data in there.items())
        new = all(SECOND.get(name) == data for name, data in there.items())
        assert old or new, f"a mixture at moment {moment}, {where}"
        entry = Entry(out / "settings.json")
        served = [entry.intact(OLD) == set(FIRST), entry.intact(NEW) == set(SECOND)]
        assert any(served) == noted, (moment, where)
        with Store(out) as store:
            again = store.entry()
            finished = [again.intact(OLD) == set(FIRST), again.intact(NEW) == set(SECOND)]
        assert finished in ([True, False], [False, True]), f"lost at moment {moment}, {where}"
        assert not (served[1] and finished[0]), f"went back at moment {moment}, {where}"
        left = {path.name for path in out.iterdir()}
        assert left == {"settings.json", *(FIRST if finished[0] else SECOND)}
    return moments


def test_killed_at_every_point_there_is_the_old_result_the_new_or_none(tmp_path):
    assert readers_at_every_moment(tmp_path / "out") > 20  # two files, a note, and their moves


@pytest.mark.parametrize("spared", ["settings.json", "old.png"])
def test_a_replacement_that_spares_the_old_note_or_files_is_caught(tmp_path, monkeypatch, spared):
    remove = folt.store.entry.remove

    def sparing(path):
        if not (path.parent.name == "out" and path.name == spared):
            remove(path)

    monkeypatch.setattr(folt.store.entry, "remove", sparing)
    with pytest.raises(AssertionError):
        readers_at_every_moment(tmp_path / "out")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_result_and_says_how_much_is_missing(tmp_path, number):
    put(tmp_path, OLD, FIRST)
    before = written(tmp_path)

    def full(step, path):
        if step is WritingStep.WRITE and path.parent != tmp_path:
            raise OSError(number, os.strerror(number))

    with pytest.raises(WriteError, match=r"cannot write .*fit.nc: no space left, 0.2 kB needed"):  # noqa: SIM117
        with watched(full):
            put(tmp_path, NEW, SECOND)
    assert written(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == set(before)


def test_a_folder_that_vanishes_is_a_sentence(tmp_path):
    with pytest.raises(WriteError, match="not there"):
        write_whole(tmp_path / "gone" / "fit.nc", b"x")
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="got a file in its path"):
        Store(tmp_path / "file" / "out").__enter__()


def test_a_second_writer_is_refused_and_a_later_one_is_not(tmp_path):
    out = tmp_path / "out"
    with (
        Store(out),
        pytest.raises(LockedError, match=f"written by process {os.getpid()} on "),
        Store(out),
    ):
        pass
    assert not out.exists()
    put(out, OLD, FIRST)
    assert ".folt.lock" not in written(out)


WRITER = """
import sys, time
from pathlib import Path
from folt.store import LockedError, Store
try:
    with Store(Path(sys.argv[1])) as store:
        time.sleep(0.3)
        store.entry().replace({"who": sys.argv[2]}, {"a": sys.argv[2].encode() * 1000})
    print("wrote")
except LockedError as error:
    print("refused" if "is being written by process" in str(error) else error)
"""


def test_of_two_processes_one_writes_and_one_says_so(tmp_path):
    out = tmp_path / "out"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(out), who], stdout=subprocess.PIPE, text=True
        )
        for who in "ab"
    ]
    said = [process.communicate(timeout=60)[0].strip() for process in started]
    assert sorted(said) == ["refused", "wrote"]
    winner = "ab"[said.index("wrote")]
    assert Entry(out / "settings.json").intact({"who": winner}) == {"a"}


def test_what_dead_writers_left_goes_and_what_living_ones_write_stays(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    stale = tmp_path / f".folt-{host_name()}.{dead.pid}.3.tmp"
    alive = tmp_path / f".folt-{host_name()}.{os.getppid()}.3.tmp"
    distant = tmp_path / ".folt-elsewhere.17.3.tmp"
    foreign = tmp_path / ".folt-notes.tmp"
    for path in (stale, alive, distant, foreign):
        path.write_text("")
    with Store(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, distant.name, foreign.name}
    os.utime(distant, (0, 0))
    with Store(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, foreign.name}
