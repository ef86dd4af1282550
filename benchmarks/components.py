"""`python -m benchmarks.components [1:5] [--effort quick] [--seed 0]`: how many components?

The 82 galaxies with every number of components that is asked for. Sizes that were measured before
stay in the table unless they are measured again, so that large ones can follow on another day;
posterior probabilities are made anew from all of them.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import folt
from benchmarks import record
from folt.certificate.comparison import compare_evidences
from folt.certificate.diagnostics.evidence import Evidence
from folt.models import datasets, gaussian_mixture

NAME = "components"
TITLE = (
    "82 galaxies, Gaussian mixtures with unknown weights and variances; all numbers of components "
    "in the table equally probable beforehand"
)
COLUMNS = ("components", "log Z", "probability", "acceptance", "verdict", "effort", "CPU s")
EFFORTS = {
    "quick": folt.Effort.quick,
    "default": folt.Effort.default,
    "thorough": folt.Effort.thorough,
}


def measured(components: int, effort: str, seed: int) -> dict[str, Any]:
    """One size: what the table and the probabilities need."""
    before, commit = record.cpu_seconds(), record.commit()
    problem = gaussian_mixture(datasets.galaxies(), components)
    fit = folt.sample(problem, seed=seed, effort=EFFORTS[effort](), progress=False)
    found = fit.log_evidence
    return {
        "components": components,
        "log_z": found.value,
        "standard_error": found.standard_error,
        "pareto_k": found.pareto_k,
        "method": found.method,
        "coverage": fit.certificate.coverage.value,
        "accept": fit.accept_rate,
        "steps_per_draw": fit.steps_per_draw,
        "verdict": fit.certificate.status.name,
        "effort": effort,
        "seed": seed,
        "cpu_s": round(record.cpu_seconds() - before, 1),
        "commit": commit,
    }


def rows(sizes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The table: every size with its probability among those that are there."""
    ranking = compare_evidences(
        {
            str(one["components"]): Evidence(
                one["log_z"], one["standard_error"], one["pareto_k"], 1, method=one["method"]
            )
            for one in sizes
        }
    )
    return [
        (
            one["components"],
            f"{one['log_z']:.3f} ± {one['standard_error']:.3f}",
            f"{row.probability:.3f} ± {row.probability_error:.3f}",
            f"{one['accept']:.3f}",
            one["verdict"],
            one["effort"],
            round(one["cpu_s"]),
        )
        for one, row in zip(sizes, ranking, strict=True)
    ]


def main(words: list[str]) -> None:
    """Measure the sizes asked for, each written down at once."""
    from folt.terminal import numbers_of

    parser = argparse.ArgumentParser(prog="python -m benchmarks.components")
    parser.add_argument("components", nargs="?", default="1:5")
    parser.add_argument("--effort", choices=list(EFFORTS), default="quick")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(words)
    there = record.read(NAME)["sizes"] if NAME in record.names() else []
    sizes = {one["components"]: one for one in there}
    for components in numbers_of("components", asked.components):
        sizes[components] = measured(components, asked.effort, asked.seed)
        ordered = [sizes[size] for size in sorted(sizes)]
        command = f"python -m benchmarks.components {min(sizes)}:{max(sizes)} "
        record.write(
            NAME,
            TITLE,
            COLUMNS,
            rows(ordered),
            command=command + f"--effort {asked.effort}",
            commits=[one["commit"] for one in ordered],
            cpu_s=sum(one["cpu_s"] for one in ordered),
            sizes=ordered,
        )
        sys.stdout.write(f"{sizes[components]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
