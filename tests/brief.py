"""Fits that cost little: the quick effort, or values only and a proposal from the moments."""

import numpy as np

import folt
from folt.flows import StudentT
from folt.reference import HostChains

REFERENCE = HostChains(particles=300, moves=4, chains=30, draws=60, thin=3)


def from_moments(key, task, start, progress):
    points = task.training.points
    return StudentT.from_moments(points.mean(axis=0), 1.5 * np.cov(points.T), degrees=5.0)


def brief_fit(problem, draws=150):
    """The whole of `folt.sample` at its cheapest."""
    return folt.sample(problem, draws=draws, effort=folt.Effort.quick(), progress=False)
