"""Flows draw from the density they report, and keep what their docstrings promise.

Statistical checks run at level LEVEL each; there are 45 of them (3 for each of 13 planar
distributions, 2 radial laws, 3 importance identities, 1 count), so that a correct library would
fail this file for a random seed with probability below 5e-4.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage, stats

from cases import (
    FLOWS,
    bent,
    pushed,
    random_mixture,
    shaken,
    small_coupling,
)
from folt.groups import Permutation
from folt.paper.flow import (
    SpectralCoupling,
    _pull_layer,
    _push_layer,
    certified,
    paper_architecture,
)
from folt.proposals import (
    Gaussian,
    Mixture,
    Pushed,
    Safety,
    SinhArcsinh,
    StudentT,
    standard_normal,
    whitening,
)
from folt.proposals.fold import Folded
from folt.proposals.sums import parts_of
from folt.types import Distribution

LEVEL = 1e-5
DRAWS = 6000
GRID = 301
GRID_LINE = np.linspace(-7.0, 7.0, GRID)
GRID_POINTS = np.stack(
    np.meshgrid(np.sinh(GRID_LINE), np.sinh(GRID_LINE), indexing="ij"), axis=-1
).reshape(-1, 2)


@eqx.filter_jit
def log_probs(flow: Distribution, points: jax.Array) -> jax.Array:
    return jax.vmap(flow.log_prob)(points)


@eqx.filter_jit
def one_by_one(flow: Distribution, points: jax.Array) -> jax.Array:
    return jax.lax.map(flow.log_prob, points)


@eqx.filter_jit
def draws_of(flow: Distribution, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(flow.sample_and_log_prob)(jax.random.split(key, DRAWS))


@eqx.filter_jit
def there_and_back(flow: Distribution, points: jax.Array) -> tuple:
    """Images with log determinants, the way back, and the Jacobians of the push."""
    images, log_det = jax.vmap(flow.push_and_log_det)(points)
    back, log_det_back = jax.vmap(flow.pull_and_log_det)(images)
    return images, log_det, back, log_det_back, jax.vmap(jax.jacfwd(flow.push))(points)


@eqx.filter_jit
def pulled(flow: Distribution, points: jax.Array) -> tuple:
    """Points pulled and pushed again, log determinants of the pull, and its Jacobians."""
    back = jax.vmap(lambda x: flow.push(flow.pull(x)))(points)
    return back, jax.vmap(flow.log_det)(points), jax.vmap(jax.jacobian(flow.pull))(points)


@dataclasses.dataclass
class Planar:
    """A planar distribution with draws and with its density on a grid, evaluated in one go."""

    flow: Distribution
    points: jax.Array
    reported: jax.Array
    log_prob: np.ndarray
    log_prob_at_nan: float
    log_grid: np.ndarray


def tabulated(flow: Distribution) -> Planar:
    points, reported = draws_of(flow, jax.random.key(11))
    poisoned = jnp.array([[jnp.nan, 0.0]])
    values = np.asarray(log_probs(flow, jnp.concatenate([poisoned, points, GRID_POINTS])))
    return Planar(flow, points, reported, values[1 : DRAWS + 1], values[0], values[DRAWS + 1 :])


class Grid:
    """A planar density tabulated on x = sinh(t), so that heavy tails are inside."""

    def __init__(self, log_density: np.ndarray):
        self.t = GRID_LINE
        density = np.exp(log_density).reshape(GRID, GRID)
        step = self.t[1] - self.t[0]
        self.mass = density * np.outer(np.cosh(self.t), np.cosh(self.t)) * step**2

    def total(self) -> float:
        return float(self.mass.sum())

    def uniforms(self, points: np.ndarray) -> np.ndarray:
        """Rosenblatt's transform (F(x₀), F(x₁ | x₀)): uniform on the square under the density."""
        place = (np.arcsinh(points) - self.t[0]) / (self.t[1] - self.t[0])
        marginal = self.mass.sum(axis=1)
        first = np.interp(place[:, 0], np.arange(GRID), midpoint_cdf(marginal))
        table = midpoint_cdf(self.mass)
        second = ndimage.map_coordinates(table, place.T, order=1, mode="nearest")
        return np.stack([first, second], axis=1)


def midpoint_cdf(mass: np.ndarray) -> np.ndarray:
    total = np.maximum(mass.sum(axis=-1, keepdims=True), 1e-300)
    return (np.cumsum(mass, axis=-1) - 0.5 * mass) / total


def fit_p_values(grid: Grid, points: np.ndarray) -> list[float]:
    """Three checks: both coordinates of Rosenblatt's transform, and their sum modulo one."""
    uniform = grid.uniforms(points)
    columns = [uniform[:, 0], uniform[:, 1], uniform.sum(axis=1) % 1.0]
    return [float(stats.kstest(column, "uniform").pvalue) for column in columns]


def everywhere(flow: Distribution, points: jax.Array) -> tuple[np.ndarray, float]:
    """Draws of a folded density sent to random images, and the log of the group's order.

    The folded density over s is a density on the whole plane, without an edge to integrate to.
    """
    if not isinstance(flow, Folded):
        return np.asarray(points), 0.0
    keys = jax.random.split(jax.random.key(77), points.shape[0])
    images = jax.jit(jax.vmap(flow.group.random_image))(keys, points)
    return np.asarray(images), math.log(flow.group.order)


@pytest.fixture(scope="module", params=list(FLOWS))
def planar(request: pytest.FixtureRequest) -> Planar:
    return tabulated(FLOWS[request.param]())


def test_draws_follow_the_density(planar: Planar) -> None:
    images, log_order = everywhere(planar.flow, planar.points)
    grid = Grid(planar.log_grid - log_order)
    assert grid.total() == pytest.approx(1.0, abs=2e-3)
    assert min(fit_p_values(grid, images)) > LEVEL


def test_a_draw_reports_its_own_density(planar: Planar) -> None:
    np.testing.assert_allclose(planar.reported, planar.log_prob, atol=1e-8)


def test_a_nan_stays_a_nan(planar: Planar) -> None:
    """A fault must not pass for a point outside the support."""
    assert np.isnan(planar.log_prob_at_nan)


def test_folded_draws_lie_in_the_domain(planar: Planar) -> None:
    if isinstance(planar.flow, Folded):
        assert jnp.all(jax.jit(jax.vmap(planar.flow.group.contains))(planar.points))


class ForgetsDeterminant(SpectralCoupling):
    """Mutant: the log determinant is left out of the density."""

    def log_prob(self, x: jax.Array) -> jax.Array:
        return standard_normal(2).log_prob(self.pull(x))


class FlipsDeterminant(SpectralCoupling):
    """Mutant: the log determinant enters with the wrong sign."""

    def log_prob(self, x: jax.Array) -> jax.Array:
        u, log_det = self.pull_and_log_det(x)
        return standard_normal(2).log_prob(u) - log_det


@pytest.mark.parametrize("mutant", [ForgetsDeterminant, FlipsDeterminant])
def test_a_wrong_determinant_is_caught(mutant: type[SpectralCoupling]) -> None:
    broken = shaken(mutant(2, 4, 8, jax.random.key(2)), 0.6)
    sound, unsound = tabulated(small_coupling(2)), tabulated(broken)
    np.testing.assert_allclose(sound.points, unsound.points)
    grid = Grid(unsound.log_grid)
    assert min(fit_p_values(grid, np.asarray(sound.points))) < LEVEL
    assert abs(grid.total() - 1.0) > 2e-3


def test_densities_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 5))
    covariance, mean = root @ root.T + np.eye(5), rng.standard_normal(5)
    points = rng.standard_normal((20, 5))
    np.testing.assert_allclose(
        log_probs(Gaussian.from_moments(mean, covariance), points),
        stats.multivariate_normal(mean, covariance).logpdf(points),
    )
    np.testing.assert_allclose(
        log_probs(StudentT.from_moments(mean, covariance, 5.0), points),
        stats.multivariate_t(mean, covariance * 3 / 5, 5.0).logpdf(points),
    )
    mixture = random_mixture(4, 3)
    weights = np.exp(mixture.log_weights) / np.exp(mixture.log_weights).sum()
    spread = [np.linalg.inv(np.asarray(f).T @ np.asarray(f)) for f in mixture.factors]
    parts = zip(weights, np.asarray(mixture.means), spread, strict=True)
    expected = sum(w * stats.multivariate_normal(m, c).pdf(points[:, :4]) for w, m, c in parts)
    np.testing.assert_allclose(log_probs(mixture, points[:, :4]), np.log(expected))


def test_radial_laws_in_five_dimensions() -> None:
    """|u|² is chi-squared for the Gaussian; |u|²/dim is Fisher's F for Student's t."""
    covariance = 0.5 * np.eye(5) + 0.5
    gaussian = Gaussian.from_moments(np.arange(5.0), covariance)
    student = StudentT.from_moments(np.arange(5.0), covariance, 4.5)
    for flow, law, divisor in (
        (gaussian, stats.chi2(5), 1.0),
        (student, stats.f(5, 4.5), 5.0),
    ):
        points, _ = draws_of(flow, jax.random.key(5))
        u = (np.asarray(points) - np.asarray(flow.mean)) @ np.asarray(flow.factor).T
        squared = np.sum(u**2, axis=1)
        assert stats.kstest(squared / divisor, law.cdf).pvalue > LEVEL


@pytest.mark.parametrize(
    "flow",
    [random_mixture, small_coupling],
    ids=["mixture", "coupling"],
)
def test_importance_identity_in_five_dimensions(flow: Callable[..., Distribution]) -> None:
    """E_q[p/q] = 1 for an independent narrow p, within the standard error at level LEVEL."""
    proposal = flow(5, 3) if flow is random_mixture else flow(5, 0.15)
    points, log_q = draws_of(proposal, jax.random.key(8))
    centre = jnp.mean(points, axis=0)
    narrow = Gaussian.from_moments(centre, 0.5 * jnp.cov(points.T))
    ratio = np.exp(np.asarray(log_probs(narrow, points) - log_q))
    error = ratio.std() / math.sqrt(DRAWS)
    assert error < 0.1
    assert abs(ratio.mean() - 1.0) < stats.norm.isf(LEVEL / 2) * error


@pytest.mark.parametrize("name", ["mixture", "coupling"])
def test_mapping_over_points_equals_the_loop(name: str) -> None:
    flow, points = FLOWS[name](), jax.random.normal(jax.random.key(0), (DRAWS + 1 + GRID**2, 2))
    loop = one_by_one(flow, points[:20])
    np.testing.assert_allclose(loop, log_probs(flow, points)[:20], rtol=1e-10)


def test_safety_draws_the_guard_as_often_as_it_says() -> None:
    far = Gaussian(jnp.full(2, 50.0), jnp.eye(2))
    points, _ = draws_of(Safety(standard_normal(2), far, 0.1), jax.random.key(3))
    count = int(jnp.sum(points[:, 0] > 25))
    assert stats.binomtest(count, DRAWS, 0.1).pvalue > LEVEL


def test_safety_costs_at_most_its_weight() -> None:
    main, points = random_mixture(3, 2), jax.random.normal(jax.random.key(0), (50, 3))
    safe = Safety(main, standard_normal(3, 5.0))
    loss = log_probs(main, points) - log_probs(safe, points)
    assert jnp.all(loss <= -math.log1p(-0.02) + 1e-12)


def test_round_trip_and_log_determinant() -> None:
    flow = small_coupling(5)
    points = jax.random.normal(jax.random.key(0), (8, 5))
    images, log_det, back, log_det_back, jacobians = there_and_back(flow, points)
    np.testing.assert_allclose(back, points, atol=1e-8)
    np.testing.assert_allclose(log_det, -log_det_back, atol=1e-8)
    np.testing.assert_allclose(log_det, jnp.linalg.slogdet(jacobians)[1], atol=1e-9)
    assert jnp.max(jnp.abs(images - points)) > 0.1, "the flow under test should move points"


def test_sinh_arcsinh_round_trip_and_log_determinant() -> None:
    flow = bent(random_mixture(5, 2))
    points = 3.0 * jax.random.normal(jax.random.key(0), (8, 5))
    back, log_dets, jacobians = pulled(flow, points)
    np.testing.assert_allclose(back, points, rtol=1e-10)
    expected = np.linalg.slogdet(np.asarray(jacobians))[1]
    np.testing.assert_allclose(log_dets, expected, rtol=1e-10)
    # The host's twin, and far points, whose densities must not become NaN.
    part = parts_of(flow)[0]
    far = np.concatenate([np.asarray(points), 1e6 * np.asarray(points)])
    twin = np.logaddexp.reduce(part.log_terms(far), axis=1)
    np.testing.assert_allclose(twin, log_probs(flow, jnp.asarray(far)), rtol=1e-10)
    flat = SinhArcsinh(random_mixture(5, 2), *[jnp.zeros(5)] * 4)
    np.testing.assert_allclose(jax.jit(jax.vmap(flat.pull))(points), points, rtol=1e-12)


def test_new_flows_start_at_the_identity() -> None:
    dim = 5
    points = 3 * jax.random.normal(jax.random.key(0), (8, dim))
    coupling = SpectralCoupling(dim, 4, 8, jax.random.key(0))
    np.testing.assert_allclose(there_and_back(coupling, points)[0], points, atol=1e-12)


def test_a_second_flow_of_one_architecture_does_not_compile_again() -> None:
    traces = []

    @eqx.filter_jit
    def evaluate(flow: Distribution, point: jax.Array) -> jax.Array:
        traces.append(type(flow))
        return flow.log_prob(point)

    for seed in (0, 1):
        evaluate(SpectralCoupling(2, 4, 8, jax.random.key(seed)), jnp.ones(2))
    assert len(traces) == 1


@pytest.fixture(scope="module")
def wild() -> SpectralCoupling:
    """Weights far above the bound, with carried vectors that point to the smallest directions."""
    flow = shaken(SpectralCoupling(4, 3, 16, jax.random.key(0)), 1.0)
    assert isinstance(flow, SpectralCoupling)
    weights = [np.asarray(weight) for weight in flow.conditioners.weights]
    last = [np.linalg.svd(weight, full_matrices=False)[0][:, :, -1] for weight in weights]
    return eqx.tree_at(lambda f: f.directions, flow, tuple(map(jnp.asarray, last)))


@eqx.filter_jit
def layer_jacobians(flow: SpectralCoupling, points: jax.Array) -> tuple:
    """Jacobians of conditioner, push and pull at every point, layer by layer."""

    def of_layer(conditioner: Callable, mask: jax.Array, u: jax.Array) -> tuple:
        push = partial(_push_layer, conditioner, mask, flow.clip)
        pull = partial(_pull_layer, conditioner, mask, flow.clip)
        return (
            jax.jacfwd(conditioner)(u),
            jax.jacfwd(lambda v: push(v)[0])(u),
            jax.jacfwd(lambda x: pull(x)[0])(push(u)[0]),
        )

    over_layers = jax.vmap(of_layer, in_axes=(0, 0, None))
    conditioners = flow.normalised()
    return jax.vmap(lambda u: over_layers(conditioners, flow.masks, u))(points), conditioners


def largest(matrices: jax.Array) -> np.ndarray:
    """Largest spectral norm over the points, for every layer."""
    return np.max(np.linalg.norm(np.asarray(matrices), 2, axis=(-2, -1)), axis=0)


def test_certified_bounds_are_true(wild: SpectralCoupling) -> None:
    radius = 3.0
    flow = wild.certified()
    bounds = flow.lipschitz_bounds(radius)
    points = radius * jax.random.uniform(jax.random.key(1), (400, 4), minval=-1.0)
    (conditioner, push, pull), used = layer_jacobians(flow, points)
    for weight in used.weights:
        assert np.all(np.linalg.norm(np.asarray(weight), 2, axis=(1, 2)) <= 1 + 1e-12)
    assert np.all(largest(conditioner) <= bounds.conditioner)
    assert np.all(largest(push) <= bounds.push)
    assert np.all(largest(pull) <= bounds.pull)


def test_estimated_norms_alone_break_the_bound(wild: SpectralCoupling) -> None:
    """Mutant of the previous law: without exact singular values the promise is false."""
    points = 0.1 * jax.random.normal(jax.random.key(1), (400, 4))
    (conditioner, _, _), _ = layer_jacobians(wild, points)
    assert np.any(largest(conditioner) > wild.lipschitz_bounds(3.0).conditioner)


def test_certifying_a_certified_flow_changes_nothing(wild: SpectralCoupling) -> None:
    once = wild.certified()
    points = jax.random.normal(jax.random.key(2), (20, 4))
    np.testing.assert_allclose(
        log_probs(once.certified(), points), log_probs(once, points), rtol=1e-12
    )


def test_refreshing_converges_to_the_exact_norms(wild: SpectralCoupling) -> None:
    flow = shaken(wild, 0.01)
    assert isinstance(flow, SpectralCoupling)
    step = eqx.filter_jit(lambda f: f.refreshed())
    for _ in range(60):
        flow = step(flow)
    _, used = layer_jacobians(flow, jnp.zeros((400, 4)))
    for weight in used.weights:
        norms = np.linalg.norm(np.asarray(weight), 2, axis=(1, 2))
        np.testing.assert_allclose(norms, flow.bound, atol=0.02)


def test_log_scales_respect_the_clip() -> None:
    flow = certified(shaken(SpectralCoupling(2, 1, 8, jax.random.key(0), bound=20.0), 3.0))
    points = 5 * jax.random.normal(jax.random.key(0), (8, 2))
    log_det = there_and_back(flow, points)[1]
    assert 0.6 < float(jnp.max(jnp.abs(log_det))) <= 0.7


@pytest.fixture(scope="module")
def labelled() -> tuple[Permutation, jax.Array, jax.Array]:
    group = Permutation(3, 2)
    keys = jax.random.split(jax.random.key(0), 300)
    centre = jnp.array([0.0, 1.0, 3.0, -1.0, 7.0, 0.5])
    skew = jnp.eye(6).at[1, 0].set(0.8).at[4, 3].set(-0.5)
    draws = centre + jax.random.normal(jax.random.key(1), (300, 6)) @ skew.T
    relabelled = jax.jit(jax.vmap(group.random_image))(keys, draws)
    return group, draws, relabelled


def test_whitening_commutes_and_ignores_labels(
    labelled: tuple[Permutation, jax.Array, jax.Array],
) -> None:
    group, draws, relabelled = labelled
    mean, root = whitening(group, draws)
    np.testing.assert_allclose(mean, whitening(group, relabelled)[0], atol=1e-12)
    np.testing.assert_allclose(root, whitening(group, relabelled)[1], atol=1e-11)
    flow = Pushed(standard_normal(6), mean, root)
    assert commutation_defect(group, flow.push) < 1e-12
    # The moments are those of the whole orbit, computed here the long way.
    orbit = np.asarray(jax.jit(jax.vmap(group.orbit))(draws)).reshape(-1, 6)
    np.testing.assert_allclose(mean, orbit.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(root @ root, np.cov(orbit.T, bias=True), atol=1e-10)


def test_a_cholesky_root_does_not_commute(
    labelled: tuple[Permutation, jax.Array, jax.Array],
) -> None:
    group, draws, _ = labelled
    mean, root = whitening(group, draws)
    mutant = Pushed(standard_normal(6), mean, jnp.linalg.cholesky(root @ root))
    assert commutation_defect(group, mutant.push) > 0.1


def commutation_defect(group: Permutation, push: Callable[[jax.Array], jax.Array]) -> float:
    u = jax.random.normal(jax.random.key(4), (group.dim,))
    return float(jnp.max(jnp.abs(jax.vmap(push)(group.orbit(u)) - group.orbit(push(u)))))


def test_whitening_is_not_trained() -> None:
    flow = pushed(small_coupling(2))
    slope = eqx.filter_jit(eqx.filter_grad(lambda f: f.log_prob(jnp.ones(2))))(flow)
    assert not np.any(slope.mean)
    assert not np.any(slope.root)
    assert np.any(slope.base.conditioners.biases[-1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: Gaussian.from_moments([0.0, 0.0], np.diag([1.0, 0.0])),
            "coordinate 1 is constant",
        ),
        (lambda: Gaussian.from_moments([0.0, 0.0], np.ones((2, 2))), r"direction .*x0 .*x1"),
        (lambda: Gaussian(jnp.zeros(2), jnp.eye(3)), r"got \(2,\) and \(3, 3\)"),
        (lambda: StudentT(jnp.zeros(2), jnp.eye(2), 0.0), "positive, got 0.0"),
        (lambda: StudentT.from_moments([0.0], np.eye(1), 2.0), "degrees > 2, got 2.0"),
        (lambda: Mixture(jnp.zeros(2), jnp.zeros((3, 2)), jnp.zeros((3, 2, 2))), r"got \(2,\)"),
        (lambda: Safety(standard_normal(2), standard_normal(3)), "dimension 2.* dimension 3"),
        (lambda: Safety(standard_normal(2), standard_normal(2), 1.0), "strictly between"),
        (lambda: SpectralCoupling(2, 0, 8, jax.random.key(0)), "must be positive"),
        (lambda: standard_normal(0), "dim=0"),
        (lambda: whitening(Permutation(2, 1), jnp.zeros((5, 3))), r"\(n, 2\), got \(5, 3\)"),
        (lambda: whitening(Permutation(2, 1), jnp.zeros((5, 2))), "constant"),
    ],
)
@pytest.mark.wrong_shapes
def test_wrong_input_is_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def test_paper_architecture_is_the_printed_table() -> None:
    table = {2: (8, 64, 2000), 6: (10, 128, 2000), 8: (12, 128, 3500), 20: (16, 256, 3500)}
    assert {dim: paper_architecture(dim) for dim in table} == table


@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-7])
def test_a_settled_mixture_is_accurate_for_narrow_components(width):
    """Log terms against long double at relative widths down to 1e-7; monomials alone lose .02."""
    means = np.array([[0.0, 1.0], [1.0, 0.0], [0.3, 0.4]])
    factors = np.eye(2) / width * np.array([1.0, 1.3, 0.7])[:, None, None]
    mixture = Mixture(jnp.zeros(3), jnp.asarray(means), jnp.asarray(factors))
    settled = mixture.settled()
    assert settled.direct == (width < 1e-4)
    x = means[0] + width * np.array([0.7, -1.1])
    u = np.einsum("kij,kj->ki", factors.astype(np.longdouble), x - means.astype(np.longdouble))
    exact = -0.5 * np.sum(u**2, axis=1) + 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)[:, 0])
    exact = exact - np.log(3.0) - np.log(2 * np.pi)
    assert float(settled.log_terms(jnp.asarray(x))[0]) == pytest.approx(float(exact[0]), abs=1e-6)
    lossy = abs(float(mixture.log_terms(jnp.asarray(x))[0]) - float(exact[0]))
    assert width > 1e-7 or lossy > 1e-4
