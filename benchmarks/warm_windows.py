"""`python -m benchmarks.warm_windows`: windows of equal shape, each started from the one before.

The typhoon spectrum, its ordinates scattered anew by 7 % for every window after the first.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks import record
from benchmarks.problems import SPECTRUM
from folt.modal.identification import Settings, fitted
from folt.models import modal_spectrum

TITLE = (
    "The typhoon spectrum, its ordinates scattered anew by 7 % for every window after the first; "
    "one process on two cores, compilation included"
)
COLUMNS = ("window", "started from", "γ target .05", "acceptance", "wall s", "verdict")
AVERAGES = 200
"""Of a Gamma variable with this shape the relative scatter is 7 %."""


def main(windows: int = 4) -> None:
    """Fit one window cold and the others warm; write the table."""
    frequency, psd = np.loadtxt(SPECTRUM, delimiter=",", skiprows=3).T
    generator = np.random.default_rng(1)
    rows, fit = [], None
    for window in range(windows):
        scatter = generator.gamma(AVERAGES, 1 / AVERAGES, psd.size) if window else 1.0
        begin = time.perf_counter()
        problem = modal_spectrum(frequency, psd * scatter)
        fit = fitted(problem, "paper", Settings(), fit, progress=False)
        wall = time.perf_counter() - begin
        gamma = fit.certificate.to_dict()["qc"]["target"]["0.05"]["gamma"]
        cells = (window, fit.provenance["started_from"], f"{gamma:.3f}", f"{fit.accept_rate:.3f}")
        rows.append((*cells, f"{wall:.0f}", fit.certificate.status.name))
    command = "python -m benchmarks.warm_windows"
    print(record.write("warm-windows", TITLE, COLUMNS, rows, command=command))


if __name__ == "__main__":
    main()
