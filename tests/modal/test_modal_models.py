"""The averaged modal spectrum: likelihood by hand, symmetry, normalised priors, errors."""

import jax
import numpy as np
import pytest
from scipy import integrate, stats

import folt
from folt.batching import map_points
from folt.modal.models.powers import resonance
from folt.models import averaged_spectrum, modal_powers, modal_spectrum, simulate_powers

GRID = np.linspace(0.7, 1.1, 41)
RNG = np.random.default_rng(3)
PSD = 2e-6 * (0.1 + np.exp(-(((GRID - 0.85) / 0.04) ** 2))) * RNG.gamma(9.0, 1 / 9.0, 41)


@pytest.fixture(scope="module")
def problem():
    return modal_powers(GRID, PSD, 2, averages=9.0, frequency_range=(0.7, 1.1))


def by_hand(f, xi, power, floor, at, psd, averages):
    """Sum of SciPy's Gamma log densities around a spectrum written out mode by mode."""
    mean = np.full_like(at, floor)
    for one, ratio, p in zip(f, xi, power, strict=True):
        height = 4 * ratio * one**3 / np.pi * (at / one) ** 4
        mean += p * height / ((at**2 - one**2) ** 2 + (2 * ratio * one * at) ** 2)
    return stats.gamma.logpdf(psd, averages, scale=mean / averages).sum()


def values_at(problem, points):
    return map_points(folt.Problem.log_prob, problem, points)


def test_the_density_is_gamma_times_a_normal_prior(problem):
    points = np.random.default_rng(0).normal(size=(5, problem.dim))
    scale = PSD.mean()
    expected = []
    for x in points:
        rows, floor = x[:6].reshape(2, 3), 0.01 * np.exp(2.3 * x[6])
        f = 0.7 + 0.4 * stats.norm.cdf(rows[:, 0])
        xi = 0.001 + 0.049 * stats.norm.cdf(rows[:, 1])
        power = 0.2 * 0.4 * np.exp(1.5 * rows[:, 2])
        likelihood = by_hand(f, xi, power, floor, GRID, PSD / scale, 9.0)
        expected.append(likelihood + stats.norm.logpdf(x).sum())
    np.testing.assert_allclose(values_at(problem, points), expected, rtol=1e-10)


def test_parameters_are_in_the_unit_of_the_data(problem):
    x = np.zeros(problem.dim)
    found = problem.parameters(x)
    np.testing.assert_allclose(found["power"], 0.2 * 0.4 * PSD.mean() * np.ones(2))
    np.testing.assert_allclose(found["floor"], 0.01 * PSD.mean())
    np.testing.assert_allclose(found["frequency"], 0.9 * np.ones(2))


def test_the_unit_of_the_data_does_not_matter(problem):
    other = modal_powers(GRID, 1e9 * PSD, 2, averages=9.0, frequency_range=(0.7, 1.1))
    points = np.random.default_rng(1).normal(size=(3, problem.dim))
    np.testing.assert_allclose(values_at(other, points), values_at(problem, points), rtol=1e-12)


@pytest.mark.parametrize(("modes", "averages"), [(1, 9.0), (2, None)])
def test_relabelling_changes_nothing(modes, averages):
    problem = modal_powers(GRID, PSD, modes, averages=averages)
    assert problem.dim == 3 * modes + (1 if averages else 2)
    assert folt.check(problem).holds


def test_a_power_tied_to_its_place_is_caught(problem):
    """Mutant: the first power counts double, so modes are no longer exchangeable."""

    def lopsided(x, data):
        return problem.log_density(x.at[2].multiply(2.0), data)

    mutant = folt.Problem(lopsided, problem.group, data=problem.data)
    assert not folt.check(mutant).holds


@pytest.mark.parametrize("damping", [0.005, 0.03])
def test_a_resonance_has_unit_area(damping):
    def height(f):
        return float(resonance(np.array([f]), np.array([0.8]), np.array([damping]), 0)[0, 0])

    grid = np.concatenate([[0.0], np.geomspace(1e-3, 40.0, 60_001)])
    values = np.asarray(resonance(grid, np.array([0.8]), np.array([damping]), 0)[0])
    assert abs(integrate.trapezoid(values, grid) - 1) < 1e-3
    assert height(0.8) == pytest.approx(1 / (np.pi * damping * 0.8))


def test_a_window_smears_the_peak_as_a_sum_would():
    offsets, weights = np.array([-0.01, 0.0, 0.01]), np.array([0.25, 0.5, 0.25])
    through = modal_powers(GRID, PSD, 1, averages=9.0, window=(offsets, weights))
    x = np.array([0.1, -0.5, 0.3, 0.2])
    posterior, data = through.log_density, through.data
    from folt.modal.models.powers import expected_ordinates

    parts = posterior.parts(x)
    plain = [
        expected_ordinates(
            averaged_spectrum(GRID + d, PSD, averages=9.0), parts, posterior.exponent
        )
        for d in offsets
    ]
    expected = sum(w * np.asarray(s) for w, s in zip(weights, plain, strict=True))
    np.testing.assert_allclose(
        expected_ordinates(data, parts, posterior.exponent), expected, rtol=1e-12
    )


def test_simulated_ordinates_have_the_mean_and_variance_of_the_model(problem):
    """4 standard errors on two pooled moments: false alarm below 2e-4."""
    x = np.array([-0.5, -0.3, 0.2, 0.4, 0.1, -0.4, 0.3])
    from folt.modal.models.powers import expected_ordinates

    mean = np.asarray(expected_ordinates(problem.data, problem.log_density.parts(x), 4))
    draws = np.array([simulate_powers(jax.random.key(i), problem, x).psd / mean for i in range(60)])
    count = draws.size
    assert abs(draws.mean() - 1) < 4 / np.sqrt(9 * count)
    assert abs(draws.var() * 9 - 1) < 4 * np.sqrt((2 + 6 / 9) / count)


def test_another_window_of_equal_shape_is_not_traced_again(problem):
    traces = []

    def counted(posterior, x):
        traces.append(1)
        return posterior.log_prob(x)

    points = np.zeros((3, problem.dim))
    map_points(counted, problem, points)
    before = len(traces)
    spectrum = averaged_spectrum(GRID, PSD[::-1], averages=np.linspace(5, 9, 41))
    other = map_points(counted, problem.with_data(spectrum), points)
    assert len(traces) == before
    assert not np.allclose(other, values_at(problem, points))


def test_pointwise_terms_add_up_to_the_likelihood(problem):
    x = np.full(problem.dim, 0.3)
    terms = problem.log_likelihoods(x)["psd"]
    total = float(problem.log_prob(x)) - stats.norm.logpdf(x).sum()
    assert float(terms.sum()) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: modal_powers(GRID, 0 * PSD), "nor zero throughout"),
        (lambda: modal_powers(GRID, np.where(GRID < 0.8, 0, PSD)), "positive everywhere"),
        (lambda: modal_powers(GRID[:9], PSD[:9], 3, averages=4.0), "10 parameters.*got 9"),
        (lambda: modal_powers(GRID, PSD, averages=-1.0), "averages must be positive"),
        (lambda: modal_powers(GRID, PSD, averages=np.ones(3)), "one per ordinate"),
        (lambda: modal_powers(GRID, PSD, scale=0.0), "scale must be positive"),
        (lambda: modal_powers(GRID, PSD, motion="jerk"), "expected motion"),
        (lambda: modal_powers(GRID, PSD, power_prior=(0.0, 1.0)), "power_prior must be"),
        (lambda: modal_powers(GRID, PSD, window=([0.0], [0.5])), "add up to one"),
        (lambda: modal_powers(GRID, PSD, window=([-0.8, 0.8], [0.5, 0.5])), "further from zero"),
        (lambda: modal_powers(GRID, PSD, 0), "at least 1, got 0"),
        (lambda: simulate_powers(jax.random.key(0), modal_spectrum(GRID, PSD), 0), "modal_powers"),
    ],
)
def test_wrong_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
