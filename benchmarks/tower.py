"""`python -m benchmarks.tower`: the tower of `examples/tower.py`, as docs/modal.md shows it."""

from __future__ import annotations

import jax

from benchmarks import record
from folt.modal import identify, mode_rows, simulate_record, welch

TITLE = (
    "Three modes of a simulated tower (15 channels, 32 Hz, 30 minutes), medians and 95 % "
    "intervals; true are 0.80, 0.84, 0.87 Hz with 1.0, 1.5, 2.0 % damping"
)
COLUMNS = ("mode", "frequency, Hz", "its 95 %", "damping, %", "95 % of that")


def main() -> None:
    """Identify the modes and write the table."""
    spectrum = welch(simulate_record(jax.random.key(1)), band=(0.7, 1.1))
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


if __name__ == "__main__":
    main()
