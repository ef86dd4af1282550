"""Fits summed over the likeliest labellings: sixteen labels; what is refused at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import folt
from folt.groups import Blocks, Joint, Permutation, Product, SignedPermutation, ZeroSumRows
from folt.training import LikelyOrbits, proposal_maker

LABELS = 16
CENTRES = 3.0 * np.arange(LABELS)


def log_density(x):
    """Unit normals about centres three apart, in the order of the values: invariant, 16! copies."""
    return jnp.sum(jax.scipy.stats.norm.logpdf(jnp.sort(x) - CENTRES)) - float(LOG_COPIES)


LOG_COPIES = sum(np.log(np.arange(1, LABELS + 1)))


def ordered_draws(count):
    """Exact draws, by rejection, and the share that was accepted: Z."""
    generator = np.random.default_rng(0)
    tried = CENTRES + generator.normal(size=(400_000, LABELS))
    inside = (np.diff(tried, axis=1) > 0).all(axis=1)
    return tried[inside][:count], inside.mean()


@pytest.mark.extended
def test_sixteen_labels():
    """The share of ordered draws is Z; 4 standard errors, that share's own being .001."""
    draws, share = ordered_draws(8_000)
    problem = folt.Problem(log_density, Permutation(LABELS, 1))
    assert isinstance(proposal_maker(problem, None, None), LikelyOrbits)
    fit = folt.sample(
        problem,
        reference=draws.reshape(8, -1, LABELS),
        flow=LikelyOrbits(rounds=1, relabellings=2, most=1_500, fresh=1_000),
        effort=folt.Effort.quick(),
        chains=2,
        draws=1_000,
        progress=False,
    )
    found = fit.log_evidence
    assert abs(found.value - np.log(share)) < 4 * np.hypot(found.standard_error, 0.001)
    assert fit.accept_rate > 0.6
    assert fit.certificate.status.outcome.usable
    died = fit.certificate.faults.died / found.draws
    assert 0.0 < died < 0.3
    assert f"{100 * died:.1f} % of the proposals die" in str(fit.certificate)
    np.testing.assert_allclose(
        fit.draws.mean(axis=(0, 1)), draws.mean(axis=0), atol=5 / np.sqrt(fit.ess().min())
    )


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (Permutation(21, 1), "at most 20 exchangeable labels, got 21"),
        (Joint(200, (Blocks(1),)), "at most 20 exchangeable labels, got 200"),
        (Joint(25, (Blocks(1), ZeroSumRows())), "at most 20 exchangeable labels, got 25"),
        (SignedPermutation(15, 1), "at most 14 labels, got 15"),
        (Product(Permutation(9, 1), Permutation(9, 1)), "whole blocks"),
    ],
)
def test_refused_at_once(group, words):
    def never(x):
        raise AssertionError("the density was evaluated")

    with pytest.raises(ValueError, match=words):
        folt.sample(folt.Problem(never, group))


def test_a_broken_symmetry_and_another_group_are_refused():
    broken = folt.Problem(log_density, Permutation(LABELS, 1), invariant=False)
    with pytest.raises(ValueError, match="broken symmetry needs"):
        folt.sample(broken)
    other = folt.Problem(jnp.sum, SignedPermutation(2, 1))
    with pytest.raises(ValueError, match="all permutations of labels"):
        folt.sample(other, flow=LikelyOrbits())
    with pytest.raises(ValueError, match="at least one labelling"):
        LikelyOrbits(kept=0)
