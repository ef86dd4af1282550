"""Every command that writes, killed at every moment at which it changes the disk.

A reader finds the old result, the new one or none; the next run finishes and leaves nothing else.
"""

import errno
import shutil
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import folt
import folt.cli.demonstration
import folt.report.saving
import folt.sampling
from faults import killed_at_every_point
from folt.cli import app, run
from folt.fit.memberships import Memberships
from folt.fit.section import Section
from folt.fleet import Here, fit_many
from folt.fleet import Job as FleetJob
from folt.models import label_switching
from folt.paper.document import read_document
from folt.paper.rows import ReproductionSettings, TableJob, row
from folt.paper.runner import reproduce
from folt.paper.tables import Experiment
from folt.proposals import Gaussian
from folt.reference import Exact
from folt.store import Entry, WritingStep, watched

pytestmark = pytest.mark.extended

MODEL = """
import folt
problem = folt.models.label_switching(2, 2)
"""


@pytest.fixture(scope="module")
def fits():
    """Fits by seed, made once; the problem is left out so that nothing is compiled again."""
    made = {}
    for seed in (0, 7):
        made[seed] = folt.sample(
            label_switching(2, 2),
            seed=seed,
            chains=2,
            draws=40,
            reference=Exact(2_000, 20),
            flow=Gaussian(jnp.array([2.0, 0.5, 5.0, 0.8]), jnp.eye(4)),
            progress=False,
        )
    return made


@pytest.fixture
def place(fits, tmp_path, monkeypatch):
    """Commands that cost nothing: fits at hand, pages and pictures of a few bytes."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    Path("data.csv").write_text("x\n" + "\n".join(map(str, range(12))) + "\n")
    rows = [f"{0.7 + 0.005 * k},{1 + k % 7}" for k in range(60)]
    Path("psd.csv").write_text("frequency_hz,psd\n" + "\n".join(rows) + "\n")
    mu = np.random.default_rng(0).normal(size=(2, 50, 2))
    data = xarray.Dataset({"mu": (["chain", "draw", "k"], mu)})
    data.to_netcdf("posterior.nc", group="posterior", engine="h5netcdf")
    for module in ("folt.sampling", "folt.cli.demonstration"):
        monkeypatch.setattr(f"{module}.sample", lambda problem, *, seed, **_: fits[seed])
    monkeypatch.setattr("folt.sampling.certify", lambda *_, seed, **__: fits[seed])
    monkeypatch.setattr("folt.modal.identification.fitted", lambda *a: fits[a[2].seed])
    monkeypatch.setattr(
        "folt.modal.results.contents", lambda found, *_: folt.report.saving.files_of(found.fit)
    )
    sure = np.ones((12, 1))
    known = Memberships(sure, sure, sure, ("1",))
    monkeypatch.setattr("folt.fit.memberships.memberships", lambda fit: known)
    monkeypatch.setattr("folt.report.saving.page", lambda fit: f"page of {fit.provenance['seed']}")
    monkeypatch.setattr("folt.report.page.page", lambda fit, _=(): "page")
    monkeypatch.setattr("folt.cli.demonstration.draw", lambda fit, seed: {"data": None})
    monkeypatch.setattr("folt.report.style.png", lambda figure: b"\x89PNG")
    monkeypatch.setattr(Section, "drawing", lambda self, name: "<svg/>")
    monkeypatch.setattr(
        "folt.report.sections.model_sections", lambda *_: (Section("Data", "Observed.", None),)
    )
    monkeypatch.setattr("folt.report.mixtures.weighted_mixture_figure", lambda *_: None)
    for figure in ("evidence_figure", "sizes_figure"):
        monkeypatch.setattr(f"folt.report.mixtures.{figure}", lambda *_: None)
    monkeypatch.setattr("folt.report.traces.relabelled_figure", lambda *_: None)
    # A fit as its number: writing and reading it whole is tested elsewhere.
    for module in ("folt.report.saving", "folt.fit.file"):
        monkeypatch.setattr(f"{module}.to_bytes", lambda fit: str(fit.provenance).encode())
    monkeypatch.setattr("folt.report.saving.load", lambda path, problem: fit_in(path, fits))
    monkeypatch.setattr("folt.fit.file.load", lambda path: fit_in(path, fits))
    return tmp_path


def fit_in(path, fits):
    text = path.read_text()
    return next(fit for seed, fit in fits.items() if f"'seed': {seed}" in text)


COMMANDS = {
    "sample": ["sample", "model.py:problem"],
    "demo": ["demo"],
    "mixture": ["mixture", "data.csv", "--components", "2"],
    "compare": ["mixture", "data.csv", "--components", "1:2"],
    "relabel": ["relabel", "posterior.nc", "--vars", "mu"],
    "certify": ["certify", "posterior.nc", "model.py:problem"],
    "modal": ["modal", "--psd", "psd.csv", "--modes", "1"],
    "modes": ["modal", "--psd", "psd.csv", "--modes", "1:2"],
}


STRIDE = {"compare": 4, "modes": 4}
"""Several fits are written as one is, folder after folder: moments apart serve for them."""

METHODS = {0: "sort", 7: "pivot"}
"""In the place of seeds, where nothing is random."""


def words_of(name, seed, out="out"):
    told_apart = ["--seed", str(seed)] if name != "relabel" else ["--method", METHODS[seed]]
    return [*COMMANDS[name], *told_apart, "--out", out, "--quiet"]


def command(name, seed, out="out"):
    app(args=words_of(name, seed, out), standalone_mode=False)


def results(out):
    """Every note with what it vouches for: the seed asked for, and whether all of it is true."""
    found = {}
    for note in sorted([*out.rglob("settings.json"), *out.rglob("row.json")]):
        if note.parent.name.startswith("."):
            continue
        entry = Entry(note)
        read = entry.read()
        assert read is not None, f"{note} cannot be relied on"
        assert not entry.damaged(), f"{note} vouches for {entry.damaged()}"
        seed = read.request.get("seed", read.request.get("options", {}).get("seed"))
        if "method" in read.request:
            seed = {method: one for one, method in METHODS.items()}[read.request["method"]]
        found[str(note.relative_to(out))] = seed
        if "report.html" in read.files:
            page = (note.parent / "report.html").read_text()
            assert page == f"page of {seed}"
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_every_moment_a_command_serves_nothing_false(name, place):
    out, kept = place / "out", place / "kept"
    command(name, 0)
    shutil.copytree(out, kept)

    def prepare():
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(kept, out)

    moments, stride = 0, STRIDE.get(name, 1)
    for _, _ in killed_at_every_point(lambda: command(name, 7), prepare, stride):
        moments += 1
        results(out)
        # Whoever asks for the first result again gets it, and nothing that was begun is left.
        if moments % 8 == 1:
            command(name, 0)
            assert set(results(out).values()) <= {0, None}
            names = {path.relative_to(out) for path in out.rglob("*")}
            assert names == {path.relative_to(kept) for path in kept.rglob("*")}
    assert moments * stride > 15
    assert set(results(out).values()) <= {7, None}


def full(folder):
    """A disk on which `folder` has no room left."""

    def watcher(step, path):
        if step is WritingStep.WRITE and folder in path.absolute().parents:
            raise OSError(errno.ENOSPC, "No space left on device")

    return watcher


@pytest.mark.parametrize("roomy", [True, False])
def test_a_full_disk_is_one_line_and_the_fit_goes_elsewhere(place, roomy, monkeypatch, capsys):
    command("sample", 0)
    before = results(place / "out")
    (place / "second").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place / "second"))
    monkeypatch.setenv("HOME", str(place / "second"))
    with watched(full(place / "out" if roomy else place)):
        assert run(["sample", "model.py:problem", "--seed", "7", "--out", "out", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot write out/fit.nc: no space left" in said
    assert results(place / "out") == before
    kept = list((place / "second").rglob("*"))
    if roomy:
        (fit,) = (path for path in kept if path.is_file())
        assert f"the fit is in {fit} instead" in said
        assert "'seed': 7" in fit.read_text()
    else:
        assert "no room for the fit elsewhere either" in said
        assert kept == []


def test_a_folder_of_something_else_is_refused(place, capsys):
    command("mixture", 0)
    before = {path.name: path.read_bytes() for path in (place / "out").iterdir()}
    for words in (["sample", "model.py:problem"], ["demo"]):
        assert run([*words, "--out", "out", "--quiet"]) == 2
        assert "out holds a result of folt mixture" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (place / "out").iterdir()} == before


def test_another_runs_numbers_are_never_served(place):
    """A rerun with another seed, killed; then the first seed again."""
    command("mixture", 0)
    fit, note = (place / "out" / name for name in ("fit.nc", "settings.json"))
    old = note.read_bytes()
    command("mixture", 7)
    note.write_bytes(old)  # as the former order of writing left things
    with pytest.warns(UserWarning, match="was changed after folt wrote it: it is made anew"):
        command("mixture", 0)
    assert "'seed': 0" in fit.read_text()


class Table(Experiment):
    """Two rows that cost nothing, and a count of how often they are made."""

    name, title = "table", "A table"

    def __init__(self):
        self.made = []

    def cases(self, settings):
        return [TableJob(case, ("folded",), 0) for case in "ab"]

    def run(self, fits, job):
        self.made.append(job.case)
        return [row(self.name, job.case, "folded", job.seed, accept=0.5)]

    def report(self, rows):
        return [("Rows", ", ".join(one["case"] for one in rows))]

    def claims(self, rows, preset):
        return []


def test_rows_of_a_table_survive_a_kill_at_every_moment(tmp_path):
    out, settings = tmp_path / "out", ReproductionSettings(seeds=1)
    reproduce([Table()], settings, out, show=False)
    names = {path.name for path in out.iterdir()}

    def prepare():
        shutil.rmtree(out, ignore_errors=True)

    moments, finished = 0, 0
    work = lambda: reproduce([Table()], settings, out, show=False)  # noqa: E731
    for moment, where in killed_at_every_point(work, prepare, stride=3):
        moments += 1
        path, entry = out / "table.json", Entry(out / "table.note.json")
        rows = read_document(path)["rows"] if path.exists() else []
        assert not entry.damaged()
        again = Table()
        reproduce([again], settings, out, show=False)
        assert len(again.made) <= 2 - len(rows), f"lost at moment {moment}, {where}"
        assert len(again.made) <= 2 - finished, f"lost at moment {moment}, {where}"
        finished = 2 - len(again.made)
        assert [one["case"] for one in read_document(path)["rows"]] == ["a", "b"]
        assert {path.name for path in out.iterdir()} == names
    assert finished == 2
    assert moments > 10


def test_a_page_that_cannot_be_made_is_refused_before_the_fit(place, monkeypatch, capsys):
    def sampled(*_, **__):
        raise AssertionError("something was computed")

    monkeypatch.setattr("folt.sampling.sample", sampled)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run(["sample", "model.py:problem", "--out", "out"]) == 2
    assert "a report needs Jinja2" in capsys.readouterr().err


def raising(*_, **__):
    raise ZeroDivisionError("integer modulo by zero")


PAGES = ("folt.report.saving.page", "folt.report.page.page", "folt.report.style.png")
FIRST = {"relabel": "relabelled.nc", "compare": "k1/fit.nc", "modes": "m1/fit.nc"}
"""What took long to compute; `fit.nc` for most commands."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_that_fails_does_not_cost_the_fit(name, place, monkeypatch, capsys):
    """Neither the fit nor the true files of an earlier one are lost, and the next run mends it."""
    first = place / "out" / FIRST.get(name, "fit.nc")
    words = words_of(name, 0)
    with monkeypatch.context() as broken:
        for page in PAGES:
            broken.setattr(page, raising)
        assert run(words) == 1
    said = capsys.readouterr().err
    assert "integer modulo by zero" in said
    assert "Traceback" not in said
    assert first.is_file()
    if name != "compare":  # whose sizes are jobs of a fleet, with rows of their own
        assert said.startswith(f"folt: {Path('out', first.name)} is written, but a page")
        assert said.count("\n") == 1
        assert set(results(place / "out").values()) <= {0, None}
    assert run(words) == 0
    assert any((place / "out").rglob("*.png" if name == "relabel" else "report.html"))


def test_what_fails_after_a_fit_of_a_fleet_stands_in_its_row(place, fits, monkeypatch):
    monkeypatch.setattr("folt.report.page.page", raising)
    jobs = [
        FleetJob("page", label_switching(2, 2), report=True),
        FleetJob("row", label_switching(2, 2), describe=raising),
        FleetJob("fine", label_switching(2, 2)),
    ]
    monkeypatch.setattr("folt.sampling.sample", lambda problem, *, start, progress: fits[0])
    table = fit_many(jobs, "out", runner=Here(), retries=0)
    assert table["error"].isna().tolist() == [False, False, True]
    assert table["error"][0].endswith("ZeroDivisionError: integer modulo by zero")
    assert table["log_evidence"].notna().all()
    for job in jobs:
        assert (place / "out" / job.name / "fit.nc").is_file()
    assert "raising" in (place / "out" / "row" / "error.txt").read_text()
