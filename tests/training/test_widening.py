"""Widening: more components flatten h, nothing worse is returned, pilots only save work."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from folt.flows import Gaussian, Mixture
from folt.groups import Permutation
from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.training import OrbitMixture, Sample, Setting, TrainingTask, regress
from folt.training.candidates import CANDIDATES, candidates
from folt.training.orbit_em import fit_orbit_mixture
from folt.training.orbit_mixture import largest_size
from folt.training.pool import Resolver
from folt.training.regression import TRIAL
from folt.training.widening import (
    PARAMETERS,
    TERMS,
    Displaced,
    Wide,
    most_components,
    parameters_per_component,
    polish,
    widen,
)

GROUP = Permutation(3, 1)
SMALL = Wide(components=8, rounds=6, steps=100, batch=256, rate=0.02, fresh=1024)


def mixture_of(*pieces):
    """A mixture from (weight, mean, standard deviation) of its components."""
    weights, means, widths = zip(*pieces, strict=True)
    factors = [jnp.eye(3) / width for width in widths]
    return Mixture(jnp.log(jnp.array(weights)), jnp.array(means, float), jnp.stack(factors))


@pytest.fixture(scope="module")
def skew():
    return mixture_of(
        (0.5, (0.0, 2.0, 5.0), 0.5), (0.3, (0.8, 2.5, 5.0), 0.7), (0.2, (1.5, 2.0, 6.5), 0.9)
    )


def fold_draw(folded, key):
    return folded.group.fold(folded.density.sample(key))


@pytest.fixture(scope="module")
def task(skew):
    """A target whose orbit is a mixture of three components, with exact draws."""
    folded = Folded(skew, GROUP)

    def evaluate(points):
        return map_points(Folded.log_prob, folded, points)

    def sample(seed):
        points = map_keys(fold_draw, folded, jax.random.key(seed), 1500)
        return Sample(points, evaluate(points))

    return TrainingTask(GROUP, folded, None, 0.0, evaluate, sample(10), sample(11))


@pytest.fixture(scope="module")
def single(task):
    return fit_orbit_mixture(jax.random.key(1), GROUP, task.training.points, 1)[0]


def spread(mixture, task):
    log_flow = jax.vmap(Folded(mixture, task.group).log_prob)(task.selection.points)
    return float(np.std(task.selection.log_target - np.asarray(log_flow)))


def test_more_components_flatten_the_ratio(task, single):
    told = []
    wide = widen(jax.random.key(2), single, task, SMALL, lambda *words: told.append(words))
    assert wide.components == 8
    assert spread(wide, task) < 0.4 * spread(single, task)
    fractions = [fraction for fraction, _ in told]
    assert len(fractions) == SMALL.rounds
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1
    again = widen(jax.random.key(2), single, task, SMALL)
    np.testing.assert_array_equal(wide.factors, again.factors)


def test_what_cannot_be_bettered_is_returned(task, skew):
    """Leaps from the exact answer only lose: the mixture itself comes back."""
    leaps = SMALL._replace(rounds=2, rate=5.0)
    assert widen(jax.random.key(3), skew, task, leaps._replace(components=6)) is skew


def test_without_room_nothing_is_split(task, single):
    assert widen(jax.random.key(3), single, task, SMALL._replace(components=1)) is single


@pytest.mark.parametrize(("m", "p"), [(3, 1), (5, 2), (3, 12)])
def test_room_is_bounded_by_images_and_parameters(m, p):
    group = Permutation(m, p)
    most = most_components(group)
    assert most <= Wide().components
    assert most * group.order <= TERMS
    assert most * parameters_per_component(group.dim) <= PARAMETERS
    assert most >= 2 * largest_size(group.dim)


def test_no_step_is_the_anchor(skew):
    still = Displaced(skew, jnp.zeros(skew.components * parameters_per_component(3)))
    x = jnp.array([0.3, 2.0, 4.0])
    assert float(still.log_prob(x)) == pytest.approx(float(skew.log_prob(x)), rel=1e-13)
    drawn, log_prob = still.sample_and_log_prob(jax.random.key(0))
    assert float(log_prob) == pytest.approx(float(skew.log_prob(drawn)), rel=1e-12)


def test_a_large_start_is_polished_without_dense_steps(task, single, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a dense Gauss-Newton step for a large mixture")

    monkeypatch.setattr("folt.training.orbit_mixture.regress", refuse)
    large = widen(jax.random.key(4), single, task, SMALL._replace(components=64, rounds=1))
    assert large.components == 64 > largest_size(3)
    trainer = OrbitMixture(wide=SMALL._replace(rounds=3))
    polished = trainer(jax.random.key(5), task, large)
    assert polished.components == 64
    assert spread(polished, task) < spread(large, task)


def test_the_trainer_widens_what_stays_rough_and_keeps_a_size_that_is_given(task, monkeypatch):
    monkeypatch.setattr("folt.training.orbit_mixture.largest_size", lambda _: 2)
    brief = Setting(rounds=2, fresh=512, linearised=1024)
    wide = SMALL._replace(rounds=1, components=4, rough=1e-3)
    key = jax.random.key(6)
    told = []
    OrbitMixture(full=brief, wide=wide)(key, task, None, lambda *words: told.append(words))
    assert any("4 components" in message for _, message in told)
    told.clear()
    flow = OrbitMixture(size=2, full=brief, wide=wide)(key, task, None, lambda *w: told.append(w))
    assert flow.components == 2
    assert not any("4 components" in message for _, message in told)


@pytest.mark.parametrize(("hopeless", "rounds"), [(1e-6, TRIAL), (math.inf, TRIAL + 2)])
def test_a_hopeless_regression_gives_up_early(task, single, hopeless, rounds):
    told = []
    setting = Setting(rounds=TRIAL + 2, fresh=256, linearised=512, patience=99, flat=0.0)
    setting = setting._replace(hopeless=hopeless)
    regress(jax.random.key(7), single, task, setting, lambda *words: told.append(words))
    assert len(told) == rounds


def test_a_fault_does_not_carry_over(task, single):
    """A target that fails after the start: what was best is returned."""
    calls = []

    def failing(points):
        calls.append(points)
        values = task.evaluate(points)
        return values if len(calls) <= 2 else np.full_like(values, np.nan)

    broken = task._replace(evaluate=failing)
    flow = polish(jax.random.key(8), single, broken, SMALL._replace(rounds=2, steps=2))
    assert len(calls) == 4
    assert flow is single


# Pilots.

LARGE = Permutation(5, 1)


@pytest.fixture(scope="module")
def pilot():
    mean = np.array([0.0, 1.0, 2.5, 4.0, 6.0])
    return Gaussian.from_moments(mean, np.diag([0.3, 0.4, 0.3, 0.5, 1.0]))


def test_small_groups_are_looked_at_whole():
    z = jnp.array([0.3, 2.0, 4.0])
    found = candidates(GROUP, Gaussian.from_moments(np.asarray(z), np.eye(3)), z)
    np.testing.assert_array_equal(found, GROUP.orbit(z))


def test_a_pilot_names_the_likeliest_images(pilot):
    z = pilot.sample(jax.random.key(0))
    assert candidates(LARGE, None, z).shape == (120, 5)
    few = candidates(LARGE, pilot, z)
    assert few.shape == (CANDIDATES, 5)
    every = np.sort(jax.vmap(pilot.log_prob)(LARGE.orbit(z)))[::-1]
    np.testing.assert_allclose(jax.vmap(pilot.log_prob)(few), every[:CANDIDATES], rtol=1e-12)


def test_sums_by_a_pilot_are_almost_whole_and_never_more(pilot):
    """A proposal that the pilot does not know: wider, shifted, of two components."""
    other = Mixture(
        jnp.zeros(2),
        jnp.stack([pilot.mean + 0.3, pilot.mean - 0.3]),
        jnp.stack([0.8 * pilot.factor, 0.7 * pilot.factor]),
    )
    folded = Folded(other, LARGE)
    points = map_keys(fold_draw, folded, jax.random.key(1), 500)
    chosen = Resolver(folded, None, 0.0, pilot, 2).pool(points, np.zeros(500))
    whole = Resolver(folded, None, 0.0, None, 2).pool(points, np.zeros(500))
    lost = chosen.residuals(other) - whole.residuals(other)
    assert (lost > -1e-10).all()
    assert np.quantile(lost, 0.95) < 0.05


def test_em_with_a_pilot_finds_what_em_finds_without(pilot):
    folded = Folded(pilot, LARGE)
    points = map_keys(fold_draw, folded, jax.random.key(2), 800)
    options = {"components": 2, "iterations": 10}
    key = jax.random.key(3)
    start, _ = fit_orbit_mixture(key, LARGE, points, 1, iterations=10)
    chosen, _ = fit_orbit_mixture(key, LARGE, points, **options, pilot=start)
    whole, _ = fit_orbit_mixture(key, LARGE, points, **options)
    np.testing.assert_allclose(chosen.means, whole.means, atol=0.02)
