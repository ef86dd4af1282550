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

import jaxtyping
import numpy as np
import pytest

import folt
from brief import EFFORT
from folt.certificate.conditions import AMBIGUOUS
from folt.certificate.diagnostics.chains import effective_size
from folt.cli import run
from folt.fit.text import entries
from folt.groups import Permutation
from folt.problem import Problem
from folt.proposals import Gaussian
from folt.proposals.action import action_of
from folt.report.page import page
from posteriors import POSTERIORS, Images, Posterior

LIMIT = 5.0
DRAWS = 250
SEEDS = (0, 1)

CONFUSED = (
    "signed permutation",  # its signs are those of entries around zero
    "one observation",  # of each two, the data speak of one, wherever the other is
    "sites in NumPyro",
    "order that confuses rows",
)
"""Posteriors whose fits are sorted by something in which their components do not differ."""

UNDRAWN = (
    "reflection",
    "permutation",
    "product with nothing",
    "joint",
    "constant of -1e7",
    "sites in NumPyro",
    "black box with prior",
)
"""Posteriors whose pictures would be those of another, with other numbers: words and no drawings.

Two thirds of the time that a page takes goes into its drawings."""


class Case(NamedTuple):
    """What a verb is given: a posterior with its fits, and an empty folder."""

    name: str
    posterior: Posterior
    problem: folt.Problem
    fit: folt.Fit
    again: folt.Fit
    place: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]


@functools.cache
def fitted(name: str) -> tuple[folt.Problem, folt.Fit, folt.Fit]:
    """The problem with its fits, made once for all verbs."""
    problem = POSTERIORS[name].make()
    effort = EFFORT if name == "class chain" else folt.Effort.quick()  # its training takes 10 s
    options = {"draws": DRAWS, "effort": effort, "progress": False}
    return problem, *(folt.sample(problem, seed=seed, **options) for seed in SEEDS)


@pytest.fixture(scope="module", autouse=True)
def fits_of_this_file():
    """Shapes are checked by all other files; here, that would cost more than the fits."""
    checked = not jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", not checked)
    fitted.cache_clear()


VERBS: dict[str, Callable[[Case], None]] = {}


def verb(function: Callable[[Case], None]) -> Callable[[Case], None]:
    VERBS[function.__name__] = function
    return function


def require_told(text: str, fit: folt.Fit) -> None:
    """Among the numbers of a text is the log evidence, to within its error."""
    numbers = re.findall(r"[-−]?\d[\d,]*\.?\d*", text)
    told = np.array([float(one.replace("−", "-").replace(",", "")) for one in numbers])
    found = fit.log_evidence
    assert np.min(np.abs(told - found.value)) < 0.6 * found.standard_error


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
def check(case: Case) -> None:
    account = folt.check(case.problem)
    assert account.holds == case.problem.invariant
    assert str(account).startswith(f"Symmetry of order {case.problem.group.order} ")


@verb
def sample(case: Case) -> None:
    for fit in (case.fit, case.again):
        require_evidence(fit, case.posterior)
        assert fit.draws.shape == (4, DRAWS, case.problem.dim)
        if fit.labels == "sorted":
            points = fit.draws.reshape(-1, case.problem.dim)
            assert action_of(case.problem.group).contains(points).all()
        if case.problem.invariant:
            require_mean(fit.draws, case.posterior, case.problem)
        assert fit.certificate.status.name not in ("faulty", "frozen", "uncovered", "poor")
    assert not np.array_equal(case.fit.draws, case.again.draws)


@verb
def print_(case: Case) -> None:
    assert case.fit.certificate.status.name in str(case.fit)
    assert case.fit._repr_html_()
    assert str(case.problem)


@verb
def summary(case: Case) -> None:
    text = case.fit.summary()
    assert case.fit.certificate.status.name in text
    require_told(text, case.fit)
    values = entries(case.fit.posterior, case.fit)
    shown = [one for name, one in values.items() if name in text]
    # What varies is there; of entries that mirror each other one is enough.
    assert all(not np.ptp(v) or any(np.array_equal(v, s) for s in shown) for v in values.values())


@verb
def extend(case: Case) -> None:
    longer = case.fit.extend(1)
    assert longer.draws.shape == (4, DRAWS + 1, case.problem.dim)
    np.testing.assert_array_equal(longer.draws[:, :DRAWS], case.fit.draws)
    last = longer.draws[:, -1]
    assert np.isfinite(case.problem.log_probs(last)).all()
    stayed = ~longer.accepted[:, -1]
    if longer.steps_per_draw == 1:
        np.testing.assert_array_equal(last[stayed], case.fit.draws[stayed, -1])
    assert longer.extend(1).draws.shape[1] == DRAWS + 2


@verb
def unfolded(case: Case) -> None:
    points = case.fit.unfolded(seed=3)
    require_mean(points, case.posterior, case.problem)
    folded = action_of(case.problem.group).fold(points.reshape(-1, case.problem.dim))
    kept = action_of(case.problem.group).fold(case.fit.draws.reshape(-1, case.problem.dim))
    np.testing.assert_allclose(folded, kept, rtol=1e-12, atol=1e-12)


def require_page(text: str, fit: folt.Fit) -> None:
    assert text.rstrip().endswith("</html>")
    assert fit.certificate.status.name in text
    require_told(re.sub(r"<[^>]*>", " ", html.unescape(text)), fit)


@verb
def report(case: Case) -> None:
    if case.name in UNDRAWN:
        case.monkeypatch.setattr("folt.report.page.svg", lambda *_: "<svg/>")
    require_page(case.fit.report(case.place / "page.html").read_text(), case.fit)


@verb
def expectation(case: Case) -> None:
    """All proposals weighted, or Sobol points: the known mean, where labels make no difference."""
    found = case.fit.expectation(case.posterior.value)
    along = np.asarray(case.posterior.value(case.fit.posterior), float)
    error = math.hypot(found.standard_error, along.std() / math.sqrt(effective_size(along)))
    assert abs(found.mean - along.mean()) < LIMIT * error
    assert 0.0 < found.standard_error < error
    if case.problem.invariant:
        assert abs(found.mean - case.posterior.mean) < LIMIT * found.standard_error


@verb
def save_and_load(case: Case) -> None:
    loaded = folt.load(case.fit.save(case.place / "fit.nc"))
    np.testing.assert_array_equal(loaded.draws, case.fit.draws)
    assert loaded.log_evidence == case.fit.log_evidence
    with case.monkeypatch.context() as without_pictures:
        without_pictures.setattr("folt.report.page.svg", lambda *_: "<svg/>")
        without_pictures.setattr("folt.report.page._picture", lambda *_: "<svg/>")
        require_page(page(loaded), case.fit)
    if case.problem.invariant:
        np.testing.assert_array_equal(loaded.unfolded(2), case.fit.unfolded(2))
    again = folt.load(case.place / "fit.nc", problem=case.problem).extend(1)
    np.testing.assert_array_equal(again.draws, case.fit.extend(1).draws)


@verb
def to_arviz(case: Case) -> None:
    data = case.fit.to_arviz()
    assert set(data.posterior.data_vars) == set(case.fit.posterior)
    for name, values in case.fit.posterior.items():
        np.testing.assert_array_equal(data.posterior[name].values, values)
    assert data.posterior.attrs["folt_log_evidence"] == case.fit.log_evidence.value


@verb
def tables(case: Case) -> None:
    flat, frame = entries(case.fit.posterior, case.fit), case.fit.to_dataframe()
    assert list(frame) == list(flat)
    table = case.fit.table()
    for name in table.index:
        assert frame[name].mean() == pytest.approx(table.loc[name, "mean"])
    assert f"{table['ess'].min():,.0f} effective draws" in case.fit.methods()


@verb
def relabelled(case: Case) -> None:
    """Sorted downwards by what a component has, where that is one number, and by the proposal."""
    key, status = case.posterior.components, case.fit.certificate.status
    if case.problem.group.order > 1:
        plain = case.fit.relabelled(sort_by="proposal")
        if case.problem.invariant:
            require_mean(plain.draws, case.posterior, case.problem)
        boundary = plain.certificate.symmetry.boundary
        assert boundary.mixed < 1e-6
        cured = boundary.ambiguity <= AMBIGUOUS
        assert (plain.certificate.status.name == "ambiguous labels") <= (not cured)
        assert (status.cure == 'fit.relabelled(sort_by="proposal")') == (case.name in CONFUSED)
    if key is None or case.fit.posterior[key].ndim != 3:
        with pytest.raises(ValueError, match=r"expected sort_by|nothing is permuted"):
            case.fit.relabelled("nobody")
        return
    if key == "mu":  # the data speak of one of the two, wherever the other is
        with pytest.raises(ValueError, match="a matter of chance"):
            case.fit.relabelled(key)
        return
    other = case.fit.relabelled(lambda posterior: -posterior[key])
    np.testing.assert_allclose(
        other.posterior[key], np.sort(case.fit.posterior[key])[..., ::-1], rtol=1e-9, atol=1e-12
    )
    require_mean(other.draws, case.posterior, case.problem)


@verb
def memberships(case: Case) -> None:
    """Of a point at the origin, among as many components as there are coordinates."""
    with pytest.raises(ValueError, match="does not say what its components are"):
        case.fit.memberships()
    found = case.fit.memberships(lambda x, *data: x[None] * 1.0)
    means = found.filter(like="mean").to_numpy()
    np.testing.assert_allclose(means.sum(axis=1), 1.0)
    order = case.fit.draws.reshape(-1, case.problem.dim)
    expected = np.exp(order - order.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(means[0], expected.mean(axis=0), rtol=1e-9)


@verb
def predict(case: Case) -> None:
    """The known quantity of every draw as a function of the parameters, and what cannot be."""
    found = case.fit.predict(
        [1.0, 2.0], lambda p, new: np.array(new) * sum(map(np.sum, p.values()))
    )
    parts = [value.sum(axis=tuple(range(2, value.ndim))) for value in case.fit.posterior.values()]
    np.testing.assert_allclose(found["mean"], np.array([1.0, 2.0]) * sum(parts).mean(), atol=1e-9)
    with pytest.raises(ValueError, match="does not say what it predicts"):
        case.fit.predict()
    if case.problem.predictive is None:
        with pytest.raises(ValueError, match="does not say how observations are drawn"):
            case.fit.replicates()


@verb
def certify(case: Case) -> None:
    """Its own draws, under all labels, as somebody else's sampler would have left them."""
    fit = folt.certify(
        case.problem, case.fit.unfolded(), effort=folt.Effort.quick(), progress=False
    )
    require_evidence(fit, case.posterior)
    require_mean(fit.unfolded(), case.posterior, case.problem)


@verb
def relabel(case: Case) -> None:
    """Labels are given back to draws that lost them; nothing else of the draws changes."""
    key = case.posterior.components
    values = case.problem.parameters(case.fit.unfolded())
    draws = {key: values[key]} if key else {"x": case.fit.unfolded()[..., None]}
    if next(iter(draws.values())).shape[2] < 2:
        with pytest.raises(ValueError, match="two components at least"):
            folt.relabel(draws)
        return
    done = folt.relabel(draws)
    for name, before in draws.items():
        np.testing.assert_array_equal(np.sort(done.draws[name], axis=2), np.sort(before, axis=2))
        means = done.draws[name].mean(axis=(0, 1)).ravel()
        assert (np.diff(means) >= 0).all()


@verb
def comparison(case: Case) -> None:
    found = folt.compare({"a": case.fit, "b": case.again})
    first, second = found.candidates
    assert {"a", "b"} <= set(str(found).split())
    assert first.probability + second.probability == pytest.approx(1.0)
    assert abs(first.probability - 0.5) < LIMIT * first.probability_error


@verb
def command_line(case: Case) -> None:
    """The command with fit and page at hand: what is tried is what it writes and says."""
    (case.place / "model.py").write_text(
        f"from posteriors import POSTERIORS\nproblem = POSTERIORS[{case.name!r}].make()\n"
    )
    case.monkeypatch.setattr("folt.sampling.sample", lambda problem, **options: case.fit)
    case.monkeypatch.setattr("folt.report.saving.page", lambda fit: "a page")
    out = str(case.place / "out")
    assert run(["sample", f"{case.place / 'model.py'}:problem", "--json", "--out", out]) == 0
    told = json.loads(case.capsys.readouterr().out)
    assert told["log_evidence"]["value"] == case.fit.log_evidence.value
    assert told["verdict"]["name"] == case.fit.certificate.status.name
    assert [Path(file).name for file in told["files"]] == ["fit.nc", "report.html"]
    assert folt.load(f"{out}/fit.nc").summary() == case.fit.summary()


@pytest.mark.parametrize("does", VERBS)
@pytest.mark.parametrize("name", POSTERIORS)
def test_path(name: str, does: str, tmp_path: Path, monkeypatch, capsys) -> None:
    problem, *fits = fitted(name)
    VERBS[does](Case(name, POSTERIORS[name], problem, *fits, tmp_path, monkeypatch, capsys))


PAIR = Images(Permutation(2, 1), (-2.0, 2.0))


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (1, 40), (3, 1), (40, 2)])
def test_few_draws_are_told_of_like_many(chains: int, draws: int, tmp_path: Path) -> None:
    problem = Problem(PAIR.log_density, PAIR.group)
    fit = folt.sample(
        problem, chains=chains, draws=draws, effort=folt.Effort.quick(), progress=False
    )
    require_evidence(fit, PAIR.posterior())
    assert fit.certificate.status.name in str(fit)
    require_told(fit.summary(), fit)
    loaded = folt.load(fit.save(tmp_path / "fit.nc"), problem=problem)
    require_page(page(loaded), fit)
    assert loaded.extend(1).draws.shape == (chains, draws + 1, 2)
    assert fit.to_arviz().posterior.sizes["draw"] == draws


@pytest.mark.parametrize("constant", [1e14, -1e20, 1e20])
@pytest.mark.parametrize("prior", [None, Gaussian.from_moments(np.zeros(2), 9.0 * np.eye(2))])
def test_log_densities_too_large_for_their_shape_are_refused(constant: float, prior) -> None:
    """At 1e20 neighbouring numbers are 16384 apart; at 1e14 log Z was told to .0006, falsely."""
    problem = Problem(PAIR._replace(constant=constant).log_density, PAIR.group, prior=prior)
    with pytest.raises(ValueError, match="subtract a constant from the log density"):
        folt.sample(problem, effort=folt.Effort.quick(), progress=False)
