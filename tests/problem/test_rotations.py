"""Continuous rotations: noticed and refused in every front door."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import folt
from brief import brief_fit
from folt.certificate import sentences
from folt.certificate.outcomes import Outcome
from folt.groups import Product, SignedPermutation, Trivial
from folt.report.captions import conclusions
from worse import altered

ROWS = np.random.default_rng(0).normal(size=(12, 3))


def density(power):
    """A factor model of two factors with a prior Σ|w|^power on the loadings, and one noise."""

    def log_density(x):
        w = x[:6].reshape(2, 3)
        covariance = w.T @ w + jnp.exp(x[6]) * jnp.eye(3)
        solved = jnp.linalg.solve(covariance, jnp.asarray(ROWS.T @ ROWS))
        likelihood = -0.5 * (12 * jnp.linalg.slogdet(covariance)[1] + jnp.trace(solved))
        return likelihood - jnp.sum(jnp.abs(w) ** power) - x[6] ** 2

    return log_density


def problem(power, **options):
    return folt.Problem(density(power), Product(SignedPermutation(2, 3), Trivial(1)), **options)


def test_round_loadings_are_refused_in_check_and_in_sample():
    for refused in (folt.check, folt.sample):
        with pytest.raises(folt.RotationError, match=r"columns 1 and 2 .* by 0.6 radians"):
            refused(problem(2))


def test_a_rotation_that_is_allowed_is_said():
    for account in (
        folt.check(problem(2), allow_rotation=True),
        folt.check(problem(2, allow_rotation=True)),
    ):
        assert account.holds
        assert account.rotation < 1e-10
        assert "continuous rotation symmetry" in str(account)


def test_sparse_loadings_have_none():
    account = folt.check(problem(1))
    assert account.holds
    assert account.rotation is None
    assert "rotation" not in str(account)


def test_single_columns_and_single_entries_do_no_harm():
    def round_density(x):
        return -jnp.sum(x**2)

    for group in (SignedPermutation(1, 4), SignedPermutation(4, 1)):
        assert folt.check(folt.Problem(round_density, group)).rotation is None


PPCA = {"effort": folt.Effort.quick(), "progress": False, "draws": 500}


def factors(power, **options):
    """The same factors with known noise, which are sampled in a second."""

    def log_density(x):
        return density(power)(jnp.append(x, 0.0))

    return folt.Problem(log_density, SignedPermutation(2, 3), **options)


def judged(fit, tmp_path, name):
    """A rotation that is left in is never good or fair, says what turns, and stays in the file."""
    status = fit.certificate.status
    assert status.outcome.gravity >= Outcome.SYMMETRY_SUSPECTED.gravity
    turning = fit.certificate.symmetry.turning
    assert name in turning
    assert folt.load(fit.save(tmp_path / "fit.nc")).certificate.symmetry.turning == turning
    advice = sentences.suspicion(fit.certificate)
    assert name in advice
    assert "ΛΛᵀ" in advice
    return status


def test_a_rotation_that_is_left_in_is_never_good(tmp_path):
    fit = folt.sample(factors(2, allow_rotation=True), **PPCA)
    judged(fit, tmp_path, "x0")
    # Chains that turn are near the limit of R-hat, beyond which the verdict is graver.
    mixed = altered(fit.certificate, reference={"refreshed_rhat": 1.0})
    settled = dataclasses.replace(fit, certificate=mixed)
    assert settled.certificate.status.name == "symmetry suspected"
    assert settled.certificate.status.advice == sentences.suspicion(fit.certificate)
    said = conclusions(settled)
    assert "do not turn" in said.may[0]
    assert "x0" in said.may_not[0]
    assert "x0" in str(folt.check(problem(2), allow_rotation=True))


def test_without_a_rotation_nothing_turns():
    fit = folt.sample(factors(1), **PPCA)
    assert fit.certificate.symmetry.turning == ()
    assert fit.certificate.status.name != "symmetry suspected"


@pytest.mark.extended
def test_factors_in_numpyro_whose_rotation_is_divided_out_do_not_turn():
    pytest.importorskip("numpyro")
    from corpus.numpyro_lopsided import LOPSIDED

    case = LOPSIDED["Gaussian factors"]
    fit = brief_fit(folt.from_numpyro(case.model, *case.args))
    assert "O(2)" in fit.summary()
    assert fit.certificate.symmetry.turning == ()
    assert fit.certificate.status.name != "symmetry suspected"


@pytest.mark.filterwarnings("ignore:.*continuous rotation symmetry")
@pytest.mark.extended
def test_factors_in_numpyro_say_that_loadings_turn(tmp_path):
    pytest.importorskip("numpyro")
    from corpus.numpyro_lopsided import LOPSIDED

    case = LOPSIDED["Gaussian factors"]
    made = folt.from_numpyro(case.model, *case.args, allow_rotation=True)
    judged(folt.sample(made, **PPCA), tmp_path, "loadings")


@pytest.mark.filterwarnings("ignore:.*continuous rotation symmetry")
def test_factors_in_pymc_say_that_loadings_turn(tmp_path):
    pytest.importorskip("pymc")
    from corpus.pymc_models import gaussian_factors

    made = folt.from_pymc(gaussian_factors(), allow_rotation=True)
    judged(folt.sample(made, **PPCA), tmp_path, "loadings")
