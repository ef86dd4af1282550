"""Meeting times of coupled chains follow the law that the mixing certificate rests on."""

import numpy as np
import pytest
from scipy import stats

from coupled_chains import (
    NOT_MET,
    Meetings,
    coupled_times,
    geometric_p_value,
    meeting_times,
)
from finite_chains import random_chains
from folt.certificate.diagnostics.coupling_bounds import meeting_estimate

LEVEL = 1e-4  # of each Kolmogorov-Smirnov test here; ten of them
PAIRS, STEPS = 4000, 60


def coupled(generator, chains, index):
    """Run pairs on a finite chain, from its proposal and its target, with a(w) of both starts."""
    ratio, alive = chains.ratio[index], chains.proposal[index]
    dead = max(1.0 - alive.sum(), 0.0)
    law = np.append(alive, dead) / (alive.sum() + dead)
    log_ratio = np.append(np.log(ratio), -np.inf)
    first = generator.choice(alive.size, PAIRS, p=chains.survivors[index])
    second = generator.choice(alive.size, PAIRS, p=chains.target[index])
    proposals = log_ratio[generator.choice(law.size, (STEPS, PAIRS), p=law)]
    uniforms = generator.random((STEPS, PAIRS))
    times = coupled_times(log_ratio[first], log_ratio[second], proposals, uniforms)
    success = np.minimum(1.0, ratio / ratio[:, None]) @ alive
    return times, success[first], success[second]


@pytest.mark.parametrize("index", range(6))
def test_meeting_is_geometric_on_finite_chains(index):
    """Tame, heavy-tailed and truncated chains; the smaller w in place of M breaks the law."""
    generator = np.random.default_rng(index)
    chains = random_chains(np.random.default_rng(20), 6, 8)
    times, first, second = coupled(generator, chains, index)
    meetings = Meetings(times, np.minimum(first, second), STEPS)
    assert geometric_p_value(generator, meetings) > LEVEL
    mutant = Meetings(times, np.maximum(first, second), STEPS)
    assert geometric_p_value(generator, mutant) < 1e-8


@pytest.mark.parametrize("rate", [0.7, 1.3, 2.0])
def test_meeting_is_geometric_on_the_line(rate):
    """π = Exp(1), q = Exp(rate): the empirical chains obey the law with their empirical a(M).

    A success probability that is a tenth too small is found out.
    """
    generator = np.random.default_rng(30)
    fresh = (rate - 1) * generator.exponential(1 / rate, 5000)
    fresh[:500] = -np.inf
    held_out = (rate - 1) * generator.exponential(1.0, (4, 500))
    meetings = meeting_times(generator, fresh, held_out, count=4000, limit=300)
    assert geometric_p_value(generator, meetings) > LEVEL
    wrong = Meetings(meetings.times, 0.9 * meetings.success, meetings.limit)
    assert geometric_p_value(generator, wrong) < LEVEL
    apart = [np.mean((meetings.times > n) | (meetings.times == NOT_MET)) for n in (1, 3, 10)]
    expected = meeting_estimate(np.array([1, 3, 10]), fresh, held_out)
    error = np.sqrt(expected * (1 - expected) / 4000)
    tolerance = stats.norm.isf(LEVEL / 2 / 9) * error + 1 / 4000  # nine shares in all
    assert (np.abs(apart - expected) <= tolerance).all()


def test_the_larger_ratio_waits():
    """The meeting is the first move of the chain with the larger w, whatever the other does."""
    generator = np.random.default_rng(31)
    starts, others = generator.normal(0, 1, 300), generator.normal(0, 1, 300)
    proposals, uniforms = generator.normal(0, 1, (40, 300)), generator.random((40, 300))
    moves = np.log(uniforms) < proposals - np.maximum(starts, others)
    expected = np.where(moves.any(axis=0), moves.argmax(axis=0) + 1, NOT_MET)
    np.testing.assert_array_equal(coupled_times(starts, others, proposals, uniforms), expected)


def test_pairs_still_apart_are_marked():
    generator = np.random.default_rng(32)
    meetings = meeting_times(generator, np.array([0.0]), np.array([[30.0]]), count=50, limit=5)
    assert (meetings.times == NOT_MET).all()
    assert 0 < geometric_p_value(generator, meetings) <= 1


def test_perfect_proposal_meets_at_once():
    generator = np.random.default_rng(33)
    meetings = meeting_times(generator, np.zeros(10), np.zeros((1, 10)), count=20)
    assert (meetings.times == 1).all()
    assert geometric_p_value(generator, meetings) > LEVEL


def test_faults_are_refused():
    with pytest.raises(ValueError, match="without NaN"):
        meeting_times(np.random.default_rng(0), np.array([np.nan]), np.zeros((1, 2)))
