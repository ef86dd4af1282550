"""Fits that cost little: a small effort, or values only and a proposal from the moments."""

import dataclasses

import numpy as np

import folt
from folt.proposals import StudentT
from folt.reference import HostChains

REFERENCE = HostChains(particles=300, moves=4, chains=30, draws=60, thin=3)

# Many short chains: what a step costs is its call, however many chains take it together.
EFFORT = dataclasses.replace(
    folt.Effort.quick(),
    name="brief",
    particles=256,
    moves=5,
    chains=96,
    draws=20,
    training_draws=960,
    held_out_draws=960,
    certification_draws=2_048,
    fresh=512,
    steps_per_draw=1,
)


def from_moments(key, task, start, progress):
    points = task.training.points
    return StudentT.from_moments(points.mean(axis=0), 1.5 * np.cov(points.T), degrees=5.0)


def brief_fit(problem, draws=150, **options):
    """The whole of `folt.sample` at its cheapest."""
    return folt.sample(problem, draws=draws, effort=EFFORT, progress=False, **options)
