"""`python -m benchmarks.vibration`: folt beside what engineers use, on records of two close modes.

pyOMA2 (FDD, enhanced FDD, covariance-driven stochastic subspaces with its uncertainties) runs in an
environment of its own; it is told the true frequencies, near which it picks its peaks and poles, as
an engineer would who sees them; where no order has stable poles near both, it takes the largest
order. folt is told the band and that there are two modes; it uses all channels, the trace of their
spectrum with powers, or that trace with the paper's model. What is finished is kept in a file of
lines, and the program goes on from there.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record

FREQUENCY, DAMPING, RATE, MINUTES = 0.8, 0.01, 32.0, 20.0
"""Of the simulation, whose load is constant between samples: at 4 Hz that shifts the peaks by a
tenth of a percent, as much as the errors that are to be measured."""

DECIMATED = 8
"""Factor by which records are decimated for pyOMA2, as its guide does: its lags are samples."""

BANDWIDTH = 2 * DAMPING * FREQUENCY
SEPARATIONS = (4.0, 0.5)
"""Distances of the two modes in half-power bandwidths."""

SHAPES = np.array([[1.0, 0.3], [0.6, -1.0], [-0.2, 0.5], [0.4, 0.4]])
BAND = (0.7, 1.0)
LAGS, HIGHEST_ORDER, BLOCKS, SEGMENT = 30, 20, 50, 512
"""Settings of pyOMA2: block rows, largest order, blocks behind the uncertainties, FFT segment."""

COLUMNS = (
    "separation, bandwidths",
    "tool",
    "records",
    "found",
    "usable",
    "frequency: bias, %",
    "rms error, %",
    "95 % covers",
    "damping: bias, %",
    "its rms error, %",
    "its 95 % covers",
    "median MAC",
    "CPU s per record",
)

FOLT: dict[str, Any] = {"folt, shapes": "shapes", "folt, trace": "powers", "folt, paper": "paper"}
"""Models of folt by the name of the tool."""

Found = dict[str, Any]
"""frequency, damping (each with low and high), shape (mode, channel) and cpu_s; None if unknown."""


def main() -> None:
    """Simulate, identify with every tool, and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=100, help="per separation")
    options.add_argument("--python", help="interpreter that has pyoma-2; made where not given")
    options.add_argument("--out", type=Path, required=True, help="folder of what is finished")
    options.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.peer is not None:
        print(json.dumps(_by_pyoma(np.load(asked.peer))))
        return
    from benchmarks.peers.environments import python_for

    python, lines = asked.python or python_for("pyoma"), asked.out / "vibration.jsonl"
    found: dict[tuple[float, str], list[Found | None]] = {}
    # Records in the outer loop: whenever it is stopped, both separations have equally many.
    for seed in range(asked.records):
        for separation in SEPARATIONS:
            for tool, one in _each(lines, python, separation, seed).items():
                found.setdefault((separation, tool), []).append(one)
    rows = [_row(separation, tool, each) for (separation, tool), each in sorted(found.items())]
    title = (
        f"Two modes of {DAMPING:.0%} damping in {asked.records} simulated records of "
        f"{MINUTES:.0f} minutes for each separation, four channels"
    )
    command = f"python -m benchmarks.vibration --records {asked.records} --out DIR"
    cpu = sum(one["cpu_s"] for each in found.values() for one in each if one is not None)
    commits = record.commits_of(lines)
    print(
        record.write("vibration", title, COLUMNS, rows, command=command, cpu_s=cpu, commits=commits)
    )


def _frequencies(separation: float) -> np.ndarray:
    return np.array([FREQUENCY, FREQUENCY + separation * BANDWIDTH])


def _each(lines: Path, python: str, separation: float, seed: int) -> dict[str, Found | None]:
    """What every tool finds in one record, or found before."""
    truth = _frequencies(separation)
    simulated = functools.cache(lambda: _simulated(truth, seed))
    found = {
        tool: record.remembered(
            lines, f"{separation} {seed} {tool}", lambda tool=tool: _by_folt(tool, simulated())
        )
        for tool in FOLT
    }
    beside = record.remembered(
        lines, f"{separation} {seed} pyOMA2", lambda: _beside(python, truth, simulated())
    )
    return {**found, **beside}


def _simulated(frequency: np.ndarray, seed: int) -> Any:
    import jax

    from folt.modal import Structure, simulate_record

    frame = Structure(tuple(frequency), (DAMPING, DAMPING), (1.0, 0.7), SHAPES)
    return simulate_record(jax.random.key(seed), frame, rate=RATE, minutes=MINUTES)


def _by_folt(tool: str, simulated: Any) -> Found:
    """With all channels, or with a model of the trace of their spectrum."""
    from folt import Effort
    from folt.modal import Settings, identify, measured_channels, mode_rows, shape_draws, welch
    from folt.modal.shapes import mean_shape

    settings = Settings(model=FOLT[tool], frequency_range=BAND, draws=1000, effort=Effort.quick())
    begun = time.process_time()
    measured = (measured_channels if settings.model == "shapes" else welch)(simulated, BAND)
    fit = identify(measured, 2, settings, progress=False).fit
    rows = mode_rows(fit, measured.resolution)
    shapes = shape_draws(fit) if "shape" in fit.posterior else None
    return {
        "frequency": [r.frequency_hz for r in rows],
        "frequency_ends": [(r.frequency_low, r.frequency_high) for r in rows],
        "damping": [r.damping_percent / 100 for r in rows],
        "damping_ends": [(r.damping_low / 100, r.damping_high / 100) for r in rows],
        "shape": None
        if shapes is None
        else [mean_shape(shapes[:, j]).tolist() for j in range(len(rows))],
        "verdict": fit.certificate.status.name,
        "cpu_s": time.process_time() - begun,
    }


def _beside(python: str, truth: np.ndarray, simulated: Any) -> dict[str, Found | None]:
    """What the other process finds in the same record."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.npz"
        np.savez(path, truth=truth, values=simulated.values)
        command = [python, "-m", "benchmarks.vibration", "--out", folder, "--peer", str(path)]
        told = subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True)
    if told.returncode:
        sys.exit(f"pyOMA2 failed: {told.stderr[-2000:]}")
    tools: dict[str, Found | None] = json.loads(told.stdout.splitlines()[-1])
    return tools


def _by_pyoma(loaded: Any) -> dict[str, Found | None]:
    """In the environment of pyOMA2, without folt."""
    from pyoma2.algorithms import EFDD, FDD, SSI
    from pyoma2.setup import SingleSetup

    chosen = {"sel_freq": loaded["truth"].tolist()}
    near = 0.25 * (BAND[1] - BAND[0])
    tools = {
        "pyOMA2, FDD": (FDD(name="fdd", nxseg=SEGMENT), {"DF": 0.02}),
        "pyOMA2, EFDD": (EFDD(name="efdd", nxseg=SEGMENT), {"DF1": 0.02, "DF2": near}),
        "pyOMA2, SSI-cov": (
            SSI(name="ssi", br=LAGS, ordmax=HIGHEST_ORDER, calc_unc=True, nb=BLOCKS),
            {"order_in": "find_min"},
        ),
    }
    found: dict[str, Found | None] = {}
    for tool, (algorithm, options) in tools.items():
        setup, begun = SingleSetup(loaded["values"], fs=RATE), time.process_time()
        setup.decimate_data(q=DECIMATED)
        setup.add_algorithms(algorithm)
        setup.run_by_name(algorithm.name)
        result = _picked(setup, algorithm.name, {**chosen, **options})
        if result is None and "order_in" in options:
            result = _picked(setup, algorithm.name, {**chosen, "order_in": HIGHEST_ORDER})
        spent = time.process_time() - begun
        found[tool] = None if result is None else _of_pyoma(result, spent)
    return found


def _picked(setup: Any, name: str, options: dict[str, Any]) -> Any:
    """What the tool has near the frequencies it was told; None where it has not both modes."""
    try:
        setup.mpe(name, **options)
    except Exception:  # whatever it says
        return None
    result = setup[name].result
    frequency = np.ravel(np.asarray(result.Fn, float))
    return result if frequency.size == 2 and np.all(np.isfinite(frequency)) else None


def _of_pyoma(result: Any, cpu_s: float) -> Found:
    frequency = np.ravel(result.Fn)
    damping = getattr(result, "Xi", None)

    def ends(middle: Any, deviation: Any) -> list[list[float]] | None:
        if deviation is None or not np.all(np.isfinite(np.asarray(deviation, float))):
            return None
        width = 1.96 * np.ravel(deviation)
        return np.stack([np.ravel(middle) - width, np.ravel(middle) + width], axis=1).tolist()

    return {
        "frequency": frequency.tolist(),
        "frequency_ends": ends(frequency, getattr(result, "Fn_std", None)),
        "damping": None if damping is None else np.ravel(damping).tolist(),
        "damping_ends": None if damping is None else ends(damping, getattr(result, "Xi_std", None)),
        "shape": np.real(result.Phi).T.tolist(),
        "cpu_s": cpu_s,
    }


def _row(separation: float, tool: str, found: list[Found | None]) -> list[Any]:
    """Bias, error and coverage over both modes of all records in which two modes were found."""
    truth = _frequencies(separation)
    there = [each for each in found if each is not None]
    cells: list[Any] = [f"{separation:g}", tool, len(found), len(there), _usable(there)]
    for name, true in (("frequency", truth), ("damping", np.full(2, DAMPING))):
        values = [each[name] for each in there if each[name] is not None]
        if not values:
            cells += [None, None, None]
            continue
        off = 100 * (np.array(values) / true - 1)
        ends = [e for each in there if (e := each[f"{name}_ends"]) is not None]
        inside = [
            (low <= t) & (t <= high) for e in ends for (low, high), t in zip(e, true, strict=True)
        ]
        covers = f"{np.mean(inside):.0%} of {len(inside)}" if inside else None
        cells += [f"{off.mean():+.2f}", f"{np.sqrt(np.mean(off**2)):.2f}", covers]
    shapes = np.array([each["shape"] for each in there if each["shape"] is not None], float)
    unit = SHAPES / np.linalg.norm(SHAPES, axis=0)
    mac = None
    if shapes.size:
        shapes /= np.linalg.norm(shapes, axis=2, keepdims=True)
        mac = f"{np.median(np.einsum('rjc,cj->rj', shapes, unit) ** 2):.4f}"
    times = f"{np.mean([each['cpu_s'] for each in there]):.2f}" if there else None
    return [*cells, mac, times]


def _usable(found: list[Found]) -> int | None:
    """How many verdicts let the draws be reported; None for tools without verdicts."""
    from folt.certificate.outcomes import Outcome

    verdicts = [each["verdict"] for each in found if "verdict" in each]
    return sum(Outcome.named(one).usable for one in verdicts) if verdicts else None


if __name__ == "__main__":
    main()
