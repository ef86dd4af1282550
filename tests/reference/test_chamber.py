"""Chains under one labelling: their fold is the posterior's, their metric that of a Gaussian."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from folt.groups import Permutation, Reflection, SignedPermutation
from folt.problem import Problem
from folt.proposals.action import action_of
from folt.proposals.components import Components
from folt.proposals.sums import ListedSum
from folt.reference.exploration.chamber import Chamber, fisher_mean
from folt.reference.host_moves import JumpKernel
from folt.reference.landscape import Landscape
from folt.reference.moving import Hamiltonian

LEVEL = 1e-5  # six checks of two coordinates each: a false alarm about once in 8000 runs
MEAN, FACTOR = np.array([-0.6, 0.7]), np.array([[1.4, 0.0], [0.8, 0.9]])


def symmetric(group):
    """A Gaussian summed over all labels, which overlap."""
    total = ListedSum((Components(np.zeros(1), MEAN[None], FACTOR[None]),), action_of(group))
    matrices, factor = jnp.asarray(action_of(group).matrices), jnp.asarray(FACTOR)

    def log_density(x):
        u = (matrices @ x - MEAN) @ factor.T
        return jnp.logaddexp.reduce(-0.5 * jnp.sum(u**2, axis=1))

    return Problem(log_density, group), total


@pytest.mark.parametrize("group", [Permutation(2, 1), Reflection(2, (0,)), SignedPermutation(2, 1)])
def test_the_shares_of_all_labels_sum_to_one_and_slopes_are_those_of_the_density(group):
    target, _ = symmetric(group)
    action, points = action_of(group), np.random.default_rng(0).normal(size=(20, 2))
    chamber = Chamber(Landscape(target), action, np.array([-1.0, 2.5]))
    shares = np.exp(chamber.log_shares(action.images(points).reshape(-1, 2)))
    np.testing.assert_allclose(shares.reshape(20, -1).sum(axis=1), 1.0, rtol=1e-12)
    best = chamber.aligned(points)
    assert np.all(chamber.log_shares(best) >= np.log(shares.reshape(20, -1)).max(axis=1) - 1e-12)
    values, slopes = chamber.with_gradients(points)
    np.testing.assert_allclose(values, chamber(points), rtol=1e-12)
    steps = 1e-6 * np.eye(2)
    differences = [(chamber(points + h) - chamber(points - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(slopes, np.stack(differences, axis=1), rtol=1e-5, atol=1e-7)


def in_a_chamber(weighed):
    """Exact draws, labelled by their shares, after paths with a metric of one labelling."""
    target, total = symmetric(Permutation(2, 1))
    action, generator = action_of(target.group), np.random.default_rng(1)
    chamber = Chamber(Landscape(target), action, np.array([-1.0, 1.0]))
    exact = total.sample(generator, 8_000)
    own = np.exp(chamber.log_shares(exact))
    start = action.move((generator.uniform(size=len(own)) > own).astype(int), exact)
    if not weighed:  # the mutant: a wall that does not know of the other labels
        chamber.log_shares = lambda points: points @ chamber.directions[0]
        chamber.with_gradients = lambda points: (chamber(points), np.zeros_like(points))
    metric = np.linalg.inv(FACTOR.T @ FACTOR)
    chains = Hamiltonian(chamber, JumpKernel.around(start[:9], metric, 1.0), start, metric, 0.8)
    chains.size.log_average = math.log(0.8)
    for _ in range(6):
        chains.move(generator)
        chains.jump(generator)
    fresh = action.fold(total.sample(generator, 20_000))
    ends = action.fold(chains.states.points)
    return min(stats.ks_2samp(ends[:, j], fresh[:, j]).pvalue for j in range(2))


def test_chains_in_a_chamber_leave_the_fold_alone():
    assert in_a_chamber(weighed=True) > LEVEL
    assert in_a_chamber(weighed=False) < LEVEL


def test_the_fisher_mean_is_exact_on_gaussians_whatever_the_draws():
    generator = np.random.default_rng(2)
    root = generator.normal(size=(5, 5))
    precision, draws = root @ root.T + np.eye(5), generator.standard_t(3, size=(40, 5))
    covariance = np.cov(draws.T, bias=True)
    found = fisher_mean(covariance, -draws @ precision)
    np.testing.assert_allclose(found, np.linalg.inv(precision), rtol=1e-4, atol=1e-6)


def test_refused_jumps_cost_no_gradient():
    target, total = symmetric(Permutation(2, 1))
    landscape, start = Landscape(target), total.sample(np.random.default_rng(3), 64)
    far = JumpKernel.around(start[:9] + 100.0, np.eye(2), 1.0)
    chains = Hamiltonian(landscape, far, start, np.eye(2), 0.8)
    before = landscape.gradients
    chains.jump(np.random.default_rng(4))
    assert (landscape.gradients, landscape.values) == (before, 64)
