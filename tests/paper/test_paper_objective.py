"""The paper's objective is the printed formula, and training by it fits the density."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import logsumexp

from folt.groups import Reflection
from folt.paper import training as paper
from folt.paper.flow import SpectralCoupling, refreshed_couplings
from folt.proposals import Gaussian
from folt.proposals.fold import Folded
from folt.types import Density

pytestmark = pytest.mark.extended

STEPS = 250
TRACES: list[int] = []


class Counted(SpectralCoupling):
    """A coupling that counts how often its density is traced."""

    def log_prob(self, x: jax.Array) -> jax.Array:
        TRACES.append(1)
        return super().log_prob(x)


def target() -> Folded:
    """Two mirrored Gaussians of correlated coordinates, folded onto x₀ ≥ 0."""
    one = Gaussian.from_moments(np.array([2.5, 0.5]), np.array([[0.5, 0.4], [0.4, 0.6]]))
    return Folded(one, Reflection(2, (0,)))


def flow(seed: int = 0) -> Counted:
    return Counted(2, 4, 16, jax.random.key(seed))


@eqx.filter_jit
def draws_of(distribution: Folded, key: jax.Array) -> jax.Array:
    return jax.vmap(distribution.sample)(jax.random.split(key, 2000))


@eqx.filter_jit
def log_ratio(distribution: Density, flow: Density, points: jax.Array) -> jax.Array:
    return jax.vmap(lambda z: distribution.log_prob(z) - flow.log_prob(z))(points)


@pytest.fixture(scope="module")
def training() -> jax.Array:
    return draws_of(target(), jax.random.key(1))


@pytest.fixture(scope="module")
def fitted(training: jax.Array) -> tuple[Counted, list[tuple[int, float]]]:
    seen: list[tuple[int, float]] = []
    result = paper.fit_paper_flow(
        jax.random.key(2), flow(), training, target(), STEPS, lambda *news: seen.append(news)
    )
    return result, seen


@eqx.filter_jit
def losses(flow: Gaussian, batch: paper.ValuedDraws) -> jax.Array:
    return jnp.stack([paper.objective(flow, batch, ramp, 3) for ramp in (0.0, 0.4, 1.0)])


def test_objective_is_the_formula() -> None:
    """Against NumPy, for a Gaussian flow and target whose gradients are known."""
    rng = np.random.default_rng(0)
    points, values, slopes = rng.standard_normal((9, 2)), rng.standard_normal(9), np.ones((9, 2))
    mean, precision = np.array([0.3, -0.2]), np.diag([4.0, 0.25])
    gaussian = Gaussian(jnp.asarray(mean), jnp.diag(jnp.array([2.0, 0.5])))
    quadratic = np.einsum("ni,ij,nj->n", points - mean, precision, points - mean)
    log_q = -0.5 * quadratic - np.log(2 * np.pi)
    h = values - log_q
    oscillation = 0.1 * (logsumexp(h / 0.1) + logsumexp(-h / 0.1))
    lengths = np.linalg.norm(slopes + (points - mean) @ precision, axis=1)
    expected = [
        -log_q.mean() + r * (0.1 * oscillation + 0.05 * lengths[:3].mean()) for r in (0, 0.4, 1)
    ]
    batch = paper.ValuedDraws(*(jnp.asarray(part) for part in (points, values, slopes)))
    np.testing.assert_allclose(losses(gaussian, batch), expected, rtol=1e-9)


def test_soft_oscillation_brackets_the_oscillation() -> None:
    h = jnp.asarray(np.random.default_rng(1).standard_normal(100))
    excess = float(paper.soft_oscillation(h) - (h.max() - h.min()))
    assert 0 <= excess <= 2 * paper.TEMPERATURE * np.log(100)


def test_ramps_and_learning_rate() -> None:
    step = jnp.array([0.0, 150.0, 300.0, 650.0, 1000.0])
    released = paper.TrainingSchedule(*(1000.0 * jnp.array([1.0, *paper.RELEASED_RAMP])))
    printed = paper.TrainingSchedule(*(1000.0 * jnp.array([1.0, *paper.PRINTED_RAMP])))
    np.testing.assert_allclose(released.ramp(step), [0, 0, 0, 0.5, 1], atol=1e-12)
    np.testing.assert_allclose(printed.ramp(step), [0, 0.5, 1, 1, 1], atol=1e-12)
    cosine = optax.cosine_decay_schedule(1e-3, 1000)
    np.testing.assert_allclose(released.learning_rate(step), cosine(step), atol=1e-12)


def test_training_fits_the_density(
    fitted: tuple[Counted, list[tuple[int, float]]],
) -> None:
    """Held-out Kullback-Leibler divergence, estimated from draws that training never saw."""
    held_out = draws_of(target(), jax.random.key(99))
    before = float(jnp.mean(log_ratio(target(), flow(), held_out)))
    after = float(jnp.mean(log_ratio(target(), fitted[0], held_out)))
    assert before > 1.0
    assert after < 0.25 * before


def test_the_result_is_certified_in_double_precision(
    fitted: tuple[Counted, list[tuple[int, float]]],
) -> None:
    for weight in fitted[0].conditioners.weights:
        assert weight.dtype == jnp.float64
        assert np.all(np.linalg.norm(np.asarray(weight), 2, axis=(1, 2)) <= 1 + 1e-12)


def test_progress_comes_in_blocks(fitted: tuple[Counted, list[tuple[int, float]]]) -> None:
    steps, values = zip(*fitted[1], strict=True)
    assert steps == (100, 200, 250)
    assert values[0] > values[-1]


def test_same_key_same_flow_and_one_compilation(
    training: jax.Array, fitted: tuple[Counted, list[tuple[int, float]]]
) -> None:
    traced = len(TRACES)
    again = paper.fit_paper_flow(jax.random.key(2), flow(), training, target(), STEPS)
    assert len(TRACES) == traced
    for one, other in zip(jax.tree.leaves(fitted[0]), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_compiled_scan_equals_the_plain_loop(training: jax.Array) -> None:
    """Three steps by hand with Optax; the 97 that the block has left over must do nothing."""
    steps, key = 3, jax.random.key(5)
    fast = paper.fit_paper_flow(key, flow(3), training, target(), steps, ramp=(0.0, 0.0))
    optimiser = optax.chain(
        optax.clip_by_global_norm(5.0), optax.adam(optax.cosine_decay_schedule(1e-3, steps))
    )
    slow = paper._cast(flow(3), jnp.float32)
    state = optimiser.init(eqx.filter(slow, eqx.is_inexact_array))
    valued = paper._valued(slow, training, target())
    gradient = eqx.filter_jit(eqx.filter_grad(paper.objective))
    for step in range(steps):
        batch = paper._minibatch(jax.random.fold_in(key, step), valued)
        ramp = jnp.float32(min(step, 1))
        updates, state = optimiser.update(gradient(slow, batch, ramp), state)
        slow = refreshed_couplings(eqx.apply_updates(slow, updates))
    slow = paper._cast(slow, jnp.float64).certified()
    points = training[:50]
    np.testing.assert_allclose(
        log_ratio(target(), fast, points), log_ratio(target(), slow, points), atol=1e-5
    )
    assert np.max(np.abs(log_ratio(fast, flow(3), points))) > 1e-3, "three steps should move it"


def test_a_fault_at_a_training_draw_is_named(training: jax.Array) -> None:
    poisoned = training.at[7, 0].set(jnp.nan)
    with pytest.raises(ValueError, match="not finite at 1 of 2000 training draws, first at draw 7"):
        paper.fit_paper_flow(jax.random.key(0), flow(), poisoned, target(), 10)


@pytest.mark.parametrize(("steps", "ramp"), [(0, (0.0, 1.0)), (10, (0.5, 0.2))])
def test_wrong_arguments_are_refused(
    training: jax.Array, steps: int, ramp: tuple[float, float]
) -> None:
    with pytest.raises(ValueError, match="expected steps >= 1"):
        paper.fit_paper_flow(jax.random.key(0), flow(), training, target(), steps, ramp=ramp)


def test_draws_of_the_wrong_dimension_are_refused(training: jax.Array) -> None:
    with pytest.raises(ValueError, match=r"\(n, 2\).* got \(2000, 1\)"):
        paper.fit_paper_flow(jax.random.key(0), flow(), training[:, :1], target(), 10)
