"""Modal identification on simulated windows whose parameters are drawn from the prior.

If everything is right (likelihood, priors, coordinates, folding, sampler) the rank of a true
parameter among posterior draws is uniform, whatever the prior. Windows are spectra of the model
itself: Gamma ordinates around the spectrum of two modes. Frequencies are sorted in both, so a rank
is that of the k-th mode by frequency.
"""

import jax
import numpy as np
import pytest
from scipy import stats
from table import write_table

import folt
from folt.certificate.outcomes import Outcome
from folt.models import modal_powers, simulate_powers
from folt.reference import HostChains
from folt.training import OrbitMixture

WINDOWS, MODES, ORDINATES, AVERAGES = 120, 2, 48, 10.0
RANKS = 99
"""Draws that a truth is ranked among: 100 equally likely ranks."""

FALSE_ALARM = 0.01
"""Of the whole test, shared by its checks."""

REFERENCE = HostChains(particles=600, moves=15, chains=20, draws=300)
TRAINER = OrbitMixture(size=16, rounds=10, fresh=2048, patience=4)


def blank():
    """The problem with ordinates still to come; priors in absolute units, as calibration needs."""
    at = np.linspace(0.7, 1.1, ORDINATES)
    return modal_powers(at, np.ones(ORDINATES), MODES, averages=AVERAGES, scale=1.0)


def ranks_of(problem, seed):
    """Ranks of the sorted truth in one window, and the verdict; every window the same shapes."""
    key = jax.random.key(seed)
    truth = np.asarray(jax.random.normal(key, (problem.dim,)))
    window = problem.with_data(simulate_powers(jax.random.fold_in(key, 1), problem, truth))
    fit = folt.sample(
        window,
        seed=seed,
        chains=3,
        draws=33 * 40,
        reference=REFERENCE,
        flow=TRAINER,
        progress=False,
    )
    draws = fit.draws[:, ::40].reshape(-1, problem.dim)
    assert len(draws) == RANKS
    below = (draws < np.asarray(problem.group.fold(truth))).sum(axis=0)
    return below, fit.certificate.status.name


def calibrate(windows):
    """Ranks (window, coordinate) and verdicts."""
    problem = blank()
    found = [ranks_of(problem, seed) for seed in range(windows)]
    return problem.names, np.array([ranks for ranks, _ in found]), [name for _, name in found]


def covered(ranks, level):
    """How often the central interval that holds `level` of the ranks has the truth in it."""
    tail = (1 - level) / 2 * (RANKS + 1)
    return (ranks >= tail) & (ranks < RANKS + 1 - tail)


def uniformity(ranks):
    """The p-value of the ranks in ten classes, by chi-squared."""
    counts = np.bincount(ranks * 10 // (RANKS + 1), minlength=10)
    return stats.chisquare(counts).pvalue


@pytest.mark.validate
def test_intervals_cover_at_their_rate():
    """Coverage at 50 and 90 % and uniform ranks, seven coordinates: false alarm 1 % in all."""
    names, ranks, verdicts = calibrate(WINDOWS)
    rows, smallest = [], 1.0
    for j, name in enumerate(names):
        cells, tests = [], [uniformity(ranks[:, j])]
        for level in (0.5, 0.9):
            count = int(covered(ranks[:, j], level).sum())
            cells.append(f"{count / WINDOWS:.3f}")
            tests.append(stats.binomtest(count, WINDOWS, level).pvalue)
        smallest = min(smallest, *tests)
        rows.append((name, *cells, *(f"{p:.3f}" for p in tests)))
    usable = np.mean([Outcome.named(name).usable for name in verdicts])
    limit = FALSE_ALARM / (3 * len(names))
    write_table(
        "modal-calibration",
        f"Modal identification: {WINDOWS} windows drawn from the prior, {MODES} modes, "
        f"{ORDINATES} ordinates of {AVERAGES:g} averages, {100 * usable:.0f} % of the verdicts "
        f"usable; every p-value should exceed {limit:.5f} (false alarm {FALSE_ALARM:g} in all)",
        ("coordinate", "50 % covers", "90 % covers", "p, ranks", "p, 50 %", "p, 90 %"),
        rows,
    )
    assert smallest > limit


def test_overconfident_ranks_are_caught():
    """Mutant: draws half as wide as the posterior put too many truths outside."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(WINDOWS, 1))
    ranks = (0.5 * rng.normal(size=(WINDOWS, RANKS)) < truth).sum(axis=1)
    limit = FALSE_ALARM / 21
    assert uniformity(ranks) < limit
    honest = (rng.normal(size=(WINDOWS, RANKS)) < truth).sum(axis=1)
    assert uniformity(honest) > limit
