"""PyMC models: the same density, the symmetry they have, and JAX's settings left alone."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

pm = pytest.importorskip("pymc")

import folt  # noqa: E402
from arviz_either import left_out  # noqa: E402
from brief import brief_fit  # noqa: E402
from folt.fit.replicates import observations  # noqa: E402
from folt.groups import Blocks, Fixed, Joint, Trivial, ZeroSum, ZeroSumRows  # noqa: E402
from folt.problem.symmetry import SymmetryError  # noqa: E402

Y = np.asarray(folt.models.bayesian_mixture_data()[:60])


def mixture(prior_means=0.0):
    with pm.Model() as model:
        y = pm.Data("data", Y)
        weights = pm.Dirichlet("weights", np.ones(2))
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        mu = pm.Normal("mu", prior_means, 5.0, shape=2)
        pm.Deterministic("precision", sigma**-2)
        pm.NormalMixture("y", w=weights, mu=mu, sigma=sigma, observed=y)
    return model


@pytest.fixture(scope="module")
def model():
    return mixture()


@pytest.fixture(scope="module")
def problem(model):
    return folt.from_pymc(model)


def agrees(model, problem, reduced):
    """log π(x) = PyMC's own log density of the values + log |d values/dx| by differentiation."""
    sites = problem.log_density.sites
    plain = pm.model.transform.conditioning.remove_value_transforms(model)
    own = plain.compile_logp(mode="FAST_COMPILE")
    jacobian = eqx.filter_jit(jax.jacfwd(lambda x: reduced(sites.push(x))))
    points = np.random.default_rng(4).normal(size=(3, problem.dim))
    expected = []
    push = eqx.filter_jit(sites.push)
    for x in points:
        values = {name: np.asarray(value) for name, value in push(x).items()}
        expected.append(own(values) + np.linalg.slogdet(jacobian(x))[1])
    np.testing.assert_allclose(problem.log_probs(points), expected, rtol=1e-9)


def test_the_mixture_has_the_density_of_the_model(model, problem):
    def reduced(values):
        return jnp.concatenate([values["mu"], values["sigma"], values["weights"][:-1]])

    agrees(model, problem, reduced)


def test_the_mixture_is_found_exchangeable(problem):
    assert problem.group == Joint(2, (Blocks(1), Blocks(1), ZeroSum()))
    assert folt.check(problem).holds
    assert problem.names[:2] == ("mu[0]", "mu[1]")


def test_relabelling_points_relabels_values(problem):
    x = jnp.asarray(np.random.default_rng(1).normal(size=problem.dim))
    parameters = eqx.filter_jit(problem.parameters)
    moved = parameters(problem.group.act(np.array([1, 0]), x))
    for name, value in parameters(x).items():
        np.testing.assert_allclose(moved[name], value[::-1], rtol=1e-10)


def test_the_prior_is_the_models_prior(problem):
    x = eqx.filter_jit(problem.prior.sample)(jax.random.key(3))
    values = {
        name: np.asarray(value) for name, value in eqx.filter_jit(problem.parameters)(x).items()
    }
    expected = scipy.stats.norm.logpdf(values["mu"], 0, 5).sum()
    expected += scipy.stats.halfnorm.logpdf(values["sigma"]).sum()
    expected += problem.log_density.sites.log_slope(x)  # a flat Dirichlet of two has density one
    assert float(problem.prior.log_prob(x)) == pytest.approx(float(expected))


@pytest.mark.parametrize("shapes", [(1.0, 1.0), (0.7, 3.0)])
def test_probabilities_with_beta_priors_have_a_prior_to_start_from(shapes):
    """Kolmogorov-Smirnov on 400 draws at level 1e-6: a search would be the alternative."""
    with pm.Model() as model:
        yes = pm.Beta("yes", *shapes, shape=2)
        pm.Potential("answers", (3.0 * pm.math.log(yes) + pm.math.log(1.0 - yes)).sum())
    problem = folt.from_pymc(model, exchangeable=["yes"])
    draw = jax.vmap(lambda key: problem.parameters(problem.prior.sample(key))["yes"])
    drawn = np.asarray(eqx.filter_jit(draw)(jax.random.split(jax.random.key(0), 200)))
    assert scipy.stats.kstest(drawn.ravel(), scipy.stats.beta(*shapes).cdf).pvalue > 1e-6
    agrees(model, problem, lambda values: values["yes"])


def test_other_data_in_the_container_need_no_new_problem(problem):
    points = np.zeros((1, problem.dim))
    other = problem.with_data({"data": Y + 1.0})
    with pm.Model() as shifted:
        weights = pm.Dirichlet("weights", np.ones(2))
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        mu = pm.Normal("mu", 0.0, 5.0, shape=2)
        pm.NormalMixture("y", w=weights, mu=mu, sigma=sigma, observed=Y + 1.0)
    twin = folt.from_pymc(shifted, exchangeable=["mu", "sigma", "weights"])
    np.testing.assert_allclose(other.log_probs(points), twin.log_probs(points), rtol=1e-12)
    assert twin.data is None


@pytest.mark.filterwarnings("ignore:No relabelling symmetry was folded")
def test_components_with_priors_of_their_own_are_not_exchangeable():
    assert folt.from_pymc(mixture([0.0, 1.0])).group == Trivial(5)
    with pytest.raises(SymmetryError, match="'mu', 'sigma', 'weights' are declared exchangeable"):
        folt.from_pymc(mixture([0.0, 1.0]), exchangeable=["mu", "sigma", "weights"])


def test_a_markov_chain_of_two_states_and_other_supports():
    counts = np.array([[8.0, 3.0], [2.0, 9.0]])
    with pm.Model() as model:
        transitions = pm.Dirichlet("transitions", np.full((2, 2), 1.5))
        level = pm.Normal("level", 0.0, 1.0, shape=2)
        pm.Uniform("slope", -1.0, 2.0)
        rate = pm.Gamma("rate", 2.0, 1.0)
        bias = pm.Normal("bias", 0.0, rate)
        sum_of_both = level[:, None] * level[None, :] * pm.math.log(transitions)
        drift = 0.3 * level.sum()  # without it the signs of both levels could be flipped
        pm.Potential("likelihood", (sum_of_both * counts.mean()).sum() + drift - bias**2)
    problem = folt.from_pymc(model)
    assert problem.group == Joint(2, (Blocks(1), ZeroSumRows(), Fixed(3)))
    assert problem.prior is None  # `bias` depends on `rate`

    def reduced(values):
        parts = [values["level"], values["transitions"][:, 0]]
        rest = [values[name][None] for name in ("slope", "rate", "bias")]
        return jnp.concatenate(parts + rest)

    agrees(model, problem, reduced)


def test_a_support_without_a_coordinate_keeps_pymcs_transform():
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        pm.MvNormal("y", np.zeros(2), chol=chol, observed=Y.reshape(30, 2))
    problem = folt.from_pymc(model)
    points = np.random.default_rng(2).normal(size=(2, 3))
    own = model.compile_logp(mode="FAST_COMPILE")
    name = model.value_vars[0].name
    np.testing.assert_allclose(problem.log_probs(points), [own({name: x}) for x in points])
    assert "chol_stds" in jax.eval_shape(problem.parameters, points[0])


def discrete():
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5)
        pm.Normal("y", z, 1.0, observed=Y)
    return model


def missing():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=pm.Data("data", np.zeros(2)))
    model["data"].set_value(np.array([0.0, np.nan]))
    return model


@pytest.mark.parametrize(
    ("make", "exchangeable", "message"),
    [
        (mixture, ["nu"], "no latent site 'nu'"),
        (discrete, "auto", "variable 'z' is discrete: marginalise it"),
        (missing, "auto", "observed variable 'y' has 1 NaN"),
        (lambda: 3, "auto", "expected a pymc.Model, got int"),
    ],
)
def test_one_sentence_for_what_is_wrong(make, exchangeable, message):
    with pytest.raises(ValueError, match=message) as caught:
        folt.from_pymc(make(), exchangeable=exchangeable)
    assert "\n" not in str(caught.value)


QUIET = """
import jax, numpy as np, pymc as pm, folt
with pm.Model() as model:
    mu = pm.Normal("mu", 0.0, 1.0, shape=2)
    pm.Normal("y", mu.sum(), 1.0, observed=np.zeros(3))
problem = folt.from_pymc(model, exchangeable=["mu"])
assert problem.group.order == 2
assert not jax.config.jax_enable_x64
assert jax.numpy.ones(2).dtype == "float32"
"""


def test_jax_keeps_its_precision():
    done = subprocess.run(
        [sys.executable, "-c", QUIET], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_a_fit_goes_to_arviz_with_loo(problem):
    fit = brief_fit(problem)
    assert set(fit.posterior) == {"weights", "sigma", "mu", "precision"}
    assert np.all(np.diff(fit.posterior["mu"], axis=-1) >= 0)
    data = fit.to_arviz()
    assert data.posterior["mu"].dims == ("chain", "draw", "component")
    assert np.isfinite(left_out(data).elpd)
    np.testing.assert_array_equal(data.observed_data["y"], Y)
    with pytest.raises(ValueError, match=r"are drawn: call pm\.sample_posterior_predictive"):
        fit.to_arviz(posterior_predictive=True)


def test_a_potential_observes_nothing():
    with pm.Model() as model:
        pm.Potential("likelihood", -(pm.Normal("mu", 0.0, 1.0) ** 2))
    assert observations(folt.from_pymc(model, exchangeable=[])) == {}


def test_masked_observations_are_refused_in_a_sentence():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0, shape=2)
        masked = np.ma.masked_array(Y[:6], np.arange(6) < 2)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.NormalMixture("y", np.ones(2) / 2, mu, 1.0, observed=masked)
    with pytest.raises(ValueError, match="observations of 'y' are masked or missing"):
        folt.from_pymc(model)
