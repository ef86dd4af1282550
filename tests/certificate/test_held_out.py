"""Held-out draws stay unseen: sealed until one finished proposal, closed to any other."""

import numpy as np
import pytest

import folt
from folt import reference
from folt.certificate.held_out import HeldOut
from folt.certificate.learnt import split_by_chain
from folt.models import label_switching
from folt.problem import ratio
from folt.reference import Exact
from folt.training import OrbitMixture


class Recorded:
    """A log ratio that counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def at(self, points, log_target=None):
        self.asked += 1
        return points.sum(axis=1) if log_target is None else log_target


def test_the_seal_opens_for_one_proposal_only():
    draws = np.arange(24.0).reshape(2, 4, 3)
    sealed = HeldOut(draws, exact=True)
    first = Recorded()
    judged = sealed.judge(first)
    np.testing.assert_array_equal(judged.points, draws)
    np.testing.assert_array_equal(judged.log_ratio, draws.sum(axis=-1))
    assert sealed.judge(first) is judged
    assert first.asked == 1
    with pytest.raises(RuntimeError, match="another proposal"):
        sealed.judge(Recorded())


def test_values_that_are_known_are_sealed_too_and_not_computed_again():
    draws, known = np.zeros((2, 4, 3)), np.arange(8.0).reshape(2, 4)
    sealed = HeldOut(draws, False, known)
    known[:] = -1.0
    np.testing.assert_array_equal(sealed.judge(Recorded()).log_ratio.ravel(), np.arange(8.0))


def test_nothing_else_gives_the_draws_away():
    draws = np.arange(24.0).reshape(2, 4, 3)
    sealed = HeldOut(draws, exact=False)
    assert not any(
        isinstance(getattr(sealed, name), np.ndarray)
        for name in dir(sealed)
        if not name.startswith("_")
    )
    with pytest.raises(TypeError):
        np.asarray(sealed, float)
    draws[:] = 0.0  # a copy is kept, so that no view of it stays outside
    assert sealed.judge(Recorded()).points.max() == 23.0


def rows(points):
    return {row.tobytes() for row in np.asarray(points, np.float64).reshape(-1, points.shape[-1])}


@pytest.fixture(scope="module")
def watched():
    """A fit during which every point at which the target was evaluated is written down."""
    seen, opened, sets = [], [], []
    evaluate, judge = ratio.Target.__call__, HeldOut.judge

    def watch(self, points):
        (opened if sets else seen).append(np.array(points))
        return evaluate(self, points)

    def watch_judge(self, log_ratio):
        sets.append(True)
        judged = judge(self, log_ratio)
        sets.append(judged.points)
        return judged

    class Spy:
        """A trainer that keeps what it was given."""

        def __call__(self, key, task, start, tell):
            self.task = task
            return OrbitMixture(size=2)(key, task, start, tell)

    spy = Spy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ratio.Target, "__call__", watch)
        patch.setattr(HeldOut, "judge", watch_judge)
        folt.sample(
            label_switching(2, 2),
            chains=2,
            draws=100,
            reference=Exact(draws=3_000),
            flow=spy,
            progress=False,
        )
    return seen, sets[1], spy.task


def test_training_and_selection_never_evaluate_a_held_out_draw(watched):
    seen, held_out, task = watched
    sealed = rows(held_out)
    assert len(sealed) > 1_000
    assert all(sealed.isdisjoint(rows(points)) for points in seen)
    assert sealed.isdisjoint(rows(task.training.points))
    assert sealed.isdisjoint(rows(task.selection.points))


def test_the_check_would_notice(watched):
    """The same test fails if one held-out draw had been among those seen."""
    seen, held_out, _ = watched
    assert not rows(held_out).isdisjoint(rows(np.concatenate([*seen, held_out[0, :1]])))


def test_the_split_is_the_same_for_the_same_draws():
    """A fit that starts from an earlier one never trains on what that one was certified with."""
    draws = np.random.default_rng(0).normal(size=(10, 50, 2))
    run = reference.Reference(draws, 1.0, 500.0, True, {})
    log_ratio = Recorded()
    first, second = split_by_chain(run, 100, 400), split_by_chain(run, 100, 400)
    np.testing.assert_array_equal(
        first.certify.judge(log_ratio).points, second.certify.judge(log_ratio).points
    )
    assert rows(first.train).isdisjoint(rows(second.certify.judge(log_ratio).points))
