"""Kernels: sweeps equal single steps, stationarity from exact starts, mutants that must fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from folt import chains as chains_room
from folt.chains import accepts, relabelled_sweep, run_chains, sweeps
from folt.groups import Permutation, Reflection
from folt.proposals import Gaussian
from folt.proposals.fold import Folded

# Every goodness-of-fit test below is run at this level; eight of them make the chance of a false
# alarm in this file about 1e-3.
LEVEL = 1e-4
CHAINS = 20_000


def one_step_ratio_law(key, sign=1.0, log_q_error=None, fold_error=None):
    """Exact starts, a few steps each: the final states must again be draws of the target.

    Target: N(1, 1) on R folded by reflection; proposal: N(0, 2²) folded. Returns the states'
    probability transforms under the folded target's distribution function.
    """
    group = Reflection(1, (0,))
    target = Folded(Gaussian(jnp.ones(1), jnp.eye(1)), group)
    proposal = Folded(Gaussian(jnp.zeros(1) + 0.3, 0.5 * jnp.eye(1)), group)

    def h(z):
        log_q = proposal.log_prob(z) if log_q_error is None else log_q_error(proposal, z)
        return sign * (target.log_prob(z) - log_q)

    def chain(key):
        keys = jax.random.split(key, 5)
        start_key, keys = keys[0], keys[1:]
        z = group.fold(target.density.sample(start_key))

        def step(state, k):
            z, current = state
            propose_key, uniform_key = jax.random.split(k)
            theta = proposal.density.sample(propose_key)
            new = group.fold(theta) if fold_error is None else fold_error(group, theta)
            proposed = h(new)
            moved = accepts(jnp.log(jax.random.uniform(uniform_key)), current, proposed)
            return (jnp.where(moved, new, z), jnp.where(moved, proposed, current)), None

        (z, _), _ = jax.lax.scan(step, (z, h(z)), keys)
        return z[0]

    states = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS)))
    return stats.norm.cdf(states, 1) - stats.norm.cdf(-states, 1)


def p_value(transforms):
    return stats.kstest(transforms, "uniform").pvalue


def test_exact_start_stays_exact():
    assert p_value(one_step_ratio_law(jax.random.key(1))) > LEVEL


def test_mutant_printed_acceptance_sign_does_not_leave_the_target_invariant():
    assert p_value(one_step_ratio_law(jax.random.key(1), sign=-1.0)) < LEVEL


def test_mutant_plain_density_in_place_of_the_orbit_sum():
    plain = lambda proposal, z: proposal.density.log_prob(z)  # noqa: E731
    assert p_value(one_step_ratio_law(jax.random.key(1), log_q_error=plain)) < LEVEL


def test_mutant_one_orbit_term_dropped():
    dropped = lambda proposal, z: proposal.log_terms(z)[1]  # noqa: E731
    assert p_value(one_step_ratio_law(jax.random.key(1), log_q_error=dropped)) < LEVEL


def swept_once(seed, start, log_ratios):
    """One chain of `sweeps`, with the uniforms it was given."""
    log_uniforms = np.log(np.random.default_rng(seed).uniform(size=len(log_ratios)))
    whole = sweeps(log_uniforms[None], np.array([start]), np.asarray(log_ratios)[None])
    return [part[0] for part in whole], log_uniforms


def test_sweeps_equal_single_steps():
    h = 2.0 * np.random.default_rng(3).normal(size=300)
    h[[7, 50, 80, 81]] = -np.inf, -np.inf, np.nan, np.inf
    (sources, ratios, moved), log_uniforms = swept_once(4, 0.4, h)
    source, current = -1, np.array(0.4)
    for t, log_uniform in enumerate(log_uniforms):
        move = bool(accepts(log_uniform, current, h[t]))
        source, current = (t, h[t]) if move else (source, current)
        assert (sources[t], ratios[t], moved[t]) == (source, current, move)


@pytest.mark.parametrize("fault", [-jnp.inf, jnp.nan, jnp.inf])
def test_what_is_not_finite_is_never_accepted(fault):
    (sources, _, moved), _ = swept_once(0, -50.0, np.full(40, fault))
    assert not moved.any()
    assert (sources == -1).all()


def test_exact_finite_chain():
    """Long-run frequencies on three states match the target (chi-square on thinned states)."""
    pi, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.2, 0.2])
    draw_key = jax.random.key(5)
    steps = 60_000
    states = jax.random.categorical(draw_key, jnp.log(jnp.asarray(q)), shape=(steps,))
    h = jnp.log(jnp.asarray(pi / q))[states]
    (sources, _, _), _ = swept_once(5, h[0], h)
    visited = np.where(sources < 0, states[0], np.asarray(states)[sources])
    thinned = visited[200::20]
    counts = np.bincount(thinned, minlength=3)
    assert stats.chisquare(counts, thinned.size * pi).pvalue > LEVEL


def permutation_sampler_states(key, relabel):
    """Exact starts of a symmetric pair target, some steps of the random permutation sampler."""
    group = Permutation(2, 1)
    centre = jnp.array([-1.0, 1.5])
    bump = Gaussian(centre, jnp.eye(2))

    def log_pi(x):
        return jax.nn.logsumexp(jax.vmap(bump.log_prob)(group.orbit(x))) - jnp.log(2.0)

    q = Gaussian(jnp.array([-0.5, 0.5]), 0.5 * jnp.eye(2))
    ratio = lambda x: log_pi(x) - q.log_prob(x)  # noqa: E731

    def chain(key):
        start_key, image_key, sweep_key, propose_key = jax.random.split(key, 4)
        start = group.random_image(image_key, bump.sample(start_key))
        proposals = jax.vmap(q.sample)(jax.random.split(propose_key, 5))
        ratios = jax.vmap(ratio)(proposals)
        states, _ = relabelled_sweep(
            sweep_key, start, proposals, ratios, lambda k, x: relabel(group, k, x), ratio
        )
        return states[-1, 0]

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS)))


def marginal_cdf(x):
    return 0.5 * (stats.norm.cdf(x, -1.0) + stats.norm.cdf(x, 1.5))


def test_random_permutation_sampler_keeps_the_target():
    states = permutation_sampler_states(jax.random.key(8), lambda g, k, x: g.random_image(k, x))
    assert stats.kstest(marginal_cdf(states), "uniform").pvalue > LEVEL


def test_mutant_relabelling_that_always_sorts_is_caught():
    states = permutation_sampler_states(jax.random.key(8), lambda g, k, x: g.fold(x))
    assert stats.kstest(marginal_cdf(states), "uniform").pvalue < LEVEL


class Rare:
    """Proposals, uniform on (0, 1), of which one in fifty lies in the support of the target."""

    dim = 1

    def draw(self, key, count):
        points = np.asarray(jax.random.uniform(key, (count, 1)))
        return points, np.where(points[:, 0] < 0.02, 0.0, -np.inf)


def test_chains_of_few_steps_look_for_the_support_until_they_find_it():
    """Two proposals miss it with probability .96; what is found is uniform on the support.

    Kolmogorov-Smirnov at a false-alarm rate of 1e-6.
    """
    chains = run_chains(jax.random.key(0), Rare(), chains=400, draws=1, burn_in=0)
    assert chains.draws.shape == (400, 1, 1)
    assert (chains.log_ratio == 0.0).all()
    assert stats.kstest(chains.draws.ravel(), stats.uniform(0.0, 0.02).cdf).pvalue > 1e-6


def test_chains_without_a_support_say_so():
    class Nowhere(Rare):
        def draw(self, key, count):
            return super().draw(key, count)[0], np.full(count, -np.inf)

    with pytest.raises(ValueError, match="nowhere to start"):
        run_chains(jax.random.key(0), Nowhere(), chains=2, draws=1, burn_in=0)


class Sloped(Rare):
    """Uniform proposals of a target with density 2x."""

    def draw(self, key, count):
        points = np.asarray(jax.random.uniform(key, (count, 1)))
        return points, np.log(points[:, 0])


def test_chains_in_pieces_are_chains(monkeypatch):
    """A draw that did not move is the one before it, across pieces too; the law is the target's.

    Kolmogorov-Smirnov at a false-alarm rate of 1e-6, of every twentieth draw.
    """
    monkeypatch.setattr(chains_room, "AT_ONCE", 3_000)
    monkeypatch.setattr(chains_room, "KEPT", 5_000)
    chains = run_chains(jax.random.key(0), Sloped(), chains=4, draws=10_001, burn_in=50)
    assert chains.draws.shape == (4, 10_001, 1)
    np.testing.assert_array_equal(chains.log_ratio, np.log(chains.draws[..., 0]))
    stayed = ~chains.accepted[:, 1:]
    assert 0.1 < stayed.mean() < 0.5
    moved = np.diff(chains.draws[..., 0], axis=1) != 0.0
    np.testing.assert_array_equal(moved, ~stayed)
    assert 4_000 <= chains.proposals.log_ratio.size <= 5_500
    assert stats.kstest(chains.draws[:, ::20].ravel() ** 2, stats.uniform.cdf).pvalue > 1e-6
