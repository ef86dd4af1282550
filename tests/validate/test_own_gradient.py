"""A function with its gradient gets the engine of a density in JAX, without a cap."""

import numpy as np
import pytest
from scipy.special import logsumexp
from table import write_table

import folt
from folt.groups import Permutation
from folt.models import bayesian_mixture, bayesian_mixture_data

DATA = bayesian_mixture_data()


def both(points):
    """The Bayesian mixture of three normals in NumPy: log density and gradient."""
    rows = points.reshape(-1, 3, 2)
    mu, log_sigma = 3 + 5 * rows[..., :1], 0.5 * rows[..., 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (DATA - mu) * np.exp(-log_sigma)
        terms = -0.5 * scaled**2 - log_sigma
        total = logsumexp(terms, axis=1, keepdims=True)
        shares = np.exp(terms - total)
        by_mu = 5 * np.sum(shares * scaled * np.exp(-log_sigma), axis=-1)
        by_sigma = 0.5 * np.sum(shares * (scaled**2 - 1.0), axis=-1)
    constant = DATA.size * (np.log(3) + 0.5 * np.log(2 * np.pi)) + 3 * np.log(2 * np.pi)
    values = total.sum(axis=(1, 2)) - 0.5 * np.sum(points**2, axis=1) - constant
    return values, np.stack([by_mu, by_sigma], axis=-1).reshape(points.shape) - points


@pytest.mark.validate
def test_the_mixture_with_its_gradient_is_good():
    problem = folt.from_callable(
        lambda points: both(points)[0], 6, Permutation(3, 2), vectorized=True, gradient=both
    )
    points = np.random.default_rng(0).normal(size=(5, 6))
    twin = bayesian_mixture(DATA)
    np.testing.assert_allclose(problem.log_probs(points), twin.log_probs(points), rtol=1e-10)
    fit = folt.sample(problem, progress=False)
    evidence = fit.log_evidence
    write_table(
        "own-gradient",
        f"A mixture of three normals in NumPy with its gradient, {DATA.size} observations",
        ("verdict", "acceptance", "log Z", "values", "gradients"),
        [
            (
                fit.certificate.status.name,
                f"{fit.accept_rate:.3f}",
                f"{evidence.value:.4f} ± {evidence.standard_error:.4f}",
                fit.evaluations["value"],
                fit.evaluations["gradient"],
            )
        ],
    )
    assert fit.certificate.status.name == "good"
    assert evidence.standard_error <= 0.0015
