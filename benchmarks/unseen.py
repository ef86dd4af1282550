"""Six models that nothing in folt was tuned on, as their users would write them.

Four are in NumPyro and two in PyMC. What can be expected of a model of one's own is what these
rows say, not what the older ones do: keep them out of every choice of a constant. All data are
simulated here.
"""

from __future__ import annotations

import numpy as np

import folt
from folt.problem import Problem


def robust_regressions(kinds: int = 2, covariates: int = 3, count: int = 350) -> Problem:
    """Two kinds of customers, each with a line of its own and Student noise, in PyMC; d = 11."""
    import pymc as pm

    rng = np.random.default_rng(11)
    x = rng.normal(size=(count, covariates))
    kind = rng.choice(kinds, count, p=[0.6, 0.4])
    slopes = np.array([[1.0, -0.5, 0.0], [-0.8, 0.6, 0.9]])
    y = np.array([0.5, -0.7])[kind] + (x * slopes[kind]).sum(axis=1)
    y = y + np.array([0.4, 0.6])[kind] * rng.standard_t(5, count)
    with pm.Model(coords={"kind": range(kinds), "covariate": range(covariates)}) as model:
        share = pm.Dirichlet("share", a=2.0 * np.ones(kinds), dims="kind")
        intercept = pm.Normal("intercept", 0, 2, dims="kind")
        slope = pm.Normal("slope", 0, 1.5, dims=("kind", "covariate"))
        noise = pm.HalfNormal("noise", 1, dims="kind")
        lines = intercept + pm.math.dot(x, slope.T)
        parts = pm.StudentT.dist(nu=5, mu=lines, sigma=noise)
        pm.Mixture("y", w=share, comp_dists=parts, observed=y)
    return folt.from_pymc(model)


def survival(kinds: int = 2, count: int = 400) -> Problem:
    """Times to failure of two Weibull populations, a third of them censored, in NumPyro; d = 9."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import logsumexp

    rng = np.random.default_rng(12)
    dose, age = rng.normal(size=(2, count))
    kind = rng.choice(kinds, count, p=[0.55, 0.45])
    scale = np.exp(np.array([0.0, 1.6])[kind] + np.array([0.4, -0.3])[kind] * dose - 0.2 * age)
    failed = scale * rng.weibull(np.array([1.4, 3.0])[kind])
    left = rng.uniform(1.0, 8.0, count)
    time, seen = np.minimum(failed, left), failed <= left

    def model(dose, age, time, seen):
        weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(kinds)))
        with numpyro.plate("population", kinds):
            level = numpyro.sample("level", dist.Normal(0, 2))
            effect = numpyro.sample("effect", dist.Normal(0, 1))
            ageing = numpyro.sample("ageing", dist.Normal(0, 1))
            shape = numpyro.sample("shape", dist.LogNormal(0.5, 0.5))
        log_scale = level + dose[:, None] * effect + age[:, None] * ageing
        ratio = shape * (jnp.log(time)[:, None] - log_scale)
        log_hazard = jnp.log(shape) - jnp.log(time)[:, None] + ratio
        terms = jnp.where(seen[:, None], log_hazard, 0.0) - jnp.exp(ratio)
        with numpyro.plate("patients", len(time)):
            numpyro.factor("survival", logsumexp(jnp.log(weight) + terms, axis=1))

    return folt.from_numpyro(model, dose, age, time, seen)


def counts(kinds: int = 3, count: int = 300) -> Problem:
    """Visits in three overdispersed groups with known exposure, in PyMC; d = 8."""
    import pymc as pm

    rng = np.random.default_rng(13)
    exposure = rng.uniform(0.5, 2.0, count)
    kind = rng.choice(kinds, count, p=[0.5, 0.3, 0.2])
    mean = np.array([1.5, 7.0, 25.0])[kind] * exposure
    visits = rng.poisson(mean * rng.gamma(6.0, 1 / 6.0, count))
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", a=np.ones(kinds))
        rate = pm.LogNormal("rate", 1.5, 1.5, shape=kinds)
        dispersion = pm.Gamma("dispersion", 2, 0.3, shape=kinds)
        parts = pm.NegativeBinomial.dist(mu=exposure[:, None] * rate, alpha=dispersion)
        pm.Mixture("visits", w=weight, comp_dists=parts, observed=visits)
    return folt.from_pymc(model)


def switching(states: int = 3, length: int = 350) -> Problem:
    """A series that reverts to one of three levels, its regimes summed by `scan`; d = 13."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import logsumexp

    rng = np.random.default_rng(14)
    stay = 0.9 * np.eye(states) + 0.05 * (1 - np.eye(states))
    level, spread, y, state = np.array([-1.5, 0.5, 2.5]), np.array([0.3, 0.6, 0.4]), [0.0], 0
    for _ in range(length):
        state = rng.choice(states, p=stay[state])
        y.append(0.4 * y[-1] + level[state] * 0.6 + spread[state] * rng.normal())
    series = np.array(y)

    def model(y):
        persistence = numpyro.sample("persistence", dist.Uniform(-1, 1))
        with numpyro.plate("regime", states):
            level = numpyro.sample("level", dist.Normal(0, 2))
            spread = numpyro.sample("spread", dist.HalfNormal(1))
            move = numpyro.sample("move", dist.Dirichlet(jnp.ones(states)))
        centre = persistence * y[:-1, None] + (1 - persistence) * level
        terms = dist.Normal(centre, spread).log_prob(y[1:, None])

        def forward(carried, term):
            return logsumexp(carried[:, None] + jnp.log(move), axis=0) + term, None

        first = terms[0] - jnp.log(states)
        numpyro.factor("series", logsumexp(jax.lax.scan(forward, first, terms[1:])[0]))

    return folt.from_numpyro(model, series)


def classes(groups: int = 2, items: int = 10, count: int = 400) -> Problem:
    """Ten yes-or-no items answered by two kinds of people, in NumPyro; d = 21."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(15)
    truth = rng.beta(1.5, 1.5, (groups, items))
    member = rng.choice(groups, count, p=[0.65, 0.35])
    answers = (rng.random((count, items)) < truth[member]).astype(int)

    def model(answers):
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(groups)))
        with numpyro.plate("group", groups):
            logit = numpyro.sample("logit", dist.Normal(jnp.zeros(items), 1.5).to_event(1))
        with numpyro.plate("people", len(answers)):
            parts = dist.Bernoulli(logits=logit).to_event(1)
            mixture = dist.MixtureSameFamily(dist.Categorical(probs=share), parts)
            numpyro.sample("answers", mixture, obs=answers)

    return folt.from_numpyro(model, answers)


def sparse_factors(factors: int = 2, items: int = 8, count: int = 250) -> Problem:
    """Eight items that load on two factors, few of them on both, in NumPyro; d = 24."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(16)
    loading = np.zeros((items, factors))
    loading[:4, 0] = [0.9, 0.8, 0.7, 0.9]
    loading[4:, 1] = [0.8, 0.9, 0.6, 0.8]
    loading[3, 1] = 0.5
    scores = rng.normal(size=(count, factors))
    y = scores @ loading.T + 0.5 * rng.normal(size=(count, items))

    def model(y):
        with numpyro.plate("factor", factors, dim=-1), numpyro.plate("item", items, dim=-2):
            loadings = numpyro.sample("loadings", dist.Laplace(0, 0.5))
        with numpyro.plate("item_noise", items):
            noise = numpyro.sample("noise", dist.HalfNormal(1))
        law = dist.LowRankMultivariateNormal(jnp.zeros(items), loadings, noise**2)
        with numpyro.plate("people", len(y)):
            numpyro.sample("y", law, obs=y)

    return folt.from_numpyro(model, y)
