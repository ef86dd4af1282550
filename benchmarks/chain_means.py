"""`python -m benchmarks.chain_means [--components 10] [--seed 0]`: a fit beside a long reference.

The galaxies with many components: means of the folded parameters of a default fit beside those of
tempered chains that are eight times as long as a fit's own, from another seed, whose draws no
proposal has touched. Differences are in joint standard errors, by effective sizes of either.
Writes results/chain-means.json.
"""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

import folt
from benchmarks import record
from folt.certificate.diagnostics.chains import effective_size
from folt.models import datasets, gaussian_mixture
from folt.proposals.action import action_of
from folt.reference.host_chains import HostChains
from folt.types import root_key

COLUMNS = ("quantity", "fit", "its error", "long run", "its error", "z")
OTHER_SEED = 1_000
LONG = HostChains(particles=4_096, draws=640)


def moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over (chain, draw) of every column, and their standard errors."""
    sizes = [effective_size(draws[..., column]) for column in range(draws.shape[-1])]
    return draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)) / np.sqrt(sizes)


def named(problem: folt.Problem, draws: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Parameters of draws on the fundamental domain, one column each, and the log density."""
    flat = draws.reshape(-1, problem.dim)
    found = problem.parameters(flat)
    names, columns = ["log density"], [problem.log_probs(flat)]
    for name, values in found.items():
        for place, column in enumerate(np.asarray(values).reshape(len(flat), -1).T):
            names.append(f"{name}[{place}]")
            columns.append(column)
    return names, np.stack(columns, axis=-1).reshape(*draws.shape[:2], -1)


def main() -> None:
    """Fit, run, compare, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chain_means")
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    problem = gaussian_mixture(datasets.galaxies(), asked.components)
    fit = folt.sample(problem, seed=asked.seed, progress=False)
    run = LONG(root_key(OTHER_SEED), problem)
    long = np.asarray(run.draws)
    folded = action_of(problem.group).fold(long.reshape(-1, problem.dim)).reshape(long.shape)
    names, ours = named(problem, fit.draws)
    _, theirs = named(problem, folded)
    (mean, error), (other, other_error) = moments(ours), moments(theirs)
    scores = (mean - other) / np.hypot(error, other_error)
    columns = (mean, error, other, other_error)
    rows = [
        [name, *(f"{column[i]:.4f}" for column in columns), f"{scores[i]:+.2f}"]
        for i, name in enumerate(names)
    ]
    rows.append(["largest |z|", "", "", "", "", f"{np.abs(scores).max():.2f}"])
    for row in rows:
        print(*row, flush=True)
    record.write(
        "chain-means",
        f"Galaxies with {asked.components} components: folded means of a fit and of tempered "
        f"chains of {LONG.chains} x {LONG.draws} draws from another seed",
        COLUMNS,
        rows,
        command=f"python -m benchmarks.chain_means --components {asked.components}"
        f" --seed {asked.seed}",
        cpu_s=record.cpu_seconds(),
        reference=dataclasses.asdict(LONG),
        reference_rhat=run.rhat,
        verdict=fit.certificate.status.name,
        acceptance=fit.accept_rate,
        log_evidence=[fit.log_evidence.value, fit.log_evidence.standard_error],
    )


if __name__ == "__main__":
    main()
