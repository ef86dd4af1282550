"""Models as users bring them: written in NumPyro, PyMC or NumPy, with data simulated here.

Nothing in them is tuned to folt: the symmetry is found, not declared, but for the black box.
"""

from __future__ import annotations

import numpy as np

from folt.problem import Problem


def regressions(kinds: int = 3, covariates: int = 4, count: int = 400) -> Problem:
    """A mixture of regressions in NumPyro: intercept, slopes, noise and share of every kind."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    import folt

    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, covariates))
    slopes = rng.normal(0.0, 1.5, (kinds, covariates))
    intercepts = np.linspace(-1.5, 1.5, kinds)
    kind = rng.choice(kinds, count, p=np.array([0.5, 0.3, 0.2]))
    y = intercepts[kind] + np.sum(x * slopes[kind], axis=1) + rng.normal(0.0, 0.5, count)

    def model(x, y):
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(kinds)))
        with numpyro.plate("kinds", kinds):
            intercept = numpyro.sample("intercept", dist.Normal(0, 2))
            slope = numpyro.sample("slope", dist.Normal(jnp.zeros(covariates), 2).to_event(1))
            noise = numpyro.sample("noise", dist.LogNormal(-0.5, 0.5))
        lines = intercept + x @ slope.T
        parts = dist.MixtureSameFamily(dist.Categorical(probs=share), dist.Normal(lines, noise))
        numpyro.sample("y", parts, obs=y)

    return folt.from_numpyro(model, x, y)


def latent_classes(classes: int = 3, items: int = 8, count: int = 500) -> Problem:
    """Latent classes in PyMC, the class of every person summed out by a potential."""
    import pymc as pm

    import folt

    rng = np.random.default_rng(1)
    truth = rng.beta(1.0, 1.0, (classes, items))
    member = rng.choice(classes, count, p=np.array([0.5, 0.3, 0.2]))
    answers = (rng.random((count, items)) < truth[member]).astype(float)
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(classes))
        yes = pm.Beta("yes", 1.0, 1.0, shape=(classes, items))
        logs = pm.math.dot(answers, pm.math.log(yes).T)
        logs += pm.math.dot(1 - answers, pm.math.log(1 - yes).T)
        pm.Potential("answers", pm.math.logsumexp(logs + pm.math.log(share), axis=1).sum())
    return folt.from_pymc(model)


def regimes(states: int = 4, length: int = 400) -> Problem:
    """A hidden Markov model in NumPyro whose forward algorithm is a `scan`."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    import folt

    y = _series(states, length)

    def model(y):
        first = numpyro.sample("first", dist.Dirichlet(jnp.ones(states)))
        with numpyro.plate("states", states):
            row = numpyro.sample("row", dist.Dirichlet(jnp.ones(states)))
            mu = numpyro.sample("mu", dist.Normal(0, 4))
            sigma = numpyro.sample("sigma", dist.LogNormal(0, 0.5))

        def step(log_state, now):
            log_here = log_state + dist.Normal(mu, sigma).log_prob(now)
            log_next = jax.nn.logsumexp(log_here[:, None] + jnp.log(row), axis=0)
            return log_next, None

        log_last, _ = jax.lax.scan(step, jnp.log(first), y)
        numpyro.factor("series", jax.nn.logsumexp(log_last))

    return folt.from_numpyro(model, y)


def _series(states: int, length: int) -> np.ndarray:
    """States that last, with means three apart."""
    rng = np.random.default_rng(2)
    path = [0]
    for _ in range(length - 1):
        stay = rng.random() < 0.9
        path.append(path[-1] if stay else int(rng.integers(states)))
    return rng.normal(3.0 * np.array(path) - 4.5, 0.8)


def black_box(count: int = 80) -> Problem:
    """Two normals of equal weight as a NumPy function of one point: no gradient, no prior."""
    import folt

    rng = np.random.default_rng(3)
    data = np.where(
        rng.random(count) < 0.5, rng.normal(-1.2, 0.7, count), rng.normal(1.6, 1.0, count)
    )

    @np.errstate(all="ignore")
    def log_density(point: np.ndarray) -> float:
        mu, log_sigma = point.reshape(2, 2).T
        terms = -0.5 * ((data[:, None] - mu) / np.exp(log_sigma)) ** 2 - log_sigma
        log_likelihood = np.logaddexp(*terms.T).sum() - count * np.log(2 * np.sqrt(2 * np.pi))
        return float(log_likelihood - 0.5 * np.sum((mu / 3.0) ** 2) - 0.5 * np.sum(log_sigma**2))

    return folt.from_callable(log_density, 4, folt.groups.Permutation(2, 2))
