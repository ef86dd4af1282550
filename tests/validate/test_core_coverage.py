"""Coverage of the statements of both cores under heavy-tailed laws of h."""

import numpy as np
import pytest
from scipy import stats
from table import write_table

from folt.certificate.diagnostics.quantile_core import RHOS, proposal_core, target_core

REPEATS, DRAWS = 500, 4_000
LAWS = {
    "Student, 2 degrees": stats.t(2),
    "exponential": stats.expon(),
    "log-normal, shape 2": stats.lognorm(2.0),
}


@pytest.mark.validate
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_the_core_holds_the_mass_it_promises(delta):
    """At least 1-δ of the intervals hold target mass ≥ 1-ρ; the bound is uniform, so far more."""
    generator = np.random.default_rng(20)
    rows, shares = [], []
    for name, law in LAWS.items():
        samples = law.rvs((REPEATS, DRAWS), random_state=generator)
        for rho in RHOS:
            cores = [target_core(h, rho, delta) for h in samples]
            if not cores[0].feasible:
                rows.append((name, rho, "infeasible", "", ""))
                continue
            masses = np.array([law.cdf(core.high) - law.cdf(core.low) for core in cores])
            shares.append((masses >= 1 - rho).mean())
            rows.append((name, rho, f"{shares[-1]:.3f}", f"{masses.mean():.4f}", 1 - rho))
    write_table(
        f"core-coverage-{delta}",
        f"Target core at confidence {1 - delta}: {REPEATS} repeats of {DRAWS} independent draws",
        ("law of h", "rho", "share that holds", "mean mass", "promised mass"),
        rows,
    )
    assert len(shares) >= 6
    assert min(shares) >= 1 - delta


@pytest.mark.validate
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_the_proposal_core_holds_the_middle_of_the_law(delta):
    """[Q(ρ), Q(1-ρ)] of the true law lies inside the reported interval in 1-δ of the repeats."""
    generator = np.random.default_rng(22)
    rows, shares = [], []
    for name, law in LAWS.items():
        samples = law.rvs((REPEATS, DRAWS), random_state=generator)
        for rho in RHOS:
            cores = [proposal_core(h, rho, delta) for h in samples]
            if not cores[0].feasible:
                rows.append((name, rho, "infeasible"))
                continue
            low, high = law.ppf([rho, 1 - rho])
            shares.append(np.mean([core.low <= low and core.high >= high for core in cores]))
            rows.append((name, rho, f"{shares[-1]:.3f}"))
    write_table(
        f"proposal-core-coverage-{delta}",
        f"Proposal core at confidence {1 - delta}: {REPEATS} repeats of {DRAWS} independent draws",
        ("law of h", "rho", "share that holds"),
        rows,
    )
    assert len(shares) >= 6
    assert min(shares) >= 1 - delta


@pytest.mark.validate
def test_mutant_without_the_radius_falls_short():
    """Taking the empirical mass 1-ρ at its word holds the promise about half the time."""
    generator = np.random.default_rng(21)
    law, held = LAWS["Student, 2 degrees"], 0
    for _ in range(REPEATS):
        h = law.rvs(DRAWS, random_state=generator)
        distance = np.abs(h - np.median(h))
        radius = np.quantile(distance, 0.95)
        held += law.cdf(np.median(h) + radius) - law.cdf(np.median(h) - radius) >= 0.95
    assert held / REPEATS < 0.8
