"""Effective sizes and R-hat in NumPy are those of ArviZ, of every kind of chain."""

import subprocess
import sys

import numpy as np
import pytest

from arviz_either import arviz
from folt.certificate.diagnostics.chains import TAILS, effective_size, split_rhat


def chains(kind, shape=(4, 203)):
    noise = np.random.default_rng(len(kind)).normal(size=shape)
    correlation = {"slow": 0.95, "fast": 0.3, "alternating": -0.7}.get(kind, 0.0)
    values = noise.copy()
    for t in range(1, shape[1]):
        values[:, t] = correlation * values[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    if kind == "apart":
        values += np.arange(shape[0])[:, None]
    if kind == "ties":
        values = np.round(values)
    if kind == "heavy":
        values = np.tan(np.clip(values, -1.5, 1.5)) ** 3
    return values


KINDS = ("slow", "fast", "alternating", "independent", "apart", "ties", "heavy")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4, 203), (1, 40), (3, 8), (60, 6)])
def test_the_numbers_are_those_of_arviz(kind, shape):
    values = chains(kind, shape)
    for method in ("bulk", "mean", "tail"):
        prob = TAILS if method == "tail" else None
        wanted = arviz.ess(values, method=method, prob=prob)
        assert effective_size(values, method) == pytest.approx(wanted, rel=1e-6)
    if shape[0] > 1:
        assert split_rhat(values) == pytest.approx(arviz.rhat(values), rel=1e-9)


def test_what_is_not_a_number_is_not_made_one():
    values = chains("fast")
    values[1, 5] = np.nan
    assert np.isnan(effective_size(values, "mean"))
    assert np.isnan(split_rhat(values))


def test_nothing_heavy_is_imported_on_the_way_to_draws():
    code = "import sys, folt; folt.sample; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    heavy = {
        "scipy.stats",
        "arviz",
        "arviz_stats",
        "matplotlib",
        "xarray",
    }
    assert found & heavy == set()
