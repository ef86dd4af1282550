"""Refreshed held-out draws: the target stays, a slow reference is mended, a missed mode is not."""

import numpy as np
import pytest
from scipy import stats

from folt.certificate.held_out import LEAST, MOST, Judged, refreshed_draws, steps_for


class Scalars:
    """Target N(0, 1) under the proposal N(0, 1.5²), on the line, without compiling anything."""

    def __init__(self, sign=1.0, shift=0.0):
        self.sign, self.shift = sign, shift

    def at(self, points, log_target=None):
        x = points[:, 0]
        return stats.norm.logpdf(x) - stats.norm.logpdf(x, self.shift, 1.5)

    def draw(self, key, count):
        import jax

        seed = np.asarray(jax.random.key_data(key)).ravel()
        x = self.shift + 1.5 * np.random.default_rng(seed).normal(size=(count, 1))
        return x, self.sign * self.at(x)


def judged(ratio, points):
    return Judged(
        points, ratio.sign * ratio.at(points.reshape(-1, 1)).reshape(points.shape[:2]), False
    )


def key(seed=0):
    import jax

    return jax.random.key(seed)


def test_draws_of_the_target_stay_draws_of_the_target():
    """Kolmogorov-Smirnov of 20 000 refreshed draws at level 1e-4."""
    ratio = Scalars()
    exact = np.random.default_rng(1).normal(size=(50, 400, 1))
    moved = refreshed_draws(key(), judged(ratio, exact), ratio, 3)
    assert stats.kstest(moved.points.ravel(), "norm").pvalue > 1e-4
    np.testing.assert_allclose(moved.log_ratio.ravel(), ratio.at(moved.points.reshape(-1, 1)))
    assert np.mean(moved.points != exact) > 0.95
    assert moved.stayed == np.mean(moved.points == exact)
    assert moved.steps == 3
    np.testing.assert_array_equal(moved.as_they_came, exact)


def test_mutant_with_the_printed_sign_moves_the_target():
    ratio = Scalars(sign=-1.0)
    exact = np.random.default_rng(1).normal(size=(50, 400, 1))
    moved = refreshed_draws(key(), judged(ratio, exact), ratio, 3)
    assert stats.kstest(moved.points.ravel(), "norm").pvalue < 1e-4


def test_chains_stuck_where_they_started_are_mended():
    """Every chain constant: R-hat is useless before, and independent draws come out."""
    ratio = Scalars()
    stuck = np.repeat(np.random.default_rng(2).normal(size=(50, 1, 1)), 400, axis=1)
    moved = refreshed_draws(key(), judged(ratio, stuck), ratio, steps_for(0.8))
    means = moved.points.mean(axis=(1, 2))
    assert means.std() < 2.0 / np.sqrt(400)
    again = refreshed_draws(key(1), moved, ratio, 2)
    assert again.steps == moved.steps + 2
    np.testing.assert_array_equal(again.as_they_came, stuck)
    np.testing.assert_array_equal(again.raw_log_ratio, judged(ratio, stuck).log_ratio)


def test_what_the_proposal_misses_stays_where_it_is():
    """Draws 30 deviations away from the proposal: none moves, and all keep their large h."""
    ratio = Scalars(shift=-45.0)
    far = 0.1 * np.random.default_rng(3).normal(size=(5, 40, 1))
    moved = refreshed_draws(key(), judged(ratio, far), ratio, MOST)
    np.testing.assert_array_equal(moved.points, far)


@pytest.mark.parametrize(
    ("accept", "steps"), [(0.0, MOST), (0.05, MOST), (0.5, 9), (0.9, 3), (1.0, LEAST)]
)
def test_steps_follow_the_acceptance(accept, steps):
    assert steps_for(accept) == steps


def test_a_large_group_gets_fewer_steps():
    assert steps_for(0.0, 120) == MOST
    assert LEAST <= steps_for(0.0, 720) < MOST
    assert steps_for(0.0, 10**6) == LEAST
