"""A ridge of half a percent of the mass: margins and chains show nothing, the evidence owns up."""

import numpy as np

import folt
from ridges import NORMAL, ridge

SEEDS = range(12)


def test_usable_intervals_of_log_z_contain_it():
    """Mass .006 that no proposal reaches: all usable fits within 3.5 errors (12 fits, 6e-3).

    The mutant without the coverage term is off by more than 3.5 errors in a third of them or more.
    """
    problem = ridge(0.006, 100.0)
    made = [
        folt.sample(problem, seed=seed, flow=NORMAL, draws=500, progress=False).certificate
        for seed in SEEDS
    ]
    usable = [one for one in made if one.status.outcome.usable]
    assert len(usable) >= 4
    assert max(abs(_score(one.evidence)) for one in usable) < 3.5
    assert np.mean([abs(_score(one.evidences.best)) > 3.5 for one in usable]) >= 1 / 3


def _score(evidence):
    """log Z is zero."""
    return evidence.value / evidence.standard_error
