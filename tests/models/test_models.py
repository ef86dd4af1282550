"""Models: normalised where they claim it, invariant where they claim it, exact draws, kind errors.

False-alarm rates: every test on draws uses a fixed seed and rejects at p < 1e-4; there are ten
such checks, so a correct program would fail by chance at one in a thousand choices of seeds.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from folt.models import (
    LabelSwitching,
    ModalPosterior,
    banana,
    bayesian_mixture,
    bayesian_mixture_data,
    broken_banana,
    gaussian_pair,
    label_switching,
    mixture_log_likelihood,
    modal_spectrum,
    scaled_spectrum,
    simulate_spectrum,
)
from folt.problem import Problem

SIGNIFICANCE = 1e-4


def _modal() -> Problem:
    return modal_spectrum(*simulate_spectrum(jax.random.key(7)))


EXACT: dict[str, Callable[[], Problem]] = {
    "pair2": lambda: gaussian_pair(2),
    "pair5": lambda: gaussian_pair(5),
    "m2p2": lambda: label_switching(2, 2),
    "m3p2": lambda: label_switching(3, 2),
    "m3p4": lambda: label_switching(3, 4),
    "m4p2": lambda: label_switching(4, 2),
    "banana": banana,
    "broken": broken_banana,
}
INVARIANT: dict[str, Callable[[], Problem]] = {
    **{name: make for name, make in EXACT.items() if name != "broken"},
    "mixture": bayesian_mixture,
    "modal": _modal,
}


@eqx.filter_jit
def _log_probs(problem: Problem, points: jax.Array) -> jax.Array:
    return jax.vmap(problem.log_prob)(points)


@eqx.filter_jit
def _sampled(problem: Problem, keys: jax.Array) -> jax.Array:
    assert problem.sampler is not None
    return jax.vmap(problem.sampler)(keys)


@functools.cache
def _draws(name: str) -> np.ndarray:
    """4000 exact draws of a target, the same for all tests."""
    return np.asarray(_sampled(EXACT[name](), jax.random.split(jax.random.key(1), 4000)))


@eqx.filter_jit
def _orbit_log_probs(problem: Problem, points: jax.Array) -> jax.Array:
    return jax.vmap(lambda x: jax.vmap(problem.log_prob)(problem.group.orbit(x)))(points)


@pytest.mark.parametrize("name", INVARIANT)
def test_invariant_at_random_points(name: str) -> None:
    problem = INVARIANT[name]()
    assert problem.invariant
    points = 2 * jax.random.normal(jax.random.key(0), (40, problem.dim))
    images = np.asarray(_orbit_log_probs(problem, points))
    assert np.all(np.isfinite(images))
    np.testing.assert_allclose(images, np.broadcast_to(images[:, :1], images.shape), rtol=1e-12)


def test_broken_banana_is_not_invariant() -> None:
    problem = broken_banana()
    assert not problem.invariant
    images = _orbit_log_probs(problem, jnp.array([[1.0, 1.0], [2.0, 4.0]]))
    assert np.all(np.abs(images[:, 0] - images[:, 1]) > 0.1)
    # With equal arms the symmetry is back.
    images = _orbit_log_probs(broken_banana(0.7, 0.7), jnp.array([[1.0, 1.0], [2.0, 4.0]]))
    np.testing.assert_allclose(images[:, 0], images[:, 1])


@pytest.mark.parametrize("name", ["pair2", "banana", "broken"])
def test_integrates_to_one(name: str) -> None:
    """By quadrature over the plane: the log evidence is zero."""
    problem = EXACT[name]()
    first, fraction = np.linspace(-12.0, 12.0, 241), np.linspace(0.0, 1.0, 2001)
    # The second coordinate runs over a strip that contains both arms at every first coordinate.
    low, height = (-7.0, 14.0 + 0 * first) if name == "pair2" else (-4.0, 8.0 + first**2)
    second = low + height[:, None] * fraction
    grid = np.stack([np.broadcast_to(first[:, None], second.shape), second], -1)
    density = np.exp(_log_probs(problem, jnp.asarray(grid.reshape(-1, 2)))).reshape(second.shape)
    mass = np.trapezoid(np.trapezoid(density, fraction) * height, first)
    assert mass == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("name", ["pair5", "m2p2", "m3p2", "m3p4", "m4p2"])
def test_evidence_is_zero_by_importance_sampling(name: str) -> None:
    """Weights against one broad Gaussian around all modes; rejects at six standard errors."""
    problem = EXACT[name]()
    draws = _draws(name)
    mean, covariance = draws.mean(0), 1.2 * np.cov(draws.T)
    points = np.random.default_rng(2).multivariate_normal(mean, covariance, 40_000)
    log_proposal = scipy.stats.multivariate_normal(mean, covariance).logpdf(points)
    weights = np.exp(np.asarray(_log_probs(problem, jnp.asarray(points))) - log_proposal)
    error = weights.std() / math.sqrt(weights.size)
    assert error < 0.1
    assert abs(weights.mean() - 1) < 6 * error


@pytest.mark.parametrize("name", ["pair5", "m2p2", "m3p2", "m3p4", "m4p2"])
def test_draws_follow_their_marginals(name: str) -> None:
    """Every coordinate of these targets is a known mixture of unit normals."""
    problem = EXACT[name]()
    draws = _draws(name)
    if name == "pair5":
        centres = np.zeros((2, 5))
        centres[:, 0] = 3.0, -3.0
    else:
        log_density = problem.log_density.__self__
        assert isinstance(log_density, LabelSwitching)
        centres = np.asarray(problem.group.orbit(jnp.asarray(log_density.centres)))
    smallest = min(
        scipy.stats.kstest(
            draws[:, i], lambda v, i=i: scipy.stats.norm.cdf(v[:, None] - centres[:, i]).mean(1)
        ).pvalue
        for i in range(problem.dim)
    )
    assert smallest > SIGNIFICANCE / problem.dim


@pytest.mark.parametrize("name", ["banana", "broken"])
def test_bananas_follow_their_density(name: str) -> None:
    """Straightened by the curvature of its own arm, a draw is two independent normals.

    The invariant banana does not say which arm a draw is on, so its second coordinate is tested
    through the distribution function given the first, which is uniform.
    """
    first, second = _draws(name).T
    assert scipy.stats.kstest(first, scipy.stats.norm(0, 2).cdf).pvalue > SIGNIFICANCE
    curvatures = np.array([1.0, 0.5])
    arms = scipy.stats.norm.cdf((second[:, None] - curvatures * first[:, None] ** 2) / 0.5)
    uniform = arms.mean(1) if name == "banana" else np.where(first > 0, *arms.T)
    assert scipy.stats.kstest(uniform, "uniform").pvalue > SIGNIFICANCE
    # Mutant: with the arms exchanged, or only one of them, the test must fail.
    wrong = arms[:, 0] if name == "banana" else np.where(first < 0, *arms.T)
    assert scipy.stats.kstest(wrong, "uniform").pvalue < SIGNIFICANCE


@pytest.mark.parametrize("name", ["banana", "broken"])
def test_banana_density_given_the_first_coordinate(name: str) -> None:
    """The density itself, not its sampler, against the conditional normals written out."""
    problem = EXACT[name]()
    points = np.random.default_rng(5).normal(0, 2, (200, 2))
    first, second = points.T
    arms = scipy.stats.norm.pdf(second, np.array([[1.0], [0.5]]) * first**2, 0.5)
    across = arms.mean(0) if name == "banana" else np.where(first > 0, *arms)
    density = scipy.stats.norm.pdf(first, 0, 2) * across
    kept = density > 0
    actual = np.asarray(_log_probs(problem, jnp.asarray(points)))
    np.testing.assert_allclose(actual[kept], np.log(density[kept]), rtol=1e-9)


def test_label_switching_is_the_sum_over_permutations() -> None:
    problem = label_switching(3, 2)
    centres = np.array([[2.0, 0.5], [5.0, 0.8], [8.0, 0.3]])
    points = np.random.default_rng(6).normal(5, 3, (20, 6))
    terms = [
        scipy.stats.multivariate_normal(centres[list(order)].ravel()).logpdf(points)
        for order in itertools.permutations(range(3))
    ]
    expected = scipy.special.logsumexp(terms, axis=0) - math.log(6)
    np.testing.assert_allclose(_log_probs(problem, jnp.asarray(points)), expected, rtol=1e-12)


def test_gaussian_pair_against_scipy() -> None:
    points = np.random.default_rng(7).normal(0, 3, (20, 3))
    both = [scipy.stats.multivariate_normal([s, 0, 0]).logpdf(points) for s in (3.0, -3.0)]
    expected = np.logaddexp(*both) - math.log(2)
    np.testing.assert_allclose(_log_probs(gaussian_pair(3), jnp.asarray(points)), expected)
    # Even in the first coordinate, curvature included, at the fold itself.
    curvature = jax.jit(jax.hessian(gaussian_pair(3).log_prob))(jnp.zeros(3))
    np.testing.assert_allclose(curvature, np.diag([8.0, -1.0, -1.0]), atol=1e-12)


def _mixture_by_hand(mu: np.ndarray, log_sigma: np.ndarray, data: np.ndarray) -> float:
    """Log likelihood plus log prior in the user's parameters (μ, log σ)."""
    density = scipy.stats.norm.logpdf(data[:, None], mu, np.exp(log_sigma))
    likelihood = np.sum(scipy.special.logsumexp(density, axis=1) - math.log(mu.size))
    prior = (
        scipy.stats.norm.logpdf(mu, 3, 5).sum() + scipy.stats.norm.logpdf(log_sigma, 0, 0.5).sum()
    )
    return float(likelihood + prior)


def test_mixture_is_likelihood_times_prior() -> None:
    """In the user's parameters the density differs by the constant Jacobian (5·0.5)^m alone."""
    problem, data = bayesian_mixture(), bayesian_mixture_data()
    points = np.random.default_rng(8).normal(size=(20, 6))
    points[0, 1] = -30.0  # one component as narrow as rounding allows
    expected = [
        _mixture_by_hand(3 + 5 * x[0::2], 0.5 * x[1::2], data) + 3 * math.log(5 * 0.5)
        for x in points
    ]
    np.testing.assert_allclose(_log_probs(problem, jnp.asarray(points)), expected, rtol=1e-12)
    values = problem.parameters(jnp.asarray(points[1]))
    assert set(values) == {"mu", "sigma"}
    np.testing.assert_allclose(values["mu"], 3 + 5 * points[1, 0::2])
    np.testing.assert_allclose(values["sigma"], np.exp(0.5 * points[1, 1::2]))


def test_mixture_evidence_of_one_component_by_quadrature() -> None:
    """With m = 1 the density integrates to the evidence, computed here from the user's model."""
    data = np.array([0.3, 1.2, -0.4, 2.0])
    problem = bayesian_mixture(data, 1)
    grid = np.linspace(-9, 9, 401)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1)
    density = np.exp(_log_probs(problem, jnp.asarray(points.reshape(-1, 2)))).reshape(401, 401)
    actual = scipy.integrate.trapezoid(scipy.integrate.trapezoid(density, grid), grid)

    def marginal(log_sigma: float) -> float:
        """The evidence given σ: y ~ N(3, σ²I + 25·11ᵀ)."""
        covariance = math.exp(2 * log_sigma) * np.eye(4) + 25.0
        likelihood = scipy.stats.multivariate_normal(np.full(4, 3.0), covariance).pdf(data)
        return float(likelihood * scipy.stats.norm.pdf(log_sigma, 0, 0.5))

    expected = scipy.integrate.quad(marginal, -4, 4, epsabs=0, epsrel=1e-10)[0]
    assert actual == pytest.approx(expected, rel=1e-8)


def test_mixture_score_is_the_derivative() -> None:
    """The hand-written score against plain differentiation: parameters, data and curvature."""

    def plain(mu: jax.Array, log_sigma: jax.Array, data: jax.Array) -> jax.Array:
        density = jax.scipy.stats.norm.logpdf(data[:, None], mu, jnp.exp(log_sigma))
        return jnp.sum(jax.nn.logsumexp(density, axis=1) - jnp.log(3.0))

    data = jnp.asarray(bayesian_mixture_data())
    arguments = (jnp.array([0.1, 2.0, 5.0]), jnp.array([-0.3, 0.2, -2.0]), data)

    def derivatives(function: Callable[..., jax.Array]) -> list[jax.Array]:
        return [
            *jax.grad(function, argnums=(0, 1, 2))(*arguments),
            *jax.hessian(function, argnums=(0, 1))(*arguments)[0],
            *jax.jvp(function, arguments, arguments),
        ]

    actual = jax.jit(lambda: derivatives(mixture_log_likelihood))()
    expected = jax.jit(lambda: derivatives(plain))()
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_mixture_data_is_the_published_set() -> None:
    """Labels first, then one normal per observation, in order."""
    generator = np.random.RandomState(42)
    labels = generator.choice(3, 500, p=[1 / 3] * 3)
    one_by_one = [generator.normal((0, 3, 6)[c], (0.8, 1, 0.7)[c]) for c in labels]
    np.testing.assert_array_equal(bayesian_mixture_data(), one_by_one)


def test_mixture_prior_arguments_move_the_parameters() -> None:
    problem = bayesian_mixture(
        [9.0, 11.0, 12.0],
        2,
        mu_location=10.0,
        mu_scale=2.0,
        log_sigma_location=1.0,
        log_sigma_scale=0.1,
    )
    values = problem.parameters(jnp.array([0.0, 0.0, 1.0, 1.0]))
    np.testing.assert_allclose(values["mu"], [10.0, 12.0])
    np.testing.assert_allclose(values["sigma"], np.exp([1.0, 1.1]))


def _modal_by_hand(f: np.ndarray, xi: np.ndarray, at: np.ndarray, psd: np.ndarray) -> float:
    """The Whittle likelihood Σ(-log S - Ŝ/S), written as it is defined."""
    omega, own = 2 * np.pi * at[:, None], 2 * np.pi * f
    shape = (1 / ((omega**2 - own**2) ** 2 + (2 * xi * own * omega) ** 2)).sum(1) + 0.01
    ordinates = psd / psd.mean()
    spectrum = np.mean(ordinates / shape) * shape
    return float(np.sum(-np.log(spectrum) - ordinates / spectrum))


def test_modal_is_the_whittle_likelihood_times_normal_prior() -> None:
    at, psd = simulate_spectrum(jax.random.key(10))
    problem = modal_spectrum(at, 3e-7 * psd)
    points = np.random.default_rng(11).normal(size=(20, 6))
    fractions = scipy.stats.norm.cdf(points)
    expected = [
        _modal_by_hand(
            0.7 + 0.4 * u[0::2], 0.001 + 0.049 * u[1::2], np.asarray(at), np.asarray(psd)
        )
        + scipy.stats.norm.logpdf(x).sum()
        for x, u in zip(points, fractions, strict=True)
    ]
    np.testing.assert_allclose(_log_probs(problem, jnp.asarray(points)), expected, rtol=1e-10)
    values = problem.parameters(jnp.asarray(points[0]))
    assert set(values) == {"frequency", "damping"}
    np.testing.assert_allclose(values["frequency"], 0.7 + 0.4 * fractions[0, 0::2])
    np.testing.assert_allclose(values["damping"], 0.001 + 0.049 * fractions[0, 1::2])


def test_modal_evidence_of_one_mode_by_quadrature() -> None:
    """Normalised uniform priors: the integral over R² is the mean likelihood over the box."""
    at, psd = simulate_spectrum(jax.random.key(12), frequency=[0.85], damping=[0.03])
    problem = modal_spectrum(at, psd, 1)
    grid = np.linspace(-8, 8, 401)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    log_density = np.asarray(_log_probs(problem, jnp.asarray(points)))
    largest = log_density.max()
    density = np.exp(log_density - largest).reshape(401, 401)
    actual = scipy.integrate.trapezoid(scipy.integrate.trapezoid(density, grid), grid)
    f, xi = np.linspace(0.7, 1.1, 201), np.linspace(0.001, 0.05, 101)
    box = [[_modal_by_hand(np.array([a]), np.array([b]), at, psd) for b in xi] for a in f]
    inner = scipy.integrate.simpson(np.exp(np.array(box) - largest), x=xi)
    expected = scipy.integrate.simpson(inner, x=f) / (0.4 * 0.049)
    assert actual == pytest.approx(expected, rel=1e-3)


def test_modal_stays_finite_in_the_far_tails() -> None:
    problem = _modal()
    points = jnp.asarray([[s * 35.0] * 6 for s in (-1, 1)] + [[35.0, -35.0] * 3])
    assert np.all(np.isfinite(_log_probs(problem, points)))
    assert np.all(np.isfinite(jax.jit(jax.vmap(jax.grad(problem.log_prob)))(points)))


def test_simulated_window() -> None:
    """51 ordinates of mean one; over the true shape they are exponential."""
    spectrum = simulate_spectrum(jax.random.key(13))
    assert spectrum.frequency.shape == spectrum.psd.shape == (51,)
    assert spectrum.frequency[0] == pytest.approx(0.7)
    assert spectrum.frequency[-1] == pytest.approx(1.1)
    assert float(np.mean(spectrum.psd)) == pytest.approx(1.0)
    assert np.asarray(spectrum.psd).dtype == np.float64
    many = simulate_spectrum(jax.random.key(14), ordinates=4000)
    omega, own = 2 * np.pi * many.frequency[:, None], 2 * np.pi * np.array([0.80, 0.84, 0.87])
    width = 2 * np.array([0.01, 0.015, 0.02]) * own * omega
    ratio = many.psd / ((1 / ((omega**2 - own**2) ** 2 + width**2)).sum(1) + 0.01)
    assert scipy.stats.kstest(ratio / ratio.mean(), "expon").pvalue > SIGNIFICANCE
    again = simulate_spectrum(jax.random.key(13))
    np.testing.assert_array_equal(again.psd, spectrum.psd)


@pytest.mark.parametrize("name", ["mixture", "modal"])
def test_prior_is_standard_normal(name: str) -> None:
    problem = INVARIANT[name]()
    assert problem.prior is not None
    x = jnp.linspace(-2.0, 2.0, problem.dim)
    assert float(problem.prior.log_prob(x)) == pytest.approx(scipy.stats.norm.logpdf(x).sum())
    assert len(problem.names) == problem.dim


def test_another_data_set_does_not_compile_again() -> None:
    traces: list[str] = []

    @eqx.filter_jit
    def value(problem: Problem, x: jax.Array) -> jax.Array:
        traces.append(type(problem.log_density).__name__)
        return problem.log_prob(x)

    x = jnp.linspace(-1.0, 1.0, 6)
    data = bayesian_mixture_data()
    first = value(bayesian_mixture(data), x)
    second = value(bayesian_mixture(data + 0.5), x)
    third = value(bayesian_mixture(data, mu_scale=4.0), x)
    swapped = value(bayesian_mixture(data).with_data(data + 0.5), x)
    assert len({float(first), float(second), float(third)}) == 3
    assert float(swapped) == float(second)
    windows = [simulate_spectrum(jax.random.key(seed)) for seed in (15, 16)]
    modal = [value(modal_spectrum(*window), x) for window in windows]
    wider = value(modal_spectrum(*windows[0], damping_range=(0.001, 0.1)), x)
    swapped = value(modal_spectrum(*windows[0]).with_data(scaled_spectrum(*windows[1])), x)
    assert len({float(modal[0]), float(modal[1]), float(wider)}) == 3
    assert float(swapped) == float(modal[1])
    assert traces == ["MixturePosterior", "ModalPosterior"]


def test_built_outside_the_context_is_still_double_precision() -> None:
    with jax.enable_x64(False):
        mixture, window = bayesian_mixture(), simulate_spectrum(jax.random.key(17))
        modal = modal_spectrum(*window)
    x = jnp.linspace(-1.0, 1.0, 6)
    np.testing.assert_allclose(
        mixture.log_prob(x), bayesian_mixture().log_prob(x), rtol=1e-14, atol=0
    )
    assert isinstance(modal.log_density, ModalPosterior)
    np.testing.assert_allclose(
        modal.log_prob(x),
        modal_spectrum(*simulate_spectrum(jax.random.key(17))).log_prob(x),
        rtol=1e-14,
    )


GRID = np.linspace(0.7, 1.1, 51)
FLAT = np.ones(51)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bayesian_mixture([1.0, 2.0]), "2 observations for 3 components"),
        (lambda: bayesian_mixture([1.0, np.nan, 2.0, 3.0]), "index 1 is missing"),
        (lambda: bayesian_mixture(np.ones((5, 2))), r"one-dimensional.*\(5, 2\)"),
        (lambda: bayesian_mixture(components=0), "components must be a positive whole number"),
        (lambda: bayesian_mixture(mu_scale=-1.0), "scale must be positive"),
        (lambda: modal_spectrum(GRID[::-1], FLAT), "strictly increasing"),
        (lambda: modal_spectrum(GRID - 0.7, FLAT), "positive and strictly increasing"),
        (lambda: modal_spectrum(GRID, -FLAT), "must not be negative"),
        (lambda: modal_spectrum(GRID, 0 * FLAT), "nor zero throughout"),
        (lambda: modal_spectrum(GRID, np.where(GRID < 0.8, np.inf, 1.0)), "must be finite"),
        (lambda: modal_spectrum(GRID[:6], FLAT[:6]), "7 parameters.*got 6"),
        (lambda: modal_spectrum(GRID, FLAT[:-1]), "one common length"),
        (lambda: modal_spectrum(np.array([]), np.array([])), "at least one"),
        (lambda: modal_spectrum(2 * np.pi * GRID, FLAT), "no ordinate lies in"),
        (lambda: modal_spectrum(GRID, FLAT, damping_range=(0.0, 0.05)), "damping_range must"),
        (lambda: modal_spectrum(GRID, FLAT, frequency_range=(1.1, 0.7)), "low < high"),
        (lambda: modal_spectrum(GRID, FLAT, floor=-0.1), "floor must be finite"),
        (lambda: simulate_spectrum(jax.random.key(0), damping=[0.1]), "1 for 3 frequencies"),
        (lambda: label_switching(5, 2), r"pass centres of shape \(5, 2\)"),
        (lambda: label_switching(2, 2, [[0.0, 1.0]]), r"shape \(2, 2\), got shape \(1, 2\)"),
        (lambda: gaussian_pair(0), "dim must be at least 1"),
        (lambda: banana(a=np.inf), "a must be finite"),
    ],
)
def test_bad_input_is_one_clear_error(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
