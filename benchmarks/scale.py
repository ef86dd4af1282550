"""What many observations cost: a mixture of three normals, and NUTS beside it.

    python -m benchmarks.scale 1e4 [1e5 1e6] [--effort quick] [--evaluations N] [--nuts]

Every fit runs in a process of its own, whose peak memory is what the operating system saw.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

import numpy as np

from benchmarks import record

COLUMNS = ("observations", "tool", "verdict", "acceptance", "evaluations", "CPU s", "peak MB")


def observations(count: int) -> np.ndarray:
    """Draws of three normals that overlap."""
    generator = np.random.default_rng(0)
    labels = generator.choice(3, count, p=[0.5, 0.3, 0.2])
    noise = generator.normal(size=count)
    return np.array([-2.0, 0.0, 2.5])[labels] + np.array([0.6, 0.8, 1.0])[labels] * noise


def one(count: int, tool: str, effort: str, evaluations: int | None) -> tuple[object, ...]:
    """A row: one fit in this process."""
    import jax

    import folt

    jax.config.update("jax_enable_x64", tool == "NUTS")
    problem = folt.models.gaussian_mixture(observations(count), 3)
    if tool == "NUTS":
        from benchmarks.peers.tools import TOOLS

        run = TOOLS["nuts"](problem, 0)
        said: tuple[object, ...] = ("", "", str(run.evaluations))
    else:
        chosen = getattr(folt.Effort, effort)()
        fit = folt.sample(
            problem, seed=0, draws=1_000, effort=chosen, evaluations=evaluations, progress=False
        )
        verdict = fit.certificate.status.name
        said = (verdict, f"{fit.accept_rate:.3f}", str(dict(fit.evaluations)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (f"{count:,}", tool, *said, f"{record.cpu_seconds():.1f}", f"{peak:.0f}")


def main() -> None:
    """Run what was asked for, each in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="+", type=float)
    parser.add_argument("--effort", default="quick", choices=("quick", "default"))
    parser.add_argument("--evaluations", type=int)
    parser.add_argument("--nuts", action="store_true")
    parser.add_argument("--here", choices=("folt", "NUTS"), help="one fit in this process")
    asked = parser.parse_args()
    if asked.here:
        row = one(int(asked.counts[0]), asked.here, asked.effort, asked.evaluations)
        print(json.dumps(row))
        return
    rows = []
    for count in asked.counts:
        for tool in ("folt", "NUTS") if asked.nuts else ("folt",):
            command = [sys.executable, "-m", "benchmarks.scale", str(count), "--here", tool]
            command += ["--effort", asked.effort]
            if asked.evaluations:
                command += ["--evaluations", str(asked.evaluations)]
            ended = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append(tuple(json.loads(ended.stdout.splitlines()[-1])))
            print(rows[-1], flush=True)
    words = " ".join(sys.argv[1:])
    record.write(
        "scale", "Many observations", COLUMNS, rows, command=f"python -m benchmarks.scale {words}"
    )


if __name__ == "__main__":
    main()
