"""Training by stochastic steps: the loss is the judged one, batches and rates are right."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from folt.flows import Mixture
from folt.training.descent import (
    ClippedVariance,
    cosine_rates,
    descend,
    rows_of_batches,
    trainee,
)
from folt.training.gauss_newton import huber
from folt.training.pool import Pool
from folt.types import Distribution


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


def random_pool(rng: np.random.Generator, *shape: int) -> Pool:
    images = rng.standard_normal((*shape, 2, 3))
    return Pool(images, rng.normal(-6, 1, shape), rng.normal(-4, 0.5, shape))


def test_only_the_chosen_part_is_trained() -> None:
    flow = overlapping_flow()
    learner = trainee(flow, lambda flow: flow.means)
    batches = random_pool(np.random.default_rng(1), 3, 16)
    after, losses = descend(ClippedVariance(0.2), learner, batches, jnp.full(3, 1e-2))
    assert np.all(np.isfinite(losses))
    assert np.all(np.asarray(after.flow.means != flow.means))
    assert eqx.tree_equal(eqx.tree_at(lambda flow: flow.means, after.flow, flow.means), flow)


def test_batches_visit_every_point_before_any_twice() -> None:
    rows = rows_of_batches(np.random.default_rng(0), 30, 4, 15)
    assert rows.shape == (4, 15)
    assert np.array_equal(np.bincount(rows.ravel()), np.full(30, 2))
    rates = cosine_rates(0, 200, 200, 1.0)
    assert 0 < rates[-1] < 1e-3 < rates[0] < rates[20] <= 1.0
    assert np.array_equal(cosine_rates(100, 50, 200, 1.0), rates[100:150])
