"""The house: JAX's settings are left alone, imports stay light, rooms keep their order."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import folt
import folt.sampling

ROOT = Path(__file__).parents[2]

QUIET = """
import sys
import folt, folt.cli  # with every command
heavy = {"arviz", "matplotlib", "jax", "flowjax", "numpy"} & set(sys.modules)
assert not heavy, heavy
import jax
before = jax.config.values.copy()
import os
os.environ["FOLT_COMPILATION_CACHE"] = "off"  # what is asked for by default is no side effect
import folt.sampling, folt.models, folt.reference, folt.training, folt.fit.file
assert "arviz" not in sys.modules
assert folt.check(folt.models.gaussian_pair(2)).holds
assert not jax.config.jax_enable_x64
assert jax.numpy.ones(2).dtype == "float32"
changed = {name for name, value in jax.config.values.items() if before[name] != value}
assert not changed, changed
"""


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_importing_and_checking_change_no_setting_of_jax():
    done = run(sys.executable, "-c", QUIET)
    assert done.returncode == 0, done.stderr


def test_the_table_of_rooms_is_the_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [set(re.split(r" [|:] ", layer)) for layer in contract["contracts"][0]["layers"]]
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| layer | rooms |\n|---|---|\n")[1]
    rows = table.split("\n\n")[0].splitlines()
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == layers
    assert len(layers) <= 10
    hidden = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
    rooms = {path.stem for path in (ROOT / "src" / "folt").iterdir() if path.name not in hidden}
    assert rooms == set.union(*layers)
    folders = [room for room in rooms if (ROOT / "src" / "folt" / room).is_dir()]
    assert len(folders) <= 18  # batching, chains and types are files


def test_notes_of_a_release_come_from_the_changelog():
    notes = runpy.run_path(str(ROOT / "docs" / "release_notes.py"))["notes"]
    changelog = "# Changes\n\n## 0.2.0 (2027-01-01)\n\nNew.\n\n## 0.1.0\n\nOld.\n"
    assert notes(changelog, "0.2.0") == "New.\n"
    assert folt.__version__ in (ROOT / "CHANGELOG.md").read_text()
    with pytest.raises(ValueError, match=r"0\.2\.0, 0\.1\.0"):
        notes(changelog, "3")


def test_every_public_name_is_there():
    for name in folt.__all__:
        assert getattr(folt, name) is not None
    assert set(folt.__all__) <= set(dir(folt))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = folt.nothing


def test_library_code_does_not_print():
    """Only the command line talks; everything else returns what it has to say."""
    for path in (ROOT / "src" / "folt").rglob("*.py"):
        if path.name != "application.py":
            assert not re.search(r"^\s*print\(", path.read_text(), re.MULTILINE), path


def test_the_first_example_of_the_readme_runs(monkeypatch, capsys):
    """As printed, but for fewer draws."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    sample, fits = folt.sampling.sample, []

    def shorter(problem, **options):
        options.update(draws=200, progress=False)
        fits.append(sample(problem, **options))
        return fits[-1]

    monkeypatch.setattr(folt.sampling, "sample", shorter)
    monkeypatch.chdir(ROOT / "tests")
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert len(fits) == 1
    assert fits[0].draws.shape[1] == 200
    assert fits[0].certificate.status.name in ("good", "fair", "undecided")
    assert fits[0].certificate.status.name.split()[0] in capsys.readouterr().out.lower()


def test_a_machine_that_never_imported_arviz_can_collect_the_tests(tmp_path):
    """ArviZ 0 announces its next version until a stamp is in the user's cache: that is no error."""
    test = tmp_path / "test_import.py"
    test.write_text("import arviz\n\n\ndef test_it():\n    assert arviz.__version__\n")
    cache = tmp_path / "cache"
    fresh = {**os.environ, "XDG_CACHE_HOME": str(cache), "HOME": str(tmp_path)}
    words = ["-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words, "-p", "no:cacheprovider", str(test)],
        env=fresh,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    announces = version("arviz").startswith("0.")
    assert any(cache.rglob("daily_warning")) == announces, "ArviZ announces otherwise than it did"
