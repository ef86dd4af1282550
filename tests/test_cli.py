"""The command line: exit codes, one line for bad input, nothing left behind."""

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

import folt
from folt.cli import run
from folt.commands.user_code import problem_at
from folt.flows import Gaussian
from folt.models import gaussian_pair

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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model in it, and a cache of its own."""
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere, so the command leaves it alone")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    yield tmp_path
    sys.modules.pop("model", None)


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
        (["nonsense"], "demo, mixture, modal, relabel, report, reproduce, sample"),
        (["demo", "--nope"], "--out | --seed | --quiet"),
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
    captured = capsys.readouterr()
    assert captured.out.startswith("✓ The fit can be trusted")
    assert "\x1b" not in captured.out
    assert captured.err == ""
    assert run(["report", "fit.nc", "--out", "new/page.html", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "new/page.html").read_text() == (folder / "fit.html").read_text()
    assert left(folder) == {"fit.nc", "fit.html", "new"}


def test_sample_passes_its_options_on_and_writes_fit_and_report(
    fit: folt.Fit,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard = {}

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
        "preset": "paper",
        "progress": False,
    }
    assert left(folder / "results") == {"fit.nc", "report.html"}
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
    monkeypatch.setattr("folt.demo.sample", interrupt)
    assert run(arguments) == 130
    assert "interrupted" in one_line(capsys.readouterr())
    assert left(folder) == set()


def test_a_fault_shows_where_it_happened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault within")

    monkeypatch.setattr("folt.demo.sample", fault)
    assert run(["demo", "--out", "results"]) == 1
    assert "RuntimeError: a fault within" in capsys.readouterr().err
    assert left(folder) == set()
