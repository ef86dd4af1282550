"""`python -m benchmarks.large_groups NAME [--seeds 0 1 2] [--effort default]`: many labels.

NAME is `galaxies-6`, `-8`, `-10` (82 galaxies, unknown weights, means and variances), `blocks-10`,
`-12`, `-14` (unit normals in the plane about centres three apart along the sort coordinate, under
all labellings; the exact sampler is the truth and log Z is 0) or `demo-6`, `-8` (the Bayesian
mixture of the demo with more components than its three). One process per seed, so that CPU
seconds contain imports and compilation; the persistent cache of JAX is switched off. Writes
results/large-groups-NAME.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from typing import Any

from benchmarks import record

COLUMNS = (
    "problem",
    "seed",
    "classes",
    "acceptance per step",
    "steps per draw",
    "log Z",
    "coverage",
    "R-hat of the reference",
    "verdict",
    "CPU s",
)


def separated(m: int) -> Any:
    """Unit normals about centres three apart, under all labellings."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import folt
    from folt.groups import Permutation
    from folt.proposals import ClassChain

    group = Permutation(m, 2)
    centres = np.stack([3.0 * np.arange(m), np.zeros(m)], axis=1)
    truth = ClassChain(
        group,
        np.zeros(1),
        np.zeros((m - 1, 1, 1)),
        centres[:, None],
        np.broadcast_to(np.eye(2), (m, 1, 2, 2)),
        np.zeros((1, 0)),
        np.zeros((1, 0, 0)),
    )

    def log_density(x: jax.Array, truth: ClassChain) -> jax.Array:
        return truth.log_orbit_sum(x) - group.log_order

    def sampler(key: jax.Array) -> jax.Array:
        normal, label = jax.random.split(key)
        drawn = jnp.asarray(centres) + jax.random.normal(normal, (m, 2))
        return group.random_image(label, drawn.ravel())

    return folt.Problem(log_density, group, sampler=sampler, data=truth)


def problem_named(name: str) -> Any:
    """The posterior of a name."""
    from folt.models import bayesian_mixture, datasets, gaussian_mixture

    kind, _, count = name.rpartition("-")
    if kind == "galaxies":
        return gaussian_mixture(datasets.galaxies(), int(count))
    if kind == "demo":
        return bayesian_mixture(components=int(count))
    if kind == "blocks":
        return separated(int(count))
    raise ValueError(f"expected galaxies-K, blocks-M or demo-K, got {name!r}")


def once(name: str, seed: int, effort: str) -> dict[str, Any]:
    """One fit in this process."""
    import folt
    from folt.training.effort import EFFORTS

    fit = folt.sample(problem_named(name), seed=seed, effort=EFFORTS[effort](), progress=False)
    certificate, evidence = fit.certificate, fit.log_evidence
    main = getattr(fit.proposal, "main", fit.proposal)
    return {
        "classes": getattr(main, "classes", None),
        "accept": float(fit.accept_rate),
        "steps": fit.provenance["steps_per_draw"],
        "log_z": evidence.value,
        "error": evidence.standard_error,
        "coverage": certificate.coverage.value,
        "raw_coverage": certificate.coverage.raw,
        "coverage_error": certificate.coverage.standard_error,
        "rhat": certificate.reference.rhat,
        "verdict": certificate.status.name,
        "ess": float(min(fit.ess())),
        "cpu_s": record.cpu_seconds(),
    }


def row(name: str, seed: int, found: dict[str, Any]) -> tuple[Any, ...]:
    """The cells of one fit."""
    decimals = max(3, 1 - math.floor(math.log10(max(found["error"], 1e-6))))
    return (
        name,
        seed,
        found["classes"],
        f"{found['accept']:.3f}",
        found["steps"],
        f"{found['log_z']:.{decimals}f} ± {found['error']:.{decimals}f}",
        f"{found['coverage']:.3f} ± {found['coverage_error']:.3f}",
        f"{found['rhat']:.3f}",
        found["verdict"],
        f"{found['cpu_s']:.0f}",
    )


def measure(name: str, seeds: list[int], effort: str) -> None:
    """A process per seed, and the file after each."""
    rows, details = [], {}
    for seed in seeds:
        command = [sys.executable, "-m", "benchmarks.large_groups", name, "--once", str(seed)]
        plain = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
        done = subprocess.run(
            [*command, "--effort", effort], env=plain, stdout=subprocess.PIPE, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        rows.append(row(name, seed, found))
        details[str(seed)] = found
        print(*rows[-1], flush=True)
        record.write(
            f"large-groups-{name}",
            f"{name}, effort {effort}",
            COLUMNS,
            rows,
            command=f"python -m benchmarks.large_groups {name} --effort {effort}",
            fits=details,
        )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_groups")
    parser.add_argument("name")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--effort", default="default")
    parser.add_argument("--once", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once is None:
        measure(options.name, options.seeds, options.effort)
    else:
        print(json.dumps(once(options.name, options.once, options.effort)))


if __name__ == "__main__":
    main()
