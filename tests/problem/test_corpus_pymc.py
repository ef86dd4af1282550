"""The corpus in PyMC."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("pymc")

from test_corpus import judge

import folt
from corpus.pymc_models import PYMC, ordered_means

pytestmark = pytest.mark.extended


def built(model, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = folt.from_pymc(model, **options)
    told = [str(each.message) for each in caught if each.category is UserWarning]
    return problem, [message for message in told if "PyTensor" not in message]


@pytest.mark.parametrize("name", PYMC)
def test_what_is_there_is_found_and_nothing_else(name):
    case = PYMC[name]
    if case.rotation:
        problem, told = built(case.model())
        assert not told
        assert "which is divided out" in str(problem.symmetry_found)
        assert problem.quotient.words().startswith("rotations O(2)")
        return
    problem, told = built(case.model())
    judge(problem, case)
    assert bool(told) == (case.order == 1)


def test_an_order_can_be_undone_and_gives_back_its_factorial():
    """The folded density of the plain vector is 3! times that of the ordered one."""
    kept, _ = built(ordered_means())
    undone, told = built(ordered_means(), keep_order=False)
    assert not told
    assert undone.group.order == 6
    sites, other = undone.log_density.sites, kept.log_density.sites
    mu = np.array([-1.0, 0.4, 2.0])
    values = {"mu": mu, "w": np.array([0.2, 0.3, 0.5])}
    x = np.asarray(sites.pull(values))
    backward = {"mu": np.append(mu[0], np.log(np.diff(mu))), "w": values["w"]}
    y = np.asarray(other.pull(backward))
    plain = undone.log_probs(x[None])[0] - float(sites.log_slope(jnp.asarray(x)))
    ordered = (
        kept.log_probs(y[None])[0]
        - float(other.log_slope(jnp.asarray(y)))
        - np.log(np.diff(mu)).sum()
    )
    assert plain == pytest.approx(ordered, rel=1e-9)
    assert undone.log_folds(x[None])[0] == pytest.approx(undone.log_probs(x[None])[0] + np.log(6))
