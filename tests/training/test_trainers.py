"""What every trainer owes: a proposal that knows its density and accepts, by the key alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from brief import EFFORT
from cases import TRAINERS
from folt.groups import Permutation
from folt.proposals import Gaussian
from folt.types import Distribution, Trainer

TARGET = Gaussian.from_moments(np.array([-2.0, 2.0]), np.array([[1.0, 0.3], [0.3, 0.7]]))


def folded_gaussian(x: jax.Array) -> jax.Array:
    """A Gaussian summed over the swap of its coordinates: one component can match it."""
    return jnp.logaddexp(TARGET.log_prob(x), TARGET.log_prob(x[::-1]))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.extended] if name == "paper flow" else [])
        for name in TRAINERS
    ],
)
def test_a_proposal_that_knows_its_density_by_the_key_alone(name):
    trainer = TRAINERS[name]()
    assert isinstance(trainer, Trainer)
    problem = folt.Problem(
        folded_gaussian, Permutation(2, 1), sampler=lambda key: TARGET.sample(key)
    )
    options = {"flow": trainer, "draws": 200, "effort": EFFORT, "progress": False}
    fit = folt.sample(problem, seed=1, **options)
    proposal = fit.proposal
    assert isinstance(proposal, Distribution)
    x, log_prob = proposal.sample_and_log_prob(jax.random.key(0))
    np.testing.assert_allclose(proposal.log_prob(x), log_prob, rtol=1e-5)
    assert fit.accept_rate > 0.3
    np.testing.assert_array_equal(folt.sample(problem, seed=1, **options).draws, fit.draws)
