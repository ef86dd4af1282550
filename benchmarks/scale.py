"""What many observations cost: a mixture of three normals, and NUTS beside it.

    python -m benchmarks.scale 1e4 [1e5 1e6] [--effort quick] [--nuts [--iterations N]]

Every fit runs in a process of its own, whose peak memory, saving included, is what the operating
system saw. Rows are added to those that were measured before. NUTS may be cut short by
`--iterations`, which its row says: its cost is then a lower bound of that of a usual run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks import record

COLUMNS = (
    "observations",
    "tool",
    "verdict",
    "acceptance",
    "log Z",
    "values",
    "gradients",
    "mean of the largest mu, sd of the middle one",
    "CPU s",
    "peak MB",
)


def observations(count: int) -> np.ndarray:
    """Draws of three normals that overlap."""
    generator = np.random.default_rng(0)
    labels = generator.choice(3, count, p=[0.5, 0.3, 0.2])
    noise = generator.normal(size=count)
    return np.array([-2.0, 0.0, 2.5])[labels] + np.array([0.6, 0.8, 1.0])[labels] * noise


def one(count: int, tool: str, effort: str, iterations: int | None) -> tuple[object, ...]:
    """A row: one fit in this process."""
    import jax

    import folt

    jax.config.update("jax_enable_x64", tool == "NUTS")
    problem = folt.models.gaussian_mixture(observations(count), 3)
    if tool == "NUTS":
        from benchmarks.peers import tools

        if iterations is not None:
            tools.WARMUP = tools.DRAWS = iterations
        run = tools.TOOLS["nuts"](problem, 0)
        tool = f"NUTS, {tools.CHAINS} × ({tools.WARMUP:,} + {tools.DRAWS:,})"
        draws = np.asarray(jax.vmap(problem.group.fold)(run.draws.reshape(-1, problem.dim)))
        means = problem.parameters(draws)["mu"]
        said: tuple[object, ...] = ("", "", "", "", f"{run.evaluations:,}")
    else:
        tool = f"folt, {effort}"
        fit = folt.sample(
            problem, seed=0, draws=1_000, effort=getattr(folt.Effort, effort)(), progress=False
        )
        with tempfile.TemporaryDirectory() as folder:
            fit.save(f"{folder}/fit.folt")
        evidence, spent = fit.log_evidence, fit.evaluations
        said = (
            fit.certificate.status.name,
            f"{fit.accept_rate:.3f}",
            f"{evidence.value:.3f} ± {evidence.standard_error:.3f}",
            f"{spent['value']:,}",
            f"{spent['gradient']:,}",
        )
        means = fit.posterior["mu"].reshape(-1, 3)
    means = np.sort(means, axis=1)
    seen = f"{means[:, 2].mean():.4f}, {means[:, 1].std():.4f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (f"{count:,}", tool, *said, seen, f"{record.cpu_seconds():.1f}", f"{peak:.0f}")


def main() -> None:
    """Run what was asked for, each in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="+", type=float)
    parser.add_argument("--effort", default="quick", choices=("quick", "default"))
    parser.add_argument("--nuts", action="store_true", help="NUTS, in the place of folt")
    parser.add_argument("--iterations", type=int, help="warm-up and draws of each chain of NUTS")
    parser.add_argument("--here", action="store_true", help="one fit in this process")
    asked = parser.parse_args()
    tool = "NUTS" if asked.nuts else "folt"
    if asked.here:
        row = one(int(asked.counts[0]), tool, asked.effort, asked.iterations)
        print(json.dumps(row))
        return
    words = " ".join(sys.argv[1:])
    for count in asked.counts:
        options = ["--effort", asked.effort, *(["--nuts"] if asked.nuts else [])]
        options += ["--iterations", str(asked.iterations)] if asked.iterations else []
        command = [sys.executable, "-m", "benchmarks.scale", str(count), "--here", *options]
        ended = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(ended.stdout.splitlines()[-1])
        print(row, flush=True)
        _add(row, f"python -m benchmarks.scale {words}")


def _add(row: list[str], command: str) -> None:
    """Put a row among those that were measured before, in the place of an older one."""
    known = record.read("scale") if (record.RESULTS / "scale.json").is_file() else None
    rows = [] if known is None else [each for each in known["rows"] if each[:2] != row[:2]]
    before = "" if known is None else known["provenance"]["command"]
    words = "; ".join(dict.fromkeys([*filter(None, before.split("; ")), command]))
    rows = sorted([*rows, row], key=lambda each: (int(each[0].replace(",", "")), each[1]))
    record.write("scale", "Many observations", COLUMNS, rows, command=words)


if __name__ == "__main__":
    main()
