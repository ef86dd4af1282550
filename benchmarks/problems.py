"""The problems of the engine's benchmark, with what is asked of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from folt.problem import Problem

SPECTRUM = Path(os.environ.get("FOLT_TYPHOON_PSD", "../shared/data/typhoon_psd.csv"))
"""The paper's real spectrum, where it is at hand; folt does not contain it."""


class Asked(NamedTuple):
    """Floors: γ of target draws at ρ = .05, acceptance; limits: seconds from a cold process, steps.

    `steps` is the limit on certified steps to total variation .05.
    """

    gamma: float
    aim: float
    accept: float
    seconds: float
    steps: int


ASKED = {
    **{f"pair-{d}": Asked(0.99, 1.00, 0.98, 20, 5) for d in (2, 5, 10, 20)},
    **{name: Asked(0.97, 0.99, 0.97, 40, 5) for name in ("m2p2", "m3p2", "m3p4", "m4p2")},
    "bayes-mixture": Asked(0.88, 0.95, 0.96, 40, 10),
    "typhoon": Asked(0.75, 0.90, 0.93, 120, 40),
}


def available() -> list[str]:
    """Names of the problems that can be run here."""
    return [name for name in ASKED if name != "typhoon" or SPECTRUM.is_file()]


def problem(name: str) -> Problem:
    """The problem of this name."""
    from folt import models

    if name.startswith("pair-"):
        return models.gaussian_pair(int(name[5:]))
    if name.startswith("m"):
        return models.label_switching(int(name[1]), int(name[3]))
    if name == "bayes-mixture":
        return models.bayesian_mixture()
    frequency, psd = np.loadtxt(SPECTRUM, delimiter=",", skiprows=3).T
    return models.modal_spectrum(frequency, psd)
