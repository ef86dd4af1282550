"""Evidence compared: probabilities, their errors, and a doubt that is passed on."""

import dataclasses
import math

import numpy as np
import pytest

from folt.certificate.comparison import compare_evidences, doubts
from folt.certificate.diagnostics.evidence import Evidence
from folt.certificate.outcomes import Outcome, Status


def test_probabilities_and_their_errors():
    """Errors by the delta method against 20 000 simulated evidences, within 5 %."""
    values, errors = np.array([-10.0, -9.0, -12.0]), np.array([0.1, 0.05, 0.3])
    ranking = compare_evidences(
        {
            str(k): Evidence(*pair, 0.1, 100)
            for k, pair in enumerate(zip(values, errors, strict=True))
        }
    )
    weights = np.exp(values + 9.0)
    np.testing.assert_allclose([row.probability for row in ranking], weights / weights.sum())
    noise = values + 0.2 * errors * np.random.default_rng(0).normal(size=(20_000, 3))
    simulated = np.exp(noise + 9.0)
    simulated /= simulated.sum(axis=1, keepdims=True)
    found = 0.2 * np.array([row.probability_error for row in ranking])
    np.testing.assert_allclose(found, simulated.std(axis=0), rtol=0.05)


def test_what_has_no_evidence_has_no_probability():
    ranking = compare_evidences(
        {"a": Evidence(-3.0, 0.1, 0.9, 10), "b": Evidence(-math.inf, math.inf, 0.1, 10)}
    )
    assert [row.probability for row in ranking] == [1.0, 0.0]
    assert [row.believable for row in ranking] == [False, False]
    smoothed = Evidence(-3.0, 0.1, 0.9, 10, method="psis")
    assert compare_evidences({"c": smoothed})[0].believable
    nothing = compare_evidences({"a": Evidence(-math.inf, math.inf, None, 10)})
    assert math.isnan(nothing[0].probability)


def test_one_model_is_certain():
    assert compare_evidences({"3": Evidence(-1.0, 0.1, 0.2, 10)})[0].probability == pytest.approx(
        1.0
    )


def test_what_is_not_certified_is_said_with_a_next_step():
    """Mass that a proposal misses is missing in its evidence: only those may be too small."""
    ranking = compare_evidences({name: Evidence(-3.0, 0.1, 0.2, 10) for name in "1234"})
    outcomes = dict(
        zip("1234", (Outcome.GOOD, Outcome.UNCOVERED, Outcome.UNDECIDED, Outcome.FAIR), strict=True)
    )
    statuses = {name: Status(outcome, "") for name, outcome in outcomes.items()}
    second, third, share = doubts(ranking, statuses)
    assert second.startswith("2: not certified (uncovered)")
    assert "may be too small" in second
    assert "may be too small" not in third
    assert "first look" in third
    assert "more effort" in third
    assert "hold 0.5 of the probability" in share
    certain = [dataclasses.replace(ranking[1], probability=0.999), *ranking[2:], ranking[0]]
    assert "all of the probability" in doubts(certain, statuses)[-1]
    assert doubts(ranking, dict.fromkeys("1234", Status(Outcome.FAIR, ""))) == ()
    heavy = compare_evidences(
        {"1": Evidence(-3.0, 0.1, 0.9, 10)}
    )  # plain weights of infinite variance
    assert "error of log Z" in doubts(heavy, {"1": statuses["1"]})[0]
