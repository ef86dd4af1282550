"""The command line: exit codes, one line for bad input, nothing left behind."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import typer

import folt
import folt.cli.demonstration
from folt.cli import app, run
from folt.cli.mixture_data import read_observations
from folt.cli.user_code import problem_at
from folt.fit.text import entries
from folt.models import gaussian_pair
from folt.proposals import Gaussian
from folt.store.strict_json import plain

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]

MODEL = """
import jax.numpy as jnp
import folt

size = jnp.asarray(1.0)

def even(x):
    return -0.5 * jnp.sum(x**2)

def lopsided(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2)

problem = folt.Problem(even, folt.groups.Reflection(2, (0,)))
wrong = folt.Problem(lopsided, folt.groups.Reflection(2, (0,)))

def make():
    return problem

def fails():
    raise RuntimeError("no data")

number = 3
"""


@pytest.fixture(scope="module")
def fit() -> folt.Fit:
    flow = Gaussian(jnp.array([3.0, 0.0]), jnp.eye(2))
    return folt.sample(gaussian_pair(2), flow=flow, draws=500, progress=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a model in it, and a cache of its own."""
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere, so the command leaves it alone")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    yield tmp_path
    sys.modules.pop("model", None)


@pytest.fixture
def plain_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a word: drawing one takes seconds, and the room of reports tests them."""
    monkeypatch.setattr("folt.report.page.page", lambda fit, sections=(): "a page")
    monkeypatch.setattr("folt.report.saving.page", lambda fit: "a page")


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"__pycache__", "model.py"}


def one_line(captured: "pytest.CaptureResult[str]") -> str:
    assert captured.out == ""
    assert captured.err.startswith("folt: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_the_installed_command_answers() -> None:
    command = [sys.executable, "-c", "from folt.cli import main; main()", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"folt {folt.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], [], ["demo", "--help"], ["sample", "--help"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out.startswith("Usage: folt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "--nope"),
        (["nonsense"], "demo, fleet, mixture, modal, relabel, report, reproduce, sample"),
        (["demo", "--nope"], "--out | --seed | --effort | --json | --quiet"),
        (["demo", "--seed", "x"], "--seed"),
        (["demo", "--out", "model.py"], "expected a folder"),
        (["report"], "folt report FIT.nc"),
        (["report", "missing.nc"], "found nothing at missing.nc"),
        (["report", "model.py"], "not a fit file"),
        (["sample", "model.py"], "expected FILE.py:NAME or MODULE:NAME"),
        (["sample", "missing.py:problem"], "found nothing at missing.py"),
        (["sample", "no_such_module:problem"], "no_such_module"),
        (["sample", "model.py:other"], "it has problem, wrong"),
        (["sample", "model.py:number"], "got int"),
        (["sample", "model.py:fails"], "line 20: RuntimeError: no data"),
        (["sample", "model.py:problem", "--draws", "0"], "--draws"),
        (["sample", "model.py:problem", "--labels", "odd"], "--labels"),
        (["sample", "model.py:wrong", "--out", "deep/results"], "changes by"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert message in one_line(capsys.readouterr())
    assert left(folder) == set()


def test_broken_symmetry_names_the_element(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sample", "model.py:wrong"]) == 2
    element = folt.check(problem_at("model.py:wrong")).element
    assert f"'{element}'" in one_line(capsys.readouterr())


@pytest.mark.parametrize("place", ["model.py:problem", "model.py:make", "model:make"])
def test_a_problem_is_found_by_file_and_by_module(place: str, folder: Path) -> None:
    found = problem_at(place)
    assert isinstance(found, folt.Problem)
    assert found.dim == 2


def test_a_model_is_imported_in_double_precision(folder: Path) -> None:
    problem_at("model.py:problem")
    assert sys.modules["model"].size.dtype == jnp.float64


def test_report_of_a_saved_fit(
    fit: folt.Fit, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit.save(folder / "fit.nc")
    assert run(["report", "fit.nc"]) == 0
    page = (folder / "fit.html").read_text()
    assert "The fit can be trusted" in page
    assert page.rstrip().endswith("</html>")
    captured = capsys.readouterr()
    assert captured.out.startswith("✓ The fit can be trusted")
    assert "\x1b" not in captured.out
    assert captured.err == ""


def test_a_page_goes_where_it_is_asked_to(
    fit: folt.Fit, folder: Path, plain_pages: None, capsys: pytest.CaptureFixture[str]
) -> None:
    fit.save(folder / "fit.nc")
    assert run(["report", "fit.nc", "--out", "new/page.html", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "new/page.html").read_text() == "a page"
    assert run(["report", "fit.nc", "--out", "other", "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == [str(Path("other/report.html"))]
    assert told["verdict"]["name"] == fit.certificate.status.name
    assert left(folder) == {"fit.nc", "new", "other"}


def test_sample_passes_its_options_on_and_writes_fit_and_report(
    fit: folt.Fit,
    folder: Path,
    plain_pages: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard: dict[str, object] = {}

    def record(problem: folt.Problem, **options: object) -> folt.Fit:
        heard.update(options, dim=problem.dim)
        return fit

    monkeypatch.setattr("folt.sampling.sample", record)
    options = "--seed 3 --chains 2 --draws 50 --labels proposal --preset paper --out results"
    assert run(["sample", "model.py:make", *options.split(), "--quiet"]) == 0
    assert heard == {
        "dim": 2,
        "seed": 3,
        "chains": 2,
        "draws": 50,
        "labels": "proposal",
        "effort": None,
        "preset": "paper",
        "evaluations": None,
        "progress": False,
    }
    assert left(folder / "results") == {"fit.nc", "report.html", "settings.json"}
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize(
    "arguments", [["sample", "model.py:problem", "--out", "a/b"], ["demo", "--quiet"]]
)
def test_interruption_leaves_nothing(
    arguments: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("folt.sampling.sample", interrupt)
    monkeypatch.setattr("folt.cli.demonstration.sample", interrupt)
    assert run(arguments) == 130
    assert "interrupted" in one_line(capsys.readouterr())
    assert left(folder) == set()


def test_a_fault_is_two_lines_and_keeps_its_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault within")

    monkeypatch.setattr("folt.cli.demonstration.sample", fault)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert run(["demo", "--quiet", "--out", "results"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 2
    assert "RuntimeError: a fault within" in error
    (kept,) = (folder / "cache").rglob("*.txt")
    assert str(kept) in error
    assert "Traceback" not in error
    assert "Traceback" in kept.read_text()
    assert left(folder) == {"cache"}


def test_only_the_last_few_tracebacks_are_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("folt.cli.demonstration.sample", lambda *_, **__: 1 / 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    for _ in range(8):
        assert run(["demo", "--quiet", "--out", "results"]) == 1
    kept = sorted(str(path) for path in (folder / "cache").rglob("*.txt"))
    assert len(kept) == 5
    assert capsys.readouterr().err.splitlines()[-1].split()[5].rstrip(";") in kept


@pytest.mark.parametrize(
    "arguments",
    [["--debug", "report", "missing.nc"], ["report", "missing.nc", "--debug"], ["--debug", "--no"]],
)
def test_debug_shows_the_traceback_of_a_refusal(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.splitlines()[-1].startswith("folt: ")


def test_quick_is_the_quick_effort_of_every_command_that_fits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def fitted(*words: Any) -> None:
        asked.append(words[-1])
        raise ValueError("enough")

    monkeypatch.setattr("folt.cli.demonstration.run_in", fitted)
    run(["demo", "--quick", "--quiet", "--out", "results"])
    assert asked == ["quick"]
    capsys.readouterr()
    assert run(["report", "--", "--quick"]) == 2
    assert "found nothing at --quick" in one_line(capsys.readouterr())


def test_debug_from_the_environment_and_not_after_a_double_dash(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "--", "--debug"]) == 2
    assert "found nothing at --debug" in one_line(capsys.readouterr())
    monkeypatch.setenv("FOLT_DEBUG", "1")
    assert run(["report", "missing.nc"]) == 2
    assert capsys.readouterr().err.startswith("Traceback")


def test_help_fits_a_screen_with_a_whole_line_per_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23  # and the prompt
    assert max(map(len, lines)) <= 80
    for name in COMMANDS:
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith(".")
    assert "\x1b" not in "".join(lines)


def examples(name: str) -> list[str]:
    return (COMMANDS[name].epilog or "").splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_printed_as_they_stand(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert run([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("\n".join(["Examples:", *(f"  {line}" for line in examples(name))]) + "\n")


@pytest.mark.parametrize("line", [line for name in COMMANDS for line in examples(name)])
def test_every_example_parses(line: str) -> None:
    program, name, *words = shlex.split(line.split(" > ")[0])
    assert program == "folt"
    command = COMMANDS[name]
    context = command.make_context(name, words)
    assert context.args == []


def test_completion_knows_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'folt'; import folt.cli as c; c.main()",
    ]
    words = {"_FOLT_COMPLETE": "complete_bash", "COMP_WORDS": "folt re", "COMP_CWORD": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **words}
    )
    assert done.stdout.split() == ["report", "relabel", "reproduce"]


@pytest.mark.parametrize("name", ["sample", "demo"])
def test_json_is_one_strict_document(
    name: str,
    fit: folt.Fit,
    folder: Path,
    plain_pages: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = folder / "fit.nc"
    monkeypatch.setattr("folt.sampling.sample", lambda *_, **__: fit)
    monkeypatch.setattr("folt.cli.demonstration.run_in", lambda *_, **__: (fit, [place]))
    monkeypatch.setattr("folt.cli.demonstration.write_model", lambda out: [])
    words = {"sample": ["sample", "model.py:problem"], "demo": ["demo"]}[name]
    assert run([*words, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    told = strict(captured.out)
    assert (told["command"], told["version"]) == (name, folt.__version__)
    assert all(Path(path).name in ("fit.nc", "report.html") for path in told["files"])
    assert told["verdict"]["name"] == fit.certificate.status.name
    assert told["verdict"]["advice"] == fit.certificate.status.advice
    assert told["log_evidence"]["value"] == fit.log_evidence.value
    assert told["certificate"]["accept"] == fit.accept_rate
    gamma = fit.certificate.qc["target"][0.05].gamma
    assert told["certificate"]["qc"]["target"]["0.05"]["gamma"] == gamma
    assert told["wall_s"] == fit.wall
    first = told["estimates"][0]
    assert set(first) == {"name", "mean", "sd", "low", "high", "ess", "rhat"}
    assert first["mean"] == pytest.approx(float(entries(fit.posterior)[first["name"]].mean()))


def strict(text: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_is_not_finite_becomes_null() -> None:
    assert plain({0.05: [float("inf"), float("nan"), 1.5], "a": (2, None, "x")}) == {
        "0.05": [None, None, 1.5],
        "a": [2, None, "x"],
    }


DEAF = """
import ctypes, os, signal, threading
from pathlib import Path
from folt.cli import faults
from folt.store import Store

# Where the tests run in the background the signal is ignored, and so it would be here.
signal.signal(signal.SIGINT, signal.default_int_handler)
faults.PATIENCE = 0.2
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
with faults.prompt_interruption(), Store(Path("deep/results")):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
"""
"""Compiled code that lets other threads run but, unlike Python, never hears a signal."""


CUT_SHORT = [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")]


@pytest.mark.skipif(sys.platform != "linux", reason="locks a mutex of the C library of Linux")
@pytest.mark.parametrize(("name", "code", "word"), CUT_SHORT)
def test_signals_are_answered_while_compiled_code_runs(
    name: str, code: int, word: str, folder: Path
) -> None:
    program = DEAF.replace("(os.getpid(), signal.SIGINT)", f"(os.getpid(), signal.{name})")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"folt: {word}, nothing was left half-written\n"
    assert left(folder) == set()


TERMINATED = """
import os, signal, sys, time
import folt.cli, folt.cli.demonstration

def sample(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)

folt.cli.demonstration.sample = sample
sys.argv = ["folt", "demo", "--out", "deep/results", "--quiet"]
folt.cli.main()
"""


def test_termination_ends_a_command_as_ctrl_c_does(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr == "folt: terminated, nothing was left half-written\n"
    assert not (folder / "deep").exists()


def test_the_demo_leaves_data_and_a_model_that_work(folder: Path) -> None:
    data, _ = folt.cli.demonstration.write_model(folder)  # over the model of the other tests
    found = problem_at("model.py:problem")
    assert folt.check(found).holds
    assert found.dim == 6
    values = read_observations(data, "y")[0].values
    np.testing.assert_array_equal(values[:, 0], found.data)
