"""`python -m benchmarks.before FOLDER PYTHON [--seeds 3]`: the engine beside an earlier one.

FOLDER is a checkout of an earlier commit that has `benchmarks.once`, PYTHON the interpreter with
what that commit needs. The two fit the same problems in turn, each from a cold process, so that
whatever else the machine does troubles both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record

PROBLEMS = ("bayes-mixture", "galaxies", "hidden-markov")
COLUMNS = (
    *("problem", "CPU s before", "CPU s", "ratio", "ratio without the draws"),
    *("effective draws per CPU s before", "effective draws per CPU s"),
    *("verdicts before", "verdicts"),
)


def fitted(folder: Path, python: str, name: str, seed: int) -> dict[str, Any]:
    """One fit of a checkout in a process of its own, with nothing compiled before it."""
    with tempfile.TemporaryDirectory() as cache:
        source = os.pathsep.join([str(folder), str(folder / "src")])
        caches = dict.fromkeys(("FOLT_COMPILATION_CACHE", "NUMBA_CACHE_DIR"), cache)
        done = subprocess.run(
            [python, "-m", "benchmarks.once", name, str(seed)],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env=os.environ | caches | {"PYTHONPATH": source},
        )
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """Medians over the seeds, and the verdicts."""

    def median(fits: list[dict[str, Any]], key: str) -> float:
        return statistics.median(fit[key] for fit in fits)

    def bare(fits: list[dict[str, Any]]) -> float:
        return statistics.median(fit["cpu_s"] - fit["stages_s"]["sampling"] for fit in fits)

    def verdicts(fits: list[dict[str, Any]]) -> str:
        names = [fit["status"] for fit in fits]
        return ", ".join(f"{names.count(one)} {one}" for one in dict.fromkeys(names))

    return [
        name,
        f"{median(before, 'cpu_s'):.1f}",
        f"{median(now, 'cpu_s'):.1f}",
        f"{median(now, 'cpu_s') / median(before, 'cpu_s'):.2f}",
        f"{bare(now) / bare(before):.2f}",
        f"{median(before, 'ess_per_cpu_s'):.0f}",
        f"{median(now, 'ess_per_cpu_s'):.0f}",
        verdicts(before),
        verdicts(now),
    ]


def main() -> None:
    """Fit every problem by both, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("python")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    head = ["git", "-C", str(asked.folder), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    rows = []
    for name in PROBLEMS:
        before, now = [], []
        for seed in range(asked.seeds):
            before.append(fitted(asked.folder, asked.python, name, seed))
            now.append(fitted(record.ROOT, sys.executable, name, seed))
        rows.append(row(name, before, now))
        print(rows[-1], flush=True)
    record.write(
        "engine-before",
        f"The engine beside that of commit {commit}, {asked.seeds} seeds in turn: medians",
        COLUMNS,
        rows,
        command=f"python -m benchmarks.before FOLDER PYTHON --seeds {asked.seeds}",
    )


if __name__ == "__main__":
    main()
