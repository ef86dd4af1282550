"""What every reference sampler owes: draws of the folded target, by the key alone, counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import SAMPLERS
from folt.groups import Permutation
from folt.problem import Problem
from folt.proposals import standard_normal
from folt.reference import Given
from folt.types import ReferenceSampler

CENTRES = jnp.array([[-1.5, 1.5], [1.5, -1.5]])


def pair() -> Problem:
    """Two unit normals that swap their labels, with an exact sampler and a prior."""

    def log_density(x):
        return jax.nn.logsumexp(-0.5 * jnp.sum((x - CENTRES) ** 2, axis=1))

    def draw(key):
        which, noise = jax.random.split(key)
        return CENTRES[jax.random.randint(which, (), 0, 2)] + jax.random.normal(noise, (2,))

    return Problem(log_density, Permutation(2, 1), prior=standard_normal(2, 3.0), sampler=draw)


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_of_the_folded_target_by_the_key_alone(name):
    """Means within 6 standard errors from the effective size: a false alarm in 10^8."""
    sampler, told = SAMPLERS[name](), []
    assert isinstance(sampler, ReferenceSampler)
    run = sampler(jax.random.key(1), pair(), lambda fraction, words: told.append(fraction))
    assert run.draws.ndim == 3
    assert (run.draws[..., 0] <= run.draws[..., 1]).all()
    assert told == sorted(told)
    assert all(count >= 0 for count in run.evaluations.values())
    # Sorted, the centre is N(0, 1/2) and half the gap a normal about 1.5 folded to be positive.
    gap = 0.5 * (run.draws[..., 1] - run.draws[..., 0])
    exact = np.abs(1.5 + np.sqrt(0.5) * np.random.default_rng(0).standard_normal(10**6))
    for value, mean, spread in (
        (run.draws.mean(axis=2), 0.0, np.sqrt(0.5)),
        (gap, exact.mean(), exact.std()),
    ):
        assert abs(value.mean() - mean) < 6 * spread / np.sqrt(min(run.ess, value.size))
    again = sampler(jax.random.key(1), pair())
    np.testing.assert_array_equal(again.draws, run.draws)
    if not isinstance(sampler, Given):
        assert not np.array_equal(sampler(jax.random.key(2), pair()).draws, run.draws)
