"""`python -m benchmarks.tower`: the tower of `examples/tower.py`, as docs/modal.md shows it.

`python -m benchmarks.tower shapes` identifies shapes from its first four channels and from all;
`python -m benchmarks.tower records --out DIR` compares both with the trace on twenty such records,
and goes on in that folder where it was stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks import record
from folt import Effort
from folt.modal import (
    Record,
    Settings,
    Structure,
    identify,
    measured_channels,
    mode_rows,
    shape_draws,
    simulate_record,
    welch,
)

BAND = (0.7, 1.1)
TITLE = (
    "Three modes of a simulated tower (15 channels, 32 Hz, 30 minutes), medians and 95 % "
    "intervals; true are 0.80, 0.84, 0.87 Hz with 1.0, 1.5, 2.0 % damping"
)
COLUMNS = ("mode", "frequency, Hz", "its 95 %", "damping, %", "95 % of that")
SHAPES_TITLE = "The same tower with shapes, from four of its channels and from all"
SHAPES_COLUMNS = (
    "channels",
    "dimension",
    "verdict",
    "acceptance",
    "frequencies, Hz",
    "their deviations",
    "dampings, %",
    "least MAC of a mean shape",
    "CPU s",
)
CHANNELS = (4, 15)
RECORDS = 20
RECORDS_COLUMNS = (
    "model",
    "records",
    "usable",
    "deviations of frequencies, of the trace's",
    "widths of dampings' intervals, of the trace's",
    "95 % of frequencies cover",
    "95 % of dampings cover",
    "CPU s per record",
)


def main() -> None:
    """Identify the modes and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    choices = ("trace", "shapes", "records")
    options.add_argument("model", nargs="?", choices=choices, default="trace")
    options.add_argument("--records", type=int, default=RECORDS)
    options.add_argument("--out", type=Path, help="folder of what is finished of the records")
    asked = options.parse_args()
    if asked.model == "records":
        print(_records(asked.out, asked.records))
        return
    if asked.model == "shapes":
        command = "python -m benchmarks.tower shapes"
        rows = [_with_shapes(count) for count in CHANNELS]
        print(record.write("tower-shapes", SHAPES_TITLE, SHAPES_COLUMNS, rows, command=command))
        return
    spectrum = welch(simulate_record(jax.random.key(1)), band=BAND)
    found = identify(spectrum, modes=3, progress=False)
    rows = [
        (
            row.mode,
            f"{row.frequency_hz:.4f}",
            f"{row.frequency_low:.4f} to {row.frequency_high:.4f}",
            f"{row.damping_percent:.2f}",
            f"{row.damping_low:.2f} to {row.damping_high:.2f}",
        )
        for row in mode_rows(found.fit, spectrum.resolution)
    ]
    print(record.write("tower", TITLE, COLUMNS, rows, command="python -m benchmarks.tower"))


def _with_shapes(count: int) -> tuple[object, ...]:
    """One fit of the first channels: what it found, how far it can be trusted, what it took."""
    part = _first_channels(simulate_record(jax.random.key(7)), count)
    begun = time.process_time()
    measured = measured_channels(part, BAND)
    settings = Settings(frequency_range=BAND)
    fit = identify(measured, modes=3, settings=settings, progress=False).fit
    spent = time.process_time() - begun
    rows = mode_rows(fit, measured.resolution)
    mean = shape_draws(fit).mean(axis=0)
    truth = Structure().unit_shapes()[:count].T
    product = np.sum(mean * truth, axis=1) ** 2
    mac = product / np.sum(mean**2, axis=1) / np.sum(truth**2, axis=1)
    deviations = np.sort(fit.posterior["frequency"], axis=-1).std(axis=(0, 1))
    return (
        count,
        fit.draws.shape[-1],
        fit.certificate.status.name,
        f"{fit.accept_rate:.2f}",
        ", ".join(f"{row.frequency_hz:.4f}" for row in rows),
        ", ".join(f"{one:.4f}" for one in deviations),
        ", ".join(f"{row.damping_percent:.2f}" for row in rows),
        f"{mac.min():.4f}",
        f"{spent:.0f}",
    )


def _first_channels(whole: Record, count: int) -> Record:
    return dataclasses.replace(whole, values=whole.values[:, :count], names=whole.names[:count])


def _records(out: Path, count: int) -> Path:
    """Some records by the trace of all channels, and with shapes from some and from all."""
    lines = out / "tower.jsonl"
    found: dict[str, list[dict]] = {}
    for seed in range(count):
        for model, channels in (("trace", 15), *(("shapes", some) for some in CHANNELS)):
            name = f"{model}, {channels} channels"
            make = functools.partial(_one_record, seed, model, channels)
            found.setdefault(name, []).append(record.remembered(lines, f"{seed} {name}", make))
    trace = found[next(iter(found))]
    return record.write(
        "tower-records",
        f"{count} records of the tower, quick effort: what each model leaves open of the "
        "three modes as a share of what the trace does, medians over the records",
        RECORDS_COLUMNS,
        [_compared(name, each, trace) for name, each in found.items()],
        command=f"python -m benchmarks.tower records --records {count} --out DIR",
        cpu_s=sum(one["cpu_s"] for each in found.values() for one in each),
        commits=record.commits_of(lines),
    )


def _one_record(seed: int, model: str, count: int) -> dict:
    part = _first_channels(simulate_record(jax.random.key(1000 + seed)), count)
    begun = time.process_time()
    measured = (measured_channels if model == "shapes" else welch)(part, BAND)
    settings = Settings(frequency_range=BAND, draws=1000, effort=Effort.quick())
    fit = identify(measured, modes=3, settings=settings, progress=False).fit
    rows = mode_rows(fit, measured.resolution)
    return {
        "deviation": np.sort(fit.posterior["frequency"], axis=-1).std(axis=(0, 1)).tolist(),
        "frequency": [(row.frequency_low, row.frequency_high) for row in rows],
        "damping": [(row.damping_low / 100, row.damping_high / 100) for row in rows],
        "verdict": fit.certificate.status.name,
        "usable": fit.certificate.status.outcome.usable,
        "cpu_s": time.process_time() - begun,
    }


def _compared(name: str, found: list[dict], trace: list[dict]) -> tuple[object, ...]:
    """One row: ratios to the trace, record by record and mode by mode, and what covers."""
    truth = Structure()
    ends = {key: np.array([one[key] for one in found]) for key in ("frequency", "damping")}
    covers = {
        key: (ends[key][..., 0] <= true) & (true <= ends[key][..., 1])
        for key, true in (("frequency", truth.frequency), ("damping", truth.damping))
    }
    deviations, beside = (np.array([one["deviation"] for one in each]) for each in (found, trace))
    widths = np.diff(ends["damping"]) / np.diff(np.array([one["damping"] for one in trace]))
    return (
        name,
        len(found),
        sum(one["usable"] for one in found),
        *(
            ", ".join(f"{one:.2f}" for one in np.median(ratios, axis=0))
            for ratios in (deviations / beside, widths[..., 0])
        ),
        *(f"{inside.sum()} of {inside.size}" for inside in covers.values()),
        f"{np.mean([one['cpu_s'] for one in found]):.1f}",
    )


if __name__ == "__main__":
    main()
