"""NumPyro models that look as if they repeated and do not, or not under a finite group."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions.transforms import OrderedTransform

from corpus.case import COUNTS, TABLE, Case
from corpus.numpyro_symmetric import forward, observe_mixture

sample = numpyro.sample


def lopsided_means(y):
    mu = sample("mu", dist.Normal(jnp.array([-1.0, 0.0, 1.0]), 2.0))
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    observe_mixture(w, dist.Normal(mu, 1.0), y)


def lopsided_weights(y):
    mu = sample("mu", dist.Normal(0.0, 2.0).expand([3]))
    w = sample("w", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    observe_mixture(w, dist.Normal(mu, 1.0), y)


def lopsided_beta(y):
    theta = sample("theta", dist.Beta(2.0, 5.0))
    mu = sample("mu", dist.Normal(0.0, 2.0).expand([2]))
    observe_mixture(jnp.stack([theta, 1 - theta]), dist.Normal(mu, 1.0), y)


def hardly_lopsided(y):
    """Prior means that differ by a millionth."""
    mu = sample("mu", dist.Normal(jnp.array([0.0, 1e-6]), 2.0))
    observe_mixture(jnp.full(2, 0.5), dist.Normal(mu, 1.0), y)


def ordered_means(y):
    base = dist.Normal(0.0, 3.0).expand([3]).to_event(1)
    mu = sample("mu", dist.TransformedDistribution(base, OrderedTransform()))
    w = sample("w", dist.Dirichlet(jnp.ones(3)))
    observe_mixture(w, dist.Normal(mu, 1.0), y)


def increasing_scalars(y):
    first = sample("first", dist.Normal(0.0, 3.0))
    gap = sample("gap", dist.HalfNormal(3.0))
    observe_mixture(jnp.full(2, 0.5), dist.Normal(jnp.stack([first, first + gap]), 1.0), y)


def fixed_effects(rows):
    effect = sample("effect", dist.Normal(0.0, 3.0).expand([3]))
    noise = sample("noise", dist.HalfNormal(1.0))
    sample("y", dist.Normal(effect, noise), obs=rows)


def shared_and_free_scale(y):
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    free = sample("free", dist.HalfNormal(2.0))
    observe_mixture(jnp.full(2, 0.5), dist.Normal(mu, jnp.stack([jnp.ones(()), free])), y)


SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(y, errors):
    mu = sample("mu", dist.Normal(0.0, 5.0))
    tau = sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", 8):
        theta = sample("theta", dist.Normal(mu, tau))
        sample("y", dist.Normal(theta, errors), obs=y)


def eight_schools_standardised(y, errors):
    mu = sample("mu", dist.Normal(0.0, 5.0))
    tau = sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", 8):
        raw = sample("raw", dist.Normal(0.0, 1.0))
        sample("y", dist.Normal(mu + tau * raw, errors), obs=y)


def sticks_to_weights(sticks):
    left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - sticks)])
    return left * jnp.concatenate([sticks, jnp.ones(1)])


def stick_breaking(y):
    sticks = sample("sticks", dist.Beta(1.0, 1.5).expand([3]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([4]))
    observe_mixture(sticks_to_weights(sticks), dist.Normal(mu, 1.0), y)


def uniform_sticks(y):
    """Sticks whose weights are uniform on the simplex: symmetric, but not orthogonally."""
    sticks = sample("sticks", dist.Beta(1.0, jnp.array([2.0, 1.0])))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]))
    observe_mixture(sticks_to_weights(sticks), dist.Normal(mu, 1.0), y)


def one_truncated(y):
    negative = sample("negative", dist.TruncatedNormal(0.0, 3.0, high=0.0))
    positive = sample("positive", dist.TruncatedNormal(0.0, 3.0, low=0.0))
    observe_mixture(jnp.full(2, 0.5), dist.Normal(jnp.stack([negative, positive]), 1.0), y)


def contamination(y):
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([2]))
    share = sample("share", dist.Beta(1.0, 1.0))
    observe_mixture(jnp.stack([share, 1 - share]), dist.Normal(mu, jnp.array([1.0, 10.0])), y)


def line(y):
    intercept = sample("intercept", dist.Normal(0.0, 1.0))
    slope = sample("slope", dist.Normal(0.0, 1.0))
    noise = sample("noise", dist.HalfNormal(1.0))
    sample("y", dist.Normal(intercept + slope * jnp.arange(len(y)), noise), obs=y)


def two_arms(counts):
    first, second = sample("first", dist.Beta(1.0, 1.0)), sample("second", dist.Beta(1.0, 1.0))
    sample("a", dist.Binomial(20, first), obs=7)
    sample("b", dist.Binomial(20, second), obs=11)


def left_to_right(y):
    leave = sample("leave", dist.Beta(1.0, 1.0).expand([2]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([3]))
    stay = jnp.concatenate([1 - leave, jnp.ones(1)])
    transitions = jnp.diag(stay) + jnp.diag(leave, 1)
    forward(
        jnp.array([0.9, 0.05, 0.05]), transitions + 1e-6, dist.Normal(mu, 1.0).log_prob(y[:, None])
    )


def anchored_loadings(rows):
    """A lower triangle with a positive diagonal: signs and rotations are gone."""
    diagonal = sample("diagonal", dist.HalfNormal(1.0).expand([2]))
    below = sample("below", dist.Normal(0.0, 1.0).expand([3]))
    loadings = jnp.zeros((3, 2)).at[[0, 1], [0, 1]].set(diagonal)
    loadings = loadings.at[[1, 2, 2], [0, 0, 1]].set(below)
    covariance = loadings @ loadings.T + jnp.eye(3)
    sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=rows)


def two_priors(y):
    mu1, mu2 = sample("mu1", dist.Normal(0.0, 3.0)), sample("mu2", dist.Normal(0.0, 4.0))
    observe_mixture(jnp.full(2, 0.5), dist.Normal(jnp.stack([mu1, mu2]), 1.0), y)


def random_walk(y):
    step = sample("step", dist.HalfNormal(1.0))
    level = sample("level", dist.Normal(0.0, 1.0).expand([5]))
    sample("y", dist.Normal(jnp.cumsum(level) * step, 1.0), obs=y[:5])


def zero_inflated(counts):
    gate = sample("gate", dist.Beta(1.0, 1.0))
    rate = sample("rate", dist.Gamma(2.0, 1.0))
    sample("y", dist.ZeroInflatedPoisson(gate, rate), obs=counts)


def gaussian_factors(rows):
    loadings = sample("loadings", dist.Normal(0.0, 1.0).expand([3, 2]))
    noise = sample("noise", dist.HalfNormal(1.0).expand([3]))
    covariance = loadings @ loadings.T + jnp.diag(noise)
    sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=rows)


def gaussian_factors_with_scores(rows):
    loadings = sample("loadings", dist.Normal(0.0, 1.0).expand([3, 2]))
    scores = sample("scores", dist.Normal(0.0, 1.0).expand([4, 2]))
    sample("y", dist.Normal(scores @ loadings.T, 1.0), obs=rows[:4])


LOPSIDED = {
    "lopsided means": Case(lopsided_means, words="mu"),
    "lopsided weights": Case(lopsided_weights, words="prior of 'w'"),
    "lopsided Beta": Case(lopsided_beta, words="prior of 'theta'"),
    "hardly lopsided": Case(hardly_lopsided, words="mu"),
    "ordered means": Case(ordered_means, words="ordered"),
    "increasing scalars": Case(increasing_scalars),
    "fixed effects": Case(fixed_effects, (TABLE,), words="effect"),
    "one shared and one free scale": Case(shared_and_free_scale, words="mu"),
    "eight schools": Case(eight_schools, (SCHOOLS, ERRORS), words="theta"),
    "eight schools, standardised": Case(eight_schools_standardised, (SCHOOLS, ERRORS), words="raw"),
    "stick-breaking": Case(stick_breaking, words="Dirichlet"),
    "uniform sticks": Case(uniform_sticks, words="Dirichlet"),
    "one truncated": Case(one_truncated),
    "contamination": Case(contamination, words="mu"),
    "a line": Case(line),
    "two arms": Case(two_arms, (COUNTS,), words="first"),
    "left to right": Case(left_to_right, words="mu"),
    "anchored loadings": Case(anchored_loadings, (TABLE,)),
    "two priors": Case(two_priors, words="mu1"),
    "random walk": Case(random_walk, words="level"),
    "zero inflated": Case(zero_inflated, (COUNTS,)),
    "Gaussian factors": Case(gaussian_factors, (TABLE,), order=8, rotation=True, words="loadings"),
    "Gaussian factors with scores": Case(
        gaussian_factors_with_scores, (TABLE,), order=8, rotation=True, words="scores"
    ),
}
