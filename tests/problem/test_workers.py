"""Several processes give the values that one gives, end with the work, and say what went wrong."""

import dataclasses
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

import folt
from folt.groups import Permutation
from folt.problem.black_box import BlackBox

DATA = np.random.default_rng(0).normal(size=20)


def log_density(point):
    """Two normals of equal weight and width."""
    terms = -0.5 * (DATA[:, None] - point) ** 2
    return float(np.logaddexp(terms[:, 0], terms[:, 1]).sum() - 0.05 * point @ point)


def many(points):
    return np.logaddexp(*(-0.5 * (DATA - points[:, [k]]) ** 2 for k in range(2))).sum(axis=1)


@pytest.mark.parametrize(("function", "vectorized"), [(log_density, False), (many, True)])
def test_values_are_the_same_bit_for_bit_and_in_order(function, vectorized):
    points = np.random.default_rng(1).normal(size=(101, 2))
    alone = BlackBox(function, vectorized, 16)
    several = dataclasses.replace(alone, workers=2)
    try:
        assert np.array_equal(several.values(points), alone.values(points))
        assert several.values(points[:1]) == alone.values(points[:1])
    finally:
        several.close()


def test_a_fit_has_the_same_draws_and_leaves_no_process_behind():
    fits = []
    for workers in (1, 2):
        # A closure: what a notebook defines can be sent too.
        problem = folt.from_callable(
            lambda point: log_density(point), 2, Permutation(2, 1), workers=workers
        )
        fits.append(
            folt.sample(problem, draws=50, evaluations=5_000, progress=False, labels="sorted")
        )
        assert not multiprocessing.active_children()
    assert np.array_equal(fits[0].draws, fits[1].draws)
    assert fits[0].evaluations == fits[1].evaluations


def _raising(point):
    raise ArithmeticError("no such point")


def _dying(point):
    os._exit(3)


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [(_raising, ArithmeticError, "no such point"), (_dying, RuntimeError, "process .* died")],
)
def test_errors_are_named_and_the_processes_end(function, kind, words):
    box = BlackBox(function, workers=2)
    with pytest.raises(kind, match=words):
        box.values(np.zeros((4, 2)))
    assert not multiprocessing.active_children()


def test_what_cannot_be_sent_is_refused_before_anything_runs():
    lock = threading.Lock()

    def holding(point):
        with lock:
            return log_density(point)

    with pytest.raises(ValueError, match=r"cannot .*lock"):
        folt.from_callable(holding, 2, Permutation(2, 1), workers=2)
    for workers in (0, 1.5, True):
        with pytest.raises(ValueError, match="workers"):
            folt.from_callable(log_density, 2, Permutation(2, 1), workers=workers)


def test_a_copy_starts_processes_of_its_own():
    box = BlackBox(log_density, workers=2)
    assert box.pool is not None
    copy = pickle.loads(pickle.dumps(box))
    assert copy.pool is not box.pool
    assert (copy.workers, copy.function) == (2, log_density)
