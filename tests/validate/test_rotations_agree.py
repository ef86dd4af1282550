"""Rotations divided out, against NUTS on the quotient and NUTS in the whole space.

The evidence has a second method: NUTS draws on the quotient, a normal law fitted to half of them,
and a bridge between it and the other half. What rotations leave alone (communalities, distances)
is compared with NUTS in the whole space, where nothing is divided out.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from table import write_table

import folt
from folt.certificate.diagnostics.chains import effective_size
from folt.coordinates import Normal
from folt.groups import Product, Rotation, Trivial
from folt.models import FactorPosterior, datasets, latent_space, ppca
from folt.models.factors import principal_rows

pytestmark = pytest.mark.validate


def simulated(p, k, weak=1.0, count=200):
    """Observations with normal loadings, the last factor shrunk by `weak`."""
    random = np.random.default_rng(100)
    loading = random.normal(size=(p, k)) * 0.8
    loading[:, -1] *= weak
    noise = random.uniform(0.3, 0.6, p)
    y = random.normal(size=(count, k)) @ loading.T
    y = y + random.normal(size=(count, p)) * np.sqrt(noise)
    return y - y.mean(axis=0)


def factors(p, k, weak=1.0):
    """Loadings N(0, 1), log noise N(log ½, 1), in the units of the data."""
    y = simulated(p, k, weak)
    posterior = FactorPosterior(Normal(0.0, 1.0), Normal(np.log(0.5), 1.0), np.ones(p), k)
    rotation = Rotation(p, k, labels_first=True, pivots=principal_rows(y, k), scale=1.0)
    group = Product(rotation, Trivial(p))
    dim = group.dim - rotation.directions
    return folt.Problem(
        posterior,
        group,
        data=y,
        prior=folt.proposals.standard_normal(dim),
        constrain=posterior.constrain,
        unconstrain=posterior.unconstrain,
    )


def nuts(log_density, start, warmup=500, draws=3500, chains=2):
    """Draws (chain, draw, dim) of a density in JAX."""
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True):
        sampler = MCMC(
            NUTS(potential_fn=lambda x: -log_density(x), dense_mass=True),
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(jax.random.key(3), init_params=jnp.asarray(np.repeat(start[None], chains, 0)))
        return np.asarray(sampler.get_samples(group_by_chain=True))


def bridged(problem, draws, seed=0):
    """log Z by Meng and Wong's bridge from a normal law fitted to half of the draws."""
    half = draws.shape[1] // 2
    flat = draws[:, :half].reshape(-1, problem.dim)
    law = multivariate_normal(flat.mean(axis=0), np.cov(flat.T))
    fresh = law.rvs(20_000, random_state=seed)
    kept = draws[:, half:].reshape(-1, problem.dim)
    above = problem.log_probs(fresh) - law.logpdf(fresh)
    below = problem.log_probs(kept) - law.logpdf(kept)
    size = max(effective_size(below.reshape(len(draws), -1), "mean"), 10.0)
    log_z, shares = np.median(below), (len(above), size)
    for _ in range(200):
        # h = s1 π/Z + s2 q: each expectation is of a bounded function.
        top = above - np.logaddexp(np.log(shares[1]) + above - log_z, np.log(shares[0]))
        low = -np.logaddexp(np.log(shares[1]) + below - log_z, np.log(shares[0]))
        log_z = logsumexp(top) - np.log(len(top)) - logsumexp(low) + np.log(len(low))
    first, second = np.exp(top - top.max()), np.exp(low - low.max())
    worth = effective_size(second.reshape(len(draws), -1), "mean")
    error = first.var() / first.mean() ** 2 / len(first) + second.var() / second.mean() ** 2 / worth
    return log_z, float(np.sqrt(error))


@pytest.mark.parametrize(("p", "k"), [(8, 2), (12, 3)])
def test_evidence_on_the_quotient(p, k):
    problem = factors(p, k)
    fit = folt.sample(problem, progress=False)
    mine = fit.log_evidence
    other, error = bridged(problem, nuts(problem.log_prob, fit.draws[0, -1]))
    score = (mine.value - other) / np.hypot(mine.standard_error, error)
    write_table(
        f"rotations-{p}x{k}",
        f"Factor analysis, {p} variables, {k} factors, 200 observations, rotations divided out",
        ("dimension", "verdict", "acceptance", "log Z", "log Z by NUTS and a bridge", "score"),
        [
            (
                problem.dim,
                fit.certificate.status.name,
                f"{fit.accept_rate:.3f}",
                f"{mine.value:.4f} ± {mine.standard_error:.4f}",
                f"{other:.4f} ± {error:.4f}",
                f"{score:.2f}",
            )
        ],
    )
    assert abs(score) < 3.5
    assert fit.certificate.status.outcome.usable


def test_a_weak_factor_is_never_usable_and_wrong():
    problem = factors(8, 2, weak=0.15)
    fit = folt.sample(problem, progress=False)
    mine = fit.log_evidence
    other, error = bridged(problem, nuts(problem.log_prob, fit.draws[0, -1]))
    score = (mine.value - other) / np.hypot(mine.standard_error, error)
    write_table(
        "rotations-weak",
        "Factor analysis, 8 variables, the second of 2 factors shrunk to 0.15",
        ("verdict", "acceptance", "log Z", "log Z by NUTS and a bridge", "score"),
        [
            (
                fit.certificate.status.name,
                f"{fit.accept_rate:.3f}",
                f"{mine.value:.4f} ± {mine.standard_error:.4f}",
                f"{other:.4f} ± {error:.4f}",
                f"{score:.2f}",
            )
        ],
    )
    assert abs(score) < 4 or not fit.certificate.status.outcome.usable


def in_whole_space(problem, read, start):
    """NUTS on the density of whole points, and what rotations leave alone at its draws."""
    density, data = problem.log_density.function, problem.data
    draws = nuts(lambda x: density(x, data), start)
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(jax.vmap(read))(draws))


def compared(name, title, fit, read):
    """The largest score of means of what rotations leave alone, against NUTS in the whole space."""
    lift = fit.problem.quotient.lift
    with jax.enable_x64(True):
        mine = np.asarray(jax.vmap(jax.vmap(lambda z: read(lift(z))))(fit.draws))
        start = np.asarray(lift(jnp.asarray(fit.draws[0, -1])))
    theirs = in_whole_space(fit.problem, read, start)
    scores = []
    for place in np.ndindex(mine.shape[2:]):
        one, two = mine[(..., *place)], theirs[(..., *place)]
        errors = [v.var() / effective_size(v, "mean") for v in (one, two)]
        scores.append((one.mean() - two.mean()) / np.sqrt(sum(errors)))
    worst = float(np.abs(scores).max())
    write_table(
        name,
        title,
        ("verdict", "acceptance", "log Z", "quantities", "largest score"),
        [
            (
                fit.certificate.status.name,
                f"{fit.accept_rate:.3f}",
                f"{fit.log_evidence.value:.4f} ± {fit.log_evidence.standard_error:.4f}",
                len(scores),
                f"{worst:.2f}",
            )
        ],
    )
    return worst


def communalities(problem):
    constrain = problem.whole_parameters
    return lambda x: jnp.sum(constrain(x)["loading"] ** 2, axis=0)


@pytest.mark.parametrize(("name", "shape"), [("first", (6, 2)), ("second", (9, 3))])
def test_ppca_agrees_in_communalities(name, shape):
    problem = ppca(simulated(*shape, count=120), shape[1])
    fit = folt.sample(problem, progress=False)
    title = f"PPCA, {shape[0]} variables, {shape[1]} components, communalities against NUTS"
    assert compared(f"rotations-ppca-{name}", title, fit, communalities(problem)) < 4


def test_a_network_agrees_in_distances():
    problem = latent_space(datasets.florentine_families())
    fit = folt.sample(problem, progress=False)
    constrain = problem.whole_parameters
    title = "Latent space of 15 families of Florence, distances against NUTS"
    worst = compared("rotations-network", title, fit, lambda x: constrain(x)["distance"])
    assert worst < 4.5 or not fit.certificate.status.outcome.usable  # 105 distances
