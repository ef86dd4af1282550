"""Training a flow by its orbit sum: the sampled gradient is right, and training only improves."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from folt.flows import Gaussian, Mixture, StudentT
from folt.groups import Group, Permutation, Reflection
from folt.models import Banana
from folt.problem.batching import map_keys, map_points
from folt.problem.fold import Folded
from folt.training import Arena, OrbitFlow, Sample, Setting
from folt.training.descent import carried, cosine_rates, descend, rows_of_batches, trainee
from folt.training.gauss_newton import huber
from folt.training.orbit_flow import Pace
from folt.training.pool import Pool
from folt.training.symmetrised import ClippedVariance, SampledOrbit, WholeOrbit
from folt.types import Density, Distribution

GROUP = Permutation(3, 1)
REPEATS = 400


class UniformOrbit(SampledOrbit):
    """The mutant: every image is equally likely to be chosen."""

    def image(self, flow: Distribution, key: jax.Array, z: jax.Array) -> jax.Array:
        return self.group.random_image(key, z)


def overlapping_flow() -> Mixture:
    """Two components whose images overlap, so that several elements share the responsibility."""
    rng = np.random.default_rng(0)
    factors = np.tril(np.eye(3) + 0.3 * rng.standard_normal((2, 3, 3)))
    means = np.array([[-0.5, 0.2, 0.6], [-0.2, 0.0, 0.9]])
    return Mixture(jnp.array([-0.4, -1.1]), jnp.asarray(means), jnp.asarray(factors))


def flat(tree: object) -> jax.Array:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@eqx.filter_jit
def gradient(objective: object, flow: Distribution, batch: object) -> jax.Array:
    return flat(eqx.filter_grad(lambda flow: objective(flow, batch))(flow))


@eqx.filter_jit
def gradients(objective: object, flow: Distribution, keys: jax.Array, z: jax.Array) -> jax.Array:
    return jax.vmap(lambda key: gradient(objective, flow, (key, z)))(keys)


@eqx.filter_jit
def weighted_gradient(flow: Distribution, z: jax.Array, uniform: bool) -> jax.Array:
    """Σ_g r_g ∇ log q(g·z) over every element, averaged over the points."""

    def at(z: jax.Array) -> jax.Array:
        images = GROUP.orbit(z)
        shares = jax.nn.softmax(Folded(flow, GROUP).log_terms(z))
        shares = jnp.full_like(shares, 1 / GROUP.order) if uniform else shares
        slopes = jax.vmap(lambda x: flat(eqx.filter_grad(lambda f: f.log_prob(x))(flow)))(images)
        return shares @ slopes

    return jnp.mean(jax.vmap(at)(z), axis=0)


@pytest.fixture(scope="module")
def points() -> jax.Array:
    draws = jax.random.normal(jax.random.key(1), (16, 3)) * 0.8
    return jax.vmap(GROUP.fold)(draws)


def test_responsibilities_average_to_the_gradient_of_the_orbit_sum(points: jax.Array) -> None:
    """An identity, to rounding; equal shares, the mutant, break it."""
    flow = overlapping_flow()
    whole = -gradient(WholeOrbit(GROUP), flow, (jax.random.key(0), points))
    np.testing.assert_allclose(weighted_gradient(flow, points, False), whole, atol=1e-12)
    mutant = weighted_gradient(flow, points, True)
    assert np.max(np.abs(mutant - whole)) > 0.1


def worst_deviation(objective: SampledOrbit, points: jax.Array) -> float:
    """Largest deviation of the mean sampled gradient from the exact one, in standard errors."""
    flow = overlapping_flow()
    exact = gradient(WholeOrbit(GROUP), flow, (jax.random.key(0), points))
    keys = jax.random.split(jax.random.key(2), REPEATS)
    sampled = np.asarray(gradients(objective, flow, keys, points))
    error = sampled.std(axis=0) / np.sqrt(REPEATS)
    moving = error > 0
    return float(np.max(np.abs(sampled.mean(axis=0) - exact)[moving] / error[moving]))


def test_sampled_gradient_is_unbiased(points: jax.Array) -> None:
    """20 parameters at 5 standard errors: one false alarm in 80 000 keys."""
    assert worst_deviation(SampledOrbit(GROUP), points) < 5
    assert worst_deviation(UniformOrbit(GROUP), points) > 5


@eqx.filter_jit
def value(objective: ClippedVariance, flow: Distribution, pool: Pool) -> jax.Array:
    return objective(flow, pool)


def half_variance(flow: Distribution, pool: Pool) -> jax.Array:
    """Half the variance of h, its centre differentiated as well."""
    kept = jax.vmap(jax.vmap(flow.log_prob))(jnp.asarray(pool.images))
    terms = jnp.column_stack([kept, pool.log_rest])
    return 0.5 * jnp.var(pool.log_target - jax.nn.logsumexp(terms, axis=1))


def test_clipped_variance_is_the_judged_loss() -> None:
    """The objective is the Huber loss that judges; holding its centre loses no slope."""
    flow, rng = overlapping_flow(), np.random.default_rng(3)
    pool = Pool(rng.standard_normal((40, 2, 3)), rng.normal(-6, 1, 40), rng.normal(-4, 0.5, 40))
    expected = huber(pool.residuals(flow), 0.2).value
    assert float(value(ClippedVariance(0.2), flow, pool)) == pytest.approx(expected, rel=1e-10)
    slope = gradient(ClippedVariance(100.0), flow, pool)
    np.testing.assert_allclose(slope, gradient(half_variance, flow, pool), atol=1e-12)


def test_only_the_chosen_part_is_trained(points: jax.Array) -> None:
    flow = overlapping_flow()
    learner = trainee(flow, lambda flow: flow.means)
    batches = (jax.random.split(jax.random.key(1), 3), jnp.stack([points] * 3))
    after, losses = descend(SampledOrbit(GROUP), learner, batches, jnp.full(3, 1e-2))
    assert np.all(np.isfinite(losses))
    assert np.all(np.asarray(after.flow.means != flow.means))
    assert eqx.tree_equal(eqx.tree_at(lambda flow: flow.means, after.flow, flow.means), flow)


def test_twins_share_values_not_precision() -> None:
    flow = overlapping_flow()
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), flow)
    back = carried(single, flow)
    assert all(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(back))
    np.testing.assert_allclose(flat(back), flat(flow), rtol=1e-6)


def test_batches_visit_every_point_before_any_twice() -> None:
    rows = rows_of_batches(np.random.default_rng(0), 30, 4, 15)
    assert rows.shape == (4, 15)
    assert np.array_equal(np.bincount(rows.ravel()), np.full(30, 2))
    rates = cosine_rates(0, 200, 200, 1.0)
    assert 0 < rates[-1] < 1e-3 < rates[0] < rates[20] <= 1.0
    assert np.array_equal(cosine_rates(100, 50, 200, 1.0), rates[100:150])


PACE = Pace(steps=60, batch=256, rate=5e-3)
SHORT = Setting(rounds=2, fresh=2048)
SMALL = OrbitFlow(
    layers=4,
    width=16,
    knots=6,
    rough=0.2,
    likelihood_rounds=3,
    regression=SHORT._replace(rounds=4),
    pace=PACE,
)


def log_folded(density: Density, group: Group, points: np.ndarray) -> np.ndarray:
    return map_points(Folded.log_prob, Folded(density, group), points, terms=group.order)


@pytest.fixture(scope="module")
def arena() -> Arena:
    """A banana that is even in its first coordinate, folded."""
    group = Reflection(2, (0,))
    target = Folded(Banana((1.0, 0.5)), group, invariant=True)
    draws = map_keys(Folded.sample, target, jax.random.key(5), 2500)
    values = map_points(Folded.log_prob, target, draws)
    guard = StudentT(jnp.asarray(draws.mean(axis=0)), 0.3 * jnp.eye(2), 5.0)
    return Arena(
        group=group,
        target=target,
        guard=guard,
        guard_weight=0.02,
        evaluate=lambda points: map_points(Folded.log_prob, target, points),
        training=Sample(draws[:2000], values[:2000]),
        selection=Sample(draws[2000:], values[2000:]),
    )


@pytest.fixture(scope="module")
def start(arena: Arena) -> Gaussian:
    """One Gaussian for the whole banana."""
    moments = arena.training.points.mean(axis=0), np.cov(arena.training.points.T)
    return Gaussian.from_moments(*moments)


@pytest.fixture(scope="module")
def messages() -> list[tuple[float, str]]:
    return []


@pytest.fixture(scope="module")
def fitted(arena: Arena, start: Gaussian, messages: list[tuple[float, str]]) -> Distribution:
    return SMALL(jax.random.key(6), arena, start, lambda *news: messages.append(news))


def core_width(h: np.ndarray) -> float:
    """Width of the central 80 % of h."""
    low, high = np.quantile(h, [0.1, 0.9])
    return float(high - low)


def test_training_improves_on_draws_it_never_saw(
    arena: Arena, start: Gaussian, fitted: Distribution
) -> None:
    """Held-out likelihood up by much more than its standard error, h much flatter."""
    draws = map_keys(Folded.sample, arena.target, jax.random.key(7), 2000)
    before, after = (log_folded(flow, arena.group, draws) for flow in (start, fitted))
    gain = after - before
    assert gain.mean() > 0.2 + 5 * gain.std() / np.sqrt(gain.size)
    log_target = map_points(Folded.log_prob, arena.target, draws)
    assert core_width(log_target - after) < 0.5 * core_width(log_target - before)
    assert eqx.tree_equal(fitted.base.base.base, start)


def test_progress_names_stages(fitted: Distribution, messages: list[tuple[float, str]]) -> None:
    fractions = [fraction for fraction, _ in messages]
    assert fractions == sorted(fractions)
    assert fractions[0] > 0
    assert fractions[-1] <= 1
    assert [message.split(":")[0] for _, message in messages] == (
        ["likelihood"] * 3 + ["regression"] * 4
    )


def test_same_key_same_flow(arena: Arena, start: Gaussian, fitted: Distribution) -> None:
    again = SMALL(jax.random.key(6), arena, start)
    assert eqx.tree_equal(again, fitted)


def test_never_worse_than_the_start(arena: Arena, start: Gaussian) -> None:
    """Steps so large that they ruin the flow: what comes back is the start itself."""
    reckless = dataclasses.replace(
        SMALL, likelihood_rounds=0, regression=SHORT, pace=PACE._replace(rate=1e3)
    )
    assert reckless(jax.random.key(8), arena, start) is start


def test_flat_start_is_returned(arena: Arena) -> None:
    """A start that is exact needs no couplings."""
    exact = Gaussian.from_moments([2.0, 3.0], 4 * np.eye(2))

    def evaluate(points: np.ndarray) -> np.ndarray:
        return log_folded(exact, arena.group, points)

    training, selection = (
        Sample(sample.points, evaluate(sample.points))
        for sample in (arena.training, arena.selection)
    )
    easy = arena._replace(
        guard=None, guard_weight=0.0, evaluate=evaluate, training=training, selection=selection
    )
    assert SMALL(jax.random.key(0), easy, exact) is exact
