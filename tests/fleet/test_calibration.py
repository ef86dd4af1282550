"""Calibration: ranks, their band, mutants that it must catch, and what is written."""

import dataclasses
import functools
import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.certificate.diagnostics.ranks import LEVEL, RankBand, covered, rank_among
from folt.fleet import Here, Simulated, Study
from folt.fleet.calibration import calibration_of
from folt.fleet.simulation import folded_points
from folt.fleet.work import FailedJobsError
from folt.groups import Permutation

COUNT = 120


def density(x, total):
    return -0.5 * jnp.sum(x**2) - 0.5 * (total - jnp.sum(x)) ** 2


def simulate(generator):
    """Two exchangeable means of which only the sum is seen, in noise."""
    truth = generator.normal(size=2)
    total = truth.sum() + generator.normal()
    problem = folt.Problem(density, Permutation(2, 1), data=np.asarray(total))
    return Simulated(problem, truth, problem)


def exact(problem, seed, width=1.0, fold=True, verdict="good"):
    """A fit in a moment: exact draws of the posterior, which is Gaussian."""
    generator = np.random.default_rng([seed, 7])
    total = float(problem.data)
    covariance = np.linalg.inv(np.eye(2) + 1.0)
    draws = generator.multivariate_normal([total / 3, total / 3], width**2 * covariance, 2_000)
    draws = folded_points(problem, draws) if fold else draws
    # ∫ of the prior times the likelihood is N(total; 0, 3).
    evidence = -0.5 * total**2 / 3 - 0.5 * np.log(2 * np.pi * 3)
    return SimpleNamespace(
        draws=draws[None],
        accept_rate=1.0,
        certificate=SimpleNamespace(status=SimpleNamespace(name=verdict)),
        log_evidence=SimpleNamespace(value=evidence, standard_error=0.0),
    )


def coordinates(problem, points):
    return {"first": points[:, 0], "second": points[:, 1], "sum": points.sum(axis=1)}


def calibrated(tmp_path, fit=exact, simulations=COUNT):
    return folt.calibrate(
        simulate, fit, coordinates, simulations, out=tmp_path, runner=Here(), progress=False
    )


def test_exact_draws_are_calibrated(tmp_path):
    """False alarm 5 % over the three quantities; the seed is fixed."""
    found = calibrated(tmp_path)
    assert found.smallest > 0.05
    assert [one.name for one in found.quantities] == ["first", "second", "sum"]
    assert all(abs(one.coverage[0.9] - 0.9) < 0.1 for one in found.quantities)
    assert found.evidence.mean == 1.0
    written = json.loads((tmp_path / "calibration.json").read_text())
    assert written["finished"] == COUNT
    assert written["verdicts"]["good"]["fits"] == COUNT
    page = (tmp_path / "calibration.html").read_text()
    assert "as uncertain as they say" in page
    assert page.count("<svg") == 1
    assert "http" not in page.replace("http-equiv", "")
    # Once more: nothing is fitted again.
    again = folt.calibrate(
        simulate, exact, coordinates, COUNT, out=tmp_path, runner=Here(), progress=False
    )
    assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize("width", [0.6, 1.6])
@pytest.mark.extended
def test_intervals_of_the_wrong_width_are_caught(tmp_path, width):
    """Mutants: draws that are too narrow or too wide."""
    found = calibrated(tmp_path, functools.partial(exact, width=width))
    assert found.smallest < 0.01
    page = (tmp_path / "calibration.html").read_text()
    assert "not as uncertain as they say" in page
    # As the page explains its picture, on the sum, which folding does not bias.
    ranks = found.quantities[2].uniformity
    early, late = (np.mean(ranks.difference[part]) for part in (ranks.at < 0.5, ranks.at > 0.5))
    assert (early < 0 < late) if width > 1 else (late < 0 < early)
    assert (
        "below zero first and above it later (∪ then ∩) tells of intervals that are too wide"
        in page
    )


def test_few_simulations_are_said_to_be_few(tmp_path):
    found = folt.calibrate(
        simulate, exact, coordinates, 20, out=tmp_path, runner=Here(), progress=False
    )
    assert found.smallest > 0.05
    assert "In 20 simulations, too few to be sure" in (tmp_path / "calibration.html").read_text()


def test_raw_labels_are_not_calibrated_and_folded_ones_are():
    """A sampler that stays in one labelling: folding both sides mends the ranks, else they fail."""
    generator = np.random.default_rng(3)
    raw, mended = [], []
    for number in range(COUNT):
        drawn = simulate(generator)
        draws = exact(drawn.problem, number).draws[0][::20]  # of the sorted labelling alone
        points = np.vstack([drawn.truth, draws])
        raw.append(rank_among(generator, points[0, 0], points[1:, 0]))
        points = folded_points(drawn.problem, points)
        mended.append(rank_among(generator, points[0, 0], points[1:, 0]))
    band = RankBand(COUNT, 100)
    assert band.compare(np.array(raw)).p_value < 0.01
    assert band.compare(np.array(mended)).p_value > 0.05


def test_the_band_holds_at_its_level():
    """400 sets of uniform ranks: 5 % leave it; 1e-4 of seeds would fail (binomial, ±4.2 %)."""
    generator = np.random.default_rng(1)
    band = RankBand(100, 99)
    outside = np.mean(
        [not band.compare(generator.integers(100, size=100)).inside for _ in range(400)]
    )
    assert abs(outside - (1 - LEVEL)) < 0.042
    # The picture agrees with the number, up to steps of the binomial distribution.
    for _ in range(50):
        found = band.compare(generator.integers(100, size=100))
        strays = np.any((found.difference < found.low) | (found.difference > found.high))
        assert not strays or found.p_value < 0.07
    with pytest.raises(ValueError, match="expected 100 ranks among 99 draws"):
        band.compare(np.zeros(3, int))


def test_ranks_and_coverage_count_right():
    generator = np.random.default_rng(0)
    draws = np.arange(99.0)
    assert rank_among(generator, 49.5, draws) == 50
    ties = [rank_among(generator, 1.0, np.ones(3)) for _ in range(200)]
    assert set(ties) == {0, 1, 2, 3}
    ranks = np.arange(100)
    assert covered(ranks, 99, 0.9).sum() == 90
    assert covered(ranks, 99, 0.5).sum() == 50


def test_failures_and_verdicts_are_told_apart(tmp_path):
    def row(number, verdict, rank, error=None):
        return {
            "job": f"s{number}",
            "error": error,
            "verdict": verdict,
            "ranks": {"x": rank},
            "log_evidence": -1.0,
            "seconds": 1.0,
        }

    rows = [row(k, "good", k % 100) for k in range(90)]
    rows += [row(k, "poor", 0) for k in range(10)]
    rows.append({"job": "s", "error": "no", "seconds": 0.1})
    found = calibration_of(rows, Study(simulate, simulations=101))
    assert (found.finished, found.failed, found.evidence) == (100, 1, None)
    assert found.verdicts["poor"] == (10, 1.0)
    assert found.verdicts["good"][1] < 0.1
    with pytest.raises(FailedJobsError, match="no simulation came to its end; the first said: no"):
        calibration_of(rows[-1:], Study(simulate))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulate": 3}, "expected simulate to be a function"),
        ({"fit": 3}, "expected fit to be options"),
        ({"simulations": 1}, "at least 2 simulations"),
    ],
)
def test_studies_that_are_none_are_refused(tmp_path, changes, message):
    study = dataclasses.replace(Study(simulate, exact, coordinates, 3), **changes)
    with pytest.raises(ValueError, match=message):
        folt.calibrate(
            study.simulate,
            study.fit,
            study.parameters,
            study.simulations,
            out=tmp_path / "out",
            runner=Here(),
        )
    assert not (tmp_path / "out").exists()
