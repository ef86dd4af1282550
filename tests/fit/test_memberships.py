"""Memberships: by hand from the same draws, for ready models, front-ends and own densities."""

import dataclasses
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

import folt
from brief import brief_fit
from folt.cli.mixture_data import Observations
from folt.cli.mixture_results import fit_files
from folt.fit.labels import component_names
from folt.fit.memberships import _observations, memberships
from folt.groups import Permutation
from folt.models import (
    bayesian_mixture,
    factor_analysis,
    gaussian_mixture,
    hidden_markov,
    multivariate_gaussian_mixture,
    poisson_mixture,
)
from folt.models.markov import smoothed
from folt.report.page import page
from folt.report.sections import membership_section, memberships_figure

Y = np.array([-2.1, -1.8, -2.4, -1.9, 0.1, 1.7, 2.2, 2.4, 1.9, 2.1, 1.6])
COUNTS = np.array([1.0, 0.0, 2.0, 1.0, 9.0, 11.0, 8.0, 12.0])
PLANE = np.stack([Y, np.cos(3.0 * Y)], axis=1)


def gaussian(p):
    log_weight = np.log(p.get("weight", np.full_like(p["mu"], 0.5)))
    return stats.norm.logpdf(Y[:, None], p["mu"], p["sigma"]) + log_weight


def plane(p):
    parts = zip(p["weight"], p["mu"], p["covariance"], strict=True)
    return np.stack(
        [np.log(w) + stats.multivariate_normal.logpdf(PLANE, mu, cov) for w, mu, cov in parts], 1
    )


READY = {
    "weights": (lambda: gaussian_mixture(Y, 2), gaussian),
    "equal weights": (lambda: bayesian_mixture(Y, 2), gaussian),
    "plane": (lambda: multivariate_gaussian_mixture(PLANE, 2), plane),
    "counts": (
        lambda: poisson_mixture(COUNTS, 2),
        lambda p: stats.poisson.logpmf(COUNTS[:, None], p["rate"]) + np.log(p["weight"]),
    ),
}


def terms_of(problem, point):
    """What the problem says at one point, and its parameters there."""
    with jax.enable_x64(True):
        x = jnp.asarray(point)
        given = () if problem.data is None else (problem.data,)
        found, parameters = jax.jit(
            lambda x: (problem.log_terms(x, *given), problem.parameters(x))
        )(x)
        return np.asarray(found), {k: np.asarray(v) for k, v in parameters.items()}


@pytest.mark.parametrize("name", READY)
def test_terms_of_ready_models_are_those_by_hand(name):
    make, by_hand = READY[name]
    problem = make()
    found, parameters = terms_of(problem, np.random.default_rng(1).normal(size=problem.dim))
    np.testing.assert_allclose(found, by_hand(parameters), rtol=1e-9)


def test_smoothed_probabilities_are_those_of_all_paths():
    """Five steps of three states: the sum over the 243 paths, one by one."""
    generator = np.random.default_rng(0)
    y = generator.normal(size=5)
    p = {
        "mu": generator.normal(size=3),
        "sigma": np.array([0.5, 1.0, 2.0]),
        "transition": generator.dirichlet(np.ones(3), 3),
        "initial": np.array([0.5, 0.3, 0.2]),
    }
    expected = np.zeros((3, 5))
    for path in itertools.product(range(3), repeat=5):
        chance = p["initial"][path[0]]
        chance *= np.prod([p["transition"][i, j] for i, j in itertools.pairwise(path)])
        chance *= np.prod(stats.norm.pdf(y, p["mu"][list(path)], p["sigma"][list(path)]))
        expected[list(path), range(5)] += chance
    with jax.enable_x64(True):
        found = np.exp(smoothed({name: jnp.asarray(value) for name, value in p.items()}, y))
    np.testing.assert_allclose(found, expected / expected.sum(axis=0), rtol=1e-9)


def test_hidden_states_have_memberships():
    problem = hidden_markov(Y, 2)
    terms, _ = terms_of(problem, np.zeros(problem.dim))
    np.testing.assert_allclose(np.exp(terms).sum(axis=1), 1.0)
    assert terms.shape == (len(Y), 2)


def numpyro_same():
    import numpyro
    import numpyro.distributions as dist

    def model(y):
        with numpyro.plate("side", 2):
            mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
            sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(2)))
        with numpyro.plate("row", len(Y)):
            parts = dist.MixtureSameFamily(dist.Categorical(weight), dist.Normal(mu, sigma))
            numpyro.sample("y", parts, obs=y)

    return folt.from_numpyro(model, Y)


def numpyro_general():
    import numpyro
    import numpyro.distributions as dist

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0).expand([2]))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0).expand([2]))
        weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(2)))
        parts = [dist.Normal(mu[k], sigma[k]) for k in range(2)]
        numpyro.sample("y", dist.MixtureGeneral(dist.Categorical(weight), parts), obs=y)

    return folt.from_numpyro(model, Y)


def pymc_normal(general=False):
    import pymc as pm

    with pm.Model(coords={"side": ["left", "right"]}) as model:
        weight = pm.Dirichlet("weight", np.ones(2), dims="side")
        mu = pm.Normal("mu", 0.0, 3.0, dims="side")
        sigma = pm.HalfNormal("sigma", 1.0, dims="side")
        if general:
            parts = [pm.Normal.dist(mu[k], sigma[k]) for k in range(2)]
            pm.Mixture("y", w=weight, comp_dists=parts, observed=Y)
        else:
            pm.NormalMixture("y", w=weight, mu=mu, sigma=sigma, observed=Y)
    return folt.from_pymc(model)


FRONT_ENDS = {
    "MixtureSameFamily": numpyro_same,
    "MixtureGeneral": numpyro_general,
    "NormalMixture": pymc_normal,
    "Mixture": lambda: pymc_normal(general=True),
}


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_terms_of_front_end_mixtures_are_those_by_hand(name):
    problem = FRONT_ENDS[name]()
    found, parameters = terms_of(problem, np.random.default_rng(2).normal(size=problem.dim))
    np.testing.assert_allclose(
        softmax(found, axis=1), softmax(gaussian(parameters), axis=1), rtol=1e-9
    )


@pytest.fixture(scope="module")
def fit():
    return brief_fit(gaussian_mixture(Y, 2), draws=100)


def test_memberships_are_averages_over_the_draws(fit):
    frame = fit.memberships()
    flat = {name: v.reshape(-1, 2)[:, None] for name, v in fit.posterior.items()}
    terms = stats.norm.logpdf(Y[:, None], flat["mu"], flat["sigma"]) + np.log(flat["weight"])
    shares = softmax(terms, axis=-1)
    np.testing.assert_allclose(frame[["mean[0]", "mean[1]"]], shares.mean(axis=0), rtol=1e-9)
    bounds = np.quantile(shares[..., 1], [0.025, 0.975], axis=0).T
    np.testing.assert_allclose(frame[["low[1]", "high[1]"]], bounds, rtol=1e-9)
    assert frame["most_probable"].tolist()[:4] == ["0"] * 4
    assert frame["most_probable"].tolist()[-3:] == ["1"] * 3


def test_the_page_shows_who_belongs_where(fit):
    text = page(fit)
    assert "Who belongs where" in text
    counts = fit.memberships()["most_probable"].value_counts()
    assert f"{counts['0']} to component 1, {counts['1']} to component 2" in text


def test_components_are_not_numbered_along_an_axis_of_other_length(fit):
    """A spike and two rates: the plate of the rates has no third place, and another first."""
    rate = fit.posterior["mu"]
    spiked = dataclasses.replace(
        fit,
        posterior={"rate": rate, "w": np.full((*rate.shape[:2], 3), 1.0 / 3.0)},
        dims={"rate": ("k",)},
        coords={"k": np.arange(2)},
        exchanged={"rate": (0,), "w": (0,)},
    )
    assert component_names(spiked, 3) == ("component 1", "component 2", "component 3")
    assert component_names(spiked, 2) == ("k 1", "k 2")
    named = dataclasses.replace(
        spiked,
        dims={"rate": ("k",), "w": ("part",)},
        coords={"part": np.array(["zero", "low", "high"])},
        exchanged={"rate": (0,)},
        labelled=("part",),
    )
    assert component_names(named, 3) == ("zero", "low", "high")


def test_observations_keep_the_labels_of_their_axis(fit):
    import pymc as pm

    people = [f"person {k}" for k in range(len(Y))]
    with pm.Model(coords={"side": ["left", "right"], "person": people}) as model:
        mu = pm.Normal("mu", 0.0, 3.0, dims="side")
        pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=1.0, observed=Y, dims="person")
    found = brief_fit(folt.from_pymc(model), draws=50).memberships()
    assert found.index.name == "person"
    assert found.index.tolist() == people


def test_rows_of_several_variables_are_known_by_the_labels_of_their_first_axis(fit):
    labels = {"bottle": tuple("abc"), "feature": ("alcohol", "ash")}
    problem = types.SimpleNamespace(dims=(("y", ("bottle", "feature")),), coords=labels)
    assert _observations(problem, fit, 3) == ("bottle", ("a", "b", "c"))
    assert _observations(problem, fit, 6) == ("observation", None)  # an observation per entry


def test_the_caption_of_probabilities_says_what_is_drawn(fit):
    """Observations of a front-end are not known by their place: no page is drawn for that."""
    problem = pymc_normal()
    draws = 0.5 * np.random.default_rng(0).normal(size=(2, 20, problem.dim))
    other = dataclasses.replace(
        fit, problem=problem, draws=draws, posterior=problem.parameters(draws), coords={}
    )
    text = membership_section(other, memberships(other)).text
    assert "The probability of every component for every observation" in text
    assert "in the colour of its most probable component" not in text
    text = membership_section(fit, memberships(fit)).text
    assert "in the colour of its most probable component" in text


def test_observations_whose_dots_would_hide_each_other_are_drawn_by_their_probabilities(fit):
    found, generator = memberships(fit), np.random.default_rng(0)
    answers = generator.integers(0, 2, (len(Y), 4)).astype(float)
    for table, label in ((answers, "probability"), (generator.random((len(Y), 4)), "variable 2")):
        known = dataclasses.replace(
            fit, problem=types.SimpleNamespace(data=table, coords={}, dims=())
        )
        assert memberships_figure(known, found).axes[0].get_ylabel() == label
        told = "probability of every component" in membership_section(known, found).text
        assert told == (label == "probability")


def test_a_component_that_is_nobodys_most_probable_one_draws_nothing(fit):
    found = memberships(fit)
    sure = np.stack([np.full(len(Y), 0.9), np.full(len(Y), 0.1)], axis=1)
    figure = memberships_figure(fit, dataclasses.replace(found, mean=sure))
    assert [len(dots.get_offsets()) for dots in figure.axes[0].collections] == [len(Y)]
    assert len(figure.legends[0].get_texts()) == 1
    numbered = dataclasses.replace(found, axis="row", rows=tuple(range(100, 100 + len(Y))))
    panel = memberships_figure(fit, numbered).axes[0]
    assert panel.get_xlabel() == "row"
    assert panel.get_xlim()[0] > 90


def test_a_picture_that_cannot_be_made_leaves_the_page_and_the_table(fit, monkeypatch):
    def broken(*_):
        raise ValueError("zero-size array")

    monkeypatch.setattr("folt.report.sections.memberships_figure", broken)
    monkeypatch.setattr("folt.report.sections.data_figure", broken)
    monkeypatch.setattr("folt.report.page.pairs_of_parameters", broken)
    table = Observations(Y[:, None], ("y",), False, np.arange(1, len(Y) + 1), source="y.csv")
    with pytest.warns(UserWarning, match="could not be made: ValueError: zero-size array"):
        files = fit_files(fit, table)
    assert set(files) == {"fit.nc", "report.html", "memberships.csv"}
    assert files["report.html"].count(b"This picture could not be made") == 3


@pytest.mark.parametrize("library", [jnp, np])
def test_terms_may_be_those_of_the_parameters(fit, library):
    def log_terms(p):
        parts = -0.5 * ((Y[:, None] - p["mu"]) / p["sigma"]) ** 2 - library.log(p["sigma"])
        return parts + library.log(p["weight"])

    expected = fit.memberships()["mean[0]"]
    np.testing.assert_allclose(fit.memberships(log_terms)["mean[0]"], expected, rtol=1e-9)
    found = fit.memberships(lambda p, y: log_terms(p) + 0.0 * y[:, None])
    np.testing.assert_allclose(found["mean[0]"], expected, rtol=1e-9)
    with pytest.raises(ValueError, match="expected log_terms to be a function, got str"):
        fit.memberships("weight")
    with pytest.raises(ValueError, match=r"take a point, or the parameters by name.*'nu'"):
        fit.memberships(lambda p: p["nu"])


def test_own_densities_give_their_terms(fit):
    def log_terms(x, y):
        return fit.problem.log_terms(x, y)

    found = fit.memberships(log_terms)
    np.testing.assert_allclose(found["mean[0]"], fit.memberships()["mean[0]"], rtol=1e-12)
    with pytest.raises(ValueError, match=r"shape \(observation, component\), got \(11,\)"):
        fit.memberships(lambda x, y: y)


def test_a_black_box_may_have_terms_in_numpy():
    def log_density(points):
        return -0.5 * np.square(np.sort(points, axis=1) - [-2.0, 2.0]).sum(axis=1)

    problem = folt.from_callable(log_density, 2, Permutation(2, 1), vectorized=True)
    found = brief_fit(problem, draws=50).memberships(
        lambda x: stats.norm.logpdf(Y[:, None], x, 1.0)
    )
    assert found["mean[0]"].iloc[0] > 0.5 > found["mean[0]"].iloc[-1]


def test_a_model_without_components_says_so(fit, tmp_path):
    data = np.random.default_rng(0).normal(size=(30, 4))
    bare = folt.Problem(lambda x: -0.5 * jnp.sum(x**2), Permutation(2, 1))
    assert factor_analysis(data, 1).log_terms is None
    with pytest.raises(ValueError, match="does not say what its components are"):
        dataclasses.replace(fit, problem=bare).memberships()
    with pytest.raises(ValueError, match="needs its problem"):
        folt.load(fit.save(tmp_path / "fit.nc")).memberships()
