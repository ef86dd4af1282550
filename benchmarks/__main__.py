"""`python -m benchmarks [--seeds 3] [NAME ...]`: every problem in a cold process, as measurements.

Without names the problems that folt contains go to `results/engine.json` and the typhoon window,
where its file is at hand, to `results/engine-typhoon.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable

from benchmarks import record
from benchmarks.problems import ASKED, BORROWED, available

TITLE = "Speed and quality of a fit from a cold process, compilation included; worst of {} seeds"


def main() -> None:
    """Run what was asked for and write a measurement of each group of problems."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for name, problems in groups(arguments.names).items():
        before = record.cpu_seconds()
        fits = [once(problem, seed) for problem in problems for seed in range(arguments.seeds)]
        path = record.write(
            name,
            TITLE.format(arguments.seeds),
            list(COLUMNS),
            table(fits),
            command=" ".join(["python -m benchmarks", *sys.argv[1:]]),
            cpu_s=record.cpu_seconds() - before,
            fits=fits,
        )
        print(f"wrote {path}", flush=True)


def groups(names: list[str]) -> dict[str, list[str]]:
    """Problems by the measurement they go to: a run of some leaves the table of all alone."""
    if names:
        return {"-".join(["engine", *names]): names}
    own = [name for name in available() if name not in BORROWED]
    borrowed = [name for name in available() if name in BORROWED]
    return {"engine": own, **{f"engine-{name}": [name] for name in borrowed}}


def once(name: str, seed: int) -> dict:
    """One fit in a process of its own, compilation included."""
    command = [sys.executable, "-m", "benchmarks.once", name, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = json.loads(done.stdout.splitlines()[-1])
    print(f"{name} seed {seed}: gamma {row['gamma_target']:.3f}, {row['wall_s']:.1f} s", flush=True)
    return row


def table(fits: list[dict]) -> list[list[str | None]]:
    """A row for each problem, the least favourable seed in every column."""
    problems = dict.fromkeys(fit["problem"] for fit in fits)
    grouped = ([fit for fit in fits if fit["problem"] == problem] for problem in problems)
    return [[shown(group) for shown in COLUMNS.values()] for group in grouped]


def _worst(
    key: str, pick: Callable[[Iterable[float]], float], places: int
) -> Callable[[list[dict]], str]:
    return lambda fits: f"{pick(fit[key] for fit in fits):.{places}f}"


def _asked(key: str, places: int | None = None) -> Callable[[list[dict]], str | None]:
    def shown(fits: list[dict]) -> str | None:
        value = getattr(ASKED[fits[0]["problem"]], key)
        return value if value is None or places is None else f"{value:.{places}f}"

    return shown


def _steps(fits: list[dict]) -> str | None:
    """Certified steps, the most over seeds; a dash where some seed could not have them."""
    if any("steps" not in fit for fit in fits):
        return None
    cells = []
    for epsilon in ("0.1", "0.05", "0.01"):
        found = [fit["steps"][epsilon] for fit in fits]
        cells.append("–" if None in found else str(max(found)))
    return "/".join(cells)


def _evidence(fits: list[dict]) -> str:
    far = max(fits, key=lambda fit: fit["standard_error"])
    return f"{far['log_evidence']:.4f} ± {far['standard_error']:.4f}"


COLUMNS: dict[str, Callable[[list[dict]], str | None]] = {
    "problem": _asked("title"),
    "γ, target draws": _worst("gamma_target", min, 3),
    "γ, proposal draws": _worst("gamma_proposal", min, 3),
    "the paper (proposal draws)": _asked("published"),
    "acceptance": _worst("accept", min, 3),
    "steps to .1/.05/.01": _steps,
    "log Z": _evidence,
    "seconds": _worst("wall_s", max, 0),
    "effective draws/s": _worst("ess_per_s", min, 0),
    "values per effective draw": _worst("values_per_ess", max, 1),
    "gradients per effective draw": _worst("gradients_per_ess", max, 1),
    "next 4 x 5000, s": _worst("second_20000_s", max, 2),
    "peak GB": _worst("peak_gb", max, 1),
    "γ asked": _asked("gamma", 2),
    "acceptance asked": _asked("accept", 2),
    "steps to .05 asked": _asked("steps", 0),
    "seconds asked": _asked("seconds", 0),
}


if __name__ == "__main__":
    main()
