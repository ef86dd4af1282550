"""Simplex coordinates: exact Jacobians and constants, and relabelling that acts by rotation."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from folt.coordinates import (
    AugmentedShares,
    CentredScores,
    Gamma,
    IntervalScores,
    LogRatios,
    PriorNormal,
    tails,
)
from folt.groups import Blocks, Joint, ZeroSum, ZeroSumRows

M = 4
ORDERS = np.array(list(itertools.permutations(range(M))))
CASES = {
    "log-ratios": (lambda: LogRatios.symmetric(M, 1.7), ZeroSum()),
    "scores": (lambda: CentredScores.symmetric(M, 1.7), ZeroSum()),
    "row scores": (lambda: CentredScores.transitions(M, 3.0, 1.2), ZeroSumRows()),
    "row log-ratios": (lambda: LogRatios.transitions(M, 3.0, 1.2), ZeroSumRows()),
    "gamma shares": (lambda: AugmentedShares(M, 0, 1.7), Blocks(1)),
    "augmented shares": (lambda: AugmentedShares(M, 30), Blocks(1)),
    "augmented shares, sparse": (lambda: AugmentedShares(M, 30, 0.7), Blocks(1)),
}
every_case = pytest.mark.parametrize("name", CASES)
seeds = st.integers(0, 2**32 - 1)


@eqx.filter_jit
def pushed(coordinate, x):
    return coordinate.push(x), coordinate.log_prior(x)


@eqx.filter_jit
def pulled(coordinate, probabilities):
    return coordinate.pull(probabilities)


@eqx.filter_jit
def differentiated(coordinate, x):
    """Jacobian of all probabilities but the last, with what the coordinate says of itself."""
    jacobian = jax.jacobian(lambda c: coordinate.push(c)[:-1])(x)
    return jacobian, coordinate.log_slope(x), coordinate.log_prior(x), coordinate.push(x)


@eqx.filter_jit
def gamma_maps(prior, x):
    logs = prior.log_from_normal(x)
    return logs, prior.to_normal(jnp.exp(logs)), prior.log_prob(jnp.exp(logs))


@eqx.filter_jit
def acted(group, order, x):
    return group.act(order, x)


def point(coordinate, seed, scale=1.5):
    return jnp.asarray(np.random.default_rng(seed).normal(size=coordinate.length) * scale)


def relabelled(probabilities, order):
    """The same probabilities with new labels, on both sides of a matrix."""
    moved = probabilities[order]
    return moved[:, order] if moved.ndim == 2 else moved


@every_case
@settings(max_examples=30, deadline=None)
@given(seed=seeds, which=st.integers(0, len(ORDERS) - 1))
def test_relabelling_commutes_with_the_map_and_is_orthogonal(name, seed, which):
    build, part = CASES[name]
    coordinate, group, order = build(), Joint(M, (part,)), ORDERS[which]
    x = point(coordinate, seed)
    image = acted(group, order, x)
    probabilities, log_prior = pushed(coordinate, x)
    moved, moved_prior = pushed(coordinate, image)
    assert_allclose(moved, relabelled(np.asarray(probabilities), order), rtol=1e-10)
    assert_allclose(np.linalg.norm(image), np.linalg.norm(x), rtol=1e-12)
    assert_allclose(moved_prior, log_prior, rtol=1e-10)


def stick_breaking(x):
    """The usual stick-breaking map, for contrast."""
    fraction = jax.nn.sigmoid(x - jnp.log(jnp.arange(x.shape[0], 0, -1)))
    rest = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - fraction)])
    return jnp.append(fraction, 1.0) * rest


def stick_coordinates(p):
    rest = 1 - jnp.concatenate([jnp.zeros(1), jnp.cumsum(p)[:-2]])
    fraction = p[:-1] / rest
    return jnp.log(fraction) - jnp.log1p(-fraction) + jnp.log(jnp.arange(p.shape[0] - 1, 0, -1))


def test_stick_breaking_is_not_equivariant():
    """Relabelling does not preserve lengths there, so no orthogonal action can describe it."""
    x = point(LogRatios.symmetric(M), 3)
    p = stick_breaking(x)
    assert_allclose(stick_coordinates(p), x, rtol=1e-9)
    origin = stick_coordinates(stick_breaking(jnp.zeros(M - 1)))
    lengths = [
        float(jnp.linalg.norm(stick_coordinates(p[jnp.asarray(order)]) - origin))
        for order in ORDERS
    ]
    assert max(lengths) > 1.2 * min(lengths)


@every_case
@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_push_after_pull_is_the_identity(name, seed):
    coordinate = CASES[name][0]()
    probabilities, _ = pushed(coordinate, point(coordinate, seed))
    again, _ = pushed(coordinate, pulled(coordinate, probabilities))
    assert_allclose(again, probabilities, rtol=1e-9)
    assert_allclose(jnp.sum(probabilities, axis=-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ["log-ratios", "row log-ratios"])
def test_log_ratios_are_recovered_exactly_even_far_out(name):
    coordinate = CASES[name][0]()
    x = point(coordinate, 0, scale=60.0)
    assert_allclose(coordinate.pull(coordinate.push(x)), x, rtol=1e-9)
    assert np.all(np.isfinite(coordinate.push_log(20 * x)))


@settings(max_examples=20, deadline=None)
@given(seed=seeds, m=st.sampled_from([2, 4]))
def test_log_ratio_slope_and_prior_agree_with_autodiff_and_scipy(seed, m):
    generator = np.random.default_rng(seed)
    alpha = generator.uniform(0.3, 4.0, m)
    coordinate = LogRatios(alpha)
    x = point(coordinate, seed)
    jacobian, log_slope, log_prior, p = map(np.asarray, differentiated(coordinate, x))
    log_volume = np.linalg.slogdet(jacobian)[1]
    assert_allclose(log_slope, log_volume, rtol=1e-8, atol=1e-8)
    expected = scipy.stats.dirichlet(alpha).logpdf(p / p.sum()) + log_volume
    assert_allclose(log_prior, expected, rtol=1e-8, atol=1e-8)


def test_row_prior_is_the_sum_over_rows():
    coordinate = LogRatios.transitions(3, 4.0, 0.7)
    x = point(coordinate, 5)
    alpha = np.asarray(coordinate.concentration)
    rows = x.reshape(3, 2)
    expected = sum(LogRatios(alpha[i]).log_prior(rows[i]) for i in range(3))
    assert_allclose(coordinate.log_prior(x), expected, rtol=1e-12)


@pytest.mark.parametrize("constant", [True, False])
def test_prior_of_log_ratios_integrates_to_one(constant):
    """By quadrature for m = 2; without ½ log m the integral is off by √2 (mutant)."""
    coordinate = LogRatios(np.array([1.5, 0.8]))
    grid = jnp.linspace(-40, 40, 8001)[:, None]
    logs = jax.jit(jax.vmap(coordinate.log_prior))(grid)
    if not constant:
        logs = logs - 0.5 * np.log(2)
    total = float(jnp.sum(jnp.exp(logs)) * (grid[1, 0] - grid[0, 0]))
    assert (abs(total - 1) < 1e-8) == constant


@pytest.mark.extended
def test_both_coordinates_hold_the_same_prior():
    """Mean log probabilities of prior draws: ψ(α) - ψ(Σα), 8 checks within 4.5 errors (5e-5)."""
    count, alpha = 20_000, 1.7
    keys = jax.random.split(jax.random.key(0), count)
    expected = scipy.special.digamma(alpha) - scipy.special.digamma(M * alpha)
    for coordinate in (LogRatios.symmetric(M, alpha), AugmentedShares(M, 0, alpha)):
        logs = jax.jit(jax.vmap(lambda key, c=coordinate: c.push_log(c.sample_prior(key))))(keys)
        error = np.std(logs, axis=0) / np.sqrt(count)
        assert np.all(np.abs(np.mean(logs, axis=0) - expected) < 4.5 * error)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.7, 1000.0])
def test_gamma_quantile_agrees_with_scipy_and_inverts(shape):
    x = np.linspace(-7, 7, 57)
    logs, again, log_prob = map(np.asarray, gamma_maps(Gamma(shape), jnp.asarray(x)))
    exact = scipy.stats.gamma(shape)
    value = np.exp(logs)
    seen = value > 1e-280
    tail = np.where(x < 0, exact.logcdf(value), exact.logsf(value))
    wanted = scipy.stats.norm.logcdf(-np.abs(x))
    assert_allclose(tail[seen], wanted[seen], rtol=1e-9)
    assert_allclose(again[seen], x[seen], atol=1e-8)
    assert_allclose(log_prob[seen], exact.logpdf(value)[seen], rtol=1e-9, atol=1e-9)
    assert np.all(np.diff(logs) > 0)


def test_gamma_coordinate_has_the_slope_of_autodiff():
    coordinate = PriorNormal(Gamma(2.3))
    x = jnp.linspace(-5, 5, 21)
    step = 1e-5
    push = eqx.filter_jit(coordinate.push)
    slope = jax.jit(jax.vmap(jax.grad(lambda value: coordinate.push(value))))(x)
    assert_allclose(jnp.log(slope), eqx.filter_jit(coordinate.log_slope)(x), rtol=1e-8, atol=1e-10)
    numerical = (push(x + step) - push(x - step)) / (2 * step)
    assert_allclose(slope, numerical, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: LogRatios(np.array([1.0, -1.0])), "positive and finite"),
        (lambda: LogRatios(np.ones((2, 3))), "one number per probability or a square matrix"),
        (lambda: LogRatios(np.array([1.0, np.nan])), "positive and finite"),
        (lambda: Gamma(0.0), "shape must be positive"),
    ],
)
def test_bad_concentrations_are_refused(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize("concentration", [1.0, 0.7])
def test_augmented_weights_leave_the_evidence_alone(concentration):
    """Two components with known densities, by quadrature, in log-ratios and with a free total."""
    heights = np.random.default_rng(3).uniform(0.1, 2.0, size=(2, 12))
    line = jnp.linspace(-9.0, 12.0, 106)

    def likelihood(coordinate, x):
        shares = jnp.exp(coordinate.push_log(x))
        return jnp.exp(jnp.sum(jnp.log(shares @ heights)) + coordinate.log_prior(x))

    ratios = LogRatios.symmetric(2, concentration)
    augmented = AugmentedShares(2, heights.shape[1], concentration)
    grid = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    ratio_line = jnp.linspace(-40.0, 40.0, 2001)
    expected = jnp.sum(jax.jit(jax.vmap(lambda x: likelihood(ratios, x[None])))(ratio_line)) * 0.04
    values = jax.jit(jax.vmap(lambda x: likelihood(augmented, x)))(grid)
    found = jnp.sum(values) * (line[1] - line[0]) ** 2
    assert_allclose(found, expected, rtol=1e-6)


def test_augmented_prior_draws_have_their_shares_and_total():
    """Three z-scores at five standard errors: one false alarm in half a million seeds."""
    coordinate = AugmentedShares(3, 50, 1.0)
    draws = 4000
    keys = jax.random.split(jax.random.key(2), draws)
    x = jax.jit(jax.vmap(coordinate.sample_prior))(keys)
    logs = np.asarray(jax.jit(jax.vmap(coordinate.log_gammas))(x))
    total = np.exp(logs).sum(axis=1)
    share = np.exp(logs[:, 0]) / total
    for values, mean, variance in (
        (total, 53.0, 53.0),
        (share, 1 / 3, 1 / 18),
        ((share - 1 / 3) * (total - 53.0), 0.0, 53.0 / 18),
    ):
        assert abs(values.mean() - mean) < 5 * np.sqrt(variance / draws)


def test_what_has_rounded_to_a_bound_has_finite_scores():
    """A draw of Beta(.1, .1) may be exactly one, and a share exactly zero."""
    ends = jnp.array([0.0, 1.0])
    assert np.all(np.isfinite(IntervalScores(0.0, 1.0).pull(ends)))
    assert np.all(np.isfinite(CentredScores.symmetric(3).pull(jnp.array([0.0, 0.3, 0.7]))))


@pytest.mark.parametrize("m", [2, 3, 20])
def test_counts_sum_up_however_unequal_they_are(m):
    """Mutant: a Newton step fewer."""
    wide = np.random.default_rng(m).normal(size=(500, m)) * np.geomspace(0.1, 20.0, 500)[:, None]
    centred = jnp.asarray(wide - wide.mean(axis=1, keepdims=True))
    counts = jnp.exp(tails.log_count(centred + tails.shift(centred))).sum(axis=1)
    assert_allclose(counts, tails.COUNT, rtol=1e-12)


@pytest.mark.parametrize("kind", [LogRatios, CentredScores])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_slope_is_that_of_all_but_one_probability(kind, rows):
    """Mutant: ½ log m with the other sign, a constant that log Z would carry."""
    coordinate = kind.symmetric(3) if rows == 1 else kind.transitions(3)
    x = jnp.asarray(np.random.default_rng(rows).normal(size=coordinate.length))

    def reduced(x):
        return coordinate.push(x)[..., :-1].ravel()

    jacobian, log_slope = jax.jit(lambda x: (jax.jacobian(reduced)(x), coordinate.log_slope(x)))(x)
    assert float(log_slope) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-10)
