"""Expectations: unbiased, with errors that mean what they say, by the method the weights allow."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import folt
from folt.certificate.diagnostics.chains import effective_size
from folt.chains import sweeps
from folt.fit import expectation
from folt.fit.expectation import (
    Averages,
    ExpectationMethod,
    replicated_mean,
    through,
    weighted_mean,
)
from folt.models import label_switching
from folt.proposals import Gaussian, StudentT
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.sums import ListedSum, components_of
from folt.reference import Exact

CENTRES = np.array([[0.0, 0.5], [1.5, -0.5]])
REPEATS = 200
SPREAD = 4.5
"""Deviations allowed to the mean and the spread of 200 scores: .7 false alarms in 100 000."""


def fitted(flow, **options):
    options = {"chains": 2, "draws": 200, "reference": Exact(2_000, 20), **options}
    return folt.sample(label_switching(2, 2, CENTRES), flow=flow, progress=False, **options)


@pytest.fixture(scope="module")
def fit():
    """A proposal a little too wide and out of place."""
    return fitted(Gaussian(jnp.asarray(CENTRES.ravel() + 0.2), 0.8 * jnp.eye(4)))


def total(parameters):
    """A sum over everything, whose mean is that of the centres whatever the labels."""
    return sum(parameters.values())


def scores(found):
    truth = CENTRES.sum()
    return np.array([(one.mean - truth) / one.standard_error for one in found])


def honest(z):
    """Mean zero and deviation one, as far as 200 scores can tell."""
    return abs(z.mean()) < SPREAD / np.sqrt(len(z)) and abs(z.std() - 1) < SPREAD / np.sqrt(
        2 * len(z)
    )


@pytest.fixture(scope="module")
def repeats(fit):
    """The averages of the same fit with other random numbers, proposals few and sets small."""
    patch = pytest.MonkeyPatch()
    patch.setattr(expectation, "_FRESH", 600)
    made = []
    for seed in range(REPEATS):
        provenance = {**fit.provenance, "seed": seed}
        one = Averages(dataclasses.replace(fit, provenance=provenance, proposals=None))
        assert one.plain.weights.size == 600
        made.append(one)
    yield made
    patch.undo()


@pytest.mark.extended
def test_errors_of_weighted_proposals_are_honest_and_weights_matter(repeats):
    sets = [one.plain for one in repeats]
    found = [weighted_mean(total(one.parameters), one.weights)[0] for one in sets]
    assert honest(scores(found))
    without = [weighted_mean(total(one.parameters), np.ones((1, 600)))[0] for one in sets]
    assert not honest(scores(without))


@pytest.mark.extended
def test_errors_of_scrambles_are_honest_and_sobol_points_are_no_draws(repeats):
    found = [one.of(total) for one in repeats]
    assert {one.method for one in found} == {ExpectationMethod.SOBOL}
    assert honest(scores(found))
    sets = [one.estimating for one in repeats]
    as_if_drawn = [weighted_mean(total(one.parameters), one.weights)[0] for one in sets]
    assert not honest(scores(as_if_drawn))
    assert not honest(scores([in_a_chain(one) for one in sets]))


def in_a_chain(sets):
    """The mutant: Sobol points proposed to chains in their order, with the error of a chain."""
    generator = np.random.default_rng(0)
    logs = np.log(np.maximum(sets.weights, 1e-300))
    chances = np.log(generator.uniform(size=logs.shape))
    source = sweeps(chances, logs[:, 0], logs).source
    values = np.take_along_axis(total(sets.parameters), np.maximum(source, 0), axis=1)
    error = values.std() / np.sqrt(effective_size(values, "mean"))
    return expectation._Pair(values.mean(), error)


def test_recycling_costs_nothing_and_beats_the_chain(fit, monkeypatch):
    monkeypatch.setattr(expectation, "components_of", lambda proposal: None)
    longer = fit.extend(50)
    monkeypatch.setattr(expectation.LogRatio, "at", None)
    found = Averages(fit).of(total)
    assert (found.method, found.points) == (
        ExpectationMethod.PROPOSALS,
        fit.proposals.log_ratio.size,
    )
    chain = Averages(fit)._chain(total(fit.posterior))
    assert found.standard_error < chain.standard_error
    assert Averages(longer).of(total).points == found.points + 2 * 50 * fit.steps_per_draw


def test_uniforms_through_the_quantiles_are_draws_of_the_proposal(fit):
    guarded = components_of(fit.proposal)
    wide = components_of(StudentT(jnp.ones(4), jnp.diag(jnp.arange(1.0, 5.0)), 3.0))
    generator = np.random.default_rng(1)
    for parts in (guarded, wide):
        points = through(parts, generator.uniform(size=(4_000, 6)))
        drawn = ListedSum(parts, action_of(fit.group)).sample(generator, 4_000)
        ahead = np.array([1.0, -0.5, 0.3, 0.7])  # a direction across the axes
        for one, other in ((points @ ahead, drawn @ ahead), (points[:, 3], drawn[:, 3])):
            assert stats.ks_2samp(one, other).pvalue > 1e-4
    mixture = Components(np.log([0.25, 0.75]), np.array([[-9.0], [9.0]]), np.ones((2, 1, 1)))
    uniforms = expectation.scrambled(generator, 3, 8)
    assert (through((mixture,), uniforms) < 0).sum() == 64  # strata of Sobol points are exact


def test_heavy_weights_leave_the_average_to_the_chain():
    narrow = fitted(Gaussian(jnp.asarray(CENTRES.ravel()), 2.0 * jnp.eye(4)))
    found = narrow.expectation(total)
    assert found.method is ExpectationMethod.CHAIN
    assert found.pareto_k >= 0.4
    values = total(narrow.posterior)
    assert found.mean == pytest.approx(values.mean())
    assert 0 < found.standard_error < np.inf
    frozen = dataclasses.replace(narrow, accepted=np.zeros_like(narrow.accepted))
    assert frozen.expectation(total).standard_error == np.inf


def test_loaded_relabelled_and_extended_fits_have_expectations_too(fit, tmp_path):
    truth = CENTRES.sum()
    path = fit.save(tmp_path / "fit.nc")
    with_problem = folt.load(path, problem=fit.problem)
    made = {
        "live": fit.expectation(total),
        "with problem": with_problem.expectation(total),
        "alone": folt.load(path).expectation(total),
        "proposal": fitted(fit.flow, labels="proposal").expectation(total),
    }
    for one in made.values():
        assert abs(one.mean - truth) < 5 * one.standard_error
    assert made["alone"].method is ExpectationMethod.CHAIN
    assert made["with problem"].method is not ExpectationMethod.CHAIN


def test_an_unknown_parameter_is_answered_with_those_there_are(fit):
    for asked in (
        lambda: fit.expectation(lambda p: p["nu"]),
        lambda: fit.expectation("nu"),
        lambda: fit.posterior["nu"],
        lambda: fit.predict([1.0], lambda p, x: p["nu"] * x),
    ):
        with pytest.raises(KeyError, match="no parameter 'nu' among 'x0'"):
            asked()


def test_a_name_stands_for_its_parameter(fit):
    assert fit.expectation("x0") == fit.expectation(lambda p: p["x0"])
    with pytest.raises(ValueError, match=r"a parameter's name or a function .* got int"):
        fit.expectation(3)
    doubled = jax.tree.map(lambda value: 2.0 * value, fit.posterior)
    np.testing.assert_array_equal(doubled["x0"], 2.0 * fit.posterior["x0"])


def test_values_of_any_shape_and_truth_values(fit):
    mean, error = fit.expectation(
        lambda p: np.stack([[p["x0"], p["x0"] > 0], [p["x1"], 1.0 + 0 * p["x1"]]]).transpose(
            2, 3, 0, 1
        )
    )
    assert mean.shape == error.shape == (2, 2)
    assert 0 < mean[0, 1] < 1
    assert (mean[1, 1], error[1, 1]) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-12))
    alone = fit.expectation(lambda p: p["x0"])
    assert abs(alone.mean - mean[0, 0]) < 5 * np.hypot(alone.standard_error, error[0, 0])
    with pytest.raises(ValueError, match=r"leading axes \(chain, draw\)"):
        fit.expectation(lambda p: p["x0"].mean())


def test_replicates_of_one_weight_are_a_plain_mean():
    values = np.random.default_rng(0).normal(size=(16, 50, 3))
    found = replicated_mean(values, np.full((16, 50), 0.3))
    np.testing.assert_allclose(found.mean, values.mean(axis=(0, 1)))
    by_hand = values.mean(axis=1).std(axis=0, ddof=1) / 4 * np.sqrt(15 / 13)
    np.testing.assert_allclose(found.standard_error, by_hand)
