"""Draws of NumPyro and PyMC: every coordinate comes back from the values it stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")
pm = pytest.importorskip("pymc")

import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

import folt  # noqa: E402
from arviz_either import arviz  # noqa: E402
from folt.reference import Given  # noqa: E402

Y = np.asarray(folt.models.bayesian_mixture_data()[:40])


def mixture(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("components", 2):
        sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 0.5))
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    numpyro.deterministic("precision", sigma**-2)
    parts = dist.MixtureSameFamily(dist.Categorical(probs=weights), dist.Normal(mu, sigma))
    numpyro.sample("y", parts, obs=y)


def every_support(y):
    scale = numpyro.sample("scale", dist.HalfCauchy(2.0))
    bias = numpyro.sample("bias", dist.Normal(0.0, scale).expand([2]))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    slope = numpyro.sample("slope", dist.Uniform(-1.0, 2.0))
    topics = numpyro.sample("topics", dist.Dirichlet(jnp.array([1.0, 2.0, 0.5])).expand([4]))
    shift = numpyro.sample("shift", dist.TruncatedNormal(0.0, 1.0, low=-1.0))
    below = numpyro.sample("below", dist.TruncatedNormal(0.0, 1.0, high=1.0))
    factor = numpyro.sample("factor", dist.LKJCholesky(3))
    mean = bias.sum() + rate * share + slope * topics[0, 0] + shift + below + factor[1, 0]
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def in_pymc():
    """Coordinates of folt's beside two transforms of PyMC's own, one of which needs data."""
    with pm.Model() as model:
        y = pm.Data("data", Y)
        weights = pm.Dirichlet("weights", np.ones(2))
        mu = pm.Normal("mu", 0.0, 5.0, shape=2)
        pm.Uniform("slope", -1.0, 2.0)
        pm.Gamma("rate", 2.0, 1.0)
        pm.Deterministic("gap", mu[1] - mu[0])
        pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        pm.Normal("cuts", 0.0, 3.0, shape=3, transform=pm.distributions.transforms.ordered)
        pm.NormalMixture("y", w=weights, mu=mu, sigma=1.0, observed=y)
    return model


MODELS = {
    "NumPyro mixture": lambda: folt.from_numpyro(
        mixture, Y, exchangeable=["sigma", "mu", "weights"]
    ),
    "NumPyro, every support": lambda: folt.from_numpyro(every_support, 0.7, exchangeable=[]),
    "PyMC": lambda: folt.from_pymc(in_pymc(), exchangeable=[]),
}


@pytest.mark.parametrize("name", MODELS)
def test_points_come_back_from_their_parameters(name):
    problem = MODELS[name]()
    points = np.random.default_rng(0).normal(size=(2, 5, problem.dim))
    values = problem.parameters(points)
    np.testing.assert_allclose(problem.unconstrain(values), points, rtol=1e-7, atol=1e-7)


@pytest.mark.extended
def test_numpyro_draws_serve_as_they_are():
    """A sampler that has run, its grouped draws, and InferenceData of it are one reference."""
    sampler = MCMC(
        NUTS(mixture), num_warmup=50, num_samples=90, num_chains=3, progress_bar=False,
        chain_method="vectorized",
    )  # fmt: skip
    sampler.run(jax.random.key(0), Y)
    # The same array, after NUTS has used it in single precision.
    problem = folt.from_numpyro(mixture, Y, exchangeable=["sigma", "mu", "weights"])
    expected = Given(sampler)(None, problem)
    assert expected.draws.shape == (6, 45, 5)
    grouped = Given(sampler.get_samples(group_by_chain=True))(None, problem)
    flat = Given(sampler.get_samples(), chains=3)(None, problem)
    data = Given(arviz.from_numpyro(sampler))(None, problem)
    for other in (grouped, flat, data):
        np.testing.assert_array_equal(other.draws, expected.draws)
    with pytest.raises(ValueError, match="group_by_chain=True"):
        Given(sampler.get_samples())(None, problem)
    with pytest.raises(ValueError, match="to have run"):
        Given(MCMC(NUTS(mixture), num_warmup=1, num_samples=1))(None, problem)
