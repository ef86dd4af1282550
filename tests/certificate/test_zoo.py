"""A few awkward densities of the zoo: what the certificate says of them is true."""

import numpy as np
import pytest

import folt
from finite_chains import finite_chains
from zoo import ZOO, distances, false_statements


@pytest.mark.parametrize("dead", [0.0, 0.3])
def test_exact_distances_are_those_of_matrices(dead):
    generator = np.random.default_rng(0)
    target, ratio = np.full((1, 60), 1 / 60), np.exp(generator.normal(size=60))
    proposal = target / ratio
    proposal *= (1 - dead) / proposal.sum()
    chains = finite_chains(target, proposal)
    found = distances(np.log(chains.ratio[0]), 0.0, [1, 2, 5, 20])
    expected = [chains.distance(n)[0] for n in (1, 2, 5, 20)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["exponential edge", "log-Gamma(.3)", "Laplace"])
def test_what_is_said_of_an_awkward_density_is_true(name):
    """Usable, log Z within 4 errors (6e-5 each), and no statement on total variation is false."""
    animal = ZOO[name]
    problem = animal.problem()
    fit = folt.sample(problem, effort=folt.Effort.quick(), draws=500, progress=False)
    certificate = fit.certificate
    assert certificate.status.outcome.usable
    evidence = certificate.evidence
    assert abs(evidence.value - animal.log_evidence) < 4 * evidence.standard_error
    exact = animal.exact(np.random.default_rng(1), 20_000)
    assert not false_statements(fit, animal, exact)
