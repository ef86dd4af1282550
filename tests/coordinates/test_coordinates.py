"""Coordinates: bijections with exact slopes, precise far into both tails."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import COORDINATES, PRIORS
from folt.coordinates import (
    Cauchy,
    Coordinate,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Logistic,
    Logit,
    LogNormal,
    Normal,
    PriorNormal,
    Uniform,
)
from folt.coordinates.tails import log_tails, quantile_of_log

# How far out the value itself can still tell two coordinates apart. A bounded value next to a
# bound that is not zero runs out of digits near 8 standard deviations; nothing can help that.
REACH = dict.fromkeys(COORDINATES, 35.0) | {
    "uniform": 5.0,
    "logit": 12.0,
    "interval scores": 4.0,
}

every_coordinate = pytest.mark.parametrize("name", COORDINATES)
every_prior = pytest.mark.parametrize("name", PRIORS)


@eqx.filter_jit
def _compiled(coordinate: Coordinate, x: jax.Array) -> dict[str, jax.Array]:
    value = coordinate.push(x)
    return {
        "value": value,
        "back": coordinate.pull(value),
        "log_slope": coordinate.log_slope(x),
        "slope": jax.vmap(jax.grad(coordinate.push))(x),
        "slope_back": jax.vmap(jax.grad(coordinate.pull))(value),
    }


def _evaluate(name: str, x: jax.Array) -> dict[str, np.ndarray]:
    """Everything about a coordinate at some points, always through one compiled shape."""
    padded = jnp.resize(x, (3000,))
    result = _compiled(COORDINATES[name], padded)
    return {key: np.asarray(array)[: x.shape[0]] for key, array in result.items()}


def _grid(name: str) -> jax.Array:
    return jnp.linspace(-REACH[name], REACH[name], 2801)


@every_coordinate
def test_round_trip_in_both_tails(name: str) -> None:
    x = _grid(name)
    result = _evaluate(name, x)
    tolerance = 1e-9 if name in ("uniform", "logit", "interval scores") else 1e-12
    np.testing.assert_allclose(result["back"], x, rtol=tolerance, atol=tolerance)


@every_coordinate
def test_increasing_with_finite_gradients(name: str) -> None:
    result = _evaluate(name, _grid(name))
    assert np.all(np.diff(result["value"]) > 0)
    for array in result.values():
        assert np.all(np.isfinite(array))
    # Beyond the value's own digits the map may stand still, but it never breaks.
    far = _evaluate(name, jnp.linspace(-35.0, 35.0, 2801))
    assert np.all(np.diff(far["value"]) >= 0)
    for array in far.values():
        assert np.all(np.isfinite(array))


@every_coordinate
def test_slope_is_the_derivative(name: str) -> None:
    x = _grid(name)
    result = _evaluate(name, x)
    inner = np.abs(x) < 6
    np.testing.assert_allclose(np.log(result["slope"]), result["log_slope"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        (result["slope"] * result["slope_back"])[inner],
        1.0,
        rtol=1e-6 if name == "uniform" else 1e-9,
    )


@every_coordinate
def test_slope_against_finite_differences(name: str) -> None:
    """Independent of every derivative rule: a fourth-order difference quotient of push."""
    x, step = jnp.linspace(-4.0, 4.0, 41), 1e-3
    stencil = jnp.concatenate([x + shift * step for shift in (-2, -1, 0, 1, 2)])
    result = _evaluate(name, stencil)
    back2, back, _, ahead, ahead2 = result["value"].reshape(5, -1)
    quotient = (8 * (ahead - back) - (ahead2 - back2)) / (12 * step)
    slope = np.exp(result["log_slope"].reshape(5, -1)[2])
    # Laplace has a kink at its median, where no difference quotient holds.
    smooth = np.abs(x) > 0.01
    np.testing.assert_allclose(slope[smooth], quotient[smooth], rtol=1e-8)


@every_coordinate
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_round_trip_of_any_coordinate(name: str, data: st.DataObject) -> None:
    """Ten at a time: what a program takes is its call, however many of its 3000 points differ."""
    reach = REACH[name]
    number = st.floats(-reach, reach, allow_subnormal=False)
    x = np.array(data.draw(st.lists(number, min_size=10, max_size=10)))
    with jax.enable_x64(True):
        result = _evaluate(name, jnp.asarray(x))
    np.testing.assert_allclose(result["back"], x, rtol=1e-9, atol=1e-9)


@every_prior
def test_prior_becomes_standard_normal(name: str) -> None:
    """log p(push(x)) + log_slope(x) = log φ(x), with the density taken from scipy."""
    prior, reference = PRIORS[name]
    x = _grid(name)
    result = _evaluate(name, x)
    value, log_slope = result["value"], result["log_slope"]
    expected = scipy.stats.norm.logpdf(x)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(value)) + log_slope, expected, rtol=1e-13)
    inner = np.abs(x) < 8
    np.testing.assert_allclose(
        reference.logpdf(value[inner]) + log_slope[inner],
        expected[inner],
        rtol=1e-9,
        atol=1e-9,
    )


@every_prior
def test_values_are_the_quantiles(name: str) -> None:
    """Against scipy's quantile function below the median and its survival inverse above."""
    reference = PRIORS[name][1]
    x = np.linspace(-30, 30, 601)
    tail = scipy.stats.norm.cdf(-np.abs(x))
    expected = np.where(x < 0, reference.ppf(tail), reference.isf(tail))
    # scipy's own half-normal inverse goes through (1 + p)/2 and has lost p by -5.
    known = x > -5 if name == "halfnormal" else np.isfinite(expected)
    value = _evaluate(name, jnp.asarray(x))["value"]
    np.testing.assert_allclose(value[known], expected[known], rtol=1e-9, atol=1e-14)


@every_prior
def test_log_density_matches_scipy_and_vanishes_outside(name: str) -> None:
    prior, reference = PRIORS[name]
    values = np.concatenate([np.linspace(-3, 6, 91), [1.0, 0.71]])
    np.testing.assert_allclose(
        prior.log_prob(jnp.asarray(values)), reference.logpdf(values), rtol=1e-12, atol=1e-12
    )


def test_a_wrong_prior_is_noticed() -> None:
    """Mutant: the coordinate of one scale and the density of another must not agree."""
    x = jnp.linspace(-3.0, 3.0, 31)
    coordinate = PriorNormal(Gumbel(1.0, 2.0))
    other = Gumbel(1.0, 2.01).log_prob(coordinate.push(x)) + coordinate.log_slope(x)
    assert not np.allclose(other, scipy.stats.norm.logpdf(x), atol=1e-4)


def test_normal_tails_against_scipy() -> None:
    x = np.linspace(-38, 38, 7601)
    log_cdf, log_survival = jax.jit(log_tails)(jnp.asarray(x))
    quantile = jax.jit(quantile_of_log)
    lower = x < 0
    np.testing.assert_allclose(log_cdf[lower], scipy.special.log_ndtr(x[lower]), rtol=1e-13)
    np.testing.assert_allclose(log_survival[~lower], scipy.special.log_ndtr(-x[~lower]), rtol=1e-13)
    near = np.abs(x) < 37
    upper = -scipy.special.ndtr(-x[near & (x > 8)])
    np.testing.assert_allclose(log_cdf[near & (x > 8)], upper, rtol=1e-13)
    np.testing.assert_allclose(quantile(log_cdf[lower]), x[lower], rtol=1e-12, atol=1e-12)
    # Where Φ itself underflows only its logarithm is left.
    deep = np.array([-50.0, -200.0, -1000.0])
    np.testing.assert_allclose(quantile(scipy.special.log_ndtr(deep)), deep, rtol=1e-12)


def test_bounded_values_stay_inside() -> None:
    for coordinate in (Logit(0.7, 1.1), PriorNormal(Uniform(0.7, 1.1))):
        value = coordinate.push(jnp.array([-500.0, -40.0, 40.0, 500.0]))
        assert np.all((value > 0.7) & (value < 1.1))
        assert np.all(np.isfinite(coordinate.pull(value)))


def test_derivatives_reach_the_parameters_of_a_prior() -> None:
    """The special derivative of the standard shape must not hide location and scale."""
    x = jnp.asarray(1.3)
    gradient = jax.grad(lambda p: PriorNormal(p).push(x))(
        Gumbel(jnp.asarray(1.0), jnp.asarray(2.0))
    )
    standard = PriorNormal(Gumbel(0.0, 1.0)).push(x)
    assert float(gradient.loc) == pytest.approx(1.0)
    assert float(gradient.scale) == pytest.approx(float(standard))


def test_second_derivatives() -> None:
    x = jnp.linspace(-3.0, 3.0, 7)
    for prior in (Logistic(0.0, 1.0), HalfCauchy(1.0)):
        coordinate = PriorNormal(prior)
        curvature = jax.jit(jax.vmap(jax.grad(jax.grad(coordinate.push))))(x)
        slope = jax.jit(jax.vmap(jax.grad(coordinate.push)))
        quotient = (slope(x + 1e-5) - slope(x - 1e-5)) / 2e-5
        np.testing.assert_allclose(curvature, quotient, rtol=1e-6, atol=1e-8)


def test_parameters_are_leaves() -> None:
    """Another scale of equal shape runs the compiled function and gives another answer."""
    traces = []

    @eqx.filter_jit
    def push(coordinate: Coordinate, x: jax.Array) -> jax.Array:
        traces.append(1)
        return coordinate.push(x)

    x = jnp.linspace(-1.0, 1.0, 5)
    first = push(PriorNormal(Laplace(0.0, 1.0)), x)
    second = push(PriorNormal(Laplace(0.0, 2.0)), x)
    assert len(traces) == 1
    np.testing.assert_allclose(second, 2 * first)


def test_parameters_made_outside_keep_double_precision() -> None:
    with jax.enable_x64(False):
        coordinate = PriorNormal(Uniform(0.7, 1.1))
    assert float(coordinate.push(jnp.zeros(()))) == pytest.approx(0.9, rel=1e-15)


def test_array_parameters_broadcast() -> None:
    coordinate = PriorNormal(Normal(np.array([0.0, 10.0]), np.array([1.0, 2.0])))
    value = coordinate.push(jnp.ones((3, 2)))
    np.testing.assert_allclose(value, np.tile([1.0, 12.0], (3, 1)))


def test_prior_without_inverse_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got rv_.*Log\(\).*Logit\(low, high\)"):
        PriorNormal(scipy.stats.gamma(2.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [Normal, LogNormal, Laplace, Logistic, Cauchy, Gumbel])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_bad_scale_is_refused(shape: type, scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be positive and finite"):
        shape(0.0, scale)


@pytest.mark.parametrize("shape", [HalfNormal, Exponential, HalfCauchy])
def test_bad_scale_on_the_half_line_is_refused(shape: type) -> None:
    with pytest.raises(ValueError, match=f"{shape.__name__}: scale must be positive"):
        shape(-2.0)


@pytest.mark.parametrize("shape", [Logit, Uniform])
@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
def test_bad_bounds_are_refused(shape: type, bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="finite low < high"):
        shape(*bounds)
