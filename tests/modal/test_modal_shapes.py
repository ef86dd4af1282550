"""Modes with shapes: the likelihood against a dense one, symmetry, priors, start, errors."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import folt
from folt.batching import map_points
from folt.modal.models.coherence import transfer
from folt.modal.models.powers import resonance
from folt.models import fourier_ordinates, modal_shapes, scaled_ordinates, simulate_shapes

GRID = np.linspace(0.7, 1.1, 25)
RNG = np.random.default_rng(3)
FORCE = RNG.normal(size=(25, 1)) + 1j * RNG.normal(size=(25, 1))
PEAK = np.exp(-(((GRID - 0.85) / 0.04) ** 2))[:, None]
NOISE = RNG.normal(size=(25, 3)) + 1j * RNG.normal(size=(25, 3))
TRANSFORM = 3e-4 * (FORCE * PEAK * np.array([1.0, -0.5, 0.2]) + 0.1 * NOISE)
DATA = scaled_ordinates(GRID, TRANSFORM)
POINTS = np.random.default_rng(0).normal(size=(50, 2 * 5 + 2 + 3))


@dataclasses.dataclass
class Samples:
    """A record as the model asks for one."""

    values: np.ndarray
    rate: float = 10.0


@functools.cache
def build(noise="channel", motion="acceleration", modes=2, forces="uncorrelated"):
    bounds = (0.7, 1.1)
    return modal_shapes(
        DATA, modes, frequency_range=bounds, noise=noise, motion=motion, forces=forces
    )


def values_at(problem, points):
    return map_points(folt.Problem.log_prob, problem, points)


def dense(x, noise, exponent=4, correlated=False, turn=1j):
    """Log CN(0, E_k) with every matrix written out, and the priors by SciPy.

    Args:
        x: a point; what stands behind its coordinates is left out.
        noise: "common" or "channel".
        exponent: of the frequency in the transfer.
        correlated: whether the forces of the two modes are.
        turn: the imaginary unit of the transfer; its conjugate is a mutant.
    """
    pair = 2 * correlated
    count = 10 + pair + (3 if noise == "channel" else 1)
    rows, last = x[:10].reshape(2, 5), x[10 + pair : count]
    psi = rows[:, :3] * np.sqrt(0.4)
    f = 0.7 + 0.4 * stats.norm.cdf(rows[:, 3])
    xi = 0.001 + 0.049 * stats.norm.cdf(rows[:, 4])
    density = np.broadcast_to(0.01 * np.exp(2.3 * last), 3)
    coherence = np.eye(2, dtype=complex)
    if correlated:  # of two modes tanh|h| in the direction of h
        h = 0.5 * (x[10] + 1j * x[11])
        coherence[0, 1] = np.tanh(abs(h)) * h / abs(h)
        coherence[1, 0] = coherence[0, 1].conj()
    ordinates = TRANSFORM / np.sqrt(np.mean(np.abs(TRANSFORM) ** 2))
    total = stats.norm.logpdf(x[:count]).sum()
    for at, row in zip(GRID, ordinates, strict=True):
        transfer = np.sqrt(4 * xi * f**3 / np.pi) * (at / f) ** (exponent / 2)
        transfer = transfer / (f**2 - at**2 + 2 * turn * xi * f * at)
        moved = psi.T * transfer
        covariance = np.diag(density) + moved @ coherence @ moved.conj().T
        _, log_det = np.linalg.slogdet(covariance)
        quadratic = (row.conj() @ np.linalg.solve(covariance, row)).real
        total -= log_det + quadratic + 3 * np.log(np.pi)
    return total


CASES = [
    ("channel", "acceleration", 4, False),
    pytest.param("common", "velocity", 2, False, marks=pytest.mark.extended),
    pytest.param("common", "displacement", 0, False, marks=pytest.mark.extended),
    ("channel", "velocity", 2, True),
    ("common", "acceleration", 4, True),
]


@pytest.mark.parametrize(("noise", "motion", "exponent", "correlated"), CASES)
def test_the_density_is_that_of_a_dense_complex_normal(noise, motion, exponent, correlated):
    """Differences of large squares leave 1e-7 where a channel has hardly any noise."""
    problem = build(noise, motion, forces="correlated" if correlated else "uncorrelated")
    expected = np.array([dense(x, noise, exponent, correlated) for x in POINTS])
    found = values_at(problem, POINTS[:, : problem.dim])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-7)


def test_mutants_of_the_density_are_far_from_the_dense_one():
    """A transfer without f², noise that enters the determinant once, and phases turned round."""
    problem = build("common", "acceleration")
    points = POINTS[:10, : problem.dim]
    expected = np.array([dense(x, "common") for x in points])
    flat = values_at(build("common", "displacement"), points)
    assert np.all(np.abs(flat / expected - 1) > 1e-6)

    def once(x, data):
        noise = problem.log_density.parts(x).noise
        return problem.log_density(x, data) + 25 * 2 * jnp.log(noise[0])

    mutant = folt.Problem(once, problem.group, data=problem.data)
    assert np.all(np.abs(values_at(mutant, points) / expected - 1) > 1e-6)
    turned, right = (
        np.array([dense(x, "common", 4, True, turn) for x in POINTS[:10]]) for turn in (-1j, 1j)
    )
    assert np.all(np.abs(turned / right - 1) > 1e-7)
    single = [dense(x, "common", 4, False, turn) for x in POINTS[:1] for turn in (1j, -1j)]
    assert single[0] == pytest.approx(single[1], rel=1e-12)  # without correlation phases drop out


@pytest.mark.parametrize("forces", ["uncorrelated", "correlated"])
def test_gradients_agree_with_differences(forces):
    problem = build(forces=forces)
    slope = eqx.filter_jit(lambda p, x: jax.grad(p.log_prob)(x))
    steps = 1e-5 * np.eye(problem.dim)
    for x in POINTS[:3, : problem.dim]:
        ahead, behind = (values_at(problem, x + sign * steps) for sign in (1, -1))
        found = np.asarray(slope(problem, jnp.asarray(x)))
        np.testing.assert_allclose(found, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-4)


MODELS = [("common", 2, "uncorrelated"), ("channel", 2, "correlated"), ("common", 3, "correlated")]


@pytest.mark.parametrize(("noise", "modes", "forces"), MODELS)
def test_signs_and_places_of_modes_do_not_matter(noise, modes, forces):
    problem = build(noise, modes=modes, forces=forces)
    assert problem.group.order == {2: 8, 3: 48}[modes]
    assert folt.check(problem).holds


def test_pairs_that_stay_when_a_shape_changes_its_sign_are_caught():
    """Mutant: coherences that the signed permutations of the modes leave alone."""
    problem = build("common", forces="correlated")
    group = folt.groups.Product(
        folt.groups.SignedPermutation(2, 5, unsigned=2), folt.groups.Trivial(3)
    )
    assert not folt.check(folt.Problem(problem.log_density, group, data=problem.data)).holds


def test_a_frequency_that_changes_sign_with_its_shape_is_caught():
    """Mutant: all entries of a row are signed, frequency and damping too."""
    problem = build("common")
    group = folt.groups.Product(folt.groups.SignedPermutation(2, 5), folt.groups.Trivial(1))
    assert not folt.check(folt.Problem(problem.log_density, group, data=problem.data)).holds


@pytest.mark.parametrize(("noise", "modes", "forces"), MODELS)
def test_parameters_lead_back_to_the_point(noise, modes, forces):
    problem = build(noise, modes=modes, forces=forces)
    x = np.random.default_rng(1).normal(size=problem.dim)
    found = problem.parameters(x)
    np.testing.assert_allclose(np.sum(np.square(found["shape"]), axis=1), 1.0)
    psi = x[: 5 * modes].reshape(modes, 5)[:, :3] * np.sqrt(0.4) * float(DATA.scale)
    np.testing.assert_allclose(found["power"], np.sum(psi**2, axis=1))
    named = {name: len(axes) for name, axes in problem.dims}
    assert {k: np.ndim(v) for k, v in found.items() if np.ndim(v)} == named
    values = {name: np.asarray(value) for name, value in found.items()}
    np.testing.assert_allclose(problem.unconstrain(values), x, rtol=1e-8)


def test_the_unit_of_the_data_does_not_matter():
    bounds = (0.7, 1.1)
    other = modal_shapes(scaled_ordinates(GRID, 1e9 * TRANSFORM), 2, frequency_range=bounds)
    points = POINTS[:3, : other.dim]
    np.testing.assert_allclose(
        values_at(other, points), values_at(build("common"), points), rtol=1e-12
    )


def test_terms_add_up_and_replicates_have_the_covariance_of_the_model():
    """Whitened by E_k, 2·25·3·200 numbers have mean square one: 4.5 errors, 7e-6 by chance."""
    problem = build(forces="correlated")
    x = jnp.asarray(POINTS[1])
    total = float(problem.log_prob(x)) - stats.norm.logpdf(POINTS[1]).sum()
    assert float(problem.log_likelihoods(x)["ordinates"].sum()) == pytest.approx(total, rel=1e-12)
    parts = problem.log_density.parts(x)
    at = np.asarray(transfer(GRID, parts.frequency, parts.damping, 4))
    np.testing.assert_allclose(
        np.abs(at) ** 2, resonance(GRID, parts.frequency, parts.damping, 4), rtol=1e-12
    )
    moved = np.einsum("ic,ik,ia->kca", np.asarray(parts.psi), at, np.asarray(parts.root))
    covariance = moved @ np.swapaxes(moved.conj(), 1, 2) + np.diag(np.asarray(parts.noise))
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    drawn = eqx.filter_jit(jax.vmap(lambda key: problem.replicates(key, x)["ordinates"]))
    ordinates = np.asarray(drawn(jax.random.split(jax.random.key(1), 200))) / DATA.scale
    complex_white = np.einsum("kcd,rkd->rkc", root, ordinates[..., 0] + 1j * ordinates[..., 1])
    white = np.stack([complex_white.real, complex_white.imag], axis=-1) * np.sqrt(2)
    assert abs(np.mean(white**2) - 1) < 4.5 * np.sqrt(2 / white.size)
    assert abs(np.mean(white[:, :, 0] * white[:, :, 1])) < 4.5 / np.sqrt(white[:, :, 0].size)
    second = simulate_shapes(jax.random.key(2), problem, x)
    assert np.isfinite(values_at(problem.with_data(second), POINTS[:2])).all()


@pytest.mark.extended
def test_more_modes_than_three_keep_the_unrolled_factors_right():
    problem = build(modes=5)
    x = np.random.default_rng(4).normal(size=28)
    values = {name: np.asarray(value) for name, value in problem.parameters(x[None]).items()}
    height = map_points(
        lambda p, x: resonance(GRID, *p.parts(x)[1:3], 4), problem.log_density, x[None]
    )
    psi = values["shape"][0] * np.sqrt(values["power"][0])[:, None]
    covariance = np.einsum("ic,id,ik->kcd", psi, psi, height[0]) + np.diag(values["noise"][0])
    quadratic = np.einsum("kc,kcd,kd->k", TRANSFORM.conj(), np.linalg.inv(covariance), TRANSFORM)
    # The ordinates are complex: their scale counts twice per channel.
    log_unit = 6 * np.log(float(DATA.scale))
    expected = -np.linalg.slogdet(covariance)[1] - quadratic.real - 3 * np.log(np.pi) + log_unit
    found = values_at(problem, x[None])[0] - stats.norm.logpdf(x).sum()
    np.testing.assert_allclose(found, expected.sum(), rtol=1e-8)


def test_ordinates_of_white_noise_have_its_density():
    """720 numbers of mean one: 4.5 errors, a false alarm of 7e-6; the sine is exact."""
    rng, count = np.random.default_rng(5), 6000
    record = Samples(rng.normal(size=(count, 3)) * np.sqrt(2.0 * 10.0 / 2))
    data = fourier_ordinates(record, (1.0, 1.4))
    square = float(data.scale) ** 2
    assert abs(square / 2.0 - 1) < 4.5 / np.sqrt(data.real.size)
    time = np.arange(count) / 10.0
    sine = np.stack([np.sin(2 * np.pi * 1.2 * time), 2 * np.cos(2 * np.pi * 1.2 * time)], axis=1)
    found = fourier_ordinates(Samples(sine + 1e-3 * record.values[:, :2]), (1.0, 1.4), scale=1.0)
    power = np.sum(found.real**2 + found.imaginary**2, axis=0) * 10.0 / count
    np.testing.assert_allclose(power, [0.5, 2.0], rtol=1e-2)


def test_the_start_is_near_the_shape_of_the_peak():
    problem = build(modes=1)
    means = np.asarray(problem.start.means)[:, :3]
    truth = np.array([1.0, -0.5, 0.2])
    mac = (means @ truth) ** 2 / np.sum(means**2, axis=1) / (truth @ truth)
    assert np.median(mac) > 0.9


def test_the_start_covers_the_posterior():
    """Two thousand draws of the start are worth a hundred; from the prior it would be one or two.

    The mutant has the transpose of every root, which is as large and leans the other way.
    """
    problem = build("common", modes=1)
    assert np.abs(problem.gradients(np.asarray(problem.start.means)[:1])[1]).max() < 1.0

    def effective(start):
        points = np.asarray(
            jax.jit(jax.vmap(start.sample))(jax.random.split(jax.random.key(0), 2000))
        )
        weights = values_at(problem, points) - np.asarray(jax.jit(jax.vmap(start.log_prob))(points))
        weights = np.exp(weights - weights.max())
        return weights.sum() ** 2 / np.sum(weights**2) / 2000

    assert effective(problem.start) > 0.05
    roots = np.linalg.cholesky(np.swapaxes(problem.start.factors, 1, 2) @ problem.start.factors)
    mutant = eqx.tree_at(lambda start: start.factors, problem.start, jnp.asarray(roots))
    assert effective(mutant) < 0.5 * effective(problem.start)


def with_channel(column):
    return lambda: scaled_ordinates(GRID, np.column_stack([TRANSFORM, column]))


SHORT = Samples(np.random.default_rng(6).normal(size=(100, 2)))
BAD = {
    "one channel": (lambda: modal_shapes(scaled_ordinates(GRID, TRANSFORM[:, :1])), "no shapes"),
    "still": (with_channel(0 * GRID), "channel 4 is constant"),
    "copy": (with_channel(-2 * TRANSFORM[:, 1]), "channel 4 is a copy of channel 2"),
    "unit": (with_channel(1e6 * NOISE[:, 0]), "channel 4 moves .* expected all channels in one"),
    "many modes": (lambda: build(modes=7), "7 modes of 3 channels have 38 parameters.*got 150"),
    "short": (lambda: fourier_ordinates(SHORT, (0.5, 1.0)), "7.5 periods .* at least 10"),
    "band": (lambda: fourier_ordinates(SHORT, (2.0, 6.0)), "below half the sampling rate, 5 Hz"),
    "no band": (lambda: modal_shapes(SHORT), "expected a band"),
    "missing": (lambda: scaled_ordinates(GRID, np.full((25, 2), np.nan)), "missing or infinite"),
    "rows": (lambda: scaled_ordinates(GRID[1:], TRANSFORM), "one row of ordinates per frequency"),
    "order": (lambda: scaled_ordinates(GRID[::-1], TRANSFORM), "increasing order"),
    "scale": (lambda: scaled_ordinates(GRID, TRANSFORM, scale=0.0), "scale must be positive"),
    "noise": (lambda: build(noise="sensor"), "'common' or 'channel'"),
    "motion": (lambda: build(motion="jerk"), "expected motion"),
    "forces": (lambda: build(forces="coherent"), "'uncorrelated' or 'correlated'"),
    "five": (lambda: build(modes=5, forces="correlated"), "at most 4 modes with correlated forces"),
    "no modes": (lambda: build(modes=0), "modes must be a positive"),
    "other": (lambda: simulate_shapes(jax.random.key(0), folt.models.banana(), 0), "modal_shapes"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(name):
    make, words = BAD[name]
    with pytest.raises(ValueError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
