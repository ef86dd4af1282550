"""`python -m benchmarks.large_models [NAME...] [--seeds 2]`: other models with many labellings.

A hidden Markov model with six states, whose transition matrix carries the labels on both sides, and
sparse factor analysis with five factors, 2^5·5! signed permutations; at the quick effort.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import folt
from benchmarks import record
from folt.models import factor_analysis, hidden_markov, simulate_hidden_markov

NAME = "large-models"
TITLE = "Models with many labellings at the quick effort, simulated data"
COLUMNS = ("model", "labellings", "dimension", "seed", "acceptance", "log Z", "verdict", "CPU s")


def six_states() -> folt.Problem:
    """400 observations of a chain that stays in a state five steps on average."""
    transition = 0.8 * np.eye(6) + 0.2 / 6
    data = simulate_hidden_markov(
        jax.random.key(0),
        400,
        transition=transition.tolist(),
        mu=(3.0 * np.arange(6)).tolist(),
        sigma=[0.6] * 6,
    )
    return hidden_markov(data, 6)


def five_factors() -> folt.Problem:
    """300 observations of ten variables, two of which load on every factor."""
    generator = np.random.default_rng(0)
    loadings = np.zeros((5, 10))
    for factor in range(5):
        loadings[factor, 2 * factor : 2 * factor + 2] = 0.9, 0.7
    scores = generator.normal(size=(300, 5))
    return factor_analysis(scores @ loadings + 0.5 * generator.normal(size=(300, 10)), 5)


MODELS: dict[str, Callable[[], folt.Problem]] = {
    "hidden Markov, 6 states": six_states,
    "5 sparse factors": five_factors,
}


def measured(name: str, seed: int) -> dict[str, Any]:
    """One fit: what the table shows, and why its verdict is what it is."""
    before = record.cpu_seconds()
    problem = MODELS[name]()
    labels = "proposal" if name == "5 sparse factors" else "sorted"
    fit = folt.sample(problem, seed=seed, effort=folt.Effort.quick(), labels=labels, progress=False)
    found, certificate = fit.log_evidence, fit.certificate
    return {
        "model": name,
        "labellings": problem.group.order,
        "dimension": problem.dim,
        "seed": seed,
        "accept": fit.accept_rate,
        "log_z": found.value,
        "standard_error": found.standard_error,
        "pareto_k": found.pareto_k,
        "coverage": certificate.coverage.value,
        "reference_rhat": certificate.reference.rhat,
        "verdict": certificate.status.name,
        "advice": certificate.status.advice,
        "cpu_s": round(record.cpu_seconds() - before, 1),
    }


def main(words: list[str]) -> None:
    """Measure what is asked for, each written down at once beside what was measured before."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_models")
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args(words)
    there = record.read(NAME)["fits"] if NAME in record.names() else []
    fits = {(one["model"], one["seed"]): one for one in there}
    for seed in range(asked.seeds):
        for name in asked.names:
            fits[name, seed] = measured(name, seed)
            ordered = [fits[key] for key in sorted(fits)]
            record.write(
                NAME,
                TITLE,
                COLUMNS,
                [row(one) for one in ordered],
                command="python -m benchmarks.large_models",
                cpu_s=sum(one["cpu_s"] for one in ordered),
                fits=ordered,
            )
            sys.stdout.write(f"{fits[name, seed]}\n")
            sys.stdout.flush()


def row(one: dict[str, Any]) -> tuple[Any, ...]:
    """A line of the table."""
    return (
        one["model"],
        one["labellings"],
        one["dimension"],
        one["seed"],
        f"{one['accept']:.3f}",
        f"{one['log_z']:.2f} ± {one['standard_error']:.2f}",
        one["verdict"],
        round(one["cpu_s"]),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
