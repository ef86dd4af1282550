"""What is not installed is said in a sentence, and sampling needs none of it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import folt
from brief import brief_fit
from folt.fleet.many import runner_for
from folt.store.packages import PACKAGES, MissingPackageError, require
from folt.store.tables import read_table

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


@pytest.fixture(scope="module")
def fit():
    return brief_fit(folt.models.gaussian_mixture([-1.0, -0.8, 1.0, 1.1], 2), draws=20)


WANTED = {
    "arviz": lambda fit, path: fit.to_arviz(),
    "cloudpickle": lambda fit, path: runner_for(None, 2, None),
    "distributed": lambda fit, path: runner_for(object(), None, None),
    "jinja2": lambda fit, path: fit.report(path),
    "matplotlib": lambda fit, path: fit.plot("marginals"),
    "numpyro": lambda fit, path: folt.from_numpyro,
    "odf": lambda fit, path: read_table(path.with_suffix(".ods")),
    "openpyxl": lambda fit, path: read_table(path.with_suffix(".xlsx")),
    "optax": lambda fit, path: folt.sample(fit.problem, preset="paper", progress=False),
    "pandas": lambda fit, path: fit.table(),
    "pyarrow": lambda fit, path: read_table(path.with_suffix(".parquet")),
    "pymc": lambda fit, path: folt.from_pymc,
    "xlrd": lambda fit, path: read_table(path.with_suffix(".xls")),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_is_hidden_is_said_in_one_sentence(name, fit, tmp_path, monkeypatch):
    for suffix in (".ods", ".xlsx", ".xls", ".parquet"):
        (tmp_path / "page").with_suffix(suffix).write_bytes(b"x")
    for hidden in (name, "fastparquet"):
        monkeypatch.setitem(sys.modules, hidden, None)
    title, line = PACKAGES[name]
    said = rf"needs {title}, which is not installed: pip install {re.escape(line)}"
    with pytest.raises(MissingPackageError, match=said) as caught:
        WANTED[name](fit, tmp_path / "page")
    assert isinstance(caught.value, ValueError)  # so that a command refuses in a line
    assert not (tmp_path / "page").exists()


def test_several_are_named_together(monkeypatch):
    for name in ("matplotlib", "jinja2", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    said = r"Matplotlib and Jinja2 and pandas, which are not .* 'folt\[report\]' 'folt\[tables\]'$"
    with pytest.raises(MissingPackageError, match=said):
        require("a report", "matplotlib", "jinja2", "pandas")


def test_every_extra_brings_what_the_sentences_promise():
    for name, package in PACKAGES.items():
        found = re.fullmatch(r"'folt\[(\w+)\]'", package.installed_by)
        if found:
            listed = [re.match(r"[\w-]+", line)[0] for line in EXTRAS[found[1]]]
            assert name in listed
            assert found[1] in EXTRAS["all"][0]
    hard = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    assert hard.isdisjoint(PACKAGES)


BARE = """
import sys
for name in {names}:
    sys.modules[name] = None
import folt
problem = folt.models.gaussian_mixture([-1.0, -0.8, 1.0, 1.1], 2)
fit = folt.sample(problem, effort=folt.Effort.quick(), draws=200, progress=False)
fit = folt.load(fit.save(sys.argv[1]), problem=problem).extend(10)
print(fit.summary(), fit.methods(), fit, folt.relabel(fit.posterior).method, fit.ess())
"""


def test_sampling_needs_no_extra(tmp_path):
    """All hidden at once but pandas, which xarray imports itself."""
    code = BARE.format(names=sorted({*PACKAGES, "dask"} - {"pandas"}))
    words = [sys.executable, "-c", code, str(tmp_path / "fit.nc")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "effective draws" in done.stdout
