"""Users' paths: every small posterior (`posteriors.py`) through every public verb.

Each cell asserts the answer, a log evidence or a mean that is known. Statistical cells allow
`LIMIT` standard errors, which a right fit exceeds with probability 6e-7; some 300 of them alarm
falsely on fewer than one new set of seeds in 5 000. A verb is one function: write another and it
meets every posterior.
"""

import functools
import html
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import folt
from folt.certificate.comparison import compare
from folt.cli import run
from folt.diagnostics import effective_size
from folt.problem.orbits import action_of
from folt.report.page import page
from posteriors import POSTERIORS, Posterior

LIMIT = 5.0
DRAWS = 250
SEEDS = (0, 1)


class Path_(NamedTuple):
    """What a verb is given."""

    name: str
    posterior: Posterior
    problem: folt.Problem
    fit: folt.Fit
    again: folt.Fit
    place: Path


@functools.cache
def fitted(name: str) -> tuple[folt.Problem, folt.Fit, folt.Fit]:
    """The problem with its fits, made once for all verbs."""
    problem = POSTERIORS[name].make()
    options = {"draws": DRAWS, "effort": folt.Effort.quick(), "progress": False}
    return problem, *(folt.sample(problem, seed=seed, **options) for seed in SEEDS)


@pytest.fixture(scope="module", autouse=True)
def given_back():
    yield
    fitted.cache_clear()


VERBS: dict[str, Callable[[Path_], None]] = {}


def verb(function: Callable[[Path_], None]) -> Callable[[Path_], None]:
    VERBS[function.__name__] = function
    return function


def require_evidence(fit: folt.Fit, posterior: Posterior) -> None:
    found = fit.log_evidence
    assert 0.0 < found.standard_error < 0.05
    assert abs(found.value - posterior.log_evidence) < LIMIT * found.standard_error


def require_mean(draws: np.ndarray, posterior: Posterior, problem: folt.Problem) -> None:
    """The known mean, from points under all labels or, where they make no difference, under one."""
    values = np.asarray(posterior.value(problem.parameters(draws)))
    assert values.shape == draws.shape[:2]
    error = values.std() / math.sqrt(effective_size(values))
    assert abs(values.mean() - posterior.mean) < LIMIT * error


@verb
def check(path: Path_) -> None:
    account = folt.check(path.problem)
    assert account.holds == path.problem.invariant
    assert str(account).startswith(f"Symmetry of order {path.problem.group.order} ")


@verb
def sample(path: Path_) -> None:
    for fit in (path.fit, path.again):
        require_evidence(fit, path.posterior)
        assert fit.draws.shape == (4, DRAWS, path.problem.dim)
        assert action_of(path.problem.group).contains(fit.draws.reshape(-1, path.problem.dim)).all()
        if path.problem.invariant:
            require_mean(fit.draws, path.posterior, path.problem)
        assert fit.certificate.status.name not in ("faulty", "frozen", "uncovered", "poor")
    assert not np.array_equal(path.fit.draws, path.again.draws)


@verb
def print_(path: Path_) -> None:
    assert path.fit.certificate.status.name in str(path.fit)
    assert path.fit._repr_html_()
    assert str(path.problem)


@verb
def summary(path: Path_) -> None:
    text = path.fit.summary()
    assert path.fit.certificate.status.name in text
    assert f"{path.fit.log_evidence.value:.3f}" in text
    assert all(name in text for name in path.fit.posterior)


@verb
def extend(path: Path_) -> None:
    longer = path.fit.extend(1)
    assert longer.draws.shape == (4, DRAWS + 1, path.problem.dim)
    np.testing.assert_array_equal(longer.draws[:, :DRAWS], path.fit.draws)
    last = longer.draws[:, -1]
    assert np.isfinite(path.problem.log_probs(last)).all()
    stayed = ~longer.accepted[:, -1]
    if longer.steps_per_draw == 1:
        np.testing.assert_array_equal(last[stayed], path.fit.draws[stayed, -1])
    assert longer.extend(1).draws.shape[1] == DRAWS + 2


@verb
def unfolded(path: Path_) -> None:
    points = path.fit.unfolded(seed=3)
    require_mean(points, path.posterior, path.problem)
    folded = action_of(path.problem.group).fold(points.reshape(-1, path.problem.dim))
    np.testing.assert_allclose(folded.reshape(points.shape), path.fit.draws, rtol=1e-12, atol=1e-12)


def words(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", text))


def require_page(text: str, fit: folt.Fit) -> None:
    assert text.rstrip().endswith("</html>")
    assert fit.certificate.status.name in text
    assert f"{fit.log_evidence.value:.3f}" in words(text).replace("−", "-").replace(",", "")


@verb
def report(path: Path_) -> None:
    require_page(path.fit.report(path.place / "page.html").read_text(), path.fit)


@verb
def save_and_load(path: Path_) -> None:
    loaded = folt.load(path.fit.save(path.place / "fit.nc"))
    np.testing.assert_array_equal(loaded.draws, path.fit.draws)
    assert loaded.log_evidence == path.fit.log_evidence
    require_page(page(loaded), path.fit)
    if path.problem.invariant:
        np.testing.assert_array_equal(loaded.unfolded(2), path.fit.unfolded(2))
    again = folt.load(path.place / "fit.nc", problem=path.problem).extend(1)
    np.testing.assert_array_equal(again.draws, path.fit.extend(1).draws)


@verb
def to_arviz(path: Path_) -> None:
    data = path.fit.to_arviz()
    assert set(data.posterior.data_vars) == set(path.fit.posterior)
    for name, values in path.fit.posterior.items():
        np.testing.assert_array_equal(data.posterior[name].values, values)
    assert data.posterior.attrs["folt_log_evidence"] == path.fit.log_evidence.value


@verb
def certify(path: Path_) -> None:
    """Its own draws, under all labels, as somebody else's sampler would have left them."""
    fit = folt.certify(
        path.problem, path.fit.unfolded(), effort=folt.Effort.quick(), progress=False
    )
    require_evidence(fit, path.posterior)
    require_mean(fit.unfolded(), path.posterior, path.problem)


@verb
def relabel(path: Path_) -> None:
    """Labels are given back to draws that lost them; nothing else of the draws changes."""
    key = path.posterior.components
    values = path.problem.parameters(path.fit.unfolded())
    draws = {key: values[key]} if key else {"x": path.fit.unfolded()[..., None]}
    done = folt.relabel(draws)
    for name, before in draws.items():
        np.testing.assert_array_equal(np.sort(done.draws[name], axis=2), np.sort(before, axis=2))
        means = done.draws[name].mean(axis=(0, 1)).ravel()
        assert (np.diff(means) >= 0).all()


@verb
def comparison(path: Path_) -> None:
    first, second = compare({"a": path.fit.log_evidence, "b": path.again.log_evidence})
    assert first.probability + second.probability == pytest.approx(1.0)
    assert abs(first.probability - 0.5) < LIMIT * first.probability_error


@verb
def command_line(path: Path_, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """The command with the fit at hand: what is tried is what it writes and says."""
    (path.place / "model.py").write_text(
        f"from posteriors import POSTERIORS\nproblem = POSTERIORS[{path.name!r}].make()\n"
    )
    monkeypatch.setattr("folt.sampling.sample", lambda problem, **options: path.fit)
    out = str(path.place / "out")
    assert run(["sample", f"{path.place / 'model.py'}:problem", "--json", "--out", out]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["log_evidence"]["value"] == path.fit.log_evidence.value
    assert told["verdict"]["name"] == path.fit.certificate.status.name
    assert [Path(file).name for file in told["files"]] == ["fit.nc", "report.html"]
    assert run(["report", f"{out}/fit.nc", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["estimates"] == told["estimates"]


@pytest.mark.parametrize("does", VERBS)
@pytest.mark.parametrize("name", POSTERIORS)
def test_path(name: str, does: str, tmp_path: Path, monkeypatch, capsys) -> None:
    problem, *fits = fitted(name)
    path = Path_(name, POSTERIORS[name], problem, *fits, tmp_path)
    if does == "command_line":
        VERBS[does](path, monkeypatch, capsys)
    else:
        VERBS[does](path)
