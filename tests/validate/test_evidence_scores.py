"""Calibration of the evidence's standard error over twenty seeds of label switching."""

import numpy as np
import pytest
from scipy import stats
from table import write_table

import folt
from folt.models import label_switching

SEEDS = range(20)


@pytest.mark.validate
def test_z_scores_of_log_evidence_are_standard():
    """log Z is 0: Σz² against χ² of 20 degrees and the mean against N(0, 1/20), both at 1e-3."""
    rows, scores = [], []
    for seed in SEEDS:
        fit = folt.sample(label_switching(3, 2), seed=seed, draws=100, progress=False)
        evidence = fit.log_evidence
        scores.append(evidence.value / evidence.standard_error)
        cells = (evidence.value, evidence.standard_error, scores[-1])
        rows.append((seed, f"{cells[0]:+.5f}", f"{cells[1]:.5f}", f"{cells[2]:+.2f}"))
    write_table(
        "evidence",
        "Label switching m = 3, p = 2: log Z is 0",
        ("seed", "log Z", "standard error", "z"),
        rows,
    )
    z = np.array(scores)
    assert 1e-3 < stats.chi2.cdf(np.sum(z**2), z.size) < 1 - 1e-3
    assert abs(z.mean()) * np.sqrt(z.size) < stats.norm.isf(5e-4)
