"""Weights with a free total: the same evidence, in coordinates that relabelling permutes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

numpyro = pytest.importorskip("numpyro")

import numpyro.distributions as dist  # noqa: E402
from numpyro.infer.util import log_density  # noqa: E402

import folt  # noqa: E402
from folt.batching import map_keys  # noqa: E402
from folt.coordinates import AugmentedShares  # noqa: E402
from folt.groups import Blocks, Joint, ZeroSum, ZeroSumRows  # noqa: E402
from folt.interop import model as blocks  # noqa: E402

Y = np.asarray(folt.models.bayesian_mixture_data()[:40])


def components_of(components, concentration=1.0):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(components, concentration)))
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0).expand([components]))
    return dist.MixtureSameFamily(dist.Categorical(probs=weights), dist.Normal(mu, 1.0))


def mixture(y, components, concentration=1.0):
    numpyro.sample("y", components_of(components, concentration), obs=y)


def in_one_number(y, components):
    numpyro.factor("likelihood", components_of(components).log_prob(y).sum())


def without_data(components):
    in_one_number(Y, components)


def hidden_markov(y, states):
    transitions = numpyro.sample("transitions", dist.Dirichlet(jnp.ones((states, states))))
    start = numpyro.sample("start", dist.Dirichlet(jnp.ones(states)))
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0).expand([states]))
    log_emission = dist.Normal(mu, 1.0).log_prob(y[:, None])

    def step(log_alpha, log_e):
        return jax.nn.logsumexp(log_alpha[:, None] + jnp.log(transitions), axis=0) + log_e, None

    last, _ = jax.lax.scan(step, jnp.log(start) + log_emission[0], log_emission[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def shares(problem):
    """The coordinate of the weights."""
    coordinates = {each.name: each.coordinate for each in problem.log_density.sites.maps}
    return coordinates["weights"].shares


def totals(points, components):
    """T = Σ g, with g = -log(1 - Φ(x)), of points whose weights stand last."""
    return -scipy.stats.norm.logsf(points[:, -components:]).sum(axis=1)


@pytest.mark.parametrize(("components", "concentration"), [(3, 1.0), (4, 1.0), (4, 0.6)])
@pytest.mark.extended
def test_the_total_integrates_to_the_density_without_it(components, concentration, monkeypatch):
    """∫ π(x(w, T, μ)) |dx/d(w, T, μ)| dT = p(w, μ, y): so the evidence is the same."""
    monkeypatch.setattr(blocks, "AUGMENTED_FROM", 3)
    problem = folt.from_numpyro(mixture, Y, components, concentration)
    assert problem.dim == 2 * components
    coordinate = shares(problem)
    weights = np.random.default_rng(2).dirichlet(np.ones(components))
    mu = np.linspace(-4.0, 5.0, components)

    def point(free, log_total):
        g = jnp.append(free[:-1], 1 - free[:-1].sum()) * jnp.exp(log_total)
        return jnp.append(mu / 5.0, coordinate._from_log(jnp.log(g)))

    def term(log_total):
        g = jnp.asarray(weights)
        slopes = jax.jacfwd(lambda own: point(own, own[-1])[components:])(g.at[-1].set(log_total))
        x = point(g, log_total)
        return x, jnp.linalg.slogdet(slopes)[1] - components * jnp.log(5.0)

    shape = components * concentration + Y.size
    with jax.enable_x64(True):
        grid = np.log(shape) + np.linspace(-12, 12, 161) / np.sqrt(shape)
        x, log_slope = jax.jit(jax.vmap(term))(grid)
        expected, _ = log_density(
            mixture, (Y, components, concentration), {}, {"weights": jnp.asarray(weights), "mu": mu}
        )
    logs = problem.log_probs(np.asarray(x)) + np.asarray(log_slope)
    found = np.log(np.sum(np.exp(logs - logs.max())) * (grid[1] - grid[0])) + logs.max()
    assert found == pytest.approx(float(expected), abs=1e-8)


@pytest.fixture(scope="module")
def problem():
    return folt.from_numpyro(mixture, Y, 6)


def test_relabelling_permutes_whole_blocks(problem):
    assert problem.group == Joint(6, (Blocks(1), Blocks(1)))
    assert problem.group.order == 720
    assert problem.group.block_form is not None
    assert problem.symmetry_found.group == problem.group
    assert shares(problem) == AugmentedShares(6, Y.size)
    assert problem.names[-2:] == ("weights[4]", "weights[5]")
    assert dict(problem.dims)["weights"] == ("component",)
    x = np.random.default_rng(6).normal(size=problem.dim)
    moved = problem.group.act(np.array([3, 0, 5, 1, 2, 4]), jnp.asarray(x))
    assert np.ptp(problem.log_probs(np.stack([x, moved]))) < 1e-9


def test_values_come_back_and_the_total_is_drawn(problem):
    """Kolmogorov-Smirnov on 1000 totals at p = 1e-4."""
    weights = np.random.default_rng(1).dirichlet(np.ones(6), 1000)
    given = {"weights": weights, "mu": np.random.default_rng(2).normal(size=(1000, 6))}
    points = problem.unconstrain(given, jax.random.key(3))
    for name, value in problem.parameters(points).items():
        np.testing.assert_allclose(value, given[name], rtol=1e-9)
    law = scipy.stats.gamma(6 + Y.size)
    assert scipy.stats.kstest(totals(points, 6), law.cdf).pvalue > 1e-4
    other = problem.unconstrain(given, jax.random.key(4))
    assert not np.allclose(other, points)


def test_prior_draws_have_the_prior_of_weights_and_total(problem):
    """Kolmogorov-Smirnov on 1000 draws at p = 1e-4, twice."""
    points = map_keys(type(problem.prior).sample, problem.prior, jax.random.key(5), 1000, once=True)
    law = scipy.stats.gamma(6 + Y.size)
    assert scipy.stats.kstest(totals(points, 6), law.cdf).pvalue > 1e-4
    first = problem.parameters(points)["weights"][:, 0]
    assert scipy.stats.kstest(first, scipy.stats.beta(1, 5).cdf).pvalue > 1e-4


def test_a_ready_mixture_draws_its_total_too():
    ready = folt.models.gaussian_mixture(Y, 5)
    one = ready.parameters(np.zeros((2, ready.dim)))
    first, second = ready.unconstrain(one, jax.random.key(0))
    np.testing.assert_allclose(first[:10], second[:10])
    assert not np.allclose(first[10:], second[10:])
    np.testing.assert_allclose(ready.parameters(first)["weight"], 0.2)


@pytest.mark.parametrize(
    ("model", "arguments", "count"),
    [
        (in_one_number, (Y, 5), Y.size),
        (without_data, (5,), blocks.ASSUMED_OBSERVATIONS),
        (mixture, (Y, 5, 3.0), Y.size + 10),
    ],
)
def test_the_number_of_observations(model, arguments, count):
    """Most terms of an observed site, else the longest data; m(α - 1) more for the Dirichlet."""
    assert shares(folt.from_numpyro(model, *arguments)) == AugmentedShares(5, count)


def test_few_labels_and_other_actions_keep_centred_weights():
    assert folt.from_numpyro(mixture, Y, 3).group == Joint(3, (Blocks(1), ZeroSum()))
    markov = folt.from_numpyro(hidden_markov, Y, 5)
    assert set(markov.group.parts) == {Blocks(1), ZeroSum(), ZeroSumRows()}


def test_pymc_has_them_too():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(5))
        mu = pm.Normal("mu", 0.0, 5.0, shape=5)
        pm.NormalMixture("y", w=weights, mu=mu, sigma=1.0, observed=Y)
    found, twin = folt.from_pymc(model), folt.from_numpyro(mixture, Y, 5)
    assert found.group == twin.group
    assert shares(found) == shares(twin)
    points = np.random.default_rng(0).normal(size=(3, 10))
    # PyMC keeps the standard deviation 5.0, and its logarithm, in single precision.
    np.testing.assert_allclose(found.log_probs(points), twin.log_probs(points), rtol=1e-8)
