"""`python -m benchmarks.truth [NAME ...] [--repeats 12]`: log Z by a method that is not folt's.

Each posterior is restricted to one labelling and written in coordinates in which that labelling
is all of R^d. NUTS (NumPyro) draws from it. Half of its chains fit a Gaussian mixture, by
expectation-maximisation in NumPy; the other half and fresh draws of that mixture meet in the
optimal bridge; log m! is added at the end. Nothing of folt's folding, proposals or evidence is
used. Every repeat begins anew, chains and mixture included; the value is the mean over repeats
and its error their standard deviation over the root of their number. Writes
results/truth-NAME.json.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, logsumexp
from jax.scipy.stats import norm
from scipy.special import logsumexp as np_logsumexp

from benchmarks import record
from benchmarks.problems import SPECTRUM

CHAINS, WARMUP, DRAWS = 16, 300, 1500
FRESH = 150_000
EM_ROUNDS = 60
COLUMNS = ("repeat", "log Z", "largest R-hat", "smallest ESS")


class Posterior(NamedTuple):
    """A posterior under one labelling: its log density, m!, where to start, mixture components."""

    title: str
    log_density: Callable[[jax.Array], jax.Array]
    labels: int
    start: np.ndarray
    components: int


def bayesian_mixture() -> Posterior:
    """The paper's Bayesian mixture at μ₁ < μ₂ < μ₃: (μ₁, log gaps, log σ)."""
    from benchmarks.evidence_peers import DATA

    def log_density(x: jax.Array) -> jax.Array:
        mu = x[0] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.exp(x[1:3]))])
        log_sigma = x[3:]
        residual = (DATA - mu[:, None]) * jnp.exp(-log_sigma)[:, None]
        terms = -0.5 * residual**2 - log_sigma[:, None]
        constant = DATA.size * (math.log(3) + 0.5 * math.log(2 * math.pi))
        prior = norm.logpdf(mu, 3.0, 5.0).sum() + norm.logpdf(log_sigma, 0.0, 0.5).sum()
        return logsumexp(terms, axis=0).sum() - constant + prior + x[1] + x[2]

    low, middle, high = np.quantile(DATA, [1 / 6, 1 / 2, 5 / 6])
    start = np.array([low, np.log(middle - low), np.log(high - middle), 0.0, 0.0, 0.0])
    return Posterior("Bayesian mixture of the demo", log_density, 3, start, 4)


def typhoon() -> Posterior:
    """The paper's real window at f₁ < f₂ < f₃, in coordinates whose prior is standard normal.

    Of ordered uniform variables u₃ = Φ(x₃)^(1/3), u₂ = u₃·Φ(x₂)^(1/2), u₁ = u₂·Φ(x₁) the density
    is 3! where x is standard normal, so that one labelling has the prior φ(x)/3!.
    """
    frequency, psd = np.loadtxt(SPECTRUM, delimiter=",", skiprows=3).T
    ordinates, square = psd / psd.mean(), (2 * math.pi * frequency) ** 2

    def log_density(x: jax.Array) -> jax.Array:
        share = jnp.exp(jnp.cumsum(log_ndtr(x[:3]) / jnp.arange(3, 0, -1)))
        own = (2 * math.pi * (0.7 + 0.4 * share[:, None])) ** 2
        damping = 0.001 + 0.049 * norm.cdf(x[3:, None])
        shape = 0.01 + (1 / ((square - own) ** 2 + 4 * damping**2 * own * square)).sum(axis=0)
        likelihood = -shape.size * (jnp.log(jnp.mean(ordinates / shape)) + 1) - jnp.log(shape).sum()
        return likelihood + norm.logpdf(x).sum() - math.log(math.factorial(3))

    return Posterior("real typhoon window", log_density, 3, np.zeros(6), 24)


POSTERIORS = {"bayes-mixture": bayesian_mixture, "typhoon": typhoon}


class Tools(NamedTuple):
    """What is compiled once: NUTS, and the log density at many points."""

    sampler: Any
    density: Callable[[np.ndarray], jax.Array]


def tools(posterior: Posterior) -> Tools:
    """Both for one posterior."""
    from numpyro.infer import MCMC, NUTS

    sampler = MCMC(
        NUTS(potential_fn=lambda x: -posterior.log_density(x), dense_mass=True),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    density = jax.jit(lambda x: jax.lax.map(posterior.log_density, x, batch_size=256))
    return Tools(sampler, density)


class GaussianMixture(NamedTuple):
    """Log weights (k), means (k, d) and Cholesky factors (k, d, d)."""

    log_weight: np.ndarray
    mean: np.ndarray
    factor: np.ndarray

    def terms(self, x: np.ndarray) -> np.ndarray:
        """Log weight plus log density of every component, (k, n)."""
        found = []
        for log_weight, mean, factor in zip(*self, strict=True):
            residual = np.linalg.solve(factor, (x - mean).T)
            constant = np.log(np.diag(factor)).sum() + 0.5 * mean.size * math.log(2 * math.pi)
            found.append(log_weight - 0.5 * np.square(residual).sum(axis=0) - constant)
        return np.array(found)

    def log_prob(self, x: np.ndarray) -> np.ndarray:
        """Log density, (n)."""
        return np_logsumexp(self.terms(x), axis=0)

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Independent draws, (count, d)."""
        weight = np.exp(self.log_weight)
        which = random.choice(weight.size, count, p=weight / weight.sum())
        noise = random.normal(size=(count, self.mean.shape[1]))
        return self.mean[which] + np.einsum("nij,nj->ni", self.factor[which], noise)


def fitted(random: np.random.Generator, x: np.ndarray, components: int) -> GaussianMixture:
    """A Gaussian mixture by expectation-maximisation, begun at random draws."""
    whole = np.cov(x.T)
    mean = x[random.choice(len(x), components, replace=False)]
    covariance = np.repeat(0.3 * whole[None], components, axis=0)
    weight = np.full(components, 1 / components)
    for _ in range(EM_ROUNDS):
        mixture = GaussianMixture(np.log(weight), mean, np.linalg.cholesky(covariance))
        terms = mixture.terms(x)
        share = np.exp(terms - np_logsumexp(terms, axis=0))
        total = share.sum(axis=1) + 1e-9
        weight, mean = total / total.sum(), share @ x / total[:, None]
        for k in range(components):
            centred = x - mean[k]
            covariance[k] = (share[k] * centred.T) @ centred / total[k] + 1e-3 * whole
    return GaussianMixture(np.log(weight), mean, np.linalg.cholesky(covariance))


def bridge(from_target: np.ndarray, from_proposal: np.ndarray) -> float:
    """log Z of the optimal bridge, from the log ratios h = log π̃ - log q at draws of either."""
    share = from_target.size / (from_target.size + from_proposal.size)
    value, previous = float(np.median(from_proposal)), math.inf
    while abs(value - previous) > 1e-10:
        previous, offset = value, math.log1p(-share) - math.log(share) + value
        above = np_logsumexp(from_proposal - np.logaddexp(from_proposal, offset))
        below = np_logsumexp(-np.logaddexp(from_target, offset))
        value = float(above - below + math.log(from_target.size / from_proposal.size))
    return value


def repeat(posterior: Posterior, made: Tools, seed: int) -> tuple[float, float, float]:
    """One independent value of log Z, with the worst R-hat and ESS of its chains."""
    import arviz

    random = np.random.default_rng(seed)
    scatter = random.normal(scale=0.3, size=(CHAINS, posterior.start.size))
    made.sampler.run(jax.random.key(seed), init_params=posterior.start + scatter)
    draws = np.asarray(made.sampler.get_samples(group_by_chain=True))
    learn, judge = (half.reshape(-1, draws.shape[-1]) for half in np.split(draws, 2))
    proposal = fitted(random, learn, posterior.components)

    def ratio(x: np.ndarray) -> np.ndarray:
        return np.asarray(made.density(x)) - proposal.log_prob(x)

    value = bridge(ratio(judge), ratio(proposal.draw(random, FRESH)))
    columns = [draws[..., k] for k in range(draws.shape[-1])]
    rhat = max(float(arviz.rhat(column)) for column in columns)
    ess = min(float(arviz.ess(column)) for column in columns)
    return value + math.log(math.factorial(posterior.labels)), rhat, ess


def measure(name: str, repeats: int) -> None:
    """Repeat, and write what was found."""
    posterior, before = POSTERIORS[name](), record.cpu_seconds()
    made, rows, values = tools(posterior), [], []
    for seed in range(repeats):
        value, rhat, ess = repeat(posterior, made, seed)
        values.append(value)
        rows.append((str(seed), f"{value:.5f}", f"{rhat:.4f}", f"{ess:.0f}"))
        print(name, *rows[-1], flush=True)
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(repeats))
    rows.append(("mean", f"{mean:.5f} ± {error:.5f}", "", ""))
    path = record.write(
        f"truth-{name}",
        f"log Z of the {posterior.title}, bridge from NUTS in one labelling, log 3! added",
        COLUMNS,
        rows,
        command=f"python -m benchmarks.truth {name} --repeats {repeats}",
        cpu_s=record.cpu_seconds() - before,
        log_evidence=mean,
        standard_error=error,
    )
    print(path)


def main() -> None:
    """Measure what was named, or everything whose data are at hand."""
    jax.config.update("jax_enable_x64", True)
    there = [name for name in POSTERIORS if name != "typhoon" or SPECTRUM.is_file()]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth")
    parser.add_argument("names", nargs="*", default=there)
    parser.add_argument("--repeats", type=int, default=12)
    arguments = parser.parse_args()
    for name in arguments.names:
        measure(name, arguments.repeats)


if __name__ == "__main__":
    main()
