"""`python -m benchmarks.tower`: the tower of `examples/tower.py`, as docs/modal.md shows it.

`python -m benchmarks.tower shapes` identifies shapes from its first four channels and from all.
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import jax
import numpy as np

from benchmarks import record
from folt.modal import (
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


def main() -> None:
    """Identify the modes and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", nargs="?", choices=("trace", "shapes"), default="trace")
    if options.parse_args().model == "shapes":
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
    whole = simulate_record(jax.random.key(7))
    part = dataclasses.replace(whole, values=whole.values[:, :count], names=whole.names[:count])
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


if __name__ == "__main__":
    main()
