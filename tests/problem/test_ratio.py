"""The log ratio: whole and truncated orbits, broken symmetry, exactness and mutants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from folt.chains import sweeps
from folt.groups import Permutation, Reflection, Trivial
from folt.problem import Problem
from folt.problem.ratio import LogRatio, Target, _Truncated
from folt.proposals import Gaussian, Mixture
from folt.proposals.fold import Folded

LEVEL = 1e-4  # six goodness-of-fit checks: a false alarm in this file about once in 1500 runs


@pytest.fixture(scope="module")
def asymmetric():
    """A density on R^3 without symmetry under relabelling, and a proposal that differs."""
    group = Permutation(3, 1)
    target = Gaussian(jnp.array([0.0, 1.0, 0.4]), jnp.eye(3))
    # Mass in the chambers of the identity and of both rotations, unequal, so that every
    # truncation keeps some proposals and taking one rotation for the other shows.
    rotation = group.element(3)
    proposal = Mixture(
        jnp.log(jnp.array([0.2, 0.4, 0.4])),
        jnp.stack(
            [
                jnp.array([-0.5, 0.4, 1.3]),
                group.act(rotation, jnp.array([-1.3, -0.2, 0.6])),
                group.act(group.inverse(rotation), jnp.array([0.3, 1.1, 2.2])),
            ]
        ),
        1.3 * jnp.broadcast_to(jnp.eye(3), (3, 3, 3)),
    )
    problem = Problem(lambda x: target.log_prob(x), group, invariant=False)
    return problem, target, proposal


def mapped(function):
    """The function of many points or keys in one compiled program, not one for every operation."""
    return jax.jit(jax.vmap(function))


def chain_states(ratio, target, group, chains=6000, steps=15, seed=0):
    """Exact starts on D, a few independence steps: the states at the end."""
    key, start_key, draw_key = jax.random.split(jax.random.key(seed), 3)
    starts = mapped(lambda k: group.fold(target.sample(k)))(jax.random.split(start_key, chains))
    points, h = ratio.draw(draw_key, chains * steps)
    log_uniforms = np.log(np.asarray(jax.random.uniform(key, (chains, steps))))
    swept = sweeps(log_uniforms, ratio.at(starts), h.reshape(chains, steps))
    states = jnp.concatenate([starts[:, None], points.reshape(chains, steps, -1)], axis=1)
    last = np.asarray(swept.source[:, -1]) + 1
    return np.asarray(states)[np.arange(chains), last], np.asarray(swept.accepted)


def same_law(a, b):
    """Smallest p-value over coordinates, Bonferroni-corrected."""
    return a.shape[1] * min(stats.ks_2samp(a[:, j], b[:, j]).pvalue for j in range(a.shape[1]))


def exact_states(target, group, count=30_000, seed=99):
    keys = jax.random.split(jax.random.key(seed), count)
    return np.asarray(mapped(lambda k: group.fold(target.sample(k)))(keys))


@pytest.mark.parametrize("kept", [None, (0,), (0, 3), (0, 1, 4)])
def test_every_truncation_is_exact(asymmetric, kept):
    problem, target, proposal = asymmetric
    ratio = LogRatio(Target(problem), proposal, problem.group, kept)
    states, accepted = chain_states(ratio, target, problem.group)
    assert accepted.mean() > 0.05
    assert same_law(states, exact_states(target, problem.group)) > LEVEL


class FoldingInsteadOfInverse(Permutation):
    """A group that takes the folding element for its inverse."""

    def inverse(self, element):
        return element


def test_mutant_folding_element_instead_of_its_inverse(asymmetric):
    problem, target, proposal = asymmetric
    # Position 3 is a rotation of the three labels, which is not its own inverse.
    element = problem.group.element(3)
    assert not np.array_equal(element, problem.group.inverse(element))
    ratio = LogRatio(Target(problem), proposal, FoldingInsteadOfInverse(3, 1), (0, 3))
    states, _ = chain_states(ratio, target, problem.group)
    assert same_law(states, exact_states(target, problem.group)) < LEVEL


def test_truncation_must_keep_the_identity(asymmetric):
    problem, _, proposal = asymmetric
    with pytest.raises(ValueError, match="identity"):
        LogRatio(Target(problem), proposal, problem.group, (1, 2))


def test_keeping_everything_equals_the_whole_orbit(asymmetric):
    problem, _, proposal = asymmetric
    points = jax.random.normal(jax.random.key(2), (50, 3))
    every = tuple(range(problem.group.order))
    whole = LogRatio(Target(problem), proposal, problem.group).at(points)
    listed = LogRatio(Target(problem), proposal, problem.group, every).at(points)
    np.testing.assert_allclose(whole, listed, rtol=1e-12)
    draws, h = LogRatio(Target(problem), proposal, problem.group, every).draw(jax.random.key(4), 64)
    assert np.isfinite(h).all()
    assert draws.shape == (64, 3)


def test_truncated_mass_is_the_surviving_share(asymmetric):
    """The integral of q_N over D is the probability of surviving (importance check)."""
    problem, _, proposal = asymmetric
    orbit = _Truncated(proposal, problem.group, (0, 3))
    wide = Folded(Gaussian(jnp.full(3, 0.4), 0.5 * jnp.eye(3)), problem.group)
    keys = jax.random.split(jax.random.key(7), 40_000)
    z = mapped(wide.sample)(keys)
    weight = np.exp(mapped(lambda x: orbit.log_prob(x) - wide.log_prob(x))(z))
    alive = np.asarray(mapped(lambda k: orbit.survives(proposal.sample(k)))(keys))
    error = np.sqrt(weight.var() / weight.size + alive.var() / alive.size)
    assert abs(weight.mean() - alive.mean()) < 4.5 * error  # false alarm below 1e-5


def test_invariant_shortcut_equals_the_orbit_sum():
    group = Permutation(3, 2)
    bump = Gaussian(jnp.arange(6.0), jnp.eye(6))
    symmetric = Problem(lambda x: Folded(bump, group).log_prob(x) - jnp.log(6.0), group)
    points = 3.0 * jax.random.normal(jax.random.key(1), (40, 6))
    short = mapped(Folded(symmetric, group, invariant=True).log_prob)(points)
    full = mapped(Folded(symmetric, group, invariant=False).log_prob)(points)
    np.testing.assert_allclose(short, full, rtol=1e-12)


def test_full_orbit_ratio_is_the_same_on_every_image(asymmetric):
    problem, _, proposal = asymmetric
    ratio = LogRatio(Target(problem), proposal, problem.group)
    orbit = problem.group.orbit(jnp.array([0.3, -1.0, 2.0]))
    np.testing.assert_allclose(ratio.at(orbit), np.full(6, ratio.at(orbit)[0]), rtol=1e-12)


def test_unfolding_recovers_a_broken_symmetry(asymmetric):
    """fold, then unfold with probability proportional to the density: the original law."""
    problem, target, _ = asymmetric
    folded = problem.folded()
    keys = jax.random.split(jax.random.key(5), 20_000)
    drawn = mapped(target.sample)
    original = drawn(keys)
    back = mapped(lambda k, x: folded.unfold(k, problem.group.fold(x)))(
        jax.random.split(jax.random.key(6), 20_000), original
    )
    fresh = drawn(jax.random.split(jax.random.key(7), 20_000))
    assert same_law(np.asarray(back), np.asarray(fresh)) > LEVEL
    uniform = mapped(problem.group.random_image)(keys, original)
    assert same_law(np.asarray(uniform), np.asarray(fresh)) < LEVEL  # the mutant


def test_proposal_domain_is_a_fundamental_domain(asymmetric):
    _, _, proposal = asymmetric
    group = Permutation(3, 1)
    folded = Folded(proposal, group)
    x = jnp.array([0.3, -1.0, 2.0])
    images = group.orbit(x)
    chosen = mapped(folded.most_likely_image)(images)
    np.testing.assert_allclose(chosen, jnp.broadcast_to(chosen[0], chosen.shape))
    log_probs = mapped(proposal.log_prob)
    assert float(log_probs(chosen)[0]) == pytest.approx(float(log_probs(images).max()))


def test_outside_the_support_is_a_rejection_not_a_fault():
    problem = Problem(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), Trivial(1))
    ratio = LogRatio(Target(problem), Gaussian(jnp.zeros(1), jnp.eye(1)), problem.group)
    _, h = ratio.draw(jax.random.key(0), 500)
    assert np.isneginf(h).any()
    assert not np.isnan(h).any()


def test_evaluations_are_counted():
    group = Reflection(2, (0,))
    invariant = Target(Problem(lambda x: -jnp.sum(x**2), group))
    invariant(jnp.zeros((30, 2)))
    broken = Target(Problem(lambda x: -jnp.sum((x - 1) ** 2), group, invariant=False))
    broken(jnp.zeros((30, 2)))
    assert invariant.evaluations["value"] == 30
    assert broken.evaluations["value"] == 60


def test_memory_stays_bounded_for_a_large_orbit():
    """s = 120, n = 20 000, d = 10: chunks hold far fewer terms than 2.4 million."""
    from folt.batching import TERMS_PER_CHUNK, chunk_length

    assert chunk_length(20_000, 120) * 120 <= TERMS_PER_CHUNK
    group = Permutation(5, 2)
    flow = Mixture(jnp.zeros(4), jnp.zeros((4, 10)), jnp.broadcast_to(jnp.eye(10), (4, 10, 10)))
    problem = Problem(lambda x: -0.5 * jnp.sum(x**2), group)
    ratio = LogRatio(Target(problem), flow, group)
    h = ratio.at(jax.random.normal(jax.random.key(0), (2000, 10)))
    np.testing.assert_allclose(h, h[0], atol=1e-9)
