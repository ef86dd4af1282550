"""Models whose reference run failed while tempering was the only search.

    python -m benchmarks.hard [NAME...]

Every fit is written down at once, with its commit, and takes the place of an earlier one. Their
truth is not known; what counts is that each ends right, as far as other seeds tell, or in doubt for
a stated reason.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import folt
from benchmarks import brought, record
from folt.groups import Permutation, Trivial
from folt.proposals import standard_normal


def six_states() -> folt.Problem:
    """A hidden Markov model whose states last, their means three apart."""
    transition = 0.8 * np.eye(6) + 0.2 / 6
    data = folt.models.simulate_hidden_markov(
        jax.random.key(0),
        400,
        transition=transition.tolist(),
        mu=(3.0 * np.arange(6)).tolist(),
        sigma=[0.6] * 6,
    )
    return folt.models.hidden_markov(data, 6)


def five_factors() -> folt.Problem:
    """Five factors with two variables each."""
    rng, loadings = np.random.default_rng(0), np.zeros((5, 10))
    for factor in range(5):
        loadings[factor, 2 * factor : 2 * factor + 2] = 0.9, 0.7
    data = rng.normal(size=(300, 5)) @ loadings + 0.5 * rng.normal(size=(300, 10))
    return folt.models.factor_analysis(data, 5)


def network(units: int = 3, count: int = 80) -> folt.Problem:
    """A regression by a network of tanh units: permutations and signs."""
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(-2.0, 2.0, count))
    y = np.sin(2.0 * x) + 0.15 * rng.normal(size=count)

    def model(x, y):
        with numpyro.plate("units", units):
            slope = numpyro.sample("slope", dist.Normal(0, 2))
            shift = numpyro.sample("shift", dist.Normal(0, 2))
            weight = numpyro.sample("weight", dist.Normal(0, 2))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        curve = jnp.tanh(x[:, None] * slope + shift) @ weight
        numpyro.sample("y", dist.Normal(curve, noise), obs=y)

    return folt.from_numpyro(model, x, y)


def four_classes(items: int = 8, count: int = 500) -> folt.Problem:
    """Four latent classes in NumPyro, the class of every person summed out."""
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(1)
    truth = rng.beta(1.0, 1.0, (4, items))
    member = rng.choice(4, count, p=np.array([0.4, 0.3, 0.2, 0.1]))
    answers = (rng.random((count, items)) < truth[member]).astype(float)

    def model(answers):
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(4)))
        with numpyro.plate("classes", 4):
            yes = numpyro.sample("yes", dist.Beta(jnp.ones(items), 1.0).to_event(1))
        logs = answers @ jnp.log(yes).T + (1.0 - answers) @ jnp.log1p(-yes).T
        numpyro.factor("answers", jax.nn.logsumexp(logs + jnp.log(share), axis=1).sum())

    return folt.from_numpyro(model, answers)


def sinusoids() -> folt.Problem:
    """Two sinusoids at nearly even times, so that frequencies have aliases."""
    rng = np.random.default_rng(3)
    times = np.delete(np.arange(24.0), [3, 4, 9, 15, 16, 17, 21])
    times = np.round(0.5 * times) * 2.0 + 0.03 * rng.normal(size=times.size)
    signal = np.cos(2 * np.pi * 0.11 * times + 0.4) + 0.7 * np.cos(2 * np.pi * 0.23 * times - 1.0)
    observed = signal + 0.6 * rng.normal(size=times.size)

    def log_density(x, data):
        times, observed = data
        score, cosine, sine = x.reshape(2, 3).T
        angle = 2 * jnp.pi * norm.cdf(score)[:, None] * times
        curve = jnp.sum(cosine[:, None] * jnp.cos(angle) + sine[:, None] * jnp.sin(angle), axis=0)
        return jnp.sum(norm.logpdf(observed, curve, 0.6)) + jnp.sum(norm.logpdf(x))

    data = (jnp.asarray(times), jnp.asarray(observed))
    return folt.Problem(log_density, Permutation(2, 3), data=data, prior=standard_normal(6))


def sensors() -> folt.Problem:
    """Four sensors located by noisy distances, some of them unseen (Tak, Meng and van Dyk 2018)."""
    known = np.array([[0.5, 0.3], [0.3, 0.7]])
    seen = {(0, 3): 0.2970, (0, 4): 0.9266, (0, 5): 0.8524, (1, 2): 0.3012, (1, 5): 0.6103}
    seen |= {(2, 3): 0.2995, (2, 5): 0.5995, (3, 4): 0.3631, (3, 5): 0.5656}
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 6)]
    first, second = np.array(pairs).T
    distances = np.array([seen.get(pair, 0.0) for pair in pairs])
    reach, error = 0.3, 0.02

    def log_density(x, data):
        distances, known = data
        places = jnp.concatenate([x.reshape(4, 2), known])
        squares = jnp.sum((places[first] - places[second]) ** 2, axis=1)
        fading = -0.5 * squares / reach**2
        near = norm.logpdf(distances, jnp.sqrt(squares + 1e-12), error) + fading
        far = jnp.log(-jnp.expm1(fading - 1e-10))
        return jnp.sum(jnp.where(distances > 0, near, far)) + jnp.sum(norm.logpdf(x, 0.0, 10.0))

    data = (jnp.asarray(distances), jnp.asarray(known))
    return folt.Problem(log_density, Trivial(8), data=data, prior=standard_normal(8, 10.0))


def galaxies(components: int) -> folt.Problem:
    """Mixtures whose ladders keep few families."""
    return folt.models.gaussian_mixture(folt.models.datasets.galaxies(), components)


def models() -> Iterator[tuple[str, Callable[[], folt.Problem], int]]:
    """Name, problem and number of seeds."""
    yield "two sinusoids with aliases", sinusoids, 3
    yield "sensor network", sensors, 3
    yield "network of three tanh units", network, 2
    yield "mixture of regressions", brought.regressions, 3
    yield "five sparse factors", five_factors, 1
    yield "latent classes, K = 4", four_classes, 1
    yield "hidden Markov, six states", six_states, 1
    for components, seeds in ((3, 5), (6, 1)):
        yield f"galaxies, K = {components}", functools.partial(galaxies, components), seeds


COLUMNS = ("model", "verdict", "because", "log Z", "accept", "modes", "ancestors", "ladders")


def measured(name: str, problem: folt.Problem, seed: int) -> tuple[object, ...]:
    """One fit: what the table shows."""
    before = record.cpu_seconds()
    fit = folt.sample(problem, seed=seed, progress=False)
    certificate, found = fit.certificate, fit.certificate.exploration
    doubt = "the searches disagree" if found.doubted else ""
    if not doubt and certificate.reference.rhat > 1.1:
        doubt = f"R-hat {certificate.reference.rhat:.2f}"
    error = fit.log_evidence.standard_error
    return (
        f"{name}, d = {problem.dim}, seed {seed}",
        certificate.status.name,
        doubt,
        f"{fit.log_evidence.value:.3f} ± {error:.3f}" if math.isfinite(error) else "–",
        f"{fit.accept_rate:.2f}",
        len(found.modes),
        f"{found.ancestors} of {found.particles:,}",
        found.ladders,
        f"{record.cpu_seconds() - before:.0f}",
        record.commit(),
    )


def main(words: list[str]) -> None:
    """Fit them, or those whose names begin so, and write each down beside what was known."""
    there = record.read("modes-models")["rows"] if "modes-models" in record.names() else []
    rows = {row[0]: row for row in there}
    for name, made, seeds in models():
        if words and not any(name.startswith(word) for word in words):
            continue
        problem = made()
        for seed in range(seeds):
            row = measured(name, problem, seed)
            print(row, flush=True)
            rows[row[0]] = row
            record.write(
                "modes-models",
                "Models whose tempering failed alone",
                (*COLUMNS, "CPU s", "commit"),
                rows.values(),
                command="python -m benchmarks.hard",
                cpu_s=sum(float(row[-2]) for row in rows.values()),
                commits=[row[-1] for row in rows.values()],
            )


if __name__ == "__main__":
    main(sys.argv[1:])
