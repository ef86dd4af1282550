"""`python -m benchmarks.richardson_green [--components 2 3] [--seeds 3] [--repeats 6]`.

The galaxies under the prior of Richardson and Green (1997): means normal about the middle of the
data with their range R as standard deviation, precisions Gamma(2, β) with β ~ Gamma(.2, 10/R²),
weights Dirichlet(1). The evidence by folt, from the model as a user writes it in NumPyro, beside
that of `benchmarks.truth`: NUTS in one labelling and a bridge, with which it shares no code.
Writes results/richardson-green.json.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from benchmarks import record
from benchmarks.truth import Posterior, repeat, tools

TITLE = "Galaxies under the prior of Richardson and Green: log Z by folt and by a bridge from NUTS"
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


def posterior(components: int) -> Posterior:
    """The same at μ₁ < … < μ_K: (μ₁, log gaps, log precisions, log rate, weights to the last)."""
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

    places = np.quantile(data, (np.arange(components) + 0.5) / components)
    start = np.concatenate(
        [places[:1], np.log(np.diff(places)), np.zeros(components + 1), np.zeros(components - 1)]
    )
    return Posterior("galaxies", log_density, components, start, 8)


def by_bridge(components: int, repeats: int) -> tuple[float, float, list[float]]:
    """Mean of log Z over repeats, its error, and the values."""
    with jax.enable_x64(True):
        own = posterior(components)
        made = tools(own)
        values = [repeat(own, made, seed)[0] for seed in range(repeats)]
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(repeats)), values


def main() -> None:
    """Both methods for every number of components, written after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.richardson_green")
    parser.add_argument("--components", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=6)
    asked = parser.parse_args()
    import folt

    rows: list[list[str]] = []
    found: dict[str, Any] = {}
    for components in asked.components:
        before = record.cpu_seconds()
        truth, error, values = by_bridge(components, asked.repeats)
        spent = record.cpu_seconds() - before
        shown = f"{truth:.4f} ± {error:.4f}"
        method = f"bridge, {asked.repeats} repeats"
        rows.append([str(components), method, "", "", "", shown, "", f"{spent:.0f}"])
        found[str(components)] = {"bridge": values, "folt": []}
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
