"""Models whose rotations are divided out: densities by hand, tiny noise, a network."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.models import datasets, factor_analysis, latent_space, ppca, simulate_factor_analysis
from folt.models.factors import _gaussian

DATA = simulate_factor_analysis(jax.random.key(0), 30)


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


def normal(z):
    return -0.5 * np.sum(z**2, axis=-1) - 0.5 * z.shape[-1] * math.log(2 * math.pi)


def likelihood(loading, noise, centred):
    """Σ log N(y; 0, ΛᵀΛ + diag ψ), by the whole covariance matrix."""
    p = loading.shape[1]
    covariance = loading.T @ loading + np.diag(np.broadcast_to(noise, p))
    _, log_det = np.linalg.slogdet(2 * math.pi * covariance)
    return -0.5 * (
        len(centred) * log_det + np.trace(np.linalg.solve(covariance, centred.T @ centred))
    )


@pytest.mark.parametrize(
    ("model", "directions", "noises"),
    [
        (lambda: factor_analysis(DATA, 3, loading_prior="normal"), 3, 9),
        (lambda: ppca(DATA, 2), 1, 1),
        (lambda: ppca(DATA, 1), 0, 1),
    ],
)
@pytest.mark.extended
def test_the_prior_of_the_quotient_is_standard_normal(model, directions, noises):
    """Bartlett's law: log density of z is the likelihood of its loadings plus log N(z)."""
    problem = model()
    m = problem.quotient.rotations[0].columns
    assert problem.dim == 9 * m - directions + noises
    assert problem.group.order == 1
    z = np.random.default_rng(1).normal(size=(4, problem.dim))
    values = problem.parameters(z)
    expected = [
        likelihood(values["loading"][n], values["noise"][n], DATA - DATA.mean(axis=0))
        for n in range(4)
    ]
    np.testing.assert_allclose(problem.log_probs(z), expected + normal(z), rtol=1e-10)
    np.testing.assert_allclose(problem.unconstrain(values), z, atol=1e-7)
    terms = problem.log_likelihoods(jnp.asarray(z[0]))["y"]
    np.testing.assert_allclose(jnp.sum(terms), expected[0], rtol=1e-10)


@pytest.mark.extended
def test_the_evidence_is_that_of_the_whole_space():
    """The mean likelihood under the prior is the integral over the whole space: five errors."""
    data = np.random.default_rng(3).normal(size=(3, 3))
    problem = ppca(data, 2)
    z = np.random.default_rng(4).normal(size=(20_000, problem.dim))
    mine = np.exp(problem.log_probs(z) - normal(z))
    posterior = problem.log_density.function
    x = np.random.default_rng(5).normal(size=(20_000, 7))
    centred = jnp.asarray(data - data.mean(axis=0))
    whole = np.exp(np.asarray(jax.jit(jax.vmap(lambda at: posterior(at, centred)))(x)) - normal(x))
    error = np.sqrt(mine.var() / len(mine) + whole.var() / len(whole))
    assert abs(mine.mean() - whole.mean()) < 5 * error
    assert error < 0.15 * whole.mean()


def test_tiny_noise_does_not_cancel():
    """Against Cholesky in long double; Woodbury's difference gave any number, even a gain."""
    random = np.random.default_rng(0)
    loading, rows = random.normal(size=(2, 4)), random.normal(size=(5, 4))
    for exponent in (-6, -10, -14):
        noise = np.array([0.5, 10.0**exponent, 0.3, 10.0**exponent])
        _, found = _gaussian(jnp.asarray(loading), jnp.log(noise), jnp.asarray(rows))
        exact = _long_quadratics(loading, noise, rows)
        np.testing.assert_allclose(found, exact, rtol=1e-3 if exponent < -10 else 1e-6)
    for exponent in (-30, -60):
        _, found = _gaussian(
            jnp.asarray(loading), jnp.full(4, exponent * math.log(10.0)), jnp.asarray(rows)
        )
        assert np.all(np.asarray(found) > 0)
    problem = factor_analysis(DATA, 2)
    point = np.zeros(problem.dim)
    point[-9:] = -80.0
    assert problem.log_probs(point[None])[0] < -1e10


def _long_quadratics(loading, noise, rows):
    loading, rows = loading.astype(np.longdouble), rows.astype(np.longdouble)
    matrix = loading.T @ loading + np.diag(noise.astype(np.longdouble))
    p = len(matrix)
    low = np.zeros_like(matrix)
    for i in range(p):
        for j in range(i + 1):
            left = matrix[i, j] - low[i, :j] @ low[j, :j]
            low[i, j] = np.sqrt(left) if i == j else left / low[j, j]
    out = []
    for row in rows:
        half = np.zeros(p, np.longdouble)
        for i in range(p):
            half[i] = (row[i] - low[i, :i] @ half[:i]) / low[i, i]
        out.append(float(half @ half))
    return np.array(out)


def test_a_network_has_positions_whose_distances_nothing_turns():
    ties = datasets.florentine_families()
    assert ties.sum() == 40
    problem = latent_space(ties)
    assert problem.dim == 2 * 15
    z = np.random.default_rng(2).normal(size=(3, problem.dim))
    values = problem.parameters(z)
    first, second = np.triu_indices(15, 1)
    logit = values["intercept"][:, None] - values["distance"]
    tied = ties[first, second]
    expected = np.sum(np.where(tied == 1, -np.log1p(np.exp(-logit)), -np.log1p(np.exp(logit))), 1)
    np.testing.assert_allclose(problem.log_probs(z), expected + normal(z), rtol=1e-9)
    turned = values["position"] @ np.array([[0.6, -0.8], [0.8, 0.6]])
    again = problem.unconstrain({**values, "position": turned})
    np.testing.assert_allclose(again, z, atol=1e-7)
    replicate = problem.replicates(jax.random.key(0), jnp.asarray(z[0]))["y"]
    assert set(np.unique(replicate)) <= {0.0, 1.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ppca(DATA, 9), "fewer factors than the 9 variables"),
        (lambda: ppca(DATA, 2, loading_scale=0.0), "loading_scale"),
        (lambda: latent_space(np.ones((3, 3))), "zeros on the diagonal"),
        (lambda: latent_space(np.array([[0.0, 1, 0], [0, 0, 1], [0, 1, 0]])), "symmetric"),
        (lambda: latent_space(np.zeros((2, 2)), 2), "more than 2 nodes"),
        (lambda: latent_space(np.zeros((2, 3))), "square matrix"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.extended
def test_a_fit_says_what_was_divided_out():
    fit = folt.sample(ppca(DATA[:, :4], 2), draws=100, effort=folt.Effort.quick(), progress=False)
    assert "O(2) of a matrix of 4 rows, a ring of dimension 1" in fit.summary()
    assert fit.rotated("varimax")["loading"].shape == (4, 100, 2, 4)
    assert fit.unfolded().shape == (4, 100, 9)
