"""Ready models: right likelihoods, true symmetries, proper priors, clear words about bad data."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import folt
from brief import brief_fit
from cases import MODELS
from folt.coordinates import Normal
from folt.coordinates.tails import normal_log_density
from folt.groups import Blocks, Fixed
from folt.models import (
    FactorPosterior,
    datasets,
    factor_analysis,
    factors,
    gaussian_mixture,
    hidden_markov,
    independent,
    markov,
    multivariate_gaussian_mixture,
    poisson_mixture,
    simulate_factor_analysis,
    simulate_hidden_markov,
    simulate_multivariate_gaussian_mixture,
)
from folt.models.independent import LogGammas
from likelihoods import normal_of, over_paths

KEY, OTHER = jax.random.key(0), jax.random.key(1)


every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def problems():
    return {name: case.build(case.data(KEY)) for name, case in MODELS.items()}


@eqx.filter_jit
def evaluated(problem, x):
    """Log density, log prior and the user's parameters at one point."""
    return problem.log_prob(x), problem.prior.log_prob(x), problem.parameters(x)


@eqx.filter_jit
def offered(problem, key, x):
    """What the problem says of its observations."""
    return problem.log_likelihoods(x)["y"], problem.replicates(key, x)["y"]


@eqx.filter_jit
def drawn(problem, keys):
    return jax.vmap(problem.prior.sample)(keys)


def points(problem, count=3, key=OTHER):
    return drawn(problem, jax.random.split(key, count))


@pytest.mark.parametrize("name", [n for n in MODELS if "mixture" in n])
def test_pieces_of_many_observations_sum_to_the_whole(problems, name, monkeypatch):
    """Value, gradient and derivatives along the data; the last piece is shorter than the others."""
    problem = problems[name]
    x, along = jax.random.normal(KEY, (2, problem.dim))

    def found():
        @jax.jit  # anew each time: the length of a piece is read when a program is traced
        def at(x, data):
            value, slopes = jax.value_and_grad(problem.log_density, (0, 1))(x, data)
            moved = jax.jvp(lambda x: problem.log_density(x, data), (x,), (along,))[1]
            return value, *slopes, moved

        return at(x, jnp.asarray(problem.data))

    whole = found()
    monkeypatch.setattr(independent, "_PIECE", len(problem.data) // 3 - 1)
    for piecewise, one in zip(found(), whole, strict=True):
        assert_allclose(piecewise, one, rtol=1e-9, atol=1e-9)


@every_model
def test_symmetry_holds(problems, name):
    assert folt.check(problems[name]).holds


@every_model
def test_likelihood_agrees_with_scipy_and_with_pointwise(problems, name):
    problem, case = problems[name], MODELS[name]
    for x in points(problem):
        density, prior, values = evaluated(problem, x)
        expected = case.likelihood({k: np.asarray(v) for k, v in values.items()}, problem.data)
        assert_allclose(density - prior, expected, rtol=1e-8)
        seen = offered(problem, KEY, x)[0]
        assert_allclose(np.sum(seen), expected, rtol=1e-8)


@every_model
def test_every_axis_of_every_parameter_has_a_name(problems, name):
    problem = problems[name]
    values = evaluated(problem, points(problem, 1)[0])[2]
    named = dict(problem.dims)
    assert {key: value.ndim for key, value in values.items()} == {
        key: len(axes) for key, axes in named.items()
    }
    assert all(len(set(axes)) == len(axes) for axes in named.values())


@every_model
def test_predictions_look_like_the_data(problems, name):
    problem = problems[name]
    x = points(problem, 1)[0]
    values = evaluated(problem, x)[2]
    predicted = np.asarray(offered(problem, KEY, x)[1])
    assert predicted.shape == problem.data.shape
    assert np.all(np.isfinite(predicted))
    if "rate" in values:
        assert_allclose(predicted, np.round(predicted))
    else:
        assert len(np.unique(predicted)) == predicted.size


@every_model
def test_second_data_set_of_equal_shape_does_not_compile_again(problems, name):
    """Neither by `with_data` nor by building the model anew, whose default prior differs."""
    traces = []

    @eqx.filter_jit
    def counted(problem, x):
        traces.append(1)
        return problem.log_prob(x)

    problem, case = problems[name], MODELS[name]
    second = case.build(case.data(OTHER))
    x = points(problem, 1)[0]
    values = [counted(p, x) for p in (problem, second, problem.with_data(second.data))]
    assert len(traces) == 1
    assert len(set(map(float, values))) == 3


@every_model
def test_names_and_components_fit(problems, name):
    problem = problems[name]
    assert len(set(problem.names)) == problem.dim == problem.prior.dim
    values = evaluated(problem, points(problem, 1)[0])[2]
    assert all(
        len(value) == MODELS[name].components for key, value in values.items() if key != "noise"
    )
    for key in ("weight", "transition", "initial"):
        if key in values:
            assert_allclose(jnp.sum(values[key], axis=-1), 1.0, rtol=1e-12)


def test_a_prior_of_its_own_for_one_component_is_found_out(problems):
    """Mutant: the first mean gets another prior, so the symmetry is gone."""
    problem = problems["gaussian mixture"]
    location = np.asarray(problem.log_density.family.priors[0].loc) + np.array([1.0, 0.0, 0.0])
    broken = eqx.tree_at(lambda p: p.log_density.family.priors[0].loc, problem, location)
    assert not folt.check(broken).holds


def test_an_initial_state_of_its_own_is_found_out():
    """Mutant: a chain that always starts in the first state is not exchangeable."""
    data = simulate_hidden_markov(KEY, 30)
    problem = hidden_markov(data, 2)

    def started(x, observations):
        rows, ratios = problem.prior.pieces(x)
        family = problem.log_density.family
        terms = family.terms(family.parameters(rows.reshape(2, 2)), observations)
        transition = problem.log_density.transition.push(ratios)
        return jnp.sum(
            markov.forward_log_likelihood(jnp.log(jnp.array([0.99, 0.01])), transition, terms)
        )

    assert not folt.check(folt.Problem(started, problem.group, data=data)).holds


def test_stationary_distribution_stays():
    transition = jnp.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    found = markov.stationary(transition)
    assert_allclose(found @ transition, found, rtol=1e-12)
    assert_allclose(jnp.sum(found), 1.0)


def test_forward_survives_impossible_observations():
    """An observation 200 standard deviations away has a log density, not minus infinity."""
    data = np.array([0.0, 1.0, 500.0, 0.5])
    values = {
        "mu": jnp.array([0.0, 1.0]),
        "sigma": jnp.array([1.0, 2.0]),
        "transition": jnp.array([[1 - 1e-12, 1e-12], [0.5, 0.5]]),
        "initial": jnp.array([0.5, 0.5]),
    }
    total = float(jnp.sum(markov.pointwise_of_states(values, data)))
    expected = over_paths(normal_of)({k: np.asarray(v) for k, v in values.items()}, data)
    assert_allclose(total, expected, rtol=1e-10)


def test_precisions_have_the_wishart_prior_they_claim():
    """E[Σ⁻¹] = ν·Ψ⁻¹ over 20 000 draws of one component: 3 checks within 4.5 errors (2e-5)."""
    data = simulate_multivariate_gaussian_mixture(KEY, 50)
    nu, scale = 7.0, np.array([0.5, 2.0])
    problem = multivariate_gaussian_mixture(data, 1, degrees=nu, sigma_scale=scale)
    draws = points(problem, 20_000)
    covariance = jax.jit(jax.vmap(lambda x: problem.parameters(x)["covariance"][0]))(draws)
    precision = np.linalg.inv(np.asarray(covariance))
    expected = np.diag(nu / ((nu - 3) * scale**2))
    error = precision.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(precision.mean(axis=0) - expected) < 4.5 * error)


def test_a_start_near_partitions_is_a_density_that_exchanges_labels_and_covers_the_prior():
    """Five errors of a mean of 20 000 bounded weights; equal rows are no reason to warn."""
    data = np.random.default_rng(0).normal(size=(80, 1)) + np.repeat([[-2.0], [2.0]], 40, axis=0)
    problem = multivariate_gaussian_mixture(data, 2)
    keys = jax.random.split(jax.random.key(0), 20_000)
    points, values = jax.jit(jax.vmap(problem.start.sample_and_log_prob))(keys)
    assert_allclose(jax.jit(jax.vmap(problem.start.log_prob))(points), values, rtol=1e-12)
    swapped = jax.jit(jax.vmap(problem.group.orbit))(points[:50])[:, 1]
    assert_allclose(jax.jit(jax.vmap(problem.start.log_prob))(swapped), values[:50], rtol=1e-12)
    weights = np.exp(jax.jit(jax.vmap(problem.prior.log_prob))(points) - values)
    assert abs(weights.mean() - 1.0) < 5.0 * weights.std() / 20_000**0.5
    assert multivariate_gaussian_mixture(np.repeat(data[:2] @ [[1.0, 2.0]], 15, axis=0), 3).start


def test_log_gamma_coordinates_have_a_normalised_prior():
    grid = jnp.linspace(-60, 30, 20_001)[:, None]
    logs = jax.jit(jax.vmap(LogGammas(np.array([1.3])).log_prior))(grid)
    assert_allclose(jnp.sum(jnp.exp(logs)) * (grid[1, 0] - grid[0, 0]), 1.0, rtol=1e-6)


def test_a_model_without_a_sort_key_says_so_and_its_fits_follow_the_proposal():
    """Factors: likeliest labels and largest entries, unless another order is asked for."""
    problem = factor_analysis(simulate_factor_analysis(KEY, 40), 2)
    assert "fits take labels from the proposal and have the largest entry" in str(problem)
    fit = brief_fit(problem, draws=1_000)
    assert fit.labels == "proposal; signs by largest"
    parts = fit.certificate.symmetry.boundary
    assert parts.mixed < 0.01
    known = functools.partial(brief_fit, problem, reference=fit.unfolded())  # no search again
    sums = known(sort_by=lambda posterior: posterior["loading"].sum(axis=-1))
    assert sums.labels.startswith("sorted by")
    assert known(labels="proposal", sign="loading[0,1]").labels == (
        "proposal; signs by loading[0,1]"
    )


def test_normal_loadings_rotate_and_sparse_ones_do_not():
    data = simulate_factor_analysis(KEY, 40)
    rotating = factor_analysis(data, 2, loading_prior="normal")
    assert rotating.quotient.rotations[0].directions == 1
    assert factor_analysis(data, 1, loading_prior="normal").group.order == 2
    deviation, noise, turned = data.std(axis=0), Normal(0.0, 1.0), {}
    for kind, prior in factors.LOADING_PRIORS.items():
        posterior = FactorPosterior(prior(0.0, 0.5), noise, deviation, 2)

        def of_loadings(loading, rest, posterior=posterior):
            own = posterior.loading.to_normal(loading)
            slopes = posterior.loading.log_prob(loading) - normal_log_density(own)
            return posterior(jnp.concatenate([own, rest]), data) + jnp.sum(slopes)

        found = folt.detect(lambda x, of=of_loadings: of(x[:18], x[18:]), 2, [Blocks(9), Fixed(9)])
        assert found.group.order == 8
        turned[kind] = bool(found.rotations)
    assert turned == {"laplace": False, "cauchy": False, "normal": True}


COLLAPSING = {
    "gaussian": (gaussian_mixture, [0.0, 1.0, 2.0, 3.0, 10.0]),
    "multivariate": (
        multivariate_gaussian_mixture,
        [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0], [10.0, 10.0]],
    ),
}


@pytest.mark.parametrize("name", COLLAPSING)
def test_prior_tames_a_component_that_collapses_onto_one_observation(name):
    """The likelihood grows without bound as σ → 0 there; the posterior falls."""
    build, data = COLLAPSING[name]
    problem = build(np.array(data), 2)
    if name == "gaussian":
        location = problem.log_density.family.priors[0].to_normal(jnp.asarray(2.0))
        x = jnp.zeros(5).at[0].set(location)
        steps = [x.at[1].set(-shrink) for shrink in (5.0, 10.0, 20.0)]
    else:
        location = problem.log_density.mu.to_normal(jnp.array([2.0, 1.0]))
        x = jnp.zeros(problem.dim).at[:2].set(location)
        diagonal = 4 + 2  # after the means and the triangles
        steps = [x.at[diagonal : diagonal + 2].set(grow) for grow in (5.0, 10.0, 20.0)]
    density, prior = np.array([evaluated(problem, step)[:2] for step in steps]).T
    assert np.all(np.diff(density - prior) > 0)
    assert np.all(np.diff(density) < 0)


ONE, MANY = np.linspace(0.0, 1.0, 9), np.random.default_rng(0).normal(size=(9, 4))
WHOLE = np.arange(9.0)
BAD = {
    "missing": (lambda: gaussian_mixture([1.0, np.nan, 2.0], 2), "index 1 is missing"),
    "masked": (lambda: gaussian_mixture(np.ma.masked_less(ONE, 0.5), 2), "missing"),
    "infinite": (lambda: gaussian_mixture([1.0, np.inf, 2.0], 2), "index 1 is inf"),
    "words": (lambda: gaussian_mixture(["a", "b", "c"], 2), "must be numbers, got list"),
    "numbers as words": (lambda: poisson_mixture(["1", "2", "4"], 2), "must be numbers"),
    "complex": (lambda: gaussian_mixture(ONE + 1j, 2), "must be numbers"),
    "ragged": (lambda: multivariate_gaussian_mixture([[1.0], [1.0, 2.0]], 1), "must be numbers"),
    "too few": (lambda: gaussian_mixture([1.0, 2.0], 3), "2 observations for 3 components"),
    "too few states": (lambda: hidden_markov([1.0, 2.0], 3), "2 observations for 3 states"),
    "constant": (lambda: gaussian_mixture(np.ones(9), 2), "equal to 1: no spread"),
    "constant counts": (lambda: poisson_mixture(np.ones(9), 2), "equal to 1: no spread"),
    "constant column": (
        lambda: multivariate_gaussian_mixture(MANY * [1, 0, 1, 1], 2),
        "column 1 are equal",
    ),
    "constant variable": (lambda: factor_analysis(MANY * [1, 1, 0, 1], 2), "column 2 are equal"),
    "negative count": (lambda: poisson_mixture(WHOLE - 2, 2), "negative value -2 at index 0"),
    "fractional count": (lambda: poisson_mixture(WHOLE + 0.5, 2), "fractional value 0.5"),
    "fractional emission": (lambda: hidden_markov(ONE, 2, "poisson"), "fractional value"),
    "table for a series": (lambda: gaussian_mixture(MANY, 2), "one-dimensional"),
    "series for a table": (lambda: factor_analysis(ONE, 1), "one column per variable"),
    "no components": (lambda: gaussian_mixture(ONE, 0), "components must be a positive whole"),
    "half a component": (lambda: poisson_mixture(WHOLE, 1.5), "components must be a positive"),
    "many factors": (lambda: factor_analysis(MANY, 4), "fewer factors than the 4 variables"),
    "emission": (lambda: hidden_markov(ONE, 2, "cauchy"), "'gaussian' or 'poisson'"),
    "initial": (lambda: hidden_markov(ONE, 2, initial="first"), "'uniform' or 'stationary'"),
    "loading prior": (lambda: factor_analysis(MANY, 2, loading_prior="t"), "one of 'laplace'"),
    "scale": (lambda: gaussian_mixture(ONE, 2, mu_scale=-1.0), "mu_scale must be positive"),
    "location": (lambda: gaussian_mixture(ONE, 2, mu_location=np.nan), "mu_location must be fin"),
    "concentration": (lambda: poisson_mixture(WHOLE, 2, concentration=0.0), "concentration must"),
    "degrees": (lambda: multivariate_gaussian_mixture(MANY, 2, degrees=4), "above p . 1 = 5"),
    "variables": (lambda: multivariate_gaussian_mixture(MANY, 2, mu_scale=[1, 2]), "or 4 of them"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(name):
    build, words = BAD[name]
    with pytest.raises(ValueError, match=words) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_data_sets_are_there():
    velocity = datasets.galaxies()
    assert velocity.shape == (82,)
    assert np.all(np.diff(velocity) > 0)
    assert (velocity[77], datasets.galaxies(corrected=False)[77]) == (26.960, 26.690)
    assert (velocity[0], velocity[-1]) == (9.172, 34.279)
    assert_allclose(datasets.old_faithful().mean(axis=0), [3.487783, 70.897059], rtol=1e-6)
    assert datasets.old_faithful().shape == (272, 2)
