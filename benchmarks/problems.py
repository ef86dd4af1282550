"""The problems of the engine's benchmark, with what is asked of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from folt.problem import Problem

SPECTRUM = Path(os.environ.get("FOLT_TYPHOON_PSD", "../shared/data/typhoon_psd.csv"))
"""The paper's real spectrum, where it is at hand; folt does not contain it."""


BORROWED = ("typhoon",)
"""Problems whose data folt does not contain."""


class Asked(NamedTuple):
    """What a problem is called and what is asked of it.

    Floors: γ of target draws at ρ = .05, acceptance. Limits: certified steps to total variation
    .05, seconds from a cold process. `published` is the γ that the paper prints.
    """

    title: str
    gamma: float
    accept: float
    seconds: float
    steps: int
    published: str


ASKED = {
    "pair-2": Asked("Gaussian pair, d = 2", 0.99, 0.98, 20, 5, "0.936"),
    "pair-5": Asked("d = 5", 0.99, 0.98, 20, 5, "0.941"),
    "pair-10": Asked("d = 10", 0.99, 0.98, 20, 5, "0.922"),
    "pair-20": Asked("d = 20", 0.99, 0.98, 20, 5, "0.902"),
    "m2p2": Asked("label switching, 2 components of 2", 0.97, 0.97, 40, 5, "0.82"),
    "m3p2": Asked("3 of 2", 0.97, 0.97, 40, 5, "0.685"),
    "m3p4": Asked("3 of 4", 0.97, 0.97, 40, 5, "0.683"),
    "m4p2": Asked("4 of 2 (24 labellings)", 0.97, 0.97, 40, 5, "0.624"),
    "bayes-mixture": Asked("Bayesian mixture, K = 3, N = 500", 0.88, 0.96, 40, 10, "0.878"),
    "typhoon": Asked("modal identification, real typhoon window", 0.75, 0.93, 120, 40, "0.0018"),
}


def available() -> list[str]:
    """Names of the problems that can be run here."""
    return [name for name in ASKED if name not in BORROWED or SPECTRUM.is_file()]


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
