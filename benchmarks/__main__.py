"""`python -m benchmarks [--seeds 3] [NAME ...]`: every problem in a cold process, as measurements.

A name is a problem or one of the `GROUPS`; without names all groups are run, those whose data are
at hand. A group goes to `results/engine-GROUP.json`, the group `own` to `results/engine.json`.
NumPyro's NUTS runs beside each, where there is a gradient: the first seed's process is followed by
two of `benchmarks.peers.once`, with 5000 and with 1000 draws, whose difference is what draws cost.

CPU seconds to so many effective draws are extrapolated: what a run took before its draws, plus so
many times what an effective draw took. For folt the latter comes from `fit.extend`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks import record
from benchmarks.problems import ASKED, BORROWED, available

TITLE = "A fit from a cold process, compilation included, beside NUTS + sort: worst of {} seeds"
APART: dict[str, tuple[str, ...]] = {
    "typhoon": BORROWED,
    "brought": ("regressions", "classes", "regimes"),
    "large": ("multivariate", "factors"),
    "wide": ("pair-100", "pair-200", "blocks-60", "blocks-120", "blocks-180"),
    "unseen": (
        "robust-regressions",
        "survival",
        "counts",
        "switching",
        "two-classes",
        "sparse-factors",
    ),
}
OWN = tuple(name for name in ASKED if not any(name in group for group in APART.values()))
GROUPS: dict[str, tuple[str, ...]] = {"own": OWN, **APART}

EFFECTIVE = (1_000, 10_000, 100_000)
"""Effective draws, the CPU seconds to which are compared."""

FEW_DRAWS = "1000"
"""Draws per chain of the shorter run of NUTS."""

Fit = dict[str, Any]


def main() -> None:
    """Run what was asked for and write a measurement of each group of problems."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", choices=[*GROUPS, *ASKED, []])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for name, problems in groups(arguments.names).items():
        before, fits, nuts = record.cpu_seconds(), [], {}
        for problem in problems:
            for seed in range(arguments.seeds):
                fits.append(fitted(problem, seed))
                if seed == 0 and ASKED[problem].nuts:
                    nuts[problem] = beside(problem)
            path = record.write(
                name,
                TITLE.format(arguments.seeds),
                list(COLUMNS),
                table(fits, nuts),
                command=" ".join(["python -m benchmarks", *sys.argv[1:]]),
                cpu_s=record.cpu_seconds() - before,
                fits=fits,
                nuts=nuts,
            )
        print(f"wrote {path}", flush=True)


def groups(names: list[str]) -> dict[str, list[str]]:
    """Problems by the measurement they go to: a run of some leaves the table of all alone."""
    single = [name for name in names if name not in GROUPS]
    chosen = [name for name in GROUPS if name in names or not names]
    there = available()
    found = {
        "engine" if name == "own" else f"engine-{name}": [p for p in GROUPS[name] if p in there]
        for name in chosen
    }
    if single:
        found["-".join(["engine", *single])] = single
    return {name: problems for name, problems in found.items() if problems}


def fitted(name: str, seed: int) -> Fit:
    """One fit in a process of its own."""
    row = cold("benchmarks.once", name, str(seed))
    words = f"acceptance {row['accept']:.3f}, {row['cpu_s']:.1f} CPU s, {row['status']}"
    print(f"{name} seed {seed}: {words}", flush=True)
    return row


def beside(name: str) -> Fit:
    """NUTS with 5000 draws per chain, and what it took with fewer of them."""
    run = cold("benchmarks.peers.once", "nuts", name, "0")
    short = cold("benchmarks.peers.once", "nuts", name, "0", FEW_DRAWS)
    return {**run, "short": {key: short[key] for key in ("draws", "cpu_s", "ess")}}


def cold(module: str, *arguments: str) -> Fit:
    """What a module prints last, run in a process with nothing compiled before it."""
    with tempfile.TemporaryDirectory() as cache:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env=kept | {"FOLT_COMPILATION_CACHE": cache, "NUMBA_CACHE_DIR": cache},
        )
    return json.loads(done.stdout.splitlines()[-1])


def table(fits: list[Fit], nuts: dict[str, Fit]) -> list[list[str | None]]:
    """A row for each problem, the least favourable seed in every column but the times' median."""
    problems = dict.fromkeys(fit["problem"] for fit in fits)
    grouped = ([fit for fit in fits if fit["problem"] == problem] for problem in problems)
    return [
        [shown(group, nuts.get(group[0]["problem"])) for shown in COLUMNS.values()]
        for group in grouped
    ]


Shown = Callable[[list[Fit], Fit | None], str | None]


def _over(key: str, pick: Callable[[list[float]], float], places: int) -> Shown:
    return lambda fits, nuts: f"{pick([fit[key] for fit in fits]):.{places}f}"


def _asked(key: str, places: int | None = None) -> Shown:
    def shown(fits: list[Fit], nuts: Fit | None) -> str | None:
        value = getattr(ASKED[fits[0]["problem"]], key)
        return value if value is None or places is None else f"{value:.{places}f}"

    return shown


def _steps(fits: list[Fit], nuts: Fit | None) -> str:
    """Certified steps, the most over seeds; a dash where some seed could not have them."""
    cells = []
    for epsilon in ("0.1", "0.05", "0.01"):
        found = [fit["steps"][epsilon] for fit in fits]
        cells.append("–" if None in found else str(max(found)))
    return "/".join(cells)


def _evidence(fits: list[Fit], nuts: Fit | None) -> str:
    far = max(fits, key=lambda fit: fit["standard_error"])
    return f"{far['log_evidence']:.4f} ± {far['standard_error']:.4f}"


def _verdicts(fits: list[Fit], nuts: Fit | None) -> str:
    names = [fit["status"] for fit in fits]
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))


def _nuts(value: Callable[[Fit], float], places: int) -> Shown:
    return lambda fits, nuts: None if nuts is None else f"{value(nuts):.{places}f}"


def _reached(starting: float, per_effective: float) -> list[float]:
    """CPU seconds to every number of effective draws, by a straight line."""
    return [starting + count * per_effective for count in EFFECTIVE]


def _ours(fit: Fit) -> list[float]:
    again = fit["cpu_s_of_as_many_draws"]
    return _reached(fit["cpu_s"] - again, again / fit["ess"])


def _theirs(run: Fit) -> list[float]:
    per_draw = (run["cpu_s"] - run["short"]["cpu_s"]) / (run["draws"] - run["short"]["draws"])
    drawing = per_draw * run["draws"]
    return _reached(run["cpu_s"] - drawing, drawing / run["ess"])


def _until(fits: list[Fit], nuts: Fit | None) -> str | None:
    if any("cpu_s_of_as_many_draws" not in fit for fit in fits):
        return None
    columns = zip(*map(_ours, fits), strict=True)
    return "/".join(f"{statistics.median(column):.0f}" for column in columns)


def _nuts_until(fits: list[Fit], nuts: Fit | None) -> str | None:
    if nuts is None or "short" not in nuts:
        return None
    return "/".join(f"{seconds:.0f}" for seconds in _theirs(nuts))


def _ratio(fits: list[Fit], nuts: Fit | None) -> str | None:
    if nuts is None:
        return None
    return f"{statistics.median(fit['cpu_s'] for fit in fits) / nuts['cpu_s']:.2f}"


COLUMNS: dict[str, Shown] = {
    "problem": _asked("title"),
    "acceptance": _over("accept", min, 3),
    "steps to .1/.05/.01": _steps,
    "log Z": _evidence,
    "verdicts": _verdicts,
    "CPU s": _over("cpu_s", statistics.median, 1),
    "NUTS + sort, CPU s": _nuts(lambda run: run["cpu_s"], 1),
    "ratio": _ratio,
    "effective draws per CPU s": _over("ess_per_cpu_s", min, 0),
    "of NUTS + sort": _nuts(lambda run: run["ess"] / run["cpu_s"], 0),
    "CPU s to 1 000/10 000/100 000 effective draws": _until,
    "CPU s to as many, NUTS + sort": _nuts_until,
    "values per effective draw": _over("values_per_ess", max, 1),
    "gradients per effective draw": _over("gradients_per_ess", max, 1),
    "evaluations": _over("evaluations", max, 0),
    "peak MB": _over("peak_mb", max, 0),
    "γ, target draws": _over("gamma_target", min, 3),
    "acceptance asked": _asked("accept", 2),
    "steps to .05 asked": _asked("steps", 0),
    "error of log Z asked": _asked("error"),
    "CPU s asked": _asked("seconds", 0),
    "ratio asked": _asked("ratio", 1),
}


if __name__ == "__main__":
    main()
