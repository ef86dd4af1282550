"""How coordinates of mixture weights serve: scores, log-ratios, Gamma shares."""

import itertools
import time

import jax
import pytest
from table import write_table

import folt
from folt.coordinates import AugmentedShares, CentredScores, LogRatios
from folt.groups import Blocks, Joint, ZeroSum
from folt.models import WeightedMixturePosterior, datasets, simulate_gaussian_mixture
from folt.models.families import GaussianFamily
from folt.models.independent import Independent, StandardNormal

COMPONENTS = 3
COORDINATES = {
    "scores": (CentredScores.symmetric(COMPONENTS), ZeroSum()),
    "log-ratios": (LogRatios.symmetric(COMPONENTS), ZeroSum()),
    "Gamma shares": (AugmentedShares(COMPONENTS, observations=0), Blocks(1)),
}


def problem(data, name):
    """The Gaussian mixture of folt.models under its default prior, in one of the coordinates."""
    weight, part = COORDINATES[name]
    prior = Independent((StandardNormal(2 * COMPONENTS), weight))
    posterior = WeightedMixturePosterior(GaussianFamily.for_data(data), weight, prior)
    group = Joint(COMPONENTS, (Blocks(2), part))
    return folt.Problem(posterior, group, data=data, prior=prior, constrain=posterior.constrain)


@pytest.mark.validate
def test_scores_serve_no_worse_than_log_ratios_and_both_better_than_shares():
    """Acceptance on two data sets, one seed; the evidence must agree within 4 errors."""
    series = {
        "simulated, n = 300": simulate_gaussian_mixture(jax.random.key(1)),
        "galaxies, n = 82": datasets.galaxies(),
    }
    rows, accepted = [], {}
    for label, data in series.items():
        evidences = []
        for name in COORDINATES:
            start, busy = time.perf_counter(), time.process_time()
            fit = folt.sample(problem(data, name), progress=False)
            wall, cpu = time.perf_counter() - start, time.process_time() - busy
            gamma = fit.certificate.qc["target"][0.05].gamma
            evidence = fit.log_evidence
            evidences.append(evidence)
            accepted[label, name] = fit.accept_rate
            cells = (f"{fit.accept_rate:.3f}", "-" if gamma is None else f"{gamma:.3f}")
            value = f"{evidence.value:.3f} ± {evidence.standard_error:.3f}"
            rows.append((label, name, *cells, value, f"{wall:.0f}", f"{cpu:.0f}"))
        for first, second in itertools.combinations(evidences, 2):
            error = (first.standard_error**2 + second.standard_error**2) ** 0.5
            assert abs(first.value - second.value) < 4 * error
    write_table(
        "simplex-coordinates",
        "Weights of a three-component Gaussian mixture in three coordinates, flat prior, seed 0",
        ("data", "coordinates", "acceptance", "γ target .05", "log Z", "wall s", "CPU s"),
        rows,
    )
    for label in series:
        assert accepted[label, "scores"] > accepted[label, "log-ratios"] - 0.01
        assert accepted[label, "log-ratios"] > accepted[label, "Gamma shares"]
