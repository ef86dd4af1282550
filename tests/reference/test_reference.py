"""Reference draws: kernels that leave the target alone, starts that find it, honest health."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import folt
from folt.certificate.cautions import folded_chains, health, rhat_limit
from folt.certificate.learnt import split_by_chain
from folt.groups import Permutation, Reflection, Trivial
from folt.problem import Problem
from folt.proposals import Gaussian, Mixture, standard_normal
from folt.reference import (
    AdaptiveRandomWalk,
    Caution,
    Concern,
    Exact,
    Given,
    HostChains,
    Reference,
    reference_for,
)
from folt.reference.host_moves import next_temperature, systematic_resample
from folt.reference.landscape import Landscape, require_numbers_around, usable_start
from folt.reference.random_walk import Walkers, equivariant_covariance, walk
from folt.types import Density, Distribution

SMALL = HostChains(particles=600, moves=15, chains=60, draws=50)
COUNT = 3_000


def mixture(weights, means, scale=1.0):
    means = jnp.asarray(means, float)
    factors = jnp.broadcast_to(
        jnp.eye(means.shape[1]) / scale, (len(weights), *[means.shape[1]] * 2)
    )
    return Mixture(jnp.log(jnp.asarray(weights)), means, factors)


def correlated():
    covariance = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, -0.3], [0.0, -0.3, 0.5]])
    return Gaussian.from_moments(np.array([1.0, -2.0, 0.5]), covariance)


def two_labels():
    return mixture([0.5, 0.5], [[-1.5, 1.0], [1.0, -1.5]])


TARGETS = {
    "gaussian": (correlated, lambda: Trivial(3)),
    "two labels": (two_labels, lambda: Permutation(2, 1)),
}


@eqx.filter_jit
def _sample(distribution, keys):
    return jax.vmap(distribution.sample)(keys)


def sample(distribution, seed, count=COUNT):
    return _sample(distribution, jax.random.split(jax.random.key(seed), count))


def largest_z(first, second):
    """Largest two-sample z over first and second moments."""

    def moments(x):
        rows, columns = np.triu_indices(x.shape[1])
        return np.concatenate([x, x[:, rows] * x[:, columns]], axis=1)

    first, second = moments(np.asarray(first)), moments(np.asarray(second))
    error = np.sqrt(first.var(0) / len(first) + second.var(0) / len(second))
    return float(np.max(np.abs(first.mean(0) - second.mean(0)) / error))


Z_LIMIT = 4.9
"""At most 9 moments per comparison, 6 comparisons: a false alarm in 2e4 runs (two-sided normal)."""


def fold_flat(group, points):
    return folded_chains(group, np.asarray(points)[None])[0]


@eqx.filter_jit
def walked(key, target, points, values, root):
    state = Walkers(points, values, jnp.asarray(0.5), jnp.zeros((), jnp.int32))
    return walk(key, target, state, root, 12, 0.0).points


class Flattened(Density):
    """A mutant acceptance: min(1, (π(x')/π(x))^0.7)."""

    density: Distribution

    @property
    def dim(self):
        return self.density.dim

    def log_prob(self, x):
        return 0.7 * self.density.log_prob(x)


@pytest.mark.parametrize("name", TARGETS)
def test_random_walk_leaves_the_target_alone(name):
    target, group = (make() for make in TARGETS[name])
    start, fresh = sample(target, 1), sample(target, 2)
    values = jax.jit(jax.vmap(target.log_prob))(start)
    root = jnp.linalg.cholesky(equivariant_covariance(group, start))
    end = walked(jax.random.key(3), target, start, values, root)
    assert np.mean(np.any(np.asarray(end != start), axis=1)) > 0.8
    assert largest_z(fold_flat(group, end), fold_flat(group, fresh)) < Z_LIMIT
    flat = Flattened(target)
    mutant = walked(jax.random.key(3), flat, start, 0.7 * values, root)
    assert largest_z(fold_flat(group, mutant), fold_flat(group, fresh)) > Z_LIMIT


def test_the_metric_commutes_with_the_group():
    group = Permutation(3, 2)
    points = jax.random.normal(jax.random.key(0), (200, 6)) * jnp.arange(1.0, 7.0)
    covariance = equivariant_covariance(group, points)
    as_matrix = jax.vmap(group.act, in_axes=(None, 1), out_axes=1)
    matrices = jax.jit(jax.vmap(as_matrix, in_axes=(0, None)))(group.elements, jnp.eye(6))
    assert len(matrices) == group.order
    for matrix in matrices:
        np.testing.assert_allclose(matrix @ covariance, covariance @ matrix, atol=1e-12)


TRACES = []


def counted(x, centre):
    """The sum over both labellings of a normal around the centre, deviation one half."""
    TRACES.append(1)
    images = jnp.stack([centre, centre[::-1]])
    return jax.scipy.special.logsumexp(-2.0 * jnp.sum((x - images) ** 2, axis=1))


def around(centre):
    prior = standard_normal(2, 4.0)
    return Problem(counted, Permutation(2, 1), data=jnp.asarray(centre), prior=prior)


@pytest.fixture(scope="module")
def told_and_reference():
    told = []
    key, problem = jax.random.key(2), around([-3.0, 0.5])
    return told, SMALL(key, problem, lambda *said: told.append(said))


def test_folded_modes_from_a_prior(told_and_reference):
    told, reference = told_and_reference
    assert reference.draws.shape == (60, 50, 2)
    assert reference.draws.dtype == np.float64
    assert reference.raw is not None
    assert np.all(reference.draws[..., 0] <= reference.draws[..., 1])
    # Four comparisons at 5 standard errors from the effective size: a false alarm in 4e5.
    error = 0.5 / math.sqrt(min(reference.ess, 3_000))
    np.testing.assert_allclose(reference.draws.mean((0, 1)), [-3.0, 0.5], atol=5 * error)
    np.testing.assert_allclose(reference.draws.std((0, 1)), 0.5, atol=5 * error)
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert 0.0 < fractions[-1] <= 1.0


def test_the_same_key_gives_the_same_draws(told_and_reference):
    _, reference = told_and_reference
    again = SMALL(jax.random.key(2), around([-3.0, 0.5]))
    np.testing.assert_array_equal(again.draws, reference.draws)
    other = SMALL(jax.random.key(3), around([-3.0, 0.5]))
    assert not np.array_equal(other.draws, reference.draws)


@pytest.mark.parametrize("sampler", [SMALL, AdaptiveRandomWalk(4_000, 2_000, 20)])
def test_a_second_data_set_does_not_trace_again(sampler):
    sampler(jax.random.key(0), around([-3.0, 0.5]))
    traced = len(TRACES)
    assert traced > 0
    second = sampler(jax.random.key(1), around([-2.0, 2.0]))
    assert len(TRACES) == traced
    assert abs(second.draws[..., 1].mean() - 2.0) < 0.2


def test_broken_symmetry_is_folded_with_the_whole_orbit():
    target = mixture([0.8, 0.2], [[-3.0, 0.0], [3.0, 2.0]], 0.7)
    problem = Problem(
        target.log_prob, Reflection(2, (0,)), invariant=False, prior=standard_normal(2, 3.0)
    )
    reference = SMALL(jax.random.key(4), problem)
    high = (reference.draws[:, :, 1] > 1.0).mean(axis=1)
    truth = 0.8 * scipy.stats.norm.sf(1 / 0.7) + 0.2 * scipy.stats.norm.sf(-1 / 0.7)
    assert abs(high.mean() - truth) < 5 * high.std() / math.sqrt(60)


def test_adaptive_random_walk():
    problem = Problem(correlated().log_prob, Trivial(3))
    reference = AdaptiveRandomWalk(steps=40_000, keep=10_000, chains=20)(jax.random.key(0), problem)
    assert reference.draws.shape == (20, 500, 3)
    assert reference.evaluations["gradient"] == 0
    assert reference.evaluations["value"] >= 40_000
    # Three means at 5 standard errors from the smallest effective size.
    error = np.sqrt([2.0, 1.0, 0.5]) / math.sqrt(reference.ess)
    assert np.all(np.abs(reference.draws.mean((0, 1)) - [1.0, -2.0, 0.5]) < 5 * error)
    with pytest.raises(ValueError, match="keep"):
        AdaptiveRandomWalk(steps=100, keep=90)


def test_exact():
    target = two_labels()
    problem = Problem(target.log_prob, Permutation(2, 1), sampler=target.sample)
    reference = Exact(draws=6_000, chains=30)(jax.random.key(0), problem)
    assert reference.exact
    assert reference.draws.shape == (30, 200, 2)
    assert reference.ess == 6_000
    fresh = fold_flat(problem.group, sample(target, 1))
    assert largest_z(reference.draws.reshape(-1, 2), fresh) < Z_LIMIT
    with pytest.raises(ValueError, match="exact sampler"):
        Exact()(jax.random.key(0), Problem(target.log_prob, Permutation(2, 1)))


def given(draws, dim=2):
    return Given(draws)(None, Problem(standard_normal(dim).log_prob, Permutation(dim, 1)))


def test_given_draws_are_folded_and_cut_into_chains():
    draws = np.random.default_rng(0).normal(size=(1_010, 2))
    reference = given(draws)
    assert reference.draws.shape == (20, 50, 2)
    np.testing.assert_array_equal(reference.draws.reshape(-1, 2), np.sort(draws[:1_000], axis=1))
    assert not reference.exact
    assert given(draws[:1_000].reshape(10, 100, 2)).draws.shape == (10, 100, 2)
    assert given(draws[:1_000].reshape(4, 250, 2)).draws.shape == (8, 125, 2)


NORMAL = np.random.default_rng(1).normal(size=(400, 2))


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (NORMAL[:, :1], "expected reference draws of shape .* got \\(400, 1\\)"),
        (NORMAL[None, None], "expected reference draws of shape"),
        (NORMAL[:99], "at least 100 reference draws .* got 99"),
        (np.where(np.arange(800).reshape(400, 2) == 21, np.nan, NORMAL), "position 10"),
        (np.where(np.arange(800).reshape(400, 2) == 21, np.inf, NORMAL), "finite"),
        (NORMAL * [1.0, 0.0] + 3.0, "constant coordinate 1"),
        (NORMAL[:, :1] * [1.0, -2.0], "full rank"),
        (NORMAL.astype(complex), "dtype complex128"),
    ],
)
def test_unusable_draws_are_refused(draws, message):
    with pytest.raises(ValueError, match=message):
        given(draws)


def test_reference_for():
    target = two_labels()
    plain = Problem(target.log_prob, Permutation(2, 1))
    exact = Problem(target.log_prob, Permutation(2, 1), sampler=target.sample)
    assert isinstance(reference_for(plain), HostChains)
    assert isinstance(reference_for(exact), Exact)
    assert isinstance(reference_for(exact, NORMAL), Given)
    assert reference_for(exact, SMALL) is SMALL
    with pytest.raises(ValueError, match="sampler object"):
        reference_for(plain, [[1.0], [1.0, 2.0]])


def test_health_sees_frozen_and_disagreeing_chains():
    draws = np.random.default_rng(2).normal(size=(8, 500, 2))
    rhat, ess, cautions = health(draws)
    assert rhat < 1.01
    assert ess > 2_000
    assert cautions == ()
    assert health(np.zeros((4, 100, 2)))[:2] == (math.inf, 0.0)
    apart = draws + 3.0 * np.arange(8)[:, None, None]
    rhat, _, cautions = health(apart)
    assert rhat > 1.5
    assert Concern.DISAGREEING_CHAINS in concerns(cautions)
    assert any(f"{rhat:.3f}" in str(caution) for caution in cautions)
    frozen = draws.copy()
    frozen[0] = frozen[0, 0]
    assert any("1 of 8 reference chains" in str(caution) for caution in health(frozen)[2])
    assert Concern.FEW_EFFECTIVE in concerns(health(draws[:, :20])[2])


@pytest.mark.parametrize(("ratio", "said"), [(1e5, False), (1e7, True), (1e-7, True)])
def test_scales_that_are_far_apart_are_said_with_a_cure(ratio, said):
    draws = np.random.default_rng(2).normal(size=(8, 500, 2)) * [1.0, ratio]
    cautions = [one for one in health(draws)[2] if one.concern is Concern.SCALES_APART]
    assert len(cautions) == said
    assert all("1e+07 times" in str(one) and "divide every" in str(one) for one in cautions)


def test_short_chains_are_not_blamed_for_being_short():
    """Draws worth a third of their number in chains of 80: R-hat above 1.01, and no concern."""
    generator = np.random.default_rng(5)
    draws = generator.normal(size=(128, 80, 1))
    for t in range(1, 80):
        draws[:, t] = 0.4 * draws[:, t - 1] + math.sqrt(1 - 0.4**2) * draws[:, t]
    rhat, _, cautions = health(draws)
    assert 1.01 < rhat < rhat_limit(80)
    assert Concern.DISAGREEING_CHAINS not in concerns(cautions)
    draws[:40] += 0.5
    assert Concern.DISAGREEING_CHAINS in concerns(health(draws)[2])


def concerns(cautions):
    return {caution.concern for caution in cautions}


class Flat:
    """The log ratio of a perfect fit."""

    def at(self, points, log_target=None):
        return np.zeros(len(points))


FLAT = Flat()


def reference_of(chains, length):
    labels = np.arange(chains, dtype=float)[:, None, None]
    return Reference(np.broadcast_to(labels, (chains, length, 1)), 1.0, 1.0, True, {})


@pytest.mark.parametrize(
    ("chains", "length", "training", "certification"),
    [(100, 250, 5_000, 20_000), (3, 10, 5_000, 20_000), (40, 1_000, 5_000, 20_000), (7, 5, 1, 1)],
)
def test_no_chain_is_in_two_parts(chains, length, training, certification):
    parts = split_by_chain(reference_of(chains, length), training, certification)
    opened = parts._replace(certify=parts.certify.judge(FLAT).points)
    sets = [set(part[:, 0, 0]) for part in opened]
    assert all(sets)
    assert sum(map(len, sets)) == len(set().union(*sets))
    if chains * length == training + certification:
        assert parts.certify.shape[0] * length == certification
        assert len(parts.train) > len(parts.select)


def test_scarce_draws_go_to_the_certificate_where_they_decide():
    """Four chains of 1000 in halves: 3000 to certify; of 500, which cannot decide, half."""
    deciding = split_by_chain(reference_of(8, 500), 5_120, 5_120)
    assert deciding.certify.shape[0] * 500 == 3_000
    assert (len(deciding.train), len(deciding.select)) == (1, 1)
    assert split_by_chain(reference_of(8, 250), 5_120, 5_120).certify.shape[0] == 4


def test_split_needs_three_chains():
    with pytest.raises(ValueError, match="at least 3 chains"):
        split_by_chain(reference_of(2, 10))


class Undefined(Density):
    """NaN beyond a point, or -inf everywhere."""

    value: float = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=2)

    def log_prob(self, x):
        bad = (x[0] > 0) | (self.value == -math.inf)
        return jnp.where(bad, self.value, -0.5 * jnp.sum(x**2))


def test_a_start_without_any_finite_value_is_refused():
    problem = Problem(Undefined(-math.inf).log_prob, Trivial(2), prior=standard_normal(2))
    with pytest.raises(ValueError, match="got -inf at all"):
        SMALL(jax.random.key(0), problem)
    with pytest.raises(ValueError, match=r"got -inf at all 2, or nan as at the point \[1. 2.\]"):
        usable_start(np.array([-np.inf, np.nan]), np.array([[0.0, 0.0], [1.0, 2.0]]))
    values = usable_start(np.array([0.5, np.nan, np.inf]), np.zeros((3, 2)))
    np.testing.assert_array_equal(values, [0.5, -np.inf, -np.inf])


def test_faults_within_the_mass_are_found_around_the_draws():
    """Half the plane is missing; draws of the other half give it away, and only then."""
    problem = Problem(Undefined(math.nan).log_prob, Trivial(2))
    draws = np.random.default_rng(0).normal(size=(4, 200, 2))
    draws[..., 0] = -np.abs(draws[..., 0])
    with pytest.raises(ValueError, match=r"is nan at the point .* within the mass") as caught:
        require_numbers_around(jax.random.key(0), problem, draws)
    assert "prior=" in str(caught.value)
    assert require_numbers_around(jax.random.key(0), problem, draws - [9.0, 0.0]) == 256


def test_a_density_may_be_no_number_far_away():
    """log σ coordinates: σ = 0 far out, where the search begins; nothing is refused for that."""
    observed = np.array([-1.2, -0.9, 1.1, 0.8, 1.0])

    def log_density(x):
        mu, sigma = x[:2], np.exp(x[2:])
        terms = np.exp(-0.5 * ((observed[:, None] - mu) / sigma) ** 2) / sigma
        return np.log(terms.sum(axis=1)).sum() - 0.5 * np.sum((x / 3) ** 2)

    problem = folt.from_callable(log_density, 4, Permutation(2, 2))
    box = Landscape(problem)
    with np.errstate(all="ignore"):
        far = 900.0 * np.random.default_rng(1).normal(size=(64, 4))
        values = box.first(np.concatenate([far, np.zeros((1, 4))]))
    assert box.faults > 0
    assert np.isneginf(values[:64]).any()
    assert np.isfinite(values[64])


def test_temperatures_keep_the_share_of_living_particles():
    ratio = np.random.default_rng(3).normal(size=500) * 40
    ratio[::2] = -np.inf
    temperature, log_weights = next_temperature(0.1, ratio, 0.6)
    weights = np.exp(log_weights - log_weights.max())
    assert 0.1 < temperature < 1.0
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(0.6 * 250, rel=1e-3)
    assert next_temperature(0.5, np.zeros(10), 0.6)[0] == 1.0


@pytest.mark.parametrize("width", [1.0, 10.0, 1e3, 1e8, 1e20])
def test_temperatures_are_those_of_a_root_finder(width):
    from scipy.optimize import brentq
    from scipy.special import logsumexp

    ratio = -width * np.random.default_rng(5).chisquare(3, size=1000)

    def excess(t):
        logs = np.exp(t) * ratio
        return 2 * logsumexp(logs) - logsumexp(2 * logs) - np.log(500.0)

    expected = np.exp(brentq(excess, -60.0, 0.0, xtol=1e-9))
    assert next_temperature(0.0, ratio, 0.5)[0] == pytest.approx(expected, rel=2e-6)


def test_systematic_resampling_copies_in_proportion():
    weights = np.random.default_rng(4).exponential(size=200)
    weights[7] = 0.0
    with np.errstate(divide="ignore"):
        chosen = systematic_resample(0.37, np.log(weights))
    copies = np.bincount(chosen, minlength=200)
    assert np.all(np.abs(copies - 200 * weights / weights.sum()) < 1.0)
    assert copies[7] == 0


@pytest.mark.parametrize(
    ("caution", "words"),
    [
        (
            Caution.of(Concern.DISAGREEING_CHAINS, rhat=1.02504, limit=1.025),
            "1.02504, above 1.02500",
        ),
        (Caution.of(Concern.DISAGREEING_CHAINS, rhat=1.04, limit=1.025), "1.040, above 1.025"),
        (Caution.of(Concern.FEW_EFFECTIVE, ess=799.7, enough=800, dim=4), "799.7 effective"),
        (Caution.of(Concern.FEW_EFFECTIVE, ess=300, enough=800, dim=4), "300 effective"),
    ],
)
def test_numbers_that_are_compared_are_seen_to_differ(caution, words):
    assert words in str(caution)
