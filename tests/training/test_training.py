"""Training: EM climbs, derivatives are derivatives, regression flattens an exact target."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from folt.flows import Gaussian, Mixture, Safety, StudentT
from folt.flows.elliptical import log_radial
from folt.groups import Permutation, Trivial
from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.problem.orbits import Components, ListedSum, action_of, orbit_sum
from folt.training import OrbitMixture, Sample, TrainingTask, regress
from folt.training.gauss_newton import _row, huber, moved
from folt.training.guard import GUARD_DEGREES, guard_of, guard_stretch
from folt.training.orbit_em import fit_orbit_mixture
from folt.training.orbit_mixture import nearest_images, relabelled
from folt.training.pool import Resolver
from folt.training.regression import SINGLE
from folt.training.thrifty import _Bench, as_mixture
from folt.training.widening import doubled

GROUP = Permutation(3, 1)
MEAN = np.array([0.0, 0.9, 4.0])
COVARIANCE = np.array([[0.6, 0.2, 0.0], [0.2, 0.5, -0.1], [0.0, -0.1, 0.8]])


def orbit_gaussian():
    return Gaussian.from_moments(MEAN, COVARIANCE)


def fold_draw(folded, key):
    return folded.group.fold(folded.density.sample(key))


@pytest.fixture(scope="module")
def points():
    """Folded draws of one Gaussian: under sorted labels a Gaussian that was folded over."""
    return map_keys(fold_draw, Folded(orbit_gaussian(), GROUP), jax.random.key(0), 20_000)


@pytest.fixture(scope="module")
def single(points):
    return fit_orbit_mixture(jax.random.key(1), GROUP, points, 1, iterations=60)


def test_likelihood_never_falls_for_one_component(single):
    likelihood = np.asarray(single[1])
    assert (np.diff(likelihood) > -1e-8).all()
    assert likelihood[-1] > likelihood[0] + 1e-3


def test_em_recovers_the_gaussian_that_was_folded(single, points):
    """Within 6 standard errors of a sample whose labels are known; unknown ones cost a little."""
    mixture = single[0]
    covariance = np.linalg.inv(mixture.factors[0].T @ mixture.factors[0])
    error = np.sqrt(np.diag(COVARIANCE) / len(points))
    assert (np.abs(mixture.means[0] - MEAN) < 6 * error).all()
    variances = np.diag(COVARIANCE)
    error = np.sqrt((np.outer(variances, variances) + COVARIANCE**2) / len(points))
    assert (np.abs(covariance - COVARIANCE) < 6 * error).all()


def test_mutant_without_the_orbit_sum_the_edge_biases_the_fit(points):
    """Plain moments of sorted draws are not those of the Gaussian that was folded."""
    mixture, _ = fit_orbit_mixture(jax.random.key(1), Trivial(3), points, 1, iterations=3)
    error = np.sqrt(np.diag(COVARIANCE) / len(points))
    assert (np.abs(mixture.means[0] - MEAN) > 6 * error).any()


def test_em_of_several_components_climbs(points):
    _, likelihood = fit_orbit_mixture(jax.random.key(2), GROUP, points, 3, iterations=20)
    assert likelihood[-1] > likelihood[0]
    assert np.isfinite(likelihood).all()


def test_relabelling_undoes_any_labelling(single, points):
    shuffled = nearest_images(jax.random.key(4), GROUP, points[:100])
    np.testing.assert_allclose(np.sort(shuffled, axis=1), np.sort(points[:100], axis=1), rtol=1e-15)
    expected = relabelled(single[0], GROUP, points[:100])
    np.testing.assert_allclose(relabelled(single[0], GROUP, shuffled), expected, rtol=1e-15)


# Derivatives.


def some_mixture(degrees, components=3, dim=3):
    generator = np.random.default_rng(3)
    factors = np.tril(0.3 * generator.normal(size=(components, dim, dim))) + np.eye(dim)
    return Mixture(
        jnp.asarray(generator.normal(size=components)),
        jnp.asarray(generator.normal(size=(components, dim))),
        jnp.asarray(factors),
        degrees,
    )


@pytest.mark.parametrize("degrees", [math.inf, 4.0])
@pytest.mark.parametrize("log_rest", [-np.inf, -2.0])
def test_rows_are_the_derivatives_of_the_orbit_sum(degrees, log_rest):
    """In the local coordinates of `moved`, against automatic differentiation in double."""
    mixture = some_mixture(degrees)
    images = GROUP.orbit(jnp.array([0.3, -0.8, 1.4]))[:4]

    def log_flow(step):
        terms = jax.vmap(moved(mixture, step).log_prob)(images)
        return jnp.logaddexp(jax.nn.logsumexp(terms), log_rest)

    value, row = eqx.filter_jit(_row)(mixture, (images, jnp.asarray(log_rest)))
    zero = jnp.zeros(row.size)
    expected = jax.jit(jax.jacobian(log_flow))(zero)
    assert row.dtype == jnp.float32
    assert float(value) == pytest.approx(float(log_flow(zero)), rel=1e-12)
    np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def test_no_step_is_no_move():
    mixture = some_mixture(math.inf)
    same = moved(mixture, jnp.zeros(3 + 9 + 9 + 9))
    np.testing.assert_allclose(same.means, mixture.means)
    np.testing.assert_allclose(same.factors, mixture.factors)
    x = jnp.array([0.2, 0.1, -1.0])
    assert float(same.log_prob(x)) == pytest.approx(float(mixture.log_prob(x)), rel=1e-14)


@pytest.mark.parametrize("degrees", [math.inf, 4.0])
def test_the_fast_mixture_equals_the_slow_one(degrees):
    mixture = some_mixture(degrees)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(200, 3)) * 5)
    fast = jax.vmap(mixture.log_terms)(x)
    slow = jax.vmap(lambda y: mixture.log_standard_terms(mixture.standardise(y)))(x)
    np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)


def test_huber_is_half_the_variance_where_nothing_is_clipped():
    h = np.random.default_rng(1).normal(3.0, 0.01, 1000)
    loss = huber(h, 0.2)
    assert loss.value == pytest.approx(0.5 * h.var(), rel=1e-12)
    np.testing.assert_allclose(loss.weights, 1e-3)
    wild = huber(np.append(h, 1e6), 0.2)
    assert abs(wild.centred[:-1]).max() < 0.3  # one outlier does not carry the centre away
    assert huber(np.append(h, np.nan), 0.2).value == math.inf


# Pools and regression.


def exact_task(target, group, count=1_200):
    folded = Folded(target, group)

    def evaluate(points):
        return map_points(Folded.log_prob, folded, points)

    def sample(seed):
        points = map_keys(fold_draw, folded, jax.random.key(seed), count)
        return Sample(points, evaluate(points))

    return TrainingTask(group, folded, None, 0.0, evaluate, sample(10), sample(11))


@pytest.mark.parametrize("kept", [1, 2, 6, 50])
def test_a_resolved_orbit_sums_to_the_whole(points, kept):
    mixture = some_mixture(math.inf)
    folded = Folded(mixture, GROUP)
    guard = Folded(StudentT(jnp.zeros(3), jnp.eye(3), 5.0), GROUP)
    odds = 0.02 / 0.98
    pool = Resolver(folded, guard, odds, None, kept).pool(points[:64], np.zeros(64))
    assert pool.images.shape == (64, min(kept, 6), 3)
    whole = np.logaddexp(
        jax.vmap(folded.log_prob)(points[:64]),
        math.log(odds) + np.asarray(jax.vmap(guard.log_prob)(points[:64])),
    )
    np.testing.assert_allclose(-pool.residuals(mixture), whole, rtol=1e-10)


def test_regression_makes_an_exact_target_flat():
    """The target is in the family: h becomes constant to a thousandth."""
    task = exact_task(orbit_gaussian(), GROUP)
    start = Mixture(
        jnp.zeros(1),
        jnp.asarray(MEAN + np.array([0.15, -0.1, 0.1]))[None],
        1.15 * orbit_gaussian().factor[None],
    )
    before = _spread(start, task)
    polished, found = regress(jax.random.key(5), start, task, SINGLE)
    assert before > 0.1
    assert _spread(polished, task) < 1e-3
    assert found.spread < 1e-3
    np.testing.assert_allclose(polished.means[0], MEAN, atol=1e-3)


def _spread(mixture, task):
    log_flow = jax.vmap(Folded(mixture, task.group).log_prob)(task.selection.points)
    return float(np.std(task.selection.log_target - np.asarray(log_flow)))


def test_the_trainer_needs_one_component_for_a_folded_gaussian():
    task = exact_task(orbit_gaussian(), GROUP)
    told = []
    flow = OrbitMixture()(jax.random.key(6), task, None, lambda *words: told.append(words))
    assert flow.components == 1
    assert _spread(flow, task) < 1e-3
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] <= fractions[-1] <= 1
    again = OrbitMixture()(jax.random.key(6), task)
    np.testing.assert_array_equal(flow.factors, again.factors)


def test_splitting_keeps_the_moments():
    mixture = some_mixture(math.inf)
    halves = doubled(jax.random.key(8), mixture)
    assert halves.components == 2 * mixture.components

    def moments(one):
        weights = np.asarray(jax.nn.softmax(one.log_weights))
        covariances = np.linalg.inv(np.einsum("kij,kil->kjl", one.factors, one.factors))
        means = np.asarray(one.means)
        second = covariances + means[:, :, None] * means[:, None, :]
        return weights @ means, np.einsum("k,kij->ij", weights, second)

    for kept, had in zip(moments(halves), moments(mixture), strict=True):
        np.testing.assert_allclose(kept, had, rtol=1e-8, atol=1e-10)


# The guard.


@pytest.mark.parametrize("dim", [1, 2, 6, 20])
@pytest.mark.parametrize("weight", [0.02, 0.2])
def test_the_guard_is_as_wide_as_its_equation_says(dim, weight):
    """λ·t_ν(u/τ)/τ^dim = .005·N(u) where |u|² leaves out 3 % of a Gaussian."""
    stretch = guard_stretch(dim, weight)
    edge = stats.chi2.isf(0.03, dim)
    guard = float(log_radial(edge / stretch**2, dim, GUARD_DEGREES)) - dim * math.log(stretch)
    normal = float(log_radial(edge, dim))
    assert stretch > 1
    assert math.log(weight) + guard == pytest.approx(math.log(0.005) + normal, abs=1e-9)


def test_a_guard_that_is_small_enough_already_is_not_stretched():
    assert guard_stretch(3, 1e-9) == 1.0


def test_the_guard_sits_around_the_training_draws(points):
    guard = guard_of(points, 0.02)
    np.testing.assert_allclose(guard.mean, points.mean(axis=0))
    precision = guard.factor.T @ guard.factor * guard_stretch(3, 0.02) ** 2
    np.testing.assert_allclose(np.linalg.inv(precision), np.cov(points.T), rtol=1e-9)


def test_tails_that_stay_are_what_the_fit_will_have():
    """Odds on the bench are shares of the proposal: the main part, wider copies, the guard."""
    draws = np.random.default_rng(0).normal(size=(200, 3))
    sample = Sample(draws, -0.5 * np.sum(draws**2, axis=1))
    arena = TrainingTask(
        group=GROUP,
        target=None,
        guard=guard_of(draws, 0.02),
        guard_weight=0.02,
        evaluate=lambda points: -0.5 * np.sum(points**2, axis=1),
        training=sample,
        selection=sample,
    )
    bench = _Bench(np.random.default_rng(1), arena, action_of(GROUP), 64)
    main = Components(np.log([0.3, 0.7]), draws[:2], np.repeat(np.eye(3)[None], 2, axis=0))
    tails = main.wider(2.5)
    sheltered = bench.sheltered(tails, 0.1)
    on_bench = ListedSum((main, *sheltered.guard.parts), bench.action).log_sum(draws)
    in_fit = Safety(as_mixture(main.joined(tails, 0.1)), arena.guard, 0.02)
    wanted = orbit_sum(in_fit, GROUP).log_sum(draws)
    np.testing.assert_allclose(on_bench - on_bench[0], wanted - wanted[0], atol=1e-9)
    assert np.cov(tails.sample(np.random.default_rng(2), 20_000).T).trace() > 6.0
