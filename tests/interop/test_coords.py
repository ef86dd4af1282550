"""Names and labels of axes go from a model through fit, file, summary, page and ArviZ and back."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

import folt
from brief import brief_fit
from folt.fit import text
from folt.groups import Permutation
from folt.problem.named_values import entry_name
from folt.report.page import page
from folt.report.parameters import readable_names

pm = pytest.importorskip("pymc")
numpyro = pytest.importorskip("numpyro")
dist = numpyro.distributions

Y = np.array([-2.1, -1.8, -2.4, -1.9, 1.7, 2.2, 2.4, 1.9, 2.1, 1.6])
ROWS = [f"day {n}" for n in range(len(Y))]
GROUPS = ["left", "right"]


def pymc_model():
    with pm.Model(coords={"group": GROUPS, "row": ROWS, "unused": [1, 2, 3]}) as model:
        y = pm.Data("measured", Y, dims="row")
        weight = pm.Dirichlet("weight", np.ones(2), dims="group")
        mu = pm.Normal("mu", 0.0, 3.0, dims="group")
        pm.Deterministic("gap", mu - mu[::-1], dims="group")
        pm.NormalMixture("y", w=weight, mu=mu, sigma=0.5, observed=y, dims="row")
    return model


def numpyro_model(y=None):
    with numpyro.plate("group", 2):
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("row", len(Y)):
        parts = dist.MixtureSameFamily(dist.Categorical(weight), dist.Normal(mu, 0.5))
        numpyro.sample("y", parts, obs=y)


@functools.cache
def fitted(kind):
    model = pymc_model() if kind == "pymc" else numpyro_model
    problem = folt.from_pymc(model) if kind == "pymc" else folt.from_numpyro(model, Y)
    return model, brief_fit(problem, draws=150)


def test_names_and_labels_of_a_pymc_model_reach_arviz_file_summary_and_page(tmp_path):
    _, fit = fitted("pymc")
    loaded = folt.load(fit.save(tmp_path / "fit.nc"))
    for one in (fit, loaded):
        posterior = one.to_arviz().posterior
        assert posterior["mu"].dims == posterior["weight"].dims == ("chain", "draw", "group")
        assert posterior["group"].values.tolist() == GROUPS
        assert posterior["group"].attrs["folt_order"] == "exchangeable labels; mu ascends"
        assert one.exchanged == {"weight": (0,), "mu": (0,), "gap": (0,)}
        assert (np.diff(posterior["mu"].values) >= 0).all()
        assert "mu[group 1]" in one.summary()
        assert "labels of group are places in this order, not names" in one.summary()
        assert "mu ascends" in one.summary()
    shown = page(loaded)
    assert "mu, group 1" in shown
    assert "mu, left" not in shown
    assert "mu ascends" in shown
    terms = fit.to_arviz().log_likelihood["y"]
    assert terms.dims == ("chain", "draw", "row")
    assert terms["row"].values.tolist() == ROWS
    assert "mu ascends" in str(fit.problem)


def test_plates_name_the_axes_of_a_numpyro_model(tmp_path):
    """The weights are no plate: their axis is that of the means which they are permuted with."""
    _, fit = fitted("numpyro")
    for one in (fit, folt.load(fit.save(tmp_path / "fit.nc"))):
        posterior = one.to_arviz(log_likelihood=False).posterior
        assert posterior["mu"].dims == posterior["weight"].dims == ("chain", "draw", "group")
        assert "folt_order" in posterior["group"].attrs
    assert fit.to_arviz().log_likelihood["y"].dims == ("chain", "draw", "row")


def by_hand(fit, seed):
    """Means of replicated data, (chain, draw), from weights and means alone."""
    generator = np.random.default_rng(seed)
    mu, weight = fit.posterior["mu"], fit.posterior["weight"]
    first = generator.random((*mu.shape[:2], len(Y))) < weight[..., :1]
    centres = np.where(first, mu[..., :1], mu[..., 1:])
    return generator.normal(centres, 0.5).mean(axis=-1)


@pytest.mark.parametrize("kind", ["pymc", "numpyro"])
def test_replicates_of_the_front_end_are_those_computed_by_hand(kind):
    """Mean and spread of the replicated means, 5 standard errors: 2 false alarms in a million.

    The prior predictive, which PyMC draws where labels do not agree, has six times the spread.
    """
    model, fit = fitted(kind)
    if kind == "pymc":
        data = fit.to_arviz(log_likelihood=False)
        drawn = pm.sample_posterior_predictive(
            data,
            model=model,
            progressbar=False,
            random_seed=1,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )
        replicates = drawn.posterior_predictive["y"].values
    else:
        predictive = numpyro.infer.Predictive(model, fit.posterior, batch_ndims=2)
        replicates = np.asarray(predictive(jax.random.key(1))["y"])
    ours, expected = replicates.mean(axis=-1).ravel(), by_hand(fit, 2).ravel()
    error = np.hypot(ours.std(), expected.std()) / np.sqrt(ours.size)
    assert abs(ours.mean() - expected.mean()) < 5 * error
    assert abs(np.log(ours.std() / expected.std())) < 5 / np.sqrt(ours.size)


def own_problem(**options):
    def density(mu):
        return jnp.sum(logsumexp(norm.logpdf(Y[:, None], mu, 0.5), axis=1) - jnp.log(2.0))

    return folt.Problem(
        lambda mu: density(mu) + jnp.sum(norm.logpdf(mu, 0.0, 3.0)),
        Permutation(2, 1),
        constrain=lambda x: {"mu": x},
        **options,
    )


def test_own_densities_have_coords_too():
    fit = brief_fit(own_problem(dims={"mu": ["side"]}, coords={"side": GROUPS}))
    assert fit.to_arviz().posterior["side"].values.tolist() == GROUPS
    assert "mu[side 1]" in fit.summary()


def test_labels_of_permuted_axes_are_names_only_in_an_order_of_the_user(tmp_path):
    _, fit = fitted("pymc")
    assert set(fit.memberships()["most_probable"]) == {"group 1", "group 2"}
    assert fit.memberships().index.tolist() == ROWS
    chosen = fit.relabelled(sort_by="mu")
    for one in (chosen, folt.load(chosen.save(tmp_path / "fit.nc"))):
        assert "mu[left]" in one.summary()
        assert "labels of group are given by this order, left to its first place" in (
            text.order_sentence(one)
        )
    by_function = fit.relabelled(sort_by=lambda p: -p["mu"])
    assert "given by this order, left to" in text.order_sentence(by_function)
    assert by_function.posterior["mu"][..., 0].mean() > by_function.posterior["mu"][..., 1].mean()
    assert "not names" in text.order_sentence(fit.relabelled(sort_by="proposal"))
    assert "mean[left]" in chosen.memberships()
    assert "mu, left" in page(chosen)


def test_numbers_that_were_given_as_labels_are_shown_as_given(tmp_path):
    _, fit = fitted("pymc")
    theta = np.random.default_rng(0).normal(size=(*fit.draws.shape[:2], 3))
    given = dataclasses.replace(
        fit,
        posterior={**fit.posterior, "theta": theta},
        dims={**fit.dims, "theta": ("person",)},
        coords={**fit.coords, "person": np.arange(3)},
        labelled=("group", "person"),
    )
    for one in (given, folt.load(given.save(tmp_path / "fit.nc"))):
        assert "theta, person 0" in readable_names(one).values()
    without = dataclasses.replace(given, labelled=("group",))
    assert "theta, person 3" in readable_names(without).values()


def test_places_are_numbered_in_the_names_that_a_convention_takes():
    dims, names = {"loading": ("item", "factor")}, ("loading[0,0]", "loading[1,0]")
    coords = {"item": ["a", "b"], "factor": ["x"]}
    assert entry_name("loading[b,factor 1]", names, dims, coords) == "loading[1,0]"
    assert entry_name("loading[b,factor 0]", names, dims, coords) is None


def test_one_axis_may_be_named_by_a_word():
    problem = own_problem(dims={"mu": "side"}, coords={"side": GROUPS})
    assert dict(problem.dims)["mu"] == ("side",)
    with pytest.raises(ValueError, match="axis 'side' 3 labels"):
        own_problem(dims={"mu": "side"}, coords={"side": ["a", "b", "c"]})


def test_parameters_stand_in_the_order_of_the_model():
    import pymc as pm

    with pm.Model() as model:
        weight = pm.Dirichlet("weight", np.ones(2))
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        pm.Deterministic("gap", mu[1] - mu[0])
        pm.Deterministic("far", mu[1] + mu[0])
        pm.NormalMixture("y", weight, mu, sigma, observed=Y)
    problem = folt.from_pymc(model)
    found = list(problem.parameters(np.zeros((1, problem.dim))))
    assert found == ["weight", "mu", "sigma", "gap", "far"]


def test_conventions_of_a_model_are_refused_before_a_fit_and_take_labels():
    import pymc as pm

    with pm.Model(coords={"item": list("abc")}) as model:
        loading = pm.Normal("loading", 0.0, 1.0, dims="item")
        pm.MvNormal("y", np.zeros(3), loading[:, None] * loading + np.eye(3), observed=Y[:3])
    assert "loading[b] positive" in str(folt.from_pymc(model, sign="loading[b]"))
    for options in ({"sort_by": "nu"}, {"sign": "loading[z]"}, {"sign": "loading[7]"}):
        with pytest.raises(ValueError, match=r"expected s.*got"):
            folt.from_pymc(model, **options)
    fit = brief_fit(folt.from_pymc(model), draws=50)
    assert (fit.relabelled(sign="loading[b]").posterior["loading"][..., 1] >= 0).all()
    with pytest.raises(ValueError, match="expected sort_by to be a function, as nothing"):
        fit.relabelled(sort_by="loading")


def test_coords_of_wrong_length_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="axis 'side' 3 labels, but mu has 2 entries along it"):
        own_problem(dims={"mu": ["side"]}, coords={"side": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="labels of axis 'side' as a sequence, got 'ab'"):
        own_problem(dims={"mu": ["side"]}, coords={"side": "ab"})
