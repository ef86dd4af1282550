"""Draws people have: points and parameters are inverse, and every form of draws is taken."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import folt
from arviz_either import OLD, from_dict
from folt.models import (
    bayesian_mixture,
    factor_analysis,
    gaussian_mixture,
    hidden_markov,
    label_switching,
    modal_powers,
    modal_spectrum,
    multivariate_gaussian_mixture,
    poisson_mixture,
    simulate_factor_analysis,
    simulate_gaussian_mixture,
    simulate_hidden_markov,
    simulate_multivariate_gaussian_mixture,
    simulate_poisson_mixture,
    simulate_spectrum,
)
from folt.problem import WithData
from folt.reference import Given, reference_for
from folt.store.draws import draws_by_name

KEY = jax.random.key(0)


def spectrum(model, **options):
    window = simulate_spectrum(KEY)
    return model(window.frequency, window.psd, 2, **options)


PROBLEMS = {
    "coordinates by name": lambda: label_switching(2, 2),
    "equal weights": lambda: bayesian_mixture(),
    "gaussian": lambda: gaussian_mixture(simulate_gaussian_mixture(KEY, 40), 3),
    "poisson": lambda: poisson_mixture(simulate_poisson_mixture(KEY, 40), 3),
    "multivariate": lambda: multivariate_gaussian_mixture(
        simulate_multivariate_gaussian_mixture(KEY, 40), 2
    ),
    "regimes": lambda: hidden_markov(simulate_hidden_markov(KEY, 40), 3),
    "counts in regimes": lambda: hidden_markov(
        simulate_hidden_markov(KEY, 40, "poisson"), 2, "poisson", initial="stationary"
    ),
    "factors": lambda: factor_analysis(simulate_factor_analysis(KEY, 40), 2),
    "modes": lambda: spectrum(modal_spectrum),
    "modes with powers": lambda: spectrum(modal_powers),
    "modes, averages known": lambda: spectrum(modal_powers, averages=4.0),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_points_come_back_from_their_parameters(name):
    problem = PROBLEMS[name]()
    points = np.random.default_rng(0).normal(size=(3, 7, problem.dim))
    values = problem.parameters(points)
    back = problem.unconstrain(values)
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, points, rtol=1e-8, atol=1e-8)
    one = problem.unconstrain({key: value[0, 0] for key, value in values.items()})
    np.testing.assert_allclose(one, points[0, 0], rtol=1e-8, atol=1e-8)


def test_parameters_at_many_points_are_those_at_each():
    problem = PROBLEMS["gaussian"]()
    points = np.random.default_rng(1).normal(size=(2, 3, problem.dim))
    many = problem.parameters(points)
    with jax.enable_x64(True):
        single = eqx.filter_jit(problem.parameters)(jnp.asarray(points[1, 2]))
    for name, value in single.items():
        np.testing.assert_allclose(many[name][1, 2], value, rtol=1e-12)


def named(**functions):
    def log_density(x):
        return -0.5 * jnp.sum(x**2)

    return folt.Problem(log_density, folt.groups.Trivial(2), names=["a[0]", "a[1]"], **functions)


def test_an_array_stands_for_its_entries():
    values = np.random.default_rng(2).normal(size=(4, 5, 2))
    np.testing.assert_array_equal(named().unconstrain({"a": values}), values)
    with pytest.raises(ValueError, match=r"expected a with an entry a\[1\], got shape \(4, 5, 1\)"):
        named().unconstrain({"a": values[..., :1]})


def test_coordinates_that_no_parameter_determines_are_drawn():
    problem = named(
        constrain=lambda x: {"share": jnp.exp(x[0])},
        unconstrain=lambda values, key: jnp.stack(
            [jnp.log(values["share"]), jax.random.normal(key)]
        ),
    )
    share = np.exp(np.linspace(-1, 1, 1000))
    first, second = (problem.unconstrain({"share": share}, jax.random.key(n)) for n in (0, 1))
    np.testing.assert_allclose(first[:, 0], np.log(share), atol=1e-12)
    assert len(np.unique(first[:, 1])) == 1000
    assert not np.any(first[:, 1] == second[:, 1])
    np.testing.assert_array_equal(problem.unconstrain({"share": share}, jax.random.key(0)), first)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mu": np.ones((4, 3))}, "no parameter 'sigma' among the values, which have mu"),
        ({"nu": np.ones((4, 3))}, "none of the problem's parameters mu, sigma"),
        ({"mu": np.ones((4, 2)), "sigma": np.ones((4, 3))}, r"expected mu of shape \(..., 3\)"),
        ({"mu": np.ones((5, 3)), "sigma": np.ones((4, 3))}, "as many draws of every parameter"),
        (
            {"mu": np.ones((4, 3)), "sigma": np.zeros((4, 3))},
            r"edge of.* log_sigma\[0\]",
        ),
    ],
)
def test_values_that_are_no_points_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        bayesian_mixture().unconstrain(values)


def test_a_problem_without_an_inverse_says_what_is_missing():
    problem = named(constrain=WithData(lambda x, data: {"total": x.sum()}))
    with pytest.raises(ValueError, match="give it unconstrain="):
        problem.unconstrain({"total": np.zeros(3)})


def test_a_black_box_may_be_inverted_in_numpy():
    problem = folt.from_callable(
        lambda x: -0.5 * float(x @ x),
        2,
        folt.groups.Permutation(2, 1),
        constrain=lambda x: {"scale": np.exp(x)},
        unconstrain=lambda values: np.log(values["scale"]),
    )
    points = np.random.default_rng(3).normal(size=(2, 4, 2))
    np.testing.assert_allclose(problem.unconstrain(problem.parameters(points)), points)


# Forms -----------------------------------------------------------------------------------------

DRAWS = {
    "mu": np.random.default_rng(4).normal([0.0, 3.0, 6.0], 0.2, size=(4, 90, 3)),
    "sigma": np.random.default_rng(5).uniform(0.5, 1.5, size=(4, 90, 3)),
}


class Sampler:
    """What a NumPyro MCMC has of interest."""

    def get_samples(self, group_by_chain=False):
        assert group_by_chain
        return {name: jnp.asarray(value, jnp.float32) for name, value in DRAWS.items()}


def forms(folder):
    data = from_dict(posterior=DRAWS)
    data.to_netcdf(str(folder / "posterior.nc"))
    dataset = data.posterior if OLD else data.posterior.to_dataset()
    dataset.to_netcdf(folder / "plain.nc", engine="h5netcdf")
    turned = dataset.transpose("mu_dim_0", "sigma_dim_0", "draw", "chain")
    return {
        "InferenceData": data,
        "netCDF": folder / "posterior.nc",
        "netCDF as text": str(folder / "posterior.nc"),
        "netCDF without groups": folder / "plain.nc",
        "Dataset": dataset,
        "Dataset in another order": turned,
        "DataTree": xr.DataTree.from_dict({"posterior": dataset}),
        "dict": DRAWS,
        "NumPyro": Sampler(),
        "Fit": type("Fit", (), {"posterior": DRAWS})(),
    }


def test_every_form_gives_the_same_draws(tmp_path):
    for form, given in forms(tmp_path).items():
        found = draws_by_name(given)
        assert set(found) == {"mu", "sigma"}, form
        for name, value in DRAWS.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=form)
    flat = {name: value.reshape(360, 3) for name, value in DRAWS.items()}
    for name, value in draws_by_name(flat, chains=4).items():
        np.testing.assert_array_equal(value, DRAWS[name])


def test_every_form_serves_as_reference_and_is_relabelled(tmp_path):
    problem = bayesian_mixture()
    expected = reference_for(problem, DRAWS)(None, problem).draws
    assert expected.shape == (8, 45, 6)
    labels = folt.relabel(DRAWS).permutations
    for form, given in forms(tmp_path).items():
        found = reference_for(problem, given)(None, problem).draws
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=form)
        np.testing.assert_array_equal(folt.relabel(given).permutations, labels, err_msg=form)


def test_flat_draws_need_the_number_of_chains():
    problem = bayesian_mixture()
    flat = {name: value.reshape(360, 3) for name, value in DRAWS.items()}
    with pytest.raises(ValueError, match=r"group_by_chain=True.*Given\(draws, chains=4\)"):
        Given(flat)(None, problem)
    with pytest.raises(ValueError, match="group_by_chain=True"):
        folt.relabel(flat)
    grouped = Given(flat, chains=4)(None, problem)
    np.testing.assert_array_equal(grouped.draws, Given(DRAWS)(None, problem).draws)
    np.testing.assert_array_equal(
        folt.relabel(flat, chains=4).permutations, folt.relabel(DRAWS).permutations
    )
    with pytest.raises(ValueError, match="7 chains of equal length"):
        Given(flat, chains=7)(None, problem)
    with pytest.raises(ValueError, match="4 chains of their own"):
        Given(DRAWS, chains=4)(None, problem)


def test_one_or_two_chains_are_cut_into_pieces():
    problem = bayesian_mixture()
    two = {name: value.reshape(2, 180, 3)[:2] for name, value in DRAWS.items()}
    assert Given(two)(None, problem).draws.shape[:2] == (20, 18)
    few = Given(DRAWS)(None, problem)
    assert few.draws.shape[:2] == (8, 45)
    whole = folt.reference.health(few.draws.reshape(4, 90, 6))
    assert (few.rhat, few.ess) == whole[:2]  # judged as the chains they are


def test_chains_stuck_in_different_labellings_agree_once_folded():
    """R-hat of the reference is that of folded draws; false alarm at 1.05 far below 1e-6."""
    problem = bayesian_mixture()
    generator = np.random.default_rng(6)
    mu = generator.normal([0.0, 3.0, 6.0], 0.1, size=(4, 500, 3))
    sigma = generator.uniform(0.8, 1.0, size=(4, 500, 3))
    orders = np.array([[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]])
    stuck = {"mu": mu.copy(), "sigma": sigma.copy()}
    for values in stuck.values():
        for chain, order in enumerate(orders):
            values[chain] = values[chain][:, order]
    reference = reference_for(problem, from_dict(posterior=stuck))(None, problem)
    assert reference.rhat < 1.05
    assert not reference.cautions
    straight = Given({"mu": mu, "sigma": sigma})(None, problem)
    np.testing.assert_allclose(reference.draws, straight.draws, atol=1e-12)
    raw = problem.parameters(reference.raw)["mu"]
    assert np.ptp(raw.mean(axis=(1,))[:, 0]) > 5  # the picture keeps the labels as they came


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object(), "expected ArviZ InferenceData, .* got object"),
        ("nowhere.nc", "found nothing at nowhere.nc"),
        (from_dict(prior={"mu": DRAWS["mu"]}), "expected a group 'posterior', got prior"),
        (xr.Dataset({"mu": ("sample", np.ones(5))}), "none called chain or draw among sample"),
    ],
)
def test_what_holds_no_draws_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        draws_by_name(given)


def test_a_file_that_is_no_posterior_is_refused(tmp_path):
    path = tmp_path / "words.nc"
    path.write_text("not netCDF")
    with pytest.raises(ValueError, match="cannot be read as netCDF"):
        draws_by_name(path)
    xr.Dataset({"a": ("b", np.ones(3))}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="has no group 'posterior'"):
        draws_by_name(path)
