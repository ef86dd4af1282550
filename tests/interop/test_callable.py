"""A black box: values on the host, gradients where given, the answers of its twin in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import folt
from brief import brief_fit
from folt.fit import in_user_parameters
from folt.groups import Permutation, Trivial
from folt.models import bayesian_mixture, bayesian_mixture_data
from folt.problem.black_box import BlackBox
from folt.problem.requirements import GradientError
from folt.problem.symmetry import SymmetryError
from folt.reference import Concern, HostChains, reference_for
from folt.training import OrbitMixture

OBSERVATIONS = bayesian_mixture_data()[:80]
TRAINER = OrbitMixture(size=4, labellings=1, rounds=3, fresh=512)
REFERENCE = HostChains(particles=300, moves=4, chains=80, draws=30, thin=4)


def mixture(points):
    """The Bayesian mixture of `folt.models`, in NumPy and for many points at once."""
    rows = points.reshape(-1, 3, 2)
    mu, log_sigma = 3 + 5 * rows[..., :1], 0.5 * rows[..., 1:]
    with np.errstate(over="ignore"):
        terms = -0.5 * ((OBSERVATIONS - mu) * np.exp(-log_sigma)) ** 2 - log_sigma
    constant = OBSERVATIONS.size * (np.log(3) + 0.5 * np.log(2 * np.pi))
    prior = -0.5 * np.sum(points**2, axis=1) - 3 * np.log(2 * np.pi)
    return logsumexp(terms, axis=1).sum(axis=1) - constant + prior


class Counting:
    def __init__(self, function):
        self.function, self.points = function, 0

    def __call__(self, points):
        assert type(points) is np.ndarray
        assert points.dtype == np.float64
        self.points += points.shape[0]
        return self.function(points)


@pytest.fixture(scope="module")
def counting():
    return Counting(mixture)


@pytest.fixture(scope="module")
def fit(counting):
    problem = folt.from_callable(counting, 6, Permutation(3, 2), vectorized=True)
    return folt.sample(problem, draws=400, reference=REFERENCE, flow=TRAINER, progress=False)


@pytest.fixture(scope="module")
def twin(fit):
    """Another reference run, other chains, the same proposal: exact whatever the proposal is."""
    problem = bayesian_mixture(OBSERVATIONS)
    return folt.sample(
        problem, seed=1, draws=400, reference=REFERENCE, flow=fit.flow, progress=False
    )


@pytest.mark.extended
def test_the_box_agrees_with_its_twin_in_jax(fit, twin):
    """Means within five standard errors of their difference, log Z likewise: 7 checks."""
    for first, second in zip(fit.draws.T, twin.draws.T, strict=True):
        spread = np.sqrt(first.var() / fit.ess().min() + second.var() / twin.ess().min())
        assert abs(first.mean() - second.mean()) < 5 * spread
    one, other = fit.log_evidence, twin.log_evidence
    error = np.hypot(one.standard_error, other.standard_error)
    assert abs(one.value - other.value) < 5 * error
    assert error < 0.05


def test_no_gradient_is_ever_computed_and_every_value_is_counted(fit, counting):
    assert fit.evaluations["gradient"] == 0
    tried = counting.points - fit.evaluations["value"]
    assert 0 < tried < 500  # the symmetry check comes before the count


def test_a_fit_of_a_box_unfolds_and_extends(fit):
    assert fit.unfolded(1).shape == fit.draws.shape
    longer = fit.extend(50)
    assert longer.draws.shape[1] == fit.draws.shape[1] + 50
    assert longer.evaluations["gradient"] == 0
    assert longer.evaluations["value"] == fit.evaluations["value"] + 4 * 50 * fit.steps_per_draw


def test_values_one_by_one_equal_values_in_batches():
    points = np.random.default_rng(0).normal(size=(10, 6))
    single = BlackBox(lambda point: mixture(point[None])[0]).values(points)
    np.testing.assert_array_equal(single, BlackBox(mixture, vectorized=True).values(points))
    np.testing.assert_array_equal(single, BlackBox(mixture, True, batch=3).values(points))


def test_the_box_cannot_spoil_its_points():
    points = np.ones((2, 3))

    def careless(batch):
        batch[:] = 0.0
        return batch.sum(axis=1)

    BlackBox(careless, vectorized=True).values(points)
    assert np.all(points == 1.0)


def test_broken_symmetry_is_summed_over_the_orbit_on_the_host():
    def slope(points):
        return -0.5 * np.sum(points**2, axis=1) + 0.3 * points[:, 0]

    group = Permutation(3, 1)
    problem = folt.from_callable(slope, 3, group, vectorized=True, invariant=False)
    twin = folt.Problem(
        lambda x: -0.5 * jnp.sum(x**2) + 0.3 * x[0], Permutation(3, 1), invariant=False
    )
    points = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(problem.log_folds(points), twin.log_folds(points), rtol=1e-12)
    np.testing.assert_allclose(problem.log_orbits(points), twin.log_orbits(points), rtol=1e-12)
    assert not folt.check(problem).holds


def test_a_symmetry_the_box_lacks_is_an_error():
    problem = folt.from_callable(lambda x: -((x[0] - 1) ** 2) - x[1] ** 2, 2, Permutation(2, 1))
    with pytest.raises(SymmetryError, match="swap components 1 and 2"):
        folt.sample(problem, progress=False)


def test_an_error_inside_the_box_keeps_its_own_message():
    def broken(point):
        raise ZeroDivisionError("the simulator ran out of steam")

    with pytest.raises(ZeroDivisionError, match="ran out of steam"):
        folt.sample(folt.from_callable(broken, 2, Trivial(2)), progress=False)


def test_a_box_that_is_not_a_number_is_a_fault():
    with pytest.raises(ValueError, match="the log density is nan"):
        folt.sample(folt.from_callable(lambda x: np.nan, 2, Trivial(2)), progress=False)


def test_rare_faults_are_counted_and_told():
    def holed(points):
        value = -0.5 * np.sum(points**2, axis=1)
        return np.where(points[:, 0] > 2.5, np.nan, value)

    prior = folt.proposals.Gaussian(jnp.zeros(1), 2.0 * jnp.eye(1))
    problem = folt.from_callable(holed, 1, Trivial(1), vectorized=True, prior=prior)
    run = HostChains(particles=100, moves=3, chains=10, draws=30, thin=3)
    reference = run(jax.random.key(0), problem)
    assert any(caution.concern is Concern.NOT_A_NUMBER for caution in reference.cautions)


def test_the_default_reference_of_a_box_is_on_the_host():
    problem = folt.from_callable(mixture, 6, Permutation(3, 2), vectorized=True)
    assert isinstance(reference_for(problem), HostChains)


def test_parameters_of_a_box_may_be_plain_numpy():
    problem = folt.from_callable(
        mixture,
        6,
        Permutation(3, 2),
        vectorized=True,
        constrain=lambda x: {"mu": np.array(3 + 5 * np.asarray(x).reshape(3, 2)[:, 0])},
    )
    draws = np.random.default_rng(2).normal(size=(2, 3, 6))
    values = in_user_parameters(problem, draws)["mu"]
    np.testing.assert_allclose(values, 3 + 5 * draws.reshape(2, 3, 3, 2)[..., 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 6, Permutation(3, 2)), "expected a function, got int"),
        ((mixture, 5, Permutation(3, 2)), "acts on 5 coordinates, got 6"),
        ((mixture, 6, "S3"), "must be a folt group"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        folt.from_callable(*arguments)


def test_a_wrong_return_is_explained():
    with pytest.raises(ValueError, match="vectorized=True"):
        BlackBox(lambda x: x).values(np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        BlackBox(lambda x: x, vectorized=True).values(np.zeros((2, 6)))


def sloped(points):
    """The mixture and its gradient."""
    rows = points.reshape(-1, 3, 2)
    mu, log_sigma = 3 + 5 * rows[..., :1], 0.5 * rows[..., 1:]
    with np.errstate(over="ignore"):
        scaled = (OBSERVATIONS - mu) * np.exp(-log_sigma)
        terms = -0.5 * scaled**2 - log_sigma
    shares = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
    by_mu = 5 * np.sum(shares * scaled * np.exp(-log_sigma), axis=-1)
    by_sigma = 0.5 * np.sum(shares * (scaled**2 - 1.0), axis=-1)
    return mixture(points), np.stack([by_mu, by_sigma], axis=-1).reshape(points.shape) - points


def with_gradient(gradient=sloped, function=mixture, **options):
    return folt.from_callable(
        function, 6, Permutation(3, 2), vectorized=True, gradient=gradient, **options
    )


def test_a_density_with_its_gradient_gets_the_engine_of_a_density_in_jax(twin):
    """Five standard errors of log Z and of six means."""
    problem = with_gradient()
    points = np.random.default_rng(3).normal(size=(9, 6))
    ours, theirs = problem.gradients(points), twin.problem.gradients(points)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9)
    assert problem.differentiable
    assert not with_gradient(None).differentiable
    fit = brief_fit(problem, draws=400)
    assert fit.evaluations["gradient"] > 1000
    assert fit.provenance["effort"] == "brief"
    one, other = fit.log_evidence, twin.log_evidence
    error = np.hypot(one.standard_error, other.standard_error)
    assert abs(one.value - other.value) < 5 * error
    for first, second in zip(fit.draws.T, twin.draws.T, strict=True):
        spread = np.sqrt(first.var() / fit.ess().min() + second.var() / twin.ess().min())
        assert abs(first.mean() - second.mean()) < 5 * spread


def test_gradients_one_by_one_in_batches_and_by_processes_are_the_same():
    points = np.random.default_rng(0).normal(size=(10, 6))
    whole = BlackBox(mixture, True, gradient=sloped).gradients(points)

    def single(point):
        value, slope = sloped(point[None])
        return value[0], slope[0]

    for box in (
        BlackBox(lambda point: mixture(point[None])[0], gradient=single),
        BlackBox(mixture, True, 3, gradient=sloped),
        BlackBox(mixture, True, 3, 2, gradient=sloped),
    ):
        values, slopes = box.gradients(points)
        box.close()
        np.testing.assert_array_equal(values, whole[0])
        np.testing.assert_array_equal(slopes, whole[1])


def spoiled(place, factor):
    def gradient(points):
        value, slope = sloped(points)
        slope[:, place] *= factor
        return value, slope

    return gradient


@pytest.mark.parametrize("place", range(6))
def test_a_wrong_gradient_is_refused_with_its_coordinate(place):
    folt.check(with_gradient())
    with pytest.raises(GradientError, match=f"wrong in coordinate 'x{place}'"):
        folt.check(with_gradient(spoiled(place, 1.02)))


def test_a_gradient_of_another_density_or_shape_is_refused():
    shifted = with_gradient(lambda points: (mixture(points) + 1.0, sloped(points)[1]))
    with pytest.raises(GradientError, match="both must give the same number"):
        folt.check(shifted)
    with pytest.raises(ValueError, match=r"of length 6 for 16 points|of length 6 for 3 points"):
        folt.check(with_gradient(lambda points: (mixture(points), points[:, :5])))
    with pytest.raises(ValueError, match="expected gradient to be a function, got bool"):
        with_gradient(True)


def test_a_kink_or_an_edge_near_a_point_is_no_wrong_gradient():
    def laplace(points):
        inside = (points > -0.5).all(axis=1)
        value = np.where(inside, -np.abs(points).sum(axis=1), -np.inf)
        return value, -np.sign(points)

    problem = folt.from_callable(
        lambda points: laplace(points)[0], 2, Trivial(2), vectorized=True, gradient=laplace
    )
    points = np.array([[0.2, -0.5 + 1e-9], [1e-9, 1.0], [1.0, 2.0]])
    assert folt.check(problem, points=points).holds
