"""Intervals of log Z by the method that is chosen, and z-scores of the coverage."""

import math

import numpy as np
import pytest
from scipy import stats
from table import write_table

from folt.certificate.diagnostics.coverage import coverage
from folt.certificate.diagnostics.evidence import importance_evidence, psis_evidence

REPEATS, DRAWS, FALSE_ALARM = 800, 20_000, 1e-3


def pareto(generator, shape):
    """Log weights of mean one with a Pareto tail of this shape."""
    return shape / (1 - shape) * generator.exponential(1 - shape, DRAWS) + math.log1p(-shape)


def normal(generator, scale):
    return scale * generator.normal(size=DRAWS) - 0.5 * scale**2


LAWS = {f"Pareto, k = {k}": (pareto, k) for k in (0.3, 0.45, 0.5, 0.55, 0.6, 0.65, 0.69)}
LAWS |= {f"log-normal, deviation {s}": (normal, s) for s in (0.5, 1.0, 1.5, 2.0)}


@pytest.mark.validate
def test_intervals_cover_by_the_method_that_is_chosen():
    """95 % intervals cover 93 % or more, but for a false-alarm rate of 1e-3 at each law."""
    generator, rows, shares = np.random.default_rng(50), [], []
    for name, (law, parameter) in LAWS.items():
        plain, smooth, chosen, shapes = [], [], [], []
        for _ in range(REPEATS):
            fresh = law(generator, parameter)
            usual, fitted = importance_evidence(fresh), psis_evidence(fresh)
            plain.append(_covers(usual))
            smooth.append(_covers(fitted))
            chosen.append(_covers(usual if usual.believable else fitted))
            shapes.append(usual.pareto_k)
        shares.append(np.mean(chosen))
        numbers = (np.mean(plain), np.mean(smooth), np.mean(chosen), np.median(shapes))
        rows.append((name, *(f"{number:.3f}" for number in numbers)))
    write_table(
        "evidence-coverage",
        f"95 % intervals of log Z that contain it: {REPEATS} repeats, {DRAWS} weights each",
        ("law of the weights", "plain", "smoothed", "chosen", "median k̂"),
        rows,
    )
    assert min(shares) >= stats.binom.ppf(FALSE_ALARM, REPEATS, 0.93) / REPEATS


@pytest.mark.validate
def test_scores_of_the_coverage_are_standard():
    """Deviation between .9 and 1.1 for log-normal weights up to deviation 1.5, 500 repeats."""
    generator, rows, spreads = np.random.default_rng(51), [], []
    for scale in (0.3, 0.5, 1.0, 1.5, 2.0):
        scores = []
        for _ in range(500):
            fresh = normal(generator, scale)
            target = (normal(generator, scale) + scale**2).reshape(80, -1)
            found = coverage(target, fresh, exact=True)
            scores.append((found.value - 1.0) / found.standard_error)
        spreads.append(np.std(scores))
        largest = np.abs(scores).max()
        rows.append((scale, f"{np.mean(scores):.3f}", f"{spreads[-1]:.3f}", f"{largest:.2f}"))
    write_table(
        "coverage-scores",
        "Scores of the coverage where nothing is missed: 500 repeats, 20 000 draws on either side",
        ("deviation of log w", "mean", "standard deviation", "largest"),
        rows,
    )
    assert all(0.9 < spread < 1.1 for spread in spreads[:4])


def _covers(evidence):
    return abs(evidence.value) < 1.96 * evidence.standard_error
