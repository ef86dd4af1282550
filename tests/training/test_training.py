"""Training: EM climbs, scores give Gaussians, slopes are derivatives, exact targets go flat."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from folt.groups import Permutation, SignedPermutation, Trivial
from folt.proposals import Mixture, Safety, SinhArcsinh, StudentT
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.elliptical import log_radial
from folt.proposals.sums import ListedSum, components_of, orbit_sum
from folt.proposals.warped import Margins, WarpedComponents
from folt.training import OrbitMixture, Refinement, Sample, TrainingTask, margins, score_regression
from folt.training import gauss_newton as newton
from folt.training.gauss_newton import huber
from folt.training.orbit_em import (
    as_student,
    candidate_images,
    core_of,
    fit_components,
    with_tails,
)
from folt.training.refinement import _slopes, batches, doubled
from folt.training.task import GUARD_DEGREES, Bench, as_mixture, guard_of, guard_stretch

GROUP = Permutation(3, 1)
ACTION = action_of(GROUP)
MEAN = np.array([0.0, 0.9, 4.0])
COVARIANCE = np.array([[0.6, 0.2, 0.0], [0.2, 0.5, -0.1], [0.0, -0.1, 0.8]])


def orbit_gaussian():
    factor = np.linalg.inv(np.linalg.cholesky(COVARIANCE))
    return Components(np.zeros(1), MEAN[None], factor[None])


def some_components(seed=0, count=3, dim=3):
    generator = np.random.default_rng(seed)
    factors = np.tril(0.4 * generator.normal(size=(count, dim, dim)))
    factors[:, range(dim), range(dim)] = generator.uniform(0.6, 1.6, (count, dim))
    logs = generator.normal(size=count)
    means = generator.normal(size=(count, dim))
    return Components(logs - np.logaddexp.reduce(logs), means, factors)


@pytest.fixture(scope="module")
def points():
    """Folded draws of one Gaussian: under sorted labels a Gaussian that was folded over."""
    return np.sort(orbit_gaussian().sample(np.random.default_rng(0), 20_000), axis=1)


def exact_task(target, count=1_200, gradients=True):
    summed = ListedSum((target,), ACTION)

    def sample(seed):
        drawn = ACTION.fold(summed.sample(np.random.default_rng(seed), count))
        return Sample(drawn, summed.log_sum(drawn))

    return TrainingTask(
        GROUP,
        None,
        None,
        0.0,
        summed.log_sum,
        sample(10),
        sample(11),
        differentiate=target.over(ACTION.matrices).with_gradients if gradients else None,
    )


def spread(flow, task):
    log_flow = orbit_sum(flow, task.group).log_sum(task.selection.points)
    return float(np.std(task.selection.log_target - log_flow))


# Expectation-maximisation.


def test_em_climbs_and_recovers_the_gaussian_that_was_folded(points):
    """Within 6 standard errors of a sample whose labels are known; unknown ones cost a little."""
    images, generator = ACTION.images(points), np.random.default_rng(1)
    fits = [fit_components(generator, images, points, 1, steps, 1e-9) for steps in (1, 8, 60)]
    likelihood = [ListedSum((fit,), ACTION).log_sum(points).mean() for fit in fits]
    assert likelihood == sorted(likelihood)
    precision = fits[-1].factors[0].T @ fits[-1].factors[0]
    error = 6 * np.sqrt(np.diag(COVARIANCE) / len(points))
    # Any image of the mean is as good.
    moved = ACTION.images(fits[-1].means)[0]
    best = np.abs(moved - MEAN).max(axis=1).argmin()
    assert (np.abs(moved[best] - MEAN) < error).all()
    turned = ACTION.matrices[best] @ np.linalg.inv(precision) @ ACTION.matrices[best].T
    np.testing.assert_allclose(turned, COVARIANCE, atol=0.06)
    # Mutant: without the orbit sum the edge of the domain biases the fit.
    alone = fit_components(generator, points[:, None], points, 1, 60)
    assert np.abs(alone.means[0] - MEAN).max() > error.max()


def test_em_of_student_components_climbs_and_recovers_the_one_that_was_folded():
    truth = dataclasses.replace(orbit_gaussian(), degrees=5.0)
    points = np.sort(truth.sample(np.random.default_rng(2), 20_000), axis=1)
    images, generator = ACTION.images(points), np.random.default_rng(3)
    gaussian = fit_components(generator, images, points, 1, 30)
    fits = [with_tails(gaussian, images, 5.0, steps, 1e-9) for steps in (0, 1, 8, 40)]
    likelihood = [ListedSum((fit,), ACTION).log_sum(points).mean() for fit in (gaussian, *fits)]
    assert likelihood == sorted(likelihood)
    best = ListedSum((truth,), ACTION).log_sum(points).mean()
    # Twice the gain over the truth is χ² with nine degrees of freedom: below 42 but for 3e-6.
    assert 0.0 <= (likelihood[-1] - best) * len(points) < 21.0
    # Whatever images of the draws are given, the sum over the orbit is the same.
    moved = ACTION.move(np.full(len(points), 3), points)
    again = with_tails(gaussian, ACTION.images(moved), 5.0, 40, 1e-9)
    np.testing.assert_allclose(
        ListedSum((again,), ACTION).log_sum(points[:100]),
        ListedSum((fits[-1],), ACTION).log_sum(points[:100]),
        atol=1e-8,
    )


def test_student_components_have_the_moments_of_gaussians_and_integrate_to_one():
    line = as_student(some_components(dim=1), 5.0)
    grid = np.linspace(-400.0, 400.0, 800_001)[:, None]
    density = np.exp(ListedSum((line,), action_of(Trivial(1))).log_sum(grid))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1.0, abs=1e-8)
    single = as_student(orbit_gaussian(), 5.0)
    variances = np.linalg.inv(single.factors[0].T @ single.factors[0]) * 5.0 / 3.0
    np.testing.assert_allclose(variances, COVARIANCE, atol=1e-12)
    u = np.random.default_rng(4).normal(size=(50, 3)) * 4.0
    squares = np.sum(((u - MEAN) @ single.factors[0].T) ** 2, axis=1)
    pulls = single.pulls(single.log_terms(u))[:, 0]
    np.testing.assert_allclose(pulls, 8.0 / (5.0 + squares), rtol=1e-9)
    (kept,) = components_of(as_mixture(single))
    assert kept.degrees == 5.0
    np.testing.assert_allclose(kept.log_terms(u), single.log_terms(u), atol=1e-10)


@pytest.mark.parametrize("degrees", [math.inf, 5.0])
def test_tails_are_chosen_by_draws_that_were_held_out(degrees):
    target = dataclasses.replace(some_components(4), degrees=degrees)
    task = exact_task(target, 4_000, gradients=False)
    bench = Bench(np.random.default_rng(5), task, ACTION, 512)
    how = OrbitMixture(size=3)
    single = fit_components(
        bench.generator, ACTION.images(task.training.points), task.training.points, 1, 30
    )
    first = how._mixture(bench, single, 3)
    found = how._tailed(bench, single, first)
    assert found.degrees == degrees
    if math.isinf(degrees):
        assert found is first


def test_candidates_of_a_large_group_are_the_likeliest_images():
    group = SignedPermutation(3, 2)
    action = action_of(group)
    pilot = some_components(3, 1, 6)
    some = np.random.default_rng(4).normal(size=(50, 6))
    chosen = candidate_images(action, some, pilot)
    whole = ListedSum((pilot,), action).log_sum(some)
    part = np.logaddexp.reduce(pilot.log_terms(chosen.reshape(-1, 6)).reshape(50, -1), axis=1)
    assert chosen.shape[1] < group.order
    assert (part <= whole + 1e-12).all()
    assert np.median(whole - part) < 0.05


# Score regression.


def test_scores_of_a_gaussian_give_it_exactly_from_draws_of_any_law():
    generator = np.random.default_rng(2)
    root = generator.normal(size=(7, 7))
    precision, centre = root @ root.T + np.eye(7), generator.normal(size=7)
    anywhere = generator.exponential(size=(60, 7)) - 3.0
    found = score_regression(anywhere, -(anywhere - centre) @ precision)
    np.testing.assert_allclose(found.factors[0].T @ found.factors[0], precision, rtol=1e-9)
    np.testing.assert_allclose(found.means[0], centre, rtol=1e-9)
    assert np.array_equal(found.factors[0], np.tril(found.factors[0]))
    # A saddle has no Gaussian, and a few draws have too little to say.
    assert score_regression(anywhere, (anywhere - centre) @ precision) is None
    assert score_regression(anywhere[:14], anywhere[:14]) is None


def test_score_regression_commutes_with_the_group():
    generator = np.random.default_rng(3)
    action = action_of(SignedPermutation(2, 2))
    drawn = generator.normal(size=(400, 4)) @ generator.normal(size=(4, 4)) + 2.0
    slopes = -(drawn**3) - drawn @ np.diag([1.0, 2.0, 3.0, 4.0])
    plain = score_regression(drawn, slopes)
    for matrix in action.matrices:
        moved = score_regression(drawn @ matrix.T, slopes @ matrix.T)
        np.testing.assert_allclose(moved.means[0], matrix @ plain.means[0], rtol=1e-9)
        np.testing.assert_allclose(
            moved.factors[0].T @ moved.factors[0],
            matrix @ plain.factors[0].T @ plain.factors[0] @ matrix.T,
            rtol=1e-9,
            atol=1e-9,
        )


def test_draws_of_a_minor_mode_are_trimmed_and_those_of_a_gaussian_are_not():
    generator = np.random.default_rng(5)
    main, minor = generator.normal(size=(1_000, 20)), generator.normal(size=(30, 20)) + 9.0
    core = core_of(np.concatenate([main, minor]))
    assert core[:1_000].mean() > 0.99
    assert not core[1_000:].any()


# Gauss-Newton and stochastic steps.


@pytest.mark.parametrize(("at_once", "degrees"), [(128, math.inf), (1024, math.inf), (1024, 5.0)])
def test_slopes_are_the_derivatives_of_the_orbit_sum(monkeypatch, at_once, degrees):
    """Against differences in the local coordinates of `moved`, all at once or in parts."""
    monkeypatch.setattr(newton, "POINTS_AT_ONCE", at_once)
    generator = np.random.default_rng(6)
    main = dataclasses.replace(some_components(), degrees=degrees)
    drawn = generator.normal(size=(300, 3))
    guard = ListedSum(components_of(StudentT(jnp.zeros(3), jnp.eye(3), 5.0)), ACTION)
    summed = ListedSum((main,), ACTION)
    pool = newton.resolve(summed, guard, drawn, generator.normal(size=300))
    whole = np.logaddexp(summed.log_sum(drawn), guard.log_sum(drawn))
    np.testing.assert_allclose(pool.log_proposal(main), whole, rtol=1e-10)
    model = newton.linearise(main, pool, 50.0)
    size = main.count * newton.parameters_per_component(3)
    value = newton.huber(pool.log_target - pool.log_proposal(main), 50.0)
    for place in range(size):
        step = np.zeros(size)
        step[place] = 1e-4
        change = [pool.log_proposal(newton._moved(main, way * step)) for way in (1.0, -1.0)]
        slope = (change[0] - change[1]) / 2e-4
        assert (value.weights * value.centred) @ slope == pytest.approx(
            model.slope[place], abs=2e-5
        )
        centred = slope - value.weights @ slope
        assert value.weights @ centred**2 == pytest.approx(
            model.curvature[place, place], rel=1e-3, abs=1e-5
        )
    same = newton._moved(main, np.zeros(size))
    np.testing.assert_allclose(same.factors, main.factors)
    assert same.degrees == degrees


def test_stochastic_slopes_are_those_of_the_clipped_variance():
    generator, main = np.random.default_rng(7), some_components(1)
    drawn = generator.normal(size=(200, 3))
    summed = ListedSum((main,), ACTION)
    pool = newton.resolve(summed, None, drawn, generator.normal(size=200))
    single = newton.Pool(*(part.astype(np.float32) for part in pool))
    slopes = np.concatenate([part.ravel() for part in _slopes(main, single, 50.0)])
    model = newton.linearise(main, pool, 50.0)
    lower = np.tril_indices(3, -1)
    turns = slopes[12:].reshape(3, 3, 3)
    flat = [slopes[:12], turns[:, lower[0], lower[1]].ravel(), turns[:, range(3), range(3)].ravel()]
    np.testing.assert_allclose(np.concatenate(flat), model.slope, atol=1e-5)


def test_huber_is_half_the_variance_where_nothing_is_clipped():
    h = np.random.default_rng(1).normal(3.0, 0.01, 1000)
    loss = huber(h, 0.2)
    assert loss.value == pytest.approx(0.5 * h.var(), rel=1e-12)
    np.testing.assert_allclose(loss.weights, 1e-3)
    wild = huber(np.append(h, 1e6), 0.2)
    assert abs(wild.centred[:-1]).max() < 0.3  # one outlier does not carry the centre away
    assert huber(np.append(h, np.nan), 0.2).value == math.inf


def test_batches_visit_every_point_before_any_twice():
    rows = batches(np.random.default_rng(0), 100, 7, 30)
    assert rows.shape == (7, 30)
    assert np.array_equal(np.sort(rows.ravel()[:100]), np.arange(100))


def test_splitting_keeps_the_moments():
    main = some_components()
    halves = doubled(np.random.default_rng(8), main)
    assert halves.count == 2 * main.count

    def moments(one):
        weights = np.exp(one.log_weights)
        covariances = np.linalg.inv(one.factors.transpose(0, 2, 1) @ one.factors)
        second = covariances + one.means[:, :, None] * one.means[:, None, :]
        return weights @ one.means, np.einsum("k,kij->ij", weights, second)

    for kept, had in zip(moments(halves), moments(main), strict=True):
        np.testing.assert_allclose(kept, had, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("degrees", [math.inf, 4.0])
def test_the_fast_mixture_equals_the_slow_one(degrees):
    some = some_components()
    arrays = map(jnp.asarray, (some.log_weights, some.means, some.factors))
    mixture = Mixture(*arrays, degrees)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(200, 3)) * 5)
    fast = jax.jit(jax.vmap(mixture.log_terms))(x)
    slow = jax.jit(jax.vmap(lambda y: mixture.log_standard_terms(mixture.standardise(y))))(x)
    np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)


# Margins.


def bent_part(seed=0, dim=3):
    generator = np.random.default_rng(seed)
    shapes = 0.3 * generator.normal(size=(4, dim))
    return WarpedComponents(some_components(seed, 2, dim), Margins(*shapes))


def test_slopes_of_margins_are_derivatives():
    generator, main = np.random.default_rng(6), bent_part()
    pool = newton.resolve(
        ListedSum((main,), ACTION), None, generator.normal(size=(60, 3)), np.zeros(60)
    )
    found = margins.slopes(main, pool.images, pool.log_proposal(main))
    for place in range(18):
        step = np.zeros(18)
        step[place] = 1e-5
        change = [pool.log_proposal(margins.moved(main, way * step)) for way in (1.0, -1.0)]
        np.testing.assert_allclose(
            found[:, place], (change[0] - change[1]) / 2e-5, rtol=1e-3, atol=2e-4
        )
    x, shift = generator.normal(size=(9, 3)), 1e-6
    change = main.margins.pull(x + shift)[1] - main.margins.pull(x - shift)[1]
    slope = margins.slope_of_log_slopes(main.margins, x)
    np.testing.assert_allclose(slope, change / (2 * shift), rtol=1e-5, atol=1e-8)


def test_margins_of_draws_are_found():
    """Quantiles of 20 000 draws become normal ones within .05: 5 standard errors at the median."""
    truth = Margins(*np.array([[1.0, -2.0], [0.5, -1.0], [0.6, -0.3], [-0.3, 0.2]]))
    drawn = truth.push(np.random.default_rng(3).normal(size=(20_000, 2)))
    y, _ = margins.fit_margins(drawn).pull(drawn)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    found = np.quantile(y, levels, axis=0)
    np.testing.assert_allclose(found, np.tile(stats.norm.ppf(levels), (2, 1)).T, atol=0.05)


def test_margins_take_the_place_of_a_mixture_in_many_dimensions():
    """An exact target in the family: one Gaussian accepts little, margins nearly all."""
    generator, dim = np.random.default_rng(4), 24
    root = np.eye(dim) + 0.1 * np.tril(generator.normal(size=(dim, dim)), -1)
    base = Components(np.zeros(1), np.zeros((1, dim)), root[None])
    shapes = np.array([[3.0], [0.0], [0.5], [-0.2]]) * np.ones(dim)
    shapes[0, dim // 2 :] = -3.0
    target = WarpedComponents(base, Margins(*shapes))
    group = Permutation(2, dim // 2)
    summed = ListedSum((target,), action_of(group))

    def differentiate(points):
        values = summed.log_sum(points)
        steps = 1e-5 * np.eye(dim)
        around = [summed.log_sum(points + step) - summed.log_sum(points - step) for step in steps]
        return values, np.stack(around, axis=1) / 2e-5

    def sample(seed):
        drawn = summed.action.fold(summed.sample(np.random.default_rng(seed), 3_000))
        return Sample(drawn, summed.log_sum(drawn))

    task = TrainingTask(
        group, None, None, 0.0, summed.log_sum, sample(1), sample(2), differentiate=differentiate
    )
    plain = OrbitMixture(margins=None, rounds=0, fresh=1_024)(jax.random.key(0), task)
    found = OrbitMixture(fresh=1_024)(jax.random.key(0), task)
    assert isinstance(found, SinhArcsinh)
    assert spread(found, task) < 0.25 * spread(plain, task)
    again = OrbitMixture(fresh=1_024)(jax.random.key(1), task, found)
    assert isinstance(again, SinhArcsinh)
    assert spread(again, task) <= 1.1 * spread(found, task)


# The trainer.


@pytest.mark.parametrize("gradients", [True, False])
def test_one_component_is_exact_for_a_folded_gaussian(gradients):
    """By scores alone, where there are some; by Gauss-Newton where there are none."""
    task = exact_task(orbit_gaussian(), gradients=gradients)
    flow = OrbitMixture()(jax.random.key(6), task)
    assert flow.components == 1
    assert spread(flow, task) < 1e-3
    again = OrbitMixture()(jax.random.key(6), task)
    np.testing.assert_array_equal(flow.factors, again.factors)


def test_widening_flattens_what_stays_rough_and_a_start_is_polished():
    """Three unlike components, of which a mixture of two can make no flat ratio."""
    task = exact_task(some_components(9), 3_000)
    trainer = OrbitMixture(size=2, rounds=3, fresh=2_048)
    rough = trainer(jax.random.key(0), task)
    how = Refinement(components=16, rounds=6, steps=60, rate=0.03)
    told = []
    wide = OrbitMixture(size=2, rounds=3, fresh=2_048, refinement=how)(
        jax.random.key(0), task, None, lambda *words: told.append(words)
    )
    assert wide.components > rough.components
    assert spread(wide, task) < 0.6 * spread(rough, task)
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] <= fractions[-1] <= 1
    again = trainer(jax.random.key(1), task, wide)
    assert again.components == wide.components
    assert spread(again, task) < 1.1 * spread(wide, task)


def test_proposals_of_the_guard_far_down_do_not_hide_what_a_mixture_gains(monkeypatch):
    """A ridge beside which the guard proposes thousands of nats down: a mixture was given up."""

    def ridge(points):
        x, y, rest = points.T
        return -0.5 * (x**2 + ((y - x**2) / 0.1) ** 2 + rest**2)

    rng, count = np.random.default_rng(0), 1_500
    draws = rng.normal(size=(2 * count, 3))
    draws[:, 1] = draws[:, 0] ** 2 + 0.1 * draws[:, 1]
    train, select = (
        Sample(draws[:count], ridge(draws[:count])),
        Sample(draws[count:], ridge(draws[count:])),
    )
    guard = guard_of(draws[:count], 0.02)
    task = TrainingTask(Trivial(3), None, guard, 0.02, ridge, train, select)
    bench = Bench(np.random.default_rng(1), task, action_of(task.group), 4_096)
    one = fit_components(bench.generator, draws[:count, None], draws[:count], 1, 5)
    many = fit_components(bench.generator, draws[:count, None], draws[:count], 12, 25)
    assert ridge(guard_points := bench.judge(many).fresh.points).min() < -1_000
    assert len(guard_points) == 4_096
    assert bench.judge(many).loss < 0.7 * bench.judge(one).loss
    monkeypatch.setattr("folt.training.task.DEEPEST", np.inf)  # the mutant: all count as they are
    monkeypatch.setattr(Bench, "_guarded", 0)
    assert bench.judge(many).loss > 100.0  # the guard's proposals, whatever the mixture


def test_one_component_is_made_flat_where_that_is_asked_for():
    """The spread that a chain is content with leaves γ at .98."""
    task = exact_task(orbit_gaussian())
    near = as_mixture(orbit_gaussian().wider(1.01))
    flow = OrbitMixture(refinement=Refinement(components=4, rounds=1, steps=20))(
        jax.random.key(6), task
    )
    assert flow.components == 1
    assert spread(flow, task) < 1e-3 < spread(near, task)


def test_no_dense_step_is_made_above_the_limit(monkeypatch):
    monkeypatch.setattr("folt.training.orbit_mixture.MOST_PARAMETERS", 5)
    monkeypatch.setattr(newton, "linearise", lambda *_: pytest.fail("a dense step"))
    task = exact_task(orbit_gaussian(), gradients=False)
    flow = OrbitMixture(size=2)(jax.random.key(6), task)
    assert spread(flow, task) < 0.5


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
    bench = Bench(np.random.default_rng(1), arena, action_of(GROUP), 64)
    main = Components(np.log([0.3, 0.7]), draws[:2], np.repeat(np.eye(3)[None], 2, axis=0))
    tails = main.wider(2.5)
    sheltered = bench.sheltered(tails, 0.1)
    on_bench = ListedSum((main, *sheltered.guard.parts), bench.action).log_sum(draws)
    in_fit = Safety(as_mixture(main.joined(tails, 0.1)), arena.guard, 0.02)
    wanted = orbit_sum(in_fit, GROUP).log_sum(draws)
    np.testing.assert_allclose(on_bench - on_bench[0], wanted - wanted[0], atol=1e-9)
    assert np.cov(tails.sample(np.random.default_rng(2), 20_000).T).trace() > 6.0
