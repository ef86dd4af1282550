"""`python -m benchmarks.peers [NAME ...] [--tools TOOL ...] [--seed 0]`: folt beside other tools.

Every tool has a process of its own, from a cold start and with an empty compilation cache; those
that folt does not depend on have an environment of their own, made once in the user's cache
folder. A tool that fails or takes longer than `LIMIT` is reported as such. Means are judged by
another, longer run of NUTS, its own error counted; log Z by `benchmarks.truth` where there is one.
Writes results/peers.json, run by run, and docs/assets/peers.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.peers.environments import python_for
from benchmarks.peers.picture import draw
from benchmarks.problems import ASKED, available

PROBLEMS = ("bayes-mixture", "typhoon", "galaxies", "hidden-markov", "regressions")
TOOLS = {
    "folt": "folt, default effort",
    "nuts": "NumPyro NUTS + sort",
    "ordered": "NumPyro NUTS, ordered",
    "nutpie": "nutpie + sort",
    "smc": "BlackJAX tempered SMC",
    "flowmc": "flowMC",
    "pocomc": "pocoMC",
    "dynesty": "dynesty",
}
LIMIT = 600
"""Seconds that one run may take."""

JUDGE = 1_000
"""Seed of the run of NUTS that the means of the others are judged by."""

TRUTHS = {"bayes-mixture": "truth-bayes-mixture", "typhoon": "truth-typhoon"}
NAME, TITLE = "peers", "folt beside other tools, each from a cold process, one seed"
COLUMNS = (
    *("problem", "tool", "CPU s", "wall s", "effective draws", "effective draws per CPU s"),
    *("evaluations per effective draw", "log Z off by", "in its errors"),
    *("worst mean, in standard errors", "labellings seen"),
)


def main() -> None:
    """Run what was asked for; rows of earlier runs stay."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("names", nargs="*", choices=[*PROBLEMS, []])
    parser.add_argument("--tools", nargs="*", choices=list(TOOLS), default=list(TOOLS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    names = asked.names or [name for name in PROBLEMS if name in available()]
    runs = {(run["problem"], run["tool"], run["seed"]): run for run in _earlier()}
    for name in names:
        wanted = [("nuts", JUDGE), *((tool, asked.seed) for tool in asked.tools)]
        for tool, seed in wanted:
            if seed == JUDGE and (name, tool, seed) in runs:
                continue
            runs[name, tool, seed] = once(tool, name, seed)
            write(list(runs.values()))


def once(tool: str, name: str, seed: int) -> dict[str, Any]:
    """One run in a cold process: what it made, or why not."""
    with tempfile.TemporaryDirectory() as cache:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
        source = os.pathsep.join([str(record.ROOT), str(record.ROOT / "src")])
        caches = dict.fromkeys(("FOLT_COMPILATION_CACHE", "NUMBA_CACHE_DIR"), cache)
        environment = kept | caches | {"PYTHONPATH": source}
        command = [python_for(tool), "-m", "benchmarks.peers.once", tool, name, str(seed)]
        known = {"tool": tool, "problem": name, "seed": seed, "commit": record.commit()}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return known | {"failure": f"more than {LIMIT} s"}
    if done.returncode:
        sys.stderr.write(done.stderr[-2_000:])
        return known | {"failure": (done.stderr.strip().splitlines() or ["died"])[-1][:80]}
    run = known | json.loads(done.stdout.splitlines()[-1])
    print(f"{name} {tool}: {run['cpu_s']:.1f} CPU s, {run['ess']:.0f} effective", flush=True)
    return run


def write(runs: list[dict[str, Any]]) -> None:
    """The table of all runs so far, and the picture."""
    order = {name: place for place, name in enumerate([*PROBLEMS, *TOOLS])}
    shown = [run for run in runs if run["seed"] != JUDGE]
    shown.sort(key=lambda run: (order[run["problem"]], order[run["tool"]]))
    judges = {run["problem"]: run for run in runs if run["seed"] == JUDGE}
    rows = [row(run, judges.get(run["problem"])) for run in shown]
    commits = [run["commit"] for run in shown]
    command = "python -m benchmarks.peers"
    record.write(NAME, TITLE, COLUMNS, rows, command=command, commits=commits, runs=runs)
    if shown:
        draw(shown, record.ROOT / "docs" / "assets" / "peers.svg")


def row(run: dict[str, Any], judge: dict[str, Any] | None) -> list[Any]:
    """The cells of one run."""
    title = [ASKED[run["problem"]].title, TOOLS[run["tool"]]]
    if "failure" in run:
        return [*title, run["failure"], *[None] * (len(COLUMNS) - 3)]
    calls = run["evaluations"]
    return [
        *title,
        f"{run['cpu_s']:.1f}",
        f"{run['wall_s']:.1f}",
        f"{run['ess']:.0f}",
        f"{run['ess'] / run['cpu_s']:.0f}",
        None if calls is None else f"{calls / run['ess']:.1f}",
        *_evidence(run),
        None if judge is None or "failure" in judge else f"{_worst_mean(run, judge):.1f}",
        "folded" if run["tool"] == "folt" else f"{run['orderings']} of {run['of']}",
    ]


def _evidence(run: dict[str, Any]) -> tuple[str | None, str | None]:
    """How far log Z is from the truth, in nats and in claimed errors."""
    if run["log_evidence"] is None or run["problem"] not in TRUTHS:
        return None, None
    value, error = run["log_evidence"]
    off = value - float(record.read(TRUTHS[run["problem"]])["log_evidence"])
    return f"{off:+.4f}", f"{abs(off) / error:.1f}" if error else None


def _worst_mean(run: dict[str, Any], judge: dict[str, Any]) -> float:
    """Largest difference of folded means, in joint standard errors."""
    ours, theirs = (np.asarray(one["deviations"]) / np.sqrt(one["sizes"]) for one in (run, judge))
    return float(np.max(np.abs(np.subtract(run["means"], judge["means"])) / np.hypot(ours, theirs)))


def _earlier() -> list[dict[str, Any]]:
    return record.read(NAME)["runs"] if NAME in record.names() else []


if __name__ == "__main__":
    main()
