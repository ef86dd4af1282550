"""Sites declared exchangeable: verified, and corrected where one was forgotten or is too many."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

import numpyro.distributions as dist  # noqa: E402

import folt  # noqa: E402
from corpus.case import DATA, TABLE  # noqa: E402
from corpus.numpyro_lopsided import lopsided_weights  # noqa: E402
from corpus.numpyro_symmetric import (  # noqa: E402
    a_vector_that_only_shares_the_number,
    beta_weight,
    separate_scalars,
    sparse_factors_with_scores,
    vectors_and_dirichlet,
)
from corpus.numpyro_unequal import UNEQUAL  # noqa: E402
from folt.groups import Blocks, Joint, ZeroSum  # noqa: E402


def test_a_site_that_was_forgotten_is_named():
    with pytest.raises(folt.SymmetryError, match="add 'w', that is exchangeable=") as caught:
        folt.from_numpyro(vectors_and_dirichlet, DATA, exchangeable=["mu", "sigma"])
    assert '["mu", "sigma", "w"]' in str(caught.value)
    with pytest.raises(folt.SymmetryError, match="add 'theta'"):
        folt.from_numpyro(beta_weight, DATA, exchangeable=["mu", "sigma"])


def test_a_site_too_many_is_named():
    names = ["mu", "w", "slopes"]
    with pytest.raises(folt.SymmetryError, match="leave out 'slopes'"):
        folt.from_numpyro(a_vector_that_only_shares_the_number, TABLE, exchangeable=names)


def test_no_list_of_sites_helps_a_lopsided_prior():
    with pytest.raises(folt.SymmetryError, match="what changes most is the prior of 'w'"):
        folt.from_numpyro(lopsided_weights, DATA, exchangeable=["mu", "w"])


def test_a_weight_and_one_minus_it_may_be_declared():
    problem = folt.from_numpyro(beta_weight, DATA, exchangeable=["mu", "sigma", "theta"])
    assert problem.group == Joint(2, (Blocks(1), Blocks(1), ZeroSum()))
    assert folt.check(problem).holds


def test_separate_scalars_may_be_declared():
    names = ["mu1", "mu2", "s1", "s2", "theta"]
    problem = folt.from_numpyro(separate_scalars, DATA, exchangeable=names)
    assert problem.group == Joint(2, (Blocks(1), Blocks(1), ZeroSum()))
    assert problem.names == ("mu1", "mu2", "s1", "s2", "theta")


def test_entries_of_unequal_parts_may_be_declared():
    spike = UNEQUAL["a spike before two"]
    ranges = {"lam": None, "w": slice(1, 3)}
    problem = folt.from_numpyro(spike.model, *spike.args, exchangeable=ranges)
    assert problem.group == Joint(2, (Blocks(1), ZeroSum(others=(0,))))
    assert folt.check(problem).holds
    assert problem.group == folt.from_numpyro(spike.model, *spike.args).group
    with pytest.raises(folt.SymmetryError, match=r'{"lam": None, "w": \[1, 2\]}'):
        folt.from_numpyro(spike.model, *spike.args, exchangeable={"lam": None, "w": slice(0, 2)})
    for wrong in (slice(2, 5), [2, 1], [1, 3], [1], "ab"):
        with pytest.raises(ValueError, match="'w'"):
            folt.from_numpyro(spike.model, *spike.args, exchangeable={"lam": None, "w": wrong})


def test_data_that_were_forgotten_are_said():
    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0).expand([2]))
        mixture = dist.MixtureSameFamily(dist.Categorical(jnp.full(2, 0.5)), dist.Normal(mu, 1.0))
        numpyro.sample("y", mixture, obs=y)

    with pytest.warns(UserWarning, match="'y' is a parameter, because the arguments of this name"):
        folt.from_numpyro(model, exchangeable=[])


def test_a_declared_rotation_is_divided_out_too():
    def factors_first(rows):
        loadings = numpyro.sample("loadings", dist.Normal(0.0, 1.0).expand([2, 3]))
        covariance = loadings.T @ loadings + jnp.eye(3)
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=rows)

    problem = folt.from_numpyro(factors_first, TABLE, exchangeable=["loadings"])
    assert problem.dim == 5
    values = problem.parameters(np.random.default_rng(0).normal(size=(3, 5)))["loadings"]
    pivots = list(problem.quotient.rotations[0].pivots)
    assert np.all(values[:, 1, pivots[0]] == 0.0)  # lower triangular in the pivot variables
    assert np.all(values[:, 0, pivots[0]] > 0.0)


def test_nothing_is_looked_for_if_nothing_is_to_be_folded():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = folt.from_numpyro(beta_weight, DATA, exchangeable=[])
    assert problem.group.order == 1
    assert not problem.symmetry_found.looked
    assert not problem.symmetry_found.missed


def test_values_come_back_in_the_order_of_the_group():
    """Interleaved columns of loadings and scores: points and values are each other's images."""
    problem = folt.from_numpyro(sparse_factors_with_scores, TABLE)
    x = np.random.default_rng(0).normal(size=(3, problem.dim))
    values = problem.parameters(x)
    np.testing.assert_allclose(problem.unconstrain(values), x, rtol=1e-8)
    first = problem.names.index("loadings[0,0]")
    assert problem.names[first : first + 3] == ("loadings[0,0]", "loadings[1,0]", "loadings[2,0]")
    assert problem.names[first + 3] == "scores[0,0]"
