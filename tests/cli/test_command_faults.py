"""Faults and bad input told apart; hostile files refused in a line; nothing lost to links."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray

from folt.cli import run
from folt.store import private

ROOT = Path(__file__).parents[2]

MODEL = """
import sys
import jax.numpy as jnp
import folt
print("a model that prints")

class Strange(BaseException):
    pass

class MuteError(Exception):
    def __str__(self):
        raise RuntimeError

def even(x):
    print("a density that prints")
    return -0.5 * jnp.sum(x**2)

def ends(x):
    sys.exit(0)

problem = folt.Problem(even, folt.groups.Reflection(2, (0,)), names=("a", "b"))
leaves = folt.Problem(ends, folt.groups.Reflection(2, (0,)))

def leave():
    sys.exit(0)

def strange():
    raise Strange("odd")

def mute():
    raise MuteError

def jobs():
    yield 1 / 0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("model", None)


def left(folder):
    return {path.name for path in folder.iterdir()} - {"__pycache__", "model.py", "cache"}


def refused(arguments, capsys):
    """Run a command that is refused; the line it is refused in."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(arguments) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "that prints" not in one]
    return line


# Faults of folt, and those of a model.


def bad_zip(*_, **__):
    return list(zip([1], [], strict=True))


def bad_shape(*_, **__):
    return np.zeros(3).reshape(2, 2)


@pytest.mark.parametrize("fault", [bad_zip, bad_shape, lambda *_, **__: int("x")])
def test_an_error_that_folt_did_not_mean_is_no_bad_input(fault, folder, monkeypatch, capsys):
    monkeypatch.setattr("folt.cli.demonstration.sample", fault)
    assert run(["demo", "--quiet"]) == 1
    error = capsys.readouterr().err
    assert "please report" in error
    assert "ValueError" in error


@pytest.mark.parametrize(
    ("place", "words"),
    [("leave", "SystemExit: 0"), ("strange", "Strange: odd"), ("mute", "MuteError")],
)
def test_whatever_a_users_file_raises_is_bad_input(place, words, folder, capsys):
    assert words in refused(["sample", f"model.py:{place}"], capsys)
    assert left(folder) == set()


def test_a_file_that_ends_the_process_is_bad_input(folder, capsys):
    Path("model.py").write_text("import sys\nsys.exit(0)\n")
    assert "line 2: SystemExit: 0" in refused(["sample", "model.py:problem"], capsys)


def test_a_generator_of_jobs_that_fails_is_bad_input(folder, capsys):
    assert "ZeroDivisionError" in refused(["fleet", "model.py:jobs"], capsys)


def test_a_density_that_ends_the_process_is_a_fault(folder, capsys):
    assert run(["sample", "model.py:leaves", "--quiet"]) == 1
    assert "SystemExit: 0" in capsys.readouterr().err
    assert left(folder) == set()


def test_a_model_that_prints_does_not_disturb_the_document(folder, monkeypatch, capsys):
    monkeypatch.setattr("folt.report.saving.page", lambda fit: "a page")
    words = ["sample", "model.py:problem", "--json", "--quiet", "--effort", "quick"]
    assert run([*words, "--draws", "50"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["command"] == "sample"
    assert "a model that prints" in captured.err
    assert "a density that prints" in captured.err


# Where tracebacks go.


def test_tracebacks_never_follow_a_link_and_only_they_are_removed(folder, monkeypatch, capsys):
    mine = folder / "mine"
    mine.mkdir()
    (folder / "cache/folt").mkdir(parents=True)
    for n in range(30):
        (mine / f"{n}.txt").write_text("a user's")
    (folder / "cache/folt/faults").symlink_to(mine)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    (folder / "temporary").mkdir()
    monkeypatch.setattr("folt.cli.demonstration.sample", bad_zip)
    assert run(["demo", "--quiet"]) == 1
    assert len(list(mine.iterdir())) == 30
    (kept,) = (folder / "temporary").rglob("folt-fault-*.txt")
    assert str(kept) in capsys.readouterr().err
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    (folder / "cache/folt/faults").unlink()
    (folder / "cache/folt/faults").mkdir(mode=0o700)
    (folder / "cache/folt/faults/own.txt").write_text("not a traceback of folt")
    for _ in range(8):
        assert run(["demo", "--quiet"]) == 1
    names = {path.name for path in (folder / "cache/folt/faults").iterdir()}
    assert "own.txt" in names
    assert len(names) == 6


def test_a_user_without_a_name_or_home_has_a_traceback_too(folder, monkeypatch, capsys):
    def nobody(*_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", nobody)
    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr("folt.cli.demonstration.sample", bad_zip)
    monkeypatch.setattr(private, "caches_can_be_written", lambda: True)
    assert run(["demo", "--quiet"]) == 1
    assert len(list(folder.rglob("folt-fault-*.txt"))) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_folders_that_others_can_write_are_not_private(mode, tmp_path):
    assert private.private_folder(tmp_path / "own") == tmp_path / "own"
    (tmp_path / "own").chmod(mode)
    assert private.private_folder(tmp_path / "own") is None
    (tmp_path / "own").chmod(0o700)
    tmp_path.chmod(0o777)
    assert private.private_folder(tmp_path / "own") is None
    tmp_path.chmod(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert private.private_folder(tmp_path / "link") is None


def test_folders_of_somebody_else_are_not_private(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000)
    assert private.private_folder(tmp_path / "own") is None


# Homes that cannot be written.


def test_a_home_that_cannot_be_written_is_gone_without_in_a_line(tmp_path):
    (tmp_path / "home").write_text("a file")
    environment = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    program = (
        "from folt.cli import run; from folt.store.private import imported_arviz as a;"
        "code = run(['report', 'x.nc']); a(); print(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "2\n")
    first, second = done.stderr.splitlines()
    assert first == "folt: the user's cache cannot be written: going without"
    assert "x.nc" in second


# Words of the command line.


@pytest.mark.parametrize("name", ["demo", "sample", "mixture", "modal", "fleet", "calibrate"])
@pytest.mark.parametrize("word", ["", " "])
def test_an_empty_folder_is_not_the_current_one(name, word, folder, capsys):
    words = {"demo": [], "mixture": ["x.csv", "--components", "2"], "modal": ["x.csv"]}
    arguments = [name, *words.get(name, ["model.py:problem"]), "--out", word]
    assert "--out" in refused(arguments, capsys)
    assert left(folder) == set()


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300"])
def test_a_time_that_never_ends_is_refused(seconds, folder, capsys):
    Path("jobs.py").write_text("from folt.fleet import Job\njobs = [Job('a', run=dict)]\n")
    line = refused(["fleet", "jobs.py:jobs", "--timeout", seconds, "--out", "out"], capsys)
    assert "expected timeout" in line or "--timeout" in line
    assert left(folder) == {"jobs.py"}


def test_python_runs_the_package():
    done = subprocess.run(
        [sys.executable, "-m", "folt", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("folt ")


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.5])
def test_an_early_interruption_is_one_line(seconds, folder):
    Path("data.csv").write_text("\n".join(map(str, range(40))))
    begun = "import sys; sys.argv[0] = 'folt'; from folt.__main__ import main; print(flush=True);"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{begun} main()", "mixture", "data.csv", "--components", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that runs in the background hands down that Ctrl-C is not listened to.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    process.stdout.readline()
    time.sleep(0.05 + seconds)  # Python itself is up, and has reached the command
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "folt: interrupted, nothing was left half-written\n"
    assert left(folder) == {"data.csv"}


# Hostile tables and draws.


def one_column(path):
    path.write_text("\n".join(map(repr, [1e308, -1e308, *range(20)])))


def two_columns(path):
    path.write_text("\n".join(f"{x!r},{x * x!r}" for x in [1e308, -1e308, 1.0, 2.0, 5.0] * 4))
    path.write_text(path.read_text().replace("inf", "1e308"))


@pytest.mark.parametrize("make", [one_column, two_columns])
def test_numbers_at_the_end_of_double_precision_are_refused_in_a_sentence(make, folder, capsys):
    make(Path("x.csv"))
    line = refused(["mixture", "x.csv", "--components", "2"], capsys)
    assert "in other units" in line


HUGE = "9" * 5000
"""More digits than Python reads."""

RECORD = ["--rate", "9", "--band", "1", "2"]

HOSTILE = {
    "components that are no digits": ["mixture", "x.csv", "--components", "²"],
    "huge components": ["mixture", "x.csv", "--components", HUGE],
    "a column that is no digit": ["mixture", "x.csv", "--components", "2", "--columns", "²"],
    "a huge column": ["mixture", "x.csv", "--components", "2", "--columns", HUGE],
    "huge counts": ["mixture", "x.csv", "--components", "2", "--columns", "2", "--counts"],
    "huge modes": ["modal", "--psd", "x.csv", "--modes", HUGE],
    "an endless segment": [
        *["modal", "x.csv", "--rate", "9", "--band", "1", "2", "--segment"],
        "9" * 400,
    ],
    "a folder with a nul": ["demo", "--out", "a\0b"],
    "a folder of a long name": ["demo", "--out", "a" * 300],
    "a link to nowhere": ["demo", "--out", "dangling"],
    "a link to itself": ["mixture", "loop.csv", "--components", "2"],
    "a name with half a character": ["mixture", "\udcff.csv", "--components", "2"],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_words_are_refused_in_a_line(case, folder, capsys):
    Path("x.csv").write_text("\n".join(f"{x},{10**x}" for x in [1, 2, 300, 5, 6, 7, 8]))
    Path("dangling").symlink_to("/nowhere/at/all")
    Path("loop.csv").symlink_to("loop.csv")
    assert refused(HOSTILE[case], capsys).startswith("folt: ")
    assert left(folder) == {"x.csv", "dangling", "loop.csv"}


@pytest.mark.parametrize("words", [["sample", "shut/model.py:p"], ["report", "shut/fit.nc"]])
def test_a_file_that_cannot_be_seen_is_not_there(words, folder, monkeypatch, capsys):
    stat = os.stat

    def shut(path, *rest, **more):
        if str(path).startswith("shut"):  # a folder without permission, which root does not meet
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, *rest, **more)

    monkeypatch.setattr("os.stat", shut)
    assert "found nothing at shut" in refused(words, capsys)


def test_a_full_disk_is_a_failure_in_a_line(folder, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("folt.cli.demonstration.sample", full)
    assert run(["demo", "--quiet"]) == 1
    assert capsys.readouterr().err == "folt: [Errno 28] No space left on device\n"


def test_a_pipe_is_not_waited_for(folder, capsys):
    os.mkfifo("x.csv")
    assert "a pipe or a device" in refused(["mixture", "x.csv", "--components", "2"], capsys)
    os.mkfifo("x.npy")
    words = ["modal", "x.npy", "--rate", "1", "--band", "1", "2"]
    assert "a pipe or a device" in refused(words, capsys)
    Path("jobs.py").write_text(
        "from pathlib import Path\nfrom folt.fleet import Job\n"
        "jobs = [Job('a', run=dict, data=Path('x.csv'))]\n"
    )
    assert "a pipe or a device" in refused(["fleet", "jobs.py:jobs"], capsys)


def posterior(path, draws=20, value=0.0):
    """Draws of the problem in the model as ArviZ writes them."""
    data = np.random.default_rng(0).normal(size=(4, draws)) + value
    dataset = xarray.Dataset({name: (["chain", "draw"], data) for name in ("a", "b")})
    dataset.to_netcdf(path, group="posterior", engine="h5netcdf")


def no_draws(path):
    posterior(path, draws=0)


def flipped(path):
    posterior(path)
    data = bytearray(path.read_bytes())
    for place in range(200, len(data), 97):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))


def loop(path):
    with h5py.File(path, "w") as file:
        file["posterior"] = h5py.SoftLink("/posterior")


def loop_within(path):
    posterior(path)
    with h5py.File(path, "a") as file:
        file["posterior/again"] = file["posterior"]
        file["posterior/c"] = h5py.SoftLink("/posterior/c")


def plain_hdf5(path):
    with h5py.File(path, "w") as file:
        file["posterior/a"] = np.zeros((4, 20))


def not_numbers(path):
    posterior(path, value=np.nan)


FILES = {
    no_draws: "draws",
    flipped: "netCDF",
    loop: "netCDF",
    loop_within: "that can be read",
    plain_hdf5: "chain",
    not_numbers: "NaN or infinite",
}


@pytest.mark.parametrize("make", FILES)
@pytest.mark.parametrize("command", ["certify", "relabel"])
def test_draws_that_cannot_be_used_are_refused_in_a_line(command, make, folder, capsys):
    make(Path("x.nc"))
    words = {"certify": ["model.py:problem"], "relabel": ["--vars", "a,b"]}[command]
    line = refused([command, "x.nc", *words], capsys)
    if command == "certify":
        assert FILES[make] in line
        assert "double precision" not in line
    assert left(folder) == {"x.nc"}
