"""Evidence of the Bayesian mixture by other tools: `python -m benchmarks.evidence_peers --seeds 3`.

Needs `pip install pocomc dynesty` in the same environment; a tool that is not there is left out.
The density is plain NumPy, all 3! orderings of the components are counted, and the true value is
that of `benchmarks.truth`. Writes results/evidence-peers.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from benchmarks import record

DIM = 6
TITLE = "Evidence of the Bayesian mixture by other tools"
COLUMNS = (
    *("tool", "seed", "log Z", "its own error"),
    *("off by", "orderings among its draws, of 6", "wall s"),
)


def observations() -> np.ndarray:
    """The data of the paper's mixture: 500 draws of three normals."""
    state = np.random.RandomState(42)  # the published data come from this generator
    labels = state.choice(3, 500, p=[1 / 3] * 3)
    means, deviations = np.array([0.0, 3.0, 6.0]), np.array([0.8, 1.0, 0.7])
    return np.array([state.normal(means[c], deviations[c]) for c in labels])


DATA = observations()


def log_likelihood(theta: np.ndarray) -> np.ndarray:
    """Log likelihood of rows (μ₁, log σ₁, μ₂, ...)."""
    pairs = np.atleast_2d(theta).reshape(-1, 3, 2)
    mu, log_sigma = pairs[..., 0, None], pairs[..., 1, None]
    terms = -0.5 * ((DATA - mu) / np.exp(log_sigma)) ** 2 - log_sigma
    total = logsumexp(terms, axis=1) - np.log(3.0) - 0.5 * np.log(2 * np.pi)
    return total.sum(axis=-1)


def orderings(points: np.ndarray) -> int:
    """How many of the 3! orderings of the means the points visit."""
    found = {tuple(row) for row in np.argsort(points.reshape(-1, 3, 2)[..., 0], axis=1)}
    return len(found & set(itertools.permutations(range(3))))


def poco(seed: int) -> tuple[float, float, int]:
    import pocomc

    prior = pocomc.Prior([norm(3.0, 5.0), norm(0.0, 0.5)] * 3)
    sampler = pocomc.Sampler(
        prior, log_likelihood, vectorize=True, random_state=seed, n_effective=512, n_active=256
    )
    sampler.run(progress=False)
    points = sampler.posterior()[0]
    value, error = sampler.evidence()
    return float(value), float(error), orderings(points)


def dynesty_walk(seed: int) -> tuple[float, float, int]:
    import dynesty

    def transform(u: np.ndarray) -> np.ndarray:
        return np.where(np.arange(DIM) % 2 == 0, norm.ppf(u, 3.0, 5.0), norm.ppf(u, 0.0, 0.5))

    def one(x: np.ndarray) -> float:
        return float(log_likelihood(x)[0])

    sampler = dynesty.NestedSampler(
        one, transform, DIM, nlive=500, sample="rwalk", rstate=np.random.default_rng(seed)
    )
    sampler.run_nested(print_progress=False)
    result = sampler.results
    return float(result.logz[-1]), float(result.logzerr[-1]), orderings(result.samples[-2000:])


TOOLS: dict[str, Callable[[int], tuple[float, float, int]]] = {
    "pocomc": poco,
    "dynesty": dynesty_walk,
}


def main() -> None:
    """Run every tool that is installed and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    truth = float(record.read("truth-bayes-mixture")["log_evidence"])
    rows = []
    for name, run in TOOLS.items():
        if find_spec(name) is None:
            continue
        for seed in range(seeds):
            started = time.perf_counter()
            value, error, seen = run(seed)
            wall = time.perf_counter() - started
            print(json.dumps({"tool": name, "seed": seed, "log_z": value, "error": error}))
            cells = (f"{value:.3f}", f"{error:.3f}", f"{value - truth:+.3f}", seen, f"{wall:.0f}")
            rows.append((f"{name} {version(name)}", seed, *cells))
    command = f"python -m benchmarks.evidence_peers --seeds {seeds}"
    print(record.write("evidence-peers", TITLE, COLUMNS, rows, command=command))


if __name__ == "__main__":
    main()
