"""Labels that switch are seen in the draws; effects that look alike are not mistaken for them."""

import numpy as np
import pytest
from scipy.stats import binom

from folt.certificate.diagnostics.switching import (
    FALSE_ALARM,
    Heights,
    Switching,
    switching,
    valley,
)

NAMES = ("mu[0]", "mu[1]", "theta")


def chains(values):
    """Draws (n, dim) as four chains."""
    return values[: len(values) // 4 * 4].reshape(4, -1, values.shape[-1])


def switching_draws(generator, gap=3.0, share=0.5, count=2000):
    """Two means a `gap` of standard deviations apart, labels drawn afresh for every draw."""
    means = np.sort(generator.normal(size=(count, 2)) + np.array([0.0, gap]), axis=1)
    turned = generator.uniform(size=count) < share
    means[turned] = means[turned, ::-1]
    return chains(np.column_stack([means, generator.normal(size=count)]))


@pytest.mark.parametrize("gap", [4.5, 8.0, 100.0])
def test_switching_labels_are_suspected(gap):
    found = switching(switching_draws(np.random.default_rng(0), gap), NAMES)
    assert found.suspected
    assert (found.first, found.second) == NAMES[:2]


def test_kept_or_lopsided_labels_are_not():
    generator = np.random.default_rng(1)
    assert not switching(switching_draws(generator, 8.0, 0.0), NAMES).suspected
    assert not switching(switching_draws(generator, 8.0, 0.2), NAMES).suspected


def effects(generator, kind, count):
    """Posteriors with one mode: effects that look alike, at their widest and their oddest."""
    if kind == "funnel":
        scale = np.exp(1.5 * generator.normal(size=(count, 1)))
        return 3.0 + scale * generator.normal(size=(count, 3))
    if kind == "uniform":
        return generator.uniform(size=(count, 3)) * np.array([2.0, 1e-9, 1.0])
    if kind == "skewed":
        return (generator.gamma(1.5, size=(count, 3)) - 0.9) * np.array([1.0, 1e-9, 1e-9])
    return generator.normal(size=(count, 3)) + np.array([0.2, 0.0, 0.0])


@pytest.mark.parametrize("kind", ["funnel", "uniform", "skewed", "shifted"])
def test_one_mode_is_no_alarm(kind):
    """400 posteriors: more than two alarms at a rate of FALSE_ALARM have a chance below 1 %."""
    generator = np.random.default_rng(2)
    alarms = sum(
        switching(chains(effects(generator, kind, 400)), NAMES).suspected for _ in range(400)
    )
    assert binom.sf(2, 400, FALSE_ALARM) < 0.01
    assert alarms <= 2


def test_the_valley_has_its_level_where_it_is_hardest_to_hold():
    """A flat density: the p-value is below .05 in at most 5 %, 5 standard errors allowed."""
    generator = np.random.default_rng(3)
    small = np.mean([valley(generator.uniform(size=200)) <= 0.05 for _ in range(2000)])
    assert small <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 2000)
    rising = np.mean([valley(np.sqrt(generator.uniform(size=200))) <= 0.05 for _ in range(200)])
    assert rising > 0.9


def test_draws_that_repeat_are_thinned():
    """Each of 40 draws fifty times over: untouched copies would be taken for evidence."""
    generator = np.random.default_rng(4)
    few = effects(generator, "shifted", 160)
    found = switching(chains(np.repeat(few, 50, axis=0)), NAMES)
    assert found is None or found.draws < 1000


def test_where_nothing_can_be_said():
    assert switching(np.zeros((2, 100, 3)), NAMES) is None
    assert switching(np.full((2, 100, 3), np.nan), NAMES) is None
    assert switching(np.random.default_rng(5).normal(size=(2, 100, 1)), ("mu",)) is None


def test_many_coordinates_compare_equal_names_only():
    names = [f"a[{n}]" for n in range(20)] + [f"b[{n}]" for n in range(20)]
    draws = np.random.default_rng(6).normal(size=(2, 100, 40))
    assert switching(draws, names).pairs == 2 * 190


def test_a_valley_in_a_lopsided_difference_is_no_suspicion():
    assert Switching("a", "b", 1e-9, 0.01, 1, 1000).suspected
    assert not Switching("a", "b", 1e-9, 0.4, 1, 1000).suspected
    assert not Switching("a", "b", 1e-2, 0.01, 1, 1000).suspected


@pytest.mark.parametrize(
    ("values", "masses", "suspected"),
    [
        ([0.0, 0.0], [0.5, 0.5], True),
        ([0.0, -0.5], [0.5, 0.5], True),
        ([0.0, -3.0], [0.5, 0.5], False),
        ([0.0, -3.0], [0.99, 0.01], True),
        ([0.0, 0.2, -3.0], [0.4, 0.35, 0.25], False),
        ([0.0, 0.2, -3.0], [0.5, 0.49, 0.01], True),
    ],
    ids=[
        "equal",
        "nearly equal",
        "unlike",
        "the image of the heavy one is not known",
        "a third mode without an image",
        "a light one without an image",
    ],
)
def test_modes_of_unlike_height_are_no_labels(values, masses, suspected):
    points = np.array([[0.0, 8.0, 0.0], [8.0, 0.0, 0.0], [8.0, 0.0, 2.0]])
    modes = Heights(points[: len(values)], np.array(values), np.array(masses))
    draws = switching_draws(np.random.default_rng(0), 8.0)
    assert switching(draws, NAMES, modes).suspected == suspected
