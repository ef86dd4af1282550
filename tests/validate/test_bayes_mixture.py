"""The Bayesian mixture over five seeds against means and an evidence by other methods."""

import numpy as np
import pytest
from table import truth, write_table

import folt
from folt.models import bayesian_mixture

SEEDS = range(5)
MEANS = {
    "mu": np.array([-0.1247, 2.9522, 5.9801]),
    "log_sigma": np.array([-0.2574, -0.0875, -0.2075]),
}
ROUNDING = 1e-4  # the values above are known to four decimals
LOG_EVIDENCE, LOG_EVIDENCE_ERROR = truth("bayes-mixture")


@pytest.mark.validate
def test_posterior_means_and_evidence():
    """Means within 4 combined standard errors (six checks: false alarm 4e-4), log Z within 3."""
    fits = [folt.sample(bayesian_mixture(), seed=seed, progress=False) for seed in SEEDS]
    rows, scores = [], []
    for name, expected in MEANS.items():
        values = [_values(fit, name) for fit in fits]
        means = np.array([value.mean(axis=(0, 1)) for value in values])
        errors = np.array([_errors(value) for value in values])
        mean, error = means.mean(axis=0), np.sqrt((errors**2).sum(axis=0)) / len(fits)
        z = (mean - expected) / np.hypot(error, ROUNDING)
        scores.extend(z)
        for k in range(3):
            cells = (f"{name}[{k}]", expected[k], mean[k], error[k], z[k])
            rows.append((cells[0], *(f"{cell:.5f}" for cell in cells[1:4]), f"{cells[4]:+.2f}"))
    evidences = [fit.log_evidence for fit in fits]
    value = np.mean([evidence.value for evidence in evidences])
    error = np.sqrt(sum(e.standard_error**2 for e in evidences)) / len(evidences)
    z = (value - LOG_EVIDENCE) / np.hypot(error, LOG_EVIDENCE_ERROR)
    rows.append(("log Z", f"{LOG_EVIDENCE:.4f}", f"{value:.4f}", f"{error:.4f}", f"{z:+.2f}"))
    write_table(
        "bayes-mixture",
        "Bayesian mixture, five seeds of 4 x 5000 draws",
        ("quantity", "expected", "found", "standard error", "z"),
        rows,
    )
    assert np.abs(scores).max() < 4
    assert abs(z) < 3
    assert all(fit.certificate.status.name == "good" for fit in fits)


def _values(fit, name):
    value = fit.posterior["mu" if name == "mu" else "sigma"]
    return value if name == "mu" else np.log(value)


def _errors(values):
    """Monte Carlo standard errors of the means of (chain, draw, component)."""
    from folt.certificate.diagnostics.chains import effective_size

    count = values.shape[-1]
    sizes = np.array([effective_size(values[..., k], "mean") for k in range(count)])
    return values.std(axis=(0, 1)) / np.sqrt(sizes)
