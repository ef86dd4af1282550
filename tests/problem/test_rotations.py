"""Continuous rotations: noticed and refused in every front door."""

import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.groups import Product, SignedPermutation, Trivial

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
