"""The densities and the bridge behind the evidences that are used as truth."""

import math
import sys
from pathlib import Path

import jax
import numpy as np
from scipy.stats import norm

from folt.models import bayesian_mixture, modal_spectrum

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import truth


def test_the_mixture_is_the_model_in_ordered_coordinates():
    """Equal up to the Jacobian: scales of the prior-normal coordinates, and the gaps."""
    posterior, problem = truth.bayesian_mixture(), bayesian_mixture()
    ours, theirs = jax.jit(lambda x: problem.log_prob(x)), jax.jit(posterior.log_density)
    for x in posterior.start + np.random.default_rng(0).normal(scale=0.3, size=(5, 6)):
        mu = x[0] + np.concatenate([[0.0], np.cumsum(np.exp(x[1:3]))])
        point = np.stack([(mu - 3.0) / 5.0, x[3:] / 0.5], axis=1).ravel()
        jacobian = x[1] + x[2] - 3 * math.log(5.0 * 0.5)
        expected = float(ours(point)) + jacobian
        assert math.isclose(float(theirs(x)), expected, abs_tol=1e-9)


def test_the_window_is_the_model_in_ordered_coordinates(tmp_path, monkeypatch):
    """The likelihood is the model's; ordered uniform variables have the density 3!."""
    frequency = np.linspace(0.7, 1.1, 30)
    psd = np.random.default_rng(1).exponential(size=30) / (0.02 + (frequency - 0.85) ** 2)
    rows = [f"{f!r},{p!r}" for f, p in zip(frequency.tolist(), psd.tolist(), strict=True)]
    path = tmp_path / "window.csv"
    path.write_text("\n".join(["#", "#", "frequency_hz,psd", *rows]))
    monkeypatch.setattr(truth, "SPECTRUM", path)
    posterior, problem = truth.typhoon(), modal_spectrum(frequency, psd)
    ours, theirs = jax.jit(lambda x: problem.log_prob(x)), jax.jit(posterior.log_density)
    for x in np.random.default_rng(2).normal(size=(5, 6)):
        share = np.exp(np.cumsum(norm.logcdf(x[:3]) / [3, 2, 1]))
        point = np.stack([norm.ppf(share), x[3:]], axis=1).ravel()
        likelihood = float(ours(point)) - norm.logpdf(point).sum()
        expected = likelihood + norm.logpdf(x).sum() - math.log(6)
        assert math.isclose(float(theirs(x)), expected, abs_tol=1e-8)
    uniform = np.random.default_rng(3).normal(size=(4000, 3))
    share = np.sort(np.exp(np.cumsum(norm.logcdf(uniform) / [3, 2, 1], axis=1)), axis=1)
    error = np.sqrt([3 / 80, 4 / 80, 3 / 80]) / math.sqrt(4000)
    assert np.all(np.abs(share.mean(axis=0) - [0.25, 0.5, 0.75]) < 5 * error)


def test_the_bridge_finds_a_known_integral():
    """A skewed density times e^3 through a fitted Gaussian: within 5 errors, false alarm 1e-6.

    The error is that of the repeats, as it is in the measurement. Exchanging target and proposal
    turns Z over. Mutant: draws of another target.
    """
    random, values, wrong = np.random.default_rng(4), [], []
    for _ in range(30):
        x = random.gumbel(size=(4000, 2))
        proposal = truth.fitted(random, x[:2000], 1)

        def ratio(points, proposal=proposal):
            return 3.0 - (points + np.exp(-points)).sum(axis=1) - proposal.log_prob(points)

        target, other, fresh = map(ratio, (x[2000:], x[2000:] + 1.0, proposal.draw(random, 6000)))
        values.append(truth.bridge(target, fresh))
        wrong.append(truth.bridge(other, fresh))
    assert math.isclose(truth.bridge(-fresh, -target), -values[-1], abs_tol=1e-8)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert error < 0.01
    assert abs(np.mean(values) - 3.0) < 5 * error < abs(np.mean(wrong) - 3.0)
