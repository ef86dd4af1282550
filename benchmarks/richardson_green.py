"""`python -m benchmarks.richardson_green [--components 2 3] [--seeds 3]`.

The galaxies under the prior of Richardson and Green (1997): means normal about the middle of the
data with their range R as standard deviation, precisions Gamma(2, β) with β ~ Gamma(.2, 10/R²),
weights Dirichlet(1). The evidence by folt, from the model as a user writes it in NumPyro, beside
importance sampling in one labelling: the density written again by hand in other coordinates, the
proposal a Gaussian mixture and a wider copy of it, fitted by `benchmarks.truth` to draws of another
seed. It shares no density, fold or proposal with folt. (A bridge from NUTS that begins at quantiles
of the data is no second method here: its chains stay in the mode that they begin in.)
Writes results/richardson-green.json.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from benchmarks import record
from benchmarks.truth import GaussianMixture, fitted

TITLE = "Galaxies under the prior of Richardson and Green: log Z by folt and by hand"
OTHER_SEED, MIXTURE, FRESH = 1_000, 12, 150_000
COLUMNS = ("components", "method", "seed", "acceptance", "verdict", "log Z", "apart", "CPU s")


def galaxies() -> tuple[np.ndarray, float, float]:
    """The data, their middle and their range."""
    from folt.models import datasets

    data = datasets.galaxies()
    return data, 0.5 * (data.min() + data.max()), float(np.ptp(data))


def problem(components: int) -> Any:
    """The model as a user of NumPyro writes it."""
    import numpyro
    import numpyro.distributions as dist

    import folt

    data, middle, width = galaxies()

    def model(y: np.ndarray) -> None:
        weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(components)))
        rate = numpyro.sample("rate", dist.Gamma(0.2, 10.0 / width**2))
        with numpyro.plate("components", components):
            mu = numpyro.sample("mu", dist.Normal(middle, width))
            precision = numpyro.sample("precision", dist.Gamma(2.0, rate))
        parts = dist.Normal(mu, 1.0 / jnp.sqrt(precision))
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weight), parts), obs=y)

    return folt.from_numpyro(model, data)


def log_density_of(components: int) -> Callable[[jax.Array], jax.Array]:
    """The same by hand at ascending means: (μ₁, log gaps, log precisions, log rate, ratios)."""
    data, middle, width = galaxies()
    shape, rate_of_rate = 0.2, 10.0 / width**2

    def log_density(x: jax.Array) -> jax.Array:
        first, gaps = x[:1], x[1:components]
        mu = jnp.concatenate([first, first + jnp.cumsum(jnp.exp(gaps))])
        log_precision = x[components : 2 * components]
        log_rate, ratios = x[2 * components], x[2 * components + 1 :]
        log_weight = jax.nn.log_softmax(jnp.concatenate([ratios, jnp.zeros(1)]))
        scale = jnp.exp(-0.5 * log_precision)
        terms = log_weight[:, None] + norm.logpdf(data, mu[:, None], scale[:, None])
        likelihood = logsumexp(terms, axis=0).sum()
        # The Jacobian of a logarithm raises the shape of a Gamma density by one.
        spread = 2.0 * (log_precision + log_rate) - jnp.exp(log_precision + log_rate)
        hyper = shape * log_rate - rate_of_rate * jnp.exp(log_rate)
        hyper += shape * math.log(rate_of_rate) - math.lgamma(shape)
        weights = math.lgamma(components) + log_weight.sum()
        own = norm.logpdf(mu, middle, width).sum() + gaps.sum()
        return likelihood + own + spread.sum() + hyper + weights

    return log_density


def ordered(fit: Any) -> np.ndarray:
    """Draws in the coordinates of `log_density_of`, components ascending."""
    draws = {name: np.asarray(v).reshape(-1, *v.shape[2:]) for name, v in fit.posterior.items()}
    order = np.argsort(draws["mu"], axis=1)
    sites = (draws[name] for name in ("mu", "precision", "weight"))
    mu, precision, weight = (np.take_along_axis(site, order, 1) for site in sites)
    gaps, ratios = np.diff(mu, axis=1), weight[:, :-1] / weight[:, -1:]
    rate = draws["rate"].reshape(-1, 1)
    logs = np.log(np.concatenate([gaps, precision, rate, ratios], axis=1))
    return np.concatenate([mu[:, :1], logs], axis=1)


def by_hand(components: int) -> tuple[float, float]:
    """Log Z by importance sampling in one labelling, log K! added, and its error."""
    import folt

    fit = folt.sample(problem(components), seed=OTHER_SEED, progress=False)
    random = np.random.default_rng(0)
    narrow = fitted(random, ordered(fit), MIXTURE)
    wide = GaussianMixture(narrow.log_weight, narrow.mean, 2 * narrow.factor)
    x = np.concatenate([narrow.draw(random, FRESH), wide.draw(random, FRESH)])
    log_q = np.logaddexp(narrow.log_prob(x), wide.log_prob(x)) - math.log(2)
    with jax.enable_x64(True):
        density = log_density_of(components)
        log_pi = np.asarray(jax.jit(lambda z: jax.lax.map(density, z, batch_size=512))(x))
    largest = (log_pi - log_q).max()
    weights = np.exp(log_pi - log_q - largest)
    error = weights.std() / weights.mean() / math.sqrt(len(x))
    value = largest + math.log(weights.mean()) + math.log(math.factorial(components))
    return float(value), float(error)


def main() -> None:
    """Both methods for every number of components, written after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.richardson_green")
    parser.add_argument("--components", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    import folt

    rows: list[list[str]] = []
    found: dict[str, Any] = {}
    for components in asked.components:
        before = record.cpu_seconds()
        truth, error = by_hand(components)
        spent = record.cpu_seconds() - before
        shown = f"{truth:.4f} ± {error:.4f}"
        rows.append([str(components), "by hand", "", "", "", shown, "", f"{spent:.0f}"])
        found[str(components)] = {"by hand": [truth, error], "folt": []}
        for seed in range(asked.seeds):
            before = record.cpu_seconds()
            fit = folt.sample(problem(components), seed=seed, progress=False)
            own, spent = fit.log_evidence, record.cpu_seconds() - before
            shown = f"{own.value:.4f} ± {own.standard_error:.4f}"
            facts = [f"{fit.accept_rate:.3f}", fit.certificate.status.name, shown]
            apart = f"{own.value - truth:+.4f}"
            rows.append([str(components), "folt", str(seed), *facts, apart, f"{spent:.0f}"])
            found[str(components)]["folt"].append([own.value, own.standard_error])
            print(*rows[-1], flush=True)
        command = " ".join(["python -m benchmarks.richardson_green", *sys.argv[1:]])
        record.write("richardson-green", TITLE, COLUMNS, rows, command=command, values=found)


if __name__ == "__main__":
    main()
