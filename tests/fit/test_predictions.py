"""Predictions, replicates and paths: by hand from the same draws, and from draws of NUTS."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import folt
from brief import brief_fit
from folt.certificate.diagnostics.chains import effective_size
from folt.fit.replicates import replicates
from folt.models import (
    bayesian_mixture,
    factor_analysis,
    gaussian_mixture,
    hidden_markov,
    latent_space,
    multivariate_gaussian_mixture,
    poisson_mixture,
    ppca,
)
from folt.report.checks import compared, predictive_checks
from folt.report.parameters import readable_names

Y = np.array([-2.1, -1.8, -2.4, -1.9, 0.1, 1.7, 2.2, 2.4, 1.9, 2.1, 1.6])
COUNTS = np.array([1.0, 0.0, 2.0, 1.0, 9.0, 11.0, 8.0, 12.0])
PLANE = np.stack([Y, np.cos(3.0 * Y)], axis=1)
SPACE = np.random.default_rng(5).normal(size=(30, 4)) + 7.0
TIES = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]])
LIMIT = 5.0  # standard errors: a right answer fails with probability 6e-7


@functools.cache
def mixture_fit():
    return brief_fit(gaussian_mixture(Y, 2))


def at_points(problem, count=40, seed=0):
    """A fit whose draws are any points: what is computed from draws does not ask who drew them."""
    draws = 0.5 * np.random.default_rng(seed).normal(size=(2, count, problem.dim))
    return dataclasses.replace(
        mixture_fit(),
        problem=problem,
        group=problem.group,
        names=problem.names,
        draws=draws,
        posterior=problem.parameters(draws),
        coords={},
        exchanged={},
    )


def by_draw(fit):
    """The parameters of every draw, one after the other."""
    count = fit.draws.shape[0] * fit.draws.shape[1]
    flat = {name: value.reshape(count, *value.shape[2:]) for name, value in fit.posterior.items()}
    return [{name: value[k] for name, value in flat.items()} for k in range(count)]


def gaussian(p, new):
    weight = p.get("weight", np.full_like(p["mu"], 0.5))
    return stats.norm.pdf(np.asarray(new)[:, None], p["mu"], p["sigma"]) @ weight


def plane(p, new):
    parts = zip(p["weight"], p["mu"], p["covariance"], strict=True)
    return sum(w * stats.multivariate_normal.pdf(new, mu, cov) for w, mu, cov in parts)


def ties(p, new):
    distance = np.linalg.norm([p["position"][i] - p["position"][j] for i, j in new], axis=1)
    return 1.0 / (1.0 + np.exp(distance - p["intercept"]))


EXACT = {
    "weights": (lambda: gaussian_mixture(Y, 2), [-3.0, 0.0, 2.5], gaussian),
    "equal weights": (lambda: bayesian_mixture(Y, 2), [-3.0, 0.0, 2.5], gaussian),
    "plane": (lambda: multivariate_gaussian_mixture(PLANE, 2), PLANE[:3] + 0.1, plane),
    "counts": (
        lambda: poisson_mixture(COUNTS, 2),
        [0, 3, 9],
        lambda p, new: stats.poisson.pmf(np.asarray(new)[:, None], p["rate"]) @ p["weight"],
    ),
    "ties": (lambda: latent_space(TIES, 1), [(0, 1), (3, 1)], ties),
}


@pytest.mark.parametrize("name", EXACT)
def test_predictions_are_those_by_hand(name):
    make, new, by_hand = EXACT[name]
    fit = at_points(make())
    found = fit.predict(new)
    expected = np.array([by_hand(p, new) for p in by_draw(fit)])
    np.testing.assert_allclose(found["mean"], expected.mean(axis=0), rtol=1e-9)
    low, high = np.quantile(expected, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(found[["low", "high"]], np.stack([low, high], 1), rtol=1e-9)
    assert len(fit.predict()) > 2


def filtered(p, y):
    """P(s_T | y_1, ..., y_T), by Bayes' rule step after step."""
    shares = p["initial"]
    for k, one in enumerate(y):
        shares = shares if k == 0 else shares @ p["transition"]
        shares = shares * stats.norm.pdf(one, p["mu"], p["sigma"])
        shares = shares / shares.sum()
    return shares


def test_next_states_are_those_by_hand_and_observations_come_from_them():
    fit = at_points(hidden_markov(Y, 2), count=1_000)
    found, draws = fit.predict(3), by_draw(fit)
    for step in (1, 2, 3):
        states = np.array(
            [filtered(p, Y) @ np.linalg.matrix_power(p["transition"], step) for p in draws]
        )
        row = found.loc[step]
        np.testing.assert_allclose(row[["mean[0]", "mean[1]"]], states.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(row["high[1]"], np.quantile(states[:, 1], 0.975), rtol=1e-9)
        means = np.array([s @ p["mu"] for s, p in zip(states, draws, strict=True)])
        spread = np.array([s @ p["sigma"] ** 2 for s, p in zip(states, draws, strict=True)])
        error = np.sqrt((means.var() + spread.mean() + 4.0) / len(draws))
        assert abs(row["mean[y]"] - means.mean()) < LIMIT * error


@pytest.mark.parametrize("make", [factor_analysis, ppca])
def test_missing_entries_have_the_mean_of_the_conditional_normal(make):
    fit = at_points(make(SPACE, 2), count=1_500)
    row, centre = np.array([8.0, np.nan, 6.0, np.nan]), SPACE.mean(axis=0)
    there, means, variances = np.isfinite(row), [], []
    for p in by_draw(fit):
        whole = p["loading"].T @ p["loading"] + np.diag(np.broadcast_to(p["noise"], 4))
        gain = whole[~there][:, there] @ np.linalg.inv(whole[there][:, there])
        means.append(centre[~there] + gain @ (row - centre)[there])
        left = whole[~there][:, ~there] - gain @ whole[there][:, ~there]
        variances.append(np.diag(left))
    found = fit.predict(row)
    assert found["mean[0]"].item() == pytest.approx(8.0)
    ours = found[["mean[1]", "mean[3]"]].to_numpy()[0]
    error = np.sqrt((np.var(means, axis=0) + np.mean(variances, axis=0)) / len(means))
    assert np.all(np.abs(ours - np.mean(means, axis=0)) < LIMIT * error)
    width = (found[["high[1]", "high[3]"]].to_numpy() - found[["low[1]", "low[3]"]].to_numpy())[0]
    assert np.all(width > 2.0 * np.sqrt(np.mean(variances, axis=0)))


REFUSED = {
    "a table for a series": (lambda: gaussian_mixture(Y, 2), [[1.0, 2.0]], r"shape \(n,\)"),
    "infinite": (lambda: gaussian_mixture(Y, 2), [np.inf], "finite numbers, got inf"),
    "fractions of counts": (lambda: poisson_mixture(COUNTS, 2), [1.5], "whole numbers"),
    "other columns": (lambda: multivariate_gaussian_mixture(PLANE, 2), SPACE, r"\(n, 2\)"),
    "no steps": (lambda: hidden_markov(Y, 2), 0, "steps ahead"),
    "columns of a row": (lambda: factor_analysis(SPACE, 1), [1.0, 2.0], r"\(n, 4\)"),
    "a node with itself": (lambda: latent_space(TIES, 1), [(1, 1)], "two different nodes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_new_data_of_another_shape_are_refused_in_a_sentence(name):
    make, new, words = REFUSED[name]
    with pytest.raises(ValueError, match=words) as caught:
        at_points(make(), count=2).predict(new)
    assert "\n" not in str(caught.value)


def test_a_loaded_fit_predicts_the_same(tmp_path):
    fit = mixture_fit()
    place = fit.save(tmp_path / "fit.nc")
    loaded = folt.load(place, problem=gaussian_mixture(Y, 2))
    assert loaded.predict([0.0, 1.0]).equals(fit.predict([0.0, 1.0]))
    np.testing.assert_array_equal(loaded.replicates(3)["y"], fit.replicates(3)["y"])
    for verb in ("predict", "replicates", "path"):
        with pytest.raises(ValueError, match=r"folt\.load\(path, problem="):
            getattr(folt.load(place), verb)()


def test_replicates_have_the_moments_of_the_mixture():
    fit = mixture_fit()
    drawn = fit.replicates(1)["y"]
    assert drawn.shape == (*fit.draws.shape[:2], len(Y))
    means = np.array([p["weight"] @ p["mu"] for p in by_draw(fit)])
    seconds = np.array([p["weight"] @ (p["mu"] ** 2 + p["sigma"] ** 2) for p in by_draw(fit)])
    noise = (seconds - means**2).mean() / drawn.size  # given the parameters, all are independent
    assert abs(drawn.mean() - means.mean()) < LIMIT * np.sqrt(noise)


def test_replicates_are_made_of_some_draws_of_every_chain_where_all_would_be_too_many(monkeypatch):
    fit = at_points(gaussian_mixture(Y, 2), count=60)
    assert fit.replicates()["y"].shape == (2, 60, len(Y))
    assert fit.replicates(draws=7)["y"].shape == (2, 7, len(Y))
    for wrong in (0, 61, 2.5):
        with pytest.raises(ValueError, match="draws of every chain, 1 to 60, got"):
            fit.replicates(draws=wrong)
    monkeypatch.setattr(folt.fit.replicates, "ENTRIES", 2 * 20 * len(Y))
    assert fit.replicates()["y"].shape == (2, 20, len(Y))
    made = replicates(fit)
    np.testing.assert_array_equal(made.at, range(0, 60, 3))
    some = dataclasses.replace(fit, draws=fit.draws[:, ::3])
    np.testing.assert_array_equal(some.replicates()["y"], made.values["y"])


def test_own_functions_are_predicted_and_other_models_told_what_to_call():
    fit = mixture_fit()
    x = np.array([1.0, 2.0, 3.0])
    found = fit.predict(x, lambda p, x: p["mu"][1] + 2.0 * x)
    np.testing.assert_allclose(found["mean"], fit.posterior["mu"][..., 1].mean() + 2.0 * x)
    assert list(found.index) == list(x)
    by_column = fit.predict(x, lambda p, x: x[:, None] * p["mu"])
    assert fit.predict(list(x), lambda p, x: x[:, None] * p["mu"]).equals(by_column)
    assert list(by_column)[:2] == ["mean[0]", "mean[1]"]
    bare = folt.Problem(lambda x: -0.5 * jnp.sum(x**2), folt.groups.Trivial(2))
    host = folt.from_callable(lambda x: -0.5 * (x**2).sum(), 2, folt.groups.Trivial(2))
    for problem, words in ((bare, r"folt\.Problem\(predictive="), (host, r"from .*fit\.posterior")):
        other = at_points(problem, count=2)
        with pytest.raises(ValueError, match=r"fit\.predict\(new, function\)") as caught:
            other.predict()
        assert "pm." not in str(caught.value)
        for verb in (other.replicates, lambda fit=other: fit.plot("checks")):
            with pytest.raises(ValueError, match=words) as caught:
                verb()
            assert "pm." not in str(caught.value)
    with pytest.raises(ValueError, match="hidden Markov"):
        fit.path()


def test_the_path_is_the_most_probable_one_over_all_draws():
    """Six steps of two states: the probability of all 64 paths, averaged over the draws."""
    y = np.array([0.1, 2.9, 3.1, 0.2, -0.3, 1.4])
    fit = at_points(hidden_markov(y, 2), count=60)
    chance = dict.fromkeys(itertools.product(range(2), repeat=len(y)), 0.0)
    own = []
    for p in by_draw(fit):
        joint = {}
        for path in chance:
            states = list(path)
            steps = [p["transition"][i, j] for i, j in itertools.pairwise(path)]
            emitted = stats.norm.pdf(y, p["mu"][states], p["sigma"][states])
            joint[path] = p["initial"][path[0]] * np.prod(steps) * np.prod(emitted)
        total = sum(joint.values())
        own.append(max(joint, key=joint.get))
        chance = {path: chance[path] + joint[path] / total / 120 for path in chance}
    best = max(set(own), key=chance.get)
    found = fit.path()
    assert tuple(map(int, found["state"])) == best
    assert found.attrs["path_probability"] == pytest.approx(chance[best])
    np.testing.assert_allclose(found["agreement"], (np.array(own) == best).mean(axis=0))
    smoothed = [sum(v for path, v in chance.items() if path[t] == best[t]) for t in range(len(y))]
    np.testing.assert_allclose(found["probability"], smoothed, rtol=1e-9)


@pytest.mark.extended
def test_predictions_agree_with_draws_of_nuts():
    from numpyro.infer import MCMC, NUTS

    problem, new = bayesian_mixture(Y, 2), np.array([-2.0, 0.0, 3.0])
    fit = brief_fit(problem, draws=1_000)
    with jax.enable_x64(True):
        options = {"num_warmup": 300, "num_samples": 1_500, "progress_bar": False}
        sampler = MCMC(NUTS(potential_fn=lambda x: -problem.log_prob(x)), **options)
        sampler.run(jax.random.key(0), init_params=jnp.array([-1.0, 0.0, 1.0, 0.0]))
        draws = np.asarray(sampler.get_samples())[None]
    other = dataclasses.replace(fit, draws=draws, posterior=problem.parameters(draws))
    values = [np.array([gaussian(p, new) for p in by_draw(one)]) for one in (fit, other)]
    errors = []
    for one, value in zip((fit, other), values, strict=True):
        chains = value.reshape(*one.draws.shape[:2], len(new))
        sizes = np.array([effective_size(chains[..., k]) for k in range(len(new))])
        errors.append(value.std(axis=0) / np.sqrt(sizes))
    difference = fit.predict(new)["mean"] - other.predict(new)["mean"]
    assert np.all(np.abs(difference) < LIMIT * np.hypot(*errors))


def test_checks_find_what_replicates_do_not_have_and_nothing_else():
    generator = np.random.default_rng(2)
    replicated = generator.normal(size=(400, 80))
    alike = compared(generator.normal(size=80), replicated, ("y",))
    assert not any(check.extreme for check in alike.quantities)
    skewed = compared(generator.exponential(size=80) - 1.0, replicated, ("y",))
    assert {"skewness", "largest"} <= {check.name for check in skewed.quantities if check.extreme}
    drifting = compared(np.sort(replicated[0]), replicated, ("y",), series=True)
    wrong = [check.name for check in drifting.quantities if check.extreme]
    assert wrong == ["correlation with the one before"]
    table = generator.normal(size=(100, 80, 5))
    assert "Of 5 variables the first 3" in compared(table[0], table, tuple("abcde")).text
    assert "variables" not in alike.text


def regression(data, predicted="y"):
    """Straight lines; the problem knows how responses are drawn, and of several arrays which."""

    def predictive(key, x, data):
        z = data["x"] if isinstance(data, dict) else data[0]
        return {predicted: x[0] + x[1] * z + jax.random.normal(key, z.shape)}

    return folt.Problem(
        lambda x, data: -0.5 * jnp.sum(x**2),
        folt.groups.Trivial(2),
        data=data,
        predictive=predictive,
    )


def test_replicates_are_checked_against_what_was_observed_and_not_against_covariates():
    data = {"x": np.linspace(0.0, 1.0, 11), "y": Y}
    checks = predictive_checks(at_points(regression(data), count=50))
    np.testing.assert_array_equal(checks.observed[:, 0], Y)
    table = {"x": np.eye(11)[:, :4], "y": Y}
    only = folt.Problem(
        lambda x, data: -0.5 * jnp.sum(x**2),
        folt.groups.Trivial(2),
        data=table,
        predictive=lambda key, x, data: {"replica": jax.random.normal(key, data["y"].shape)},
    )
    fit = at_points(only, count=50)
    np.testing.assert_array_equal(predictive_checks(fit).observed[:, 0], Y)
    np.testing.assert_array_equal(fit.to_arviz().observed_data["replica"], Y)
    either = at_points(regression((data["x"], Y)), count=2)
    with pytest.raises(ValueError, match="which array its replicates are like"):
        either.plot("checks")
    assert "observed_data" not in either.to_arviz()


def test_answers_of_yes_and_no_are_compared_by_their_shares():
    generator = np.random.default_rng(3)
    replicated = (generator.random(size=(300, 90, 14)) < 0.4).astype(float)
    table = replicated[0].copy()
    table[:, 5] = 1.0
    found = compared(table, replicated, tuple(f"item {j}" for j in range(14)))
    assert [check.name for check in found.quantities if check.extreme] == ["mean of item 5"]
    assert len(found.quantities) == 12 + 3
    assert "Of 14 variables the first 12" in found.text
    assert at_points(latent_space(TIES, 1)).plot("checks").axes


def test_columns_name_parameters_in_the_order_of_the_model(tmp_path):
    import pandas

    frame = pandas.DataFrame(PLANE, columns=["length", "width"])
    problem = multivariate_gaussian_mixture(frame, 2)
    fit = at_points(problem)
    fit = dataclasses.replace(
        fit,
        dims=dict(problem.dims),
        coords={axis: np.array(labels) for axis, labels in problem.coords.items()},
        exchanged={"weight": (0,), "mu": (0,), "covariance": (0,)},
    )
    rows = list(fit.table().index)
    assert rows[:3] == ["weight[0]", "weight[1]", "mu[0,length]"]
    assert [row for row in rows if row.startswith("covariance[1")] == [
        "covariance[1,length,length]",
        "covariance[1,length,width]",
        "covariance[1,width,width]",
    ]
    readable = readable_names(fit)
    assert readable["mu[0,width]"] == "mu, component 1, width"
    place = mixture_fit().save(tmp_path / "fit.nc")
    assert list(folt.load(place).posterior) == ["weight", "mu", "sigma"]
    with pytest.raises(ValueError, match="2 names of variables, got 1"):
        multivariate_gaussian_mixture(PLANE, 2, variables=["length"])
