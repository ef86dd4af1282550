"""Rotations divided out: closed forms, mutants, and the way back."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import gammaln

import folt
from folt.coordinates import RotationChart
from folt.groups import Product, Rotation, SignedPermutation, Trivial
from folt.problem.quotient import independent_rows
from folt.problem.symmetry import SymmetryError

SCALE = 0.6
"""Of normal matrices: with unit scale some wrong powers of the diagonal would be invisible."""


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


def normal(matrix, scale=SCALE):
    return jnp.sum(-0.5 * (matrix / scale) ** 2 - math.log(scale) - 0.5 * math.log(2 * math.pi))


def log_integral(group, powers=None):
    """∫ exp(slope) N(L) dL of a normal matrix in closed form: it must be one.

    Entries off the diagonal integrate to one each; for the diagonal, e^(az) l^0 with l = e^z gives
    ∫ l^(a-1) exp(-l²/2s²) dl = ½ (2s²)^(a/2) Γ(a/2).
    """
    k = group.columns
    powers = k - np.arange(k) if powers is None else powers
    missing = group.dim - RotationChart(group).dim + k  # entries whose density has no integral
    total = group.log_volume - missing * (math.log(SCALE) + 0.5 * math.log(2 * math.pi))
    for number, power in enumerate(powers):
        if group.special and number == k - 1:  # a real number: the whole normal law
            total += math.log(SCALE) + 0.5 * math.log(2 * math.pi)
        else:
            half = 0.5 * power
            total += half * math.log(2 * SCALE**2) + gammaln(half) - math.log(2)
    return total


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_the_volume_makes_the_normal_law_integrate_to_one(k, special):
    if special and k == 1:
        pytest.skip("SO(1) is trivial")
    group = Rotation(k + 2, k, special=special)
    assert abs(log_integral(group)) < 1e-12
    if not special and k > 1:  # mutants: powers too low throughout, and the volume of SO(k)
        assert abs(log_integral(group, k - np.arange(k) - 0.5)) > 0.1
        smaller = Rotation(k + 2, k, special=True).log_volume - group.log_volume
        assert abs(log_integral(group) + smaller) > 0.1


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("scale", [None, SCALE])
def test_both_charts_are_the_same_density_of_the_representative(scale, special):
    """Density of z divided by the Jacobian of z → L, which the charts have of their own."""
    chart = RotationChart(Rotation(5, 3, special, False, (4, 1, 2), scale))
    plain = RotationChart(Rotation(5, 3, special, False, (4, 1, 2)))
    z = jnp.asarray(np.random.default_rng(0).normal(size=chart.dim))
    rows = chart.group.matrix(chart.push(z))[plain.places]
    jacobian = jax.jacobian(lambda at: chart.group.matrix(chart.push(at))[chart.places])(z)
    other = plain.pull(chart.push(z))
    plainly = jax.jacobian(lambda at: plain.group.matrix(plain.push(at))[plain.places])(other)
    first = chart.log_slope(z) - jnp.linalg.slogdet(jacobian)[1]
    second = plain.log_slope(other) - jnp.linalg.slogdet(plainly)[1]
    np.testing.assert_allclose(first, second, atol=1e-9)
    np.testing.assert_allclose(plain.group.matrix(plain.push(other))[plain.places], rows, rtol=1e-9)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("labels_first", [False, True])
def test_a_turned_matrix_has_the_same_coordinates(special, labels_first):
    group = Rotation(6, 3, special, labels_first, (5, 0, 3))
    x = jax.random.normal(jax.random.key(1), (18,))
    chart = RotationChart(group)
    for number in range(4):
        element = group.random_element(jax.random.key(number))
        np.testing.assert_allclose(element @ element.T, np.eye(3), atol=1e-12)
        if special:
            assert np.linalg.det(element) > 0
        turned = group.act(element, x)
        np.testing.assert_allclose(chart.pull(turned), chart.pull(x), atol=1e-9)
        undone = group.act(group.inverse(element), turned)
        np.testing.assert_allclose(undone, x, atol=1e-12)
    matrix = group.matrix(chart.push(chart.pull(x)))
    assert np.abs(np.triu(matrix[np.array([5, 0, 3])], 1)).max() == 0
    np.testing.assert_allclose(matrix @ matrix.T, group.matrix(x) @ group.matrix(x).T, atol=1e-9)


def test_the_evidence_on_the_quotient_is_that_of_the_whole_space():
    """A likelihood of ΛΛᵀ, p = k = 2, by quadrature in four and in three dimensions."""

    def likelihood(matrix):
        covariance = matrix @ matrix.T + 0.5 * jnp.eye(2)
        return -4 * jnp.linalg.slogdet(covariance)[1] - jnp.trace(
            jnp.linalg.inv(covariance) @ jnp.array([[9.0, 3.0], [3.0, 5.0]])
        )

    def by_hand(a, b, c, d):
        first, second, both = a * a + b * b + 0.5, c * c + d * d + 0.5, a * c + b * d
        determinant = first * second - both**2
        trace = (9.0 * second + 5.0 * first - 6.0 * both) / determinant
        prior = -0.5 * (a * a + b * b + c * c + d * d) - 2 * np.log(2 * np.pi)
        return np.exp(-4 * np.log(determinant) - trace + prior)

    x, w = (6.5 * each for each in leggauss(64))
    low, thin = 0.5 * (x + 6.5), 0.5 * w
    one, two = x[:, None, None], x[None, :, None]
    weights = w[:, None, None] * w[None, :, None] * w
    whole = sum(v * np.sum(weights * by_hand(one, a, two, x)) for a, v in zip(x, w, strict=True))
    up = low[:, None, None]
    values = by_hand(up, 0.0, two, low) * up  # l_11 to the power k - 1
    volume = math.exp(Rotation(2, 2).log_volume)
    quotient = volume * np.sum(thin[:, None, None] * w[None, :, None] * thin * values)
    assert abs(np.log(quotient / whole)) < 1e-5
    missing = volume * np.sum(thin[:, None, None] * w[None, :, None] * thin * values / up)
    assert abs(np.log(missing / whole)) > 0.1

    # The problem's density at a point is that law times the likelihood.
    problem = folt.Problem(
        lambda at: likelihood(at.reshape(2, 2)) + normal(at, 1.0),
        Rotation(2, 2, pivots=(0, 1), scale=1.0),
    )
    z = np.array([[0.3, -0.2, 0.8]])
    matrix = problem.quotient.lift(jnp.asarray(z[0])).reshape(2, 2)
    expected = likelihood(matrix) + normal(z[0], 1.0)
    np.testing.assert_allclose(problem.log_probs(z)[0], expected, rtol=1e-10)


def ring(x):
    """A matrix whose covariance is near a target of rank two, and a pair of twins beside it."""
    matrix = x[:8].reshape(4, 2)
    target = np.array([[2.0, 0.0], [0.0, 1.0], [1.5, 1.0], [-1.0, 0.5]])
    away = matrix @ matrix.T - target @ target.T
    return -jnp.sum(away**2) - 0.05 * jnp.sum(matrix**2) - jnp.sum((x[8:] ** 2 - 1.0) ** 2)


RING = Product(Rotation(4, 2), SignedPermutation(1, 2))


@pytest.fixture(scope="module")
def fit():
    problem = folt.Problem(ring, RING, names=[*(f"m{n}" for n in range(8)), "a", "b"])
    return folt.sample(problem, draws=200, effort=folt.Effort.quick(), progress=False)


def test_a_rotation_in_a_product_is_divided_out_and_the_rest_is_folded(fit):
    problem = fit.problem
    assert problem.dim == fit.draws.shape[-1] == 9
    assert problem.group.order == 2
    pivots = problem.quotient.rotations[0].pivots
    assert pivots[0] == 0  # the longest row
    matrix = np.stack([fit.posterior[f"m{n}"] for n in range(8)], -1).reshape(4, 200, 4, 2)
    first = matrix[..., pivots[0], :]
    assert np.all(first[..., 0] > 0)
    assert np.all(first[..., 1] == 0)
    assert "O(2) of a matrix of 4 rows, a ring of dimension 1" in fit.summary()
    assert "Divided out" in repr(problem)
    assert fit.problem.unconstrain(fit.posterior).shape == fit.draws.shape
    np.testing.assert_allclose(problem.unconstrain(fit.posterior), fit.draws, atol=1e-8)


def test_unfolded_draws_are_turned_uniformly(fit):
    """The mean angle of 800 draws is zero within five standard errors, and log π is the same."""
    whole = fit.unfolded(seed=2)
    assert whole.shape == (4, 200, 10)
    flat = whole.reshape(-1, 10)
    angle = np.arctan2(flat[:, 1], flat[:, 0])
    for wave in (1, 2):
        assert np.abs(np.exp(1j * wave * angle).mean()) < 5 / np.sqrt(len(flat))
    lifted = jax.jit(jax.vmap(fit.problem.quotient.lift))(fit.draws.reshape(-1, 9))
    rings = jax.jit(jax.vmap(ring))
    np.testing.assert_allclose(rings(flat), rings(lifted), atol=1e-9)


def test_draws_are_turned_for_reading(fit):
    target = np.array([[2.0, 0.0], [0.0, 1.0], [1.5, 1.0], [-1.0, 0.5]])
    near = fit.rotated(target)
    found = np.stack([near[f"m{n}"].mean() for n in range(8)]).reshape(4, 2)
    np.testing.assert_allclose(found, target, atol=0.2)
    read = fit.rotated("varimax")
    for name in "ab":
        np.testing.assert_array_equal(read[name], fit.posterior[name])
    assert np.std(read["m0"]) < 0.3
    with pytest.raises(ValueError, match=r"target of shape \(4, 2\)"):
        fit.rotated(target.T)
    with pytest.raises(ValueError, match="rotations were divided out"):
        dataclasses.replace(fit, problem=None).rotated()
    with pytest.raises(ValueError, match="load the fit with its problem"):
        dataclasses.replace(fit, problem=None).unfolded()


def test_a_rotation_that_is_not_there_is_refused_with_generator_and_defect():
    with pytest.raises(SymmetryError, match=r"O\(2\) but changes by .* 'rotate columns 1 and 2"):
        folt.Problem(lambda x: -jnp.sum(jnp.abs(x)), Rotation(4, 2))
    with pytest.raises(SymmetryError, match="flip the sign of column 2"):
        folt.Problem(lambda x: -jnp.sum(x**2) + jnp.linalg.det(x.reshape(2, 2)), Rotation(2, 2))
    kept = Rotation(2, 2, special=True)
    assert folt.Problem(lambda x: -jnp.sum(x**2) + jnp.linalg.det(x.reshape(2, 2)), kept).dim == 3


def test_a_function_with_its_gradient_is_divided_too():
    both = jax.jit(jax.vmap(jax.value_and_grad(ring)))
    twin = folt.Problem(ring, Product(Rotation(4, 2, pivots=(0, 2)), Trivial(2)))
    box = folt.from_callable(
        lambda points: np.asarray(both(points)[0]),
        10,
        Product(Rotation(4, 2, pivots=(0, 2)), Trivial(2)),
        vectorized=True,
        gradient=both,
    )
    points = np.random.default_rng(0).normal(size=(5, 9))
    np.testing.assert_allclose(box.log_probs(points), twin.log_probs(points), rtol=1e-10)
    np.testing.assert_allclose(box.gradients(points)[1], twin.gradients(points)[1], rtol=1e-8)


def test_impossible_rotations_are_refused():
    with pytest.raises(ValueError, match="got 2 rows and 3 columns"):
        Rotation(2, 3)
    with pytest.raises(ValueError, match="2 different rows from 0 to 3"):
        Rotation(4, 2, pivots=(1, 1))
    with pytest.raises(ValueError, match="continuous: it has no order"):
        _ = Rotation(4, 2).order
    with pytest.raises(ValueError, match=r"matrix of rank 2 .* got rank 1"):
        independent_rows(np.outer(np.arange(1.0, 5.0), [1.0, 2.0]), 2)
