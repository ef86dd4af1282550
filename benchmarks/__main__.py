"""`python -m benchmarks [--seeds 3] [NAME ...]`: every problem in a cold process, as a table."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.problems import ASKED, available

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", default=available())
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    rows = [once(name, seed) for name in arguments.names for seed in range(arguments.seeds)]
    command = "python -m benchmarks " + " ".join(sys.argv[1:])
    text = table(rows, command.strip())
    print(text)
    RESULTS.mkdir(exist_ok=True)
    name = results_name(arguments.names)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"command": command.strip(), "machine": machine(), "rows": rows}, indent=1)
    )
    (RESULTS / f"{name}.md").write_text(text + "\n")


def results_name(names: list[str]) -> str:
    """Where results go: a run of some problems leaves the table of all of them alone."""
    return "engine" if names == available() else "-".join(["engine", *names])


def once(name: str, seed: int) -> dict:
    """One fit in a process of its own, compilation included."""
    command = [sys.executable, "-m", "benchmarks.once", name, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = json.loads(done.stdout.splitlines()[-1])
    print(f"{name} seed {seed}: gamma {row['gamma_target']:.3f}, {row['wall_s']:.1f} s", flush=True)
    return row


def machine() -> str:
    """The processor, as the operating system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
        count = sum(line.startswith("processor") for line in lines)
        return f"{count} x {model}"
    except (OSError, StopIteration):
        return platform.machine()


def worst(rows: list[dict], key: str, pick: Callable[[list], float]) -> float:
    """The least favourable value over seeds."""
    return pick([row[key] for row in rows])


def steps(rows: list[dict]) -> str:
    """Certified steps, the most over seeds; a dash where some seed could not have them."""
    cells = []
    for epsilon in ("0.1", "0.05", "0.01"):
        found = [row["steps"][epsilon] for row in rows]
        cells.append("–" if None in found else str(max(found)))
    return "/".join(cells)


def table(rows: list[dict], command: str) -> str:
    """Worst over seeds beside what was asked."""
    head = (
        "problem",
        "γ target (floor, aim)",
        "γ proposal",
        "accept (floor)",
        "steps to .1/.05/.01 (limit at .05)",
        "log Z ± se",
        "wall s (limit)",
        "ESS/s",
        "values, gradients per ESS",
        "next 4 x 5000 s",
        "peak GB",
    )
    lines = [f"`{command}` on {machine()}; worst of the seeds, cold processes.", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in dict.fromkeys(row["problem"] for row in rows):
        mine = [row for row in rows if row["problem"] == name]
        asked = ASKED[name]
        far = max(mine, key=lambda row: row["standard_error"])
        cells = (
            name,
            f"{worst(mine, 'gamma_target', min):.3f} ({asked.gamma:.2f}, {asked.aim:.2f})",
            f"{worst(mine, 'gamma_proposal', min):.3f}",
            f"{worst(mine, 'accept', min):.3f} ({asked.accept:.2f})",
            f"{steps(mine)} ({asked.steps})",
            f"{far['log_evidence']:.4f} ± {far['standard_error']:.4f}",
            f"{worst(mine, 'wall_s', max):.0f} ({asked.seconds:.0f})",
            f"{worst(mine, 'ess_per_s', min):.0f}",
            ", ".join(f"{worst(mine, f'{k}_per_ess', max):.1f}" for k in ("values", "gradients")),
            f"{worst(mine, 'second_20000_s', max):.2f}",
            f"{worst(mine, 'peak_gb', max):.1f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
